"""The router exposes these Prometheus metrics."""

from collections.abc import Mapping

from prometheus_client import Counter, Gauge, Histogram

from chassis.telemetry import COST, GENERATIONS, TOKENS, child
from kernel.activation import Activation
from kernel.envelope import StageUsage, Usage

ROUTED = Counter(
    "metacog_routed_total", "Requests by chosen system, strategy and why.", ["system", "strategy", "reason"]
)
ACTIVATION = Histogram("metacog_activation", "Activations seen [0..1].", buckets=[step / 20 for step in range(1, 21)])
DECISIONS = Counter(
    "metacog_decisions_total", "Requests by the rule that decided and the chosen system.", ["rule", "system"]
)
KIND_UNKNOWN = Counter(
    "metacog_kind_unknown_total",
    "Questions whose kind was looked for and not found, by the code of the reason.",
    ["reason"],
)
LABELLED_PAIRS = Gauge(
    "metacog_labelled_pairs", "Questions labelled for both systems, which the gains by kind rest on."
)
FALLBACKS = Counter("metacog_fallbacks_total", "Strategies that failed.", ["from_strategy", "to_strategy", "reason"])
RUNS = Counter("metacog_runs_total", "Runs by strategy and how they ended.", ["strategy", "outcome", "error"])
RUN_SECONDS = Histogram(
    "metacog_run_seconds",
    "Time of a run [s].",
    ["strategy"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)
OUTBOX_PENDING = Gauge("metacog_outbox_pending", "Messages of feedback waiting to be delivered.")
OUTBOX_DELIVERED = Counter("metacog_outbox_delivered_total", "Messages of feedback delivered.", ["kind"])
OUTBOX_FAILED = Counter(
    "metacog_outbox_failed_total", "Deliveries that failed and are tried again.", ["kind", "reason"]
)
OUTBOX_PARKED = Counter(
    "metacog_outbox_parked_total", "Messages of feedback that no receiver accepts.", ["kind", "reason"]
)
BATCHES = Counter("metacog_batches_total", "Batches that have ended, by their state.", ["status"])
BATCH_LINES = Counter(
    "metacog_batch_lines_total",
    "Lines of batches by what became of them: `completed`, `failed`, `expired`, `cancelled`; `repeated`: what they need"
    " was away or full, and they are tried again.",
    ["outcome"],
)
BATCH_LINES_WAITING = Gauge("metacog_batch_lines_waiting", "Lines of batches without a result, of all replicas.")
VOTE_LABELS = Gauge("metacog_vote_labels", "Labels that the probability of votes is fitted on.")
VOTE_CURVE = Gauge("metacog_vote_probability_curve", "Whether a logistic curve on top of the fit is in force (0 or 1).")
MAPS_FITTED = Counter(
    "metacog_calibration_fits_total", "Recalibration maps fitted.", ["strategy", "confidence_source", "improves"]
)
MAPS_IN_FORCE = Gauge("metacog_calibration_maps", "Recalibration maps in force in this process.")
CALIBRATION_ERROR = Gauge(
    "metacog_calibration_error",
    "Expected calibration error of the confidences served, over the newest labelled answers [0..1].",
    ["strategy", "confidence_source"],
)
RUNS_FORGOTTEN = Counter("metacog_runs_forgotten_total", "Runs deleted because they were older than they may get.")
CASCADES = Counter(
    "metacog_cascades_total",
    "Votes with a stronger model behind them, by that model and why it was asked; `DECIDED`: it was not.",
    ["model", "reason"],
)
CASCADE_COST = Counter(
    "metacog_cascade_cost_total",
    "Cost of them by part: of everything before the stronger model, and of its own answers [currency of the prices].",
    ["model", "part"],
)


def count_cascade(model: str, reason: str, stages: Mapping[str, StageUsage], own_stage: str) -> None:
    """Count a vote with a stronger model behind it, with its cost by part where it is known.

    Args:
        model: The stronger model.
        reason: Why it was asked; empty: it was not.
        stages: What the run spent, by stage.
        own_stage: Stage of the stronger model's answer.
    """
    child(CASCADES, model, reason or "DECIDED").inc()
    for stage, spent in stages.items():
        if spent.cost is not None:
            child(CASCADE_COST, model, "escalation" if stage == own_stage else "votes").inc(spent.cost)


SHADOW_RUNS = Counter(
    "metacog_shadow_runs_total", "Shadow runs by strategy and how they ended.", ["strategy", "outcome", "error"]
)
SHADOW_AGREEMENT = Counter(
    "metacog_shadow_agreement_total",
    "Shadow runs with an answer, by whether it is the served one: `true`, `false`, `unknown`.",
    ["agrees"],
)
SHADOW_COST = Counter("metacog_shadow_cost_total", "Cost of shadow runs [currency of the prices].")
SHADOW_DROPPED = Counter(
    "metacog_shadow_dropped_total",
    "Runs that were to get a shadow and got none, by why: `FULL`, `LATE`, `CLOSED`, or the error that kept it from"
    " beginning.",
    ["reason"],
)


def count_shadow(strategy: str, outcome: str, error_reason: str, agrees: bool | None, cost: float | None) -> None:
    """Count a shadow run that has ended, with its cost where it is known; served runs are counted elsewhere."""
    child(SHADOW_RUNS, strategy, outcome, error_reason).inc()
    if not error_reason:
        child(SHADOW_AGREEMENT, "unknown" if agrees is None else str(agrees).lower()).inc()
    if cost is not None:
        SHADOW_COST.inc(cost)


def count_route(system: str, strategy: str, reason: str, rule: str, level: Activation | None) -> None:
    """Count a choice of system with the rule that made it, and observe its activation where there is one."""
    child(ROUTED, system, strategy, reason).inc()
    child(DECISIONS, rule, system).inc()
    if level is not None and level.value is not None:
        ACTIVATION.observe(level.value)


PROMISES = Counter(
    "metacog_promises_total",
    "Served runs under a promise, by what became of it and the stage of the answer: `FIRST`, `WENT_ON`, `ESCALATED`.",
    ["state", "stage"],
)


def count_promise(state: str, stage: str | None) -> None:
    """Count a run under a promise; nothing for an empty state, where there was none."""
    if state:
        child(PROMISES, state, stage or "").inc()


def count_unknown_kind(unknown_reason: str) -> None:
    """Count a question whose kind is unknown, by the code of the reason; nothing where it is known."""
    if unknown_reason:
        child(KIND_UNKNOWN, unknown_reason.partition(":")[0]).inc()


def count_fallback(failed: str, following: str, reason: str) -> None:
    """Count a strategy that failed."""
    child(FALLBACKS, failed, following, reason).inc()


def count_run(strategy: str, outcome: str, error_reason: str, duration_ms: float, usage: Usage) -> None:
    """Count a run that has ended, with its time [ms] and its spend by stage."""
    child(RUNS, strategy, outcome, error_reason).inc()
    child(RUN_SECONDS, strategy).observe(duration_ms / 1000)
    for stage, spent in usage.stages.items():
        child(GENERATIONS, stage).inc(spent.generations)
        child(TOKENS, stage, "prompt").inc(spent.prompt_tokens)
        child(TOKENS, stage, "completion").inc(spent.completion_tokens)
        if spent.cost is not None:
            child(COST, stage).inc(spent.cost)
