"""The arbiter exposes these Prometheus metrics of arbitrations."""

from prometheus_client import Counter, Histogram

from chassis import telemetry
from kernel.envelope import Usage
from kernel.outcomes import Outcome
from kernel.votes.votes import VoteMode
from services.arbiter.service.values import ArbitrationFinished
from services.arbiter.service.voting.values import VoteFinished

NATS = (-2.0, -1.0, -0.5, -0.25, -0.1, 0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)

ARBITRATIONS = Counter(
    "metacog_arbitrations_total", "Arbitrations by mode, source of the answer and why they stopped.",
    ["mode", "source", "stopping"],
)  # fmt: skip
VOTES = Counter("metacog_votes_total", "Votes by how they ended and why they stopped.", ["outcome", "stop_reason"])
VOTES_ASKED = Counter("metacog_votes_asked_total", "Single votes asked for, those that never came too.")
VOTES_CAST = Counter("metacog_votes_cast_total", "Single votes by mode and whether they are valid.", ["mode", "valid"])
VOTE_TOKENS = Counter("metacog_vote_tokens_total", "Tokens generated for votes, drafts left out.", ["mode"])
AGREEMENT = Histogram(
    "metacog_vote_agreement", "Share of the valid votes that agree with the winner [0..1].",
    buckets=(0.2, 0.34, 0.5, 0.67, 0.75, 0.8, 0.99, 1.0),
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
    _record_usage(finished.usage)


def record_vote(finished: VoteFinished) -> None:
    """Record a vote that has ended."""
    VOTES.labels(finished.outcome, finished.stop_reason).inc()
    VOTES_ASKED.inc(finished.asked)
    for cast in finished.votes:
        VOTES_CAST.labels(cast.mode, str(cast.answer is not None).lower()).inc()
        if cast.mode is not VoteMode.DRAFT:
            VOTE_TOKENS.labels(cast.mode).inc(cast.completion_tokens or 0)
    if finished.groups:
        AGREEMENT.observe(len(finished.groups[0].votes) / sum(len(one.votes) for one in finished.groups))
    _record_usage(finished.usage)


def _record_usage(usage: Usage) -> None:
    for stage, spent in usage.stages.items():
        telemetry.child(telemetry.TOKENS, stage, "prompt").inc(spent.prompt_tokens)
        telemetry.child(telemetry.TOKENS, stage, "completion").inc(spent.completion_tokens)
        telemetry.child(telemetry.GENERATIONS, stage).inc(spent.generations)
        if spent.cost is not None:
            telemetry.child(telemetry.COST, stage).inc(spent.cost)
