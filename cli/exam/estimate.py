"""What the rest of an exam will take, before it starts: calls, tokens and cost, as far as they are known."""

from collections.abc import Mapping, Sequence
from itertools import islice

from metacog.common.v1.envelope_pb2 import Usage
from metacog.router.v1.router_pb2 import Run

from cli.exam.arms import AUTO, ArmKind, Offered
from cli.exam.requests import ExamQuestion, prompt_text
from cli.terminal.client import Service
from kernel.prices import UNITS
from kernel.values import value

# Characters of a token, about, where no tokenizer is at hand.
CHARACTERS_PER_TOKEN = 4
# What an agent's rating of itself takes at most, when it is read at the second attempt: calls, and tokens of each: the
# prompt beside the task, and the reply [count].
RATING_CALLS, RATING_PROMPT_TOKENS, RATING_TOKENS = 2, 128, 48
# Newest runs of a strategy that an estimate is made of [count].
MOST_RUNS = 50

AT_MOST = "at most"
NO_RUN = "unknown: no run of this strategy is recorded"
NO_LIMIT = "tokens unknown: --max-tokens 0 sets no limit"


@value
class MeanRun:
    """This value is what the newest runs of a strategy spent on average.

    Attributes:
        runs: Runs that it is the mean of [count].
        generations: Generations [count].
        prompt_tokens: Tokens that were read [count].
        completion_tokens: Tokens that were generated [count].
        cost: Cost [currency of the prices]; None where that of some run is unknown.
    """

    runs: int
    generations: float
    prompt_tokens: float
    completion_tokens: float
    cost: float | None


@value
class EstimatedArm:
    """An estimate says what the questions that are left for one arm will take.

    Attributes:
        arm: Label of the arm.
        questions: Questions that are left [count].
        calls: Calls of models [count]; None where they are unknown.
        prompt_tokens: Tokens that will be read, about [count]; None where they are unknown.
        completion_tokens: Tokens that will be generated [count]; None where they are unknown.
        cost: Cost [currency of the prices]; None where it is unknown.
        basis: What the figures are: `at most`, a mean of recorded runs, or why they are unknown.
    """

    arm: str
    questions: int
    basis: str
    calls: float | None = None
    prompt_tokens: float | None = None
    completion_tokens: float | None = None
    cost: float | None = None


@value
class EstimatedTotal:
    """The total of an estimate adds what is known.

    Attributes:
        questions: Questions that are left [count].
        calls: Calls of models [count].
        prompt_tokens: Tokens that will be read [count].
        completion_tokens: Tokens that will be generated [count].
        cost: Cost [currency of the prices]; None where no arm's is known.
        unknown: Arms whose calls or tokens are unknown, and not in the sums.
        unpriced: Arms whose cost is unknown, and not in the sum.
    """

    questions: int
    calls: float
    prompt_tokens: float
    completion_tokens: float
    cost: float | None
    unknown: Sequence[str]
    unpriced: Sequence[str]


def estimated(
    left: Sequence[ExamQuestion], suite: Offered, max_tokens: int, means: Mapping[str, MeanRun]
) -> Sequence[EstimatedArm]:
    """Return what the questions that are left will take, arm by arm.

    Args:
        left: The questions.
        suite: What the suite offers, with the prices of models.
        max_tokens: Tokens of each answer [count]; 0: without a limit.
        means: What recorded runs of strategies spent, by strategy.
    """
    arms = dict.fromkeys(question.arm for question in left)
    return [
        _strategy(own, means.get(arm.name)) if arm.kind is ArmKind.STRATEGY else _single(own, suite, max_tokens)
        for arm in arms
        for own in [[question for question in left if question.arm == arm]]
    ]


def _single(own: Sequence[ExamQuestion], suite: Offered, max_tokens: int) -> EstimatedArm:
    """Return what one call for each question takes at most.

    An agent rates itself before it answers, and delegation may classify a task by a call of its own.
    """
    arm = own[0].arm
    price = suite.price_of(arm)
    is_agent = arm.kind is ArmKind.AGENT
    classified = sum(is_agent and not suite.dimensions.issuperset(question.item.takes) for question in own)
    read = sum(len(prompt_text(question)) for question in own) / CHARACTERS_PER_TOKEN
    generated = len(own) * max_tokens if max_tokens else None
    ratings = RATING_CALLS * len(own) if is_agent else 0
    read += ratings * (RATING_PROMPT_TOKENS + read / len(own))
    if generated is not None:
        generated += ratings * RATING_TOKENS
    return EstimatedArm(
        arm=arm.label,
        questions=len(own),
        calls=len(own) + ratings + classified,
        prompt_tokens=round(read),
        completion_tokens=generated,
        cost=None if price is None or generated is None else price.units(round(read), generated) / UNITS,
        basis=AT_MOST if max_tokens else NO_LIMIT,
    )


def _strategy(own: Sequence[ExamQuestion], mean: MeanRun | None) -> EstimatedArm:
    count, arm = len(own), own[0].arm.label
    if mean is None:
        return EstimatedArm(arm=arm, questions=count, basis=NO_RUN)
    return EstimatedArm(
        arm=arm,
        questions=count,
        calls=round(mean.generations * count, 1),
        prompt_tokens=round(mean.prompt_tokens * count),
        completion_tokens=round(mean.completion_tokens * count),
        cost=None if mean.cost is None else mean.cost * count,
        basis=f"mean of {mean.runs} recorded runs",
    )


def total(rows: Sequence[EstimatedArm]) -> EstimatedTotal:
    """Return the sum of what is known, with the arms of which something is not."""
    costs = [row.cost for row in rows if row.cost is not None]
    return EstimatedTotal(
        questions=sum(row.questions for row in rows),
        calls=sum(row.calls or 0 for row in rows),
        prompt_tokens=sum(row.prompt_tokens or 0 for row in rows),
        completion_tokens=sum(row.completion_tokens or 0 for row in rows),
        cost=sum(costs) if costs else None,
        unknown=[row.arm for row in rows if row.calls is None or row.completion_tokens is None],
        unpriced=[row.arm for row in rows if row.cost is None],
    )


def mean_runs(router: Service, strategies: Sequence[str]) -> Mapping[str, MeanRun]:
    """Return what the newest recorded runs of strategies spent on average, as far as there are any.

    Raises:
        Unreachable: The router cannot be reached.
        ServiceError: The router returned an error.
    """
    means: dict[str, MeanRun] = {}
    for strategy in strategies:
        named = "" if strategy == AUTO else strategy
        pages = router.pages("/v1/runs", "runs", Run, page_size=MOST_RUNS, strategy=named)
        runs = [reply.message for reply in islice(pages, MOST_RUNS)]
        spent = [run.usage for run in runs if not run.error_reason]
        if spent:
            means[strategy] = mean_run(spent)
    return means


def mean_run(spent: Sequence[Usage]) -> MeanRun:
    """Return the mean of what runs spent.

    Example:
        >>> mean_run([Usage(generations=2, prompt_tokens=100), Usage(generations=4, prompt_tokens=100, cost=0.5)])
        MeanRun(runs=2, generations=3.0, prompt_tokens=100.0, completion_tokens=0.0, cost=None)
    """
    known = [usage.cost for usage in spent if usage.HasField("cost")]
    return MeanRun(
        runs=len(spent),
        generations=sum(usage.generations for usage in spent) / len(spent),
        prompt_tokens=sum(usage.prompt_tokens for usage in spent) / len(spent),
        completion_tokens=sum(usage.completion_tokens for usage in spent) / len(spent),
        cost=sum(known) / len(spent) if len(known) == len(spent) else None,
    )
