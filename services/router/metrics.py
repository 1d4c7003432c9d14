"""What the router tells its metrics."""

from prometheus_client import Counter, Gauge, Histogram

from chassis.telemetry import COST, GENERATIONS, TOKENS, child
from services.router.service.assessment.values import RouteResponse
from services.router.service.runs.values import FellBack, Run

ROUTED = Counter(
    "metacog_routed_total", "Requests by chosen system, strategy and why.", ["system", "strategy", "reason"]
)
ACTIVATION = Histogram("metacog_activation", "Activations seen [0..1].", buckets=[step / 20 for step in range(1, 21)])
FALLBACKS = Counter("metacog_fallbacks_total", "Strategies that failed.", ["from_strategy", "to_strategy", "reason"])
ADMITTED = Gauge("metacog_admitted_in_flight", "Requests, and deliberations among them, under way.", ["kind"])
OVERLOADED = Counter("metacog_overloaded_total", "Refused because as much was under way as may be.", ["kind"])
RUNS = Counter("metacog_runs_total", "Runs by strategy and how they ended.", ["strategy", "outcome", "error"])
RUN_SECONDS = Histogram(
    "metacog_run_seconds",
    "Time of a run [s].",
    ["strategy"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)


def of_route(route: RouteResponse) -> None:
    """A choice was made."""
    child(ROUTED, route.system, route.strategy, route.reason).inc()
    if route.activation is not None and route.activation.value is not None:
        ACTIVATION.observe(route.activation.value)


def of_fallback(told: FellBack) -> None:
    """A strategy failed."""
    child(FALLBACKS, told.from_strategy, told.to_strategy, told.reason).inc()


def of_run(run: Run) -> None:
    """A run has ended."""
    child(RUNS, run.strategy, run.outcome, run.error_reason).inc()
    child(RUN_SECONDS, run.strategy).observe(run.duration_ms / 1000)
    for stage, spent in run.usage.stages.items():
        child(GENERATIONS, stage).inc(spent.generations)
        child(TOKENS, stage, "prompt").inc(spent.prompt_tokens)
        child(TOKENS, stage, "completion").inc(spent.completion_tokens)
        if spent.cost is not None:
            child(COST, stage).inc(spent.cost)
