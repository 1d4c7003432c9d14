"""The arbiter exposes these Prometheus metrics of arbitrations."""

from prometheus_client import Counter, Histogram

from chassis import telemetry
from kernel.outcomes import Outcome
from services.arbiter.service.values import ArbitrationFinished

NATS = (-2.0, -1.0, -0.5, -0.25, -0.1, 0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)

ARBITRATIONS = Counter(
    "metacog_arbitrations_total", "Arbitrations by mode, source of the answer and why they stopped.",
    ["mode", "source", "stopping"],
)  # fmt: skip
ENTROPY_REDUCTION = Histogram(
    "metacog_entropy_reduction_nats", "Entropy of the solvers less entropy of the arbiter [nats].", buckets=NATS
)
SAVED = Counter("metacog_arbiter_saved_generations_total", "Generations that adaptive stopping saved.")


def record_arbitration(finished: ArbitrationFinished) -> None:
    """Record an arbitration by models that has ended."""
    source = finished.answer_source or Outcome.ABSTAINED
    ARBITRATIONS.labels(finished.mode, source, finished.stopping_reason).inc()
    if finished.measures.entropy_reduction is not None:
        ENTROPY_REDUCTION.observe(finished.measures.entropy_reduction)
    SAVED.inc(finished.saved_generations)
    for stage, spent in finished.usage.stages.items():
        telemetry.child(telemetry.TOKENS, stage, "prompt").inc(spent.prompt_tokens)
        telemetry.child(telemetry.TOKENS, stage, "completion").inc(spent.completion_tokens)
        telemetry.child(telemetry.GENERATIONS, stage).inc(spent.generations)
        if spent.cost is not None:
            telemetry.child(telemetry.COST, stage).inc(spent.cost)
