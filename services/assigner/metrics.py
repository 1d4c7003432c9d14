"""The assigner exposes these Prometheus metrics of deliberations."""

from prometheus_client import Counter, Histogram

from services.assigner.service.values import DeliberationFinished

GAINS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)

DELIBERATIONS = Counter(
    "metacog_deliberations_total", "Deliberations by kind of assignment, outcome and whether they are degraded.",
    ["kind", "outcome", "degraded"],
)  # fmt: skip
REASSIGNMENTS = Counter("metacog_reassignments_total", "Roles given again because an agent had failed.")
GAIN = Histogram(
    "metacog_assignment_gain", "Total fitness of the optimum less that of greedy first-available [0..5].", buckets=GAINS
)


def record_deliberation(finished: DeliberationFinished) -> None:
    """Count a deliberation that has ended, and observe what the optimal assignment gained."""
    kind = "EXPLORED" if finished.roles.explored else finished.roles.assignment_kind
    DELIBERATIONS.labels(kind, finished.outcome, str(finished.degraded).lower()).inc()
    optimum = finished.roles.optimum
    if optimum.greedy is not None and optimum.greedy.total_fitness is not None:
        GAIN.observe(max(0.0, optimum.total_fitness - optimum.greedy.total_fitness))
