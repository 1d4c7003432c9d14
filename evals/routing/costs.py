"""What assessing costs: tokens and milliseconds, beside those of the System 1 answer itself. Pure."""

from collections.abc import Sequence

import numpy as np

from evals.routing.asking import DRAFT
from evals.routing.rows import Row, Spent
from kernel.values import value


@value
class Timing:
    """Times of several requests.

    Attributes:
        n: Requests [count].
        p50: Median [ms]; None without requests.
        p95: 95th percentile [ms].
    """

    n: int
    p50: float | None
    p95: float | None


@value
class Costs:
    """What one assessor spends on an item, beyond the System 1 answer.

    Attributes:
        generations: Mean samples drawn [count].
        prompt_tokens: Mean tokens of the prompts [count].
        completion_tokens: Mean tokens generated [count].
        whole: Time until the choice; with `draft` the System 1 answer is in it.
        beyond: Time beyond the System 1 answer itself: the whole, but with `draft` less what that item's answer took
            when it was asked for by itself.
    """

    generations: float
    prompt_tokens: float
    completion_tokens: float
    whole: Timing
    beyond: Timing


@value
class AnswerCosts:
    """What the System 1 answer costs by itself, on the items where it was asked for so."""

    n: int
    prompt_tokens: float
    completion_tokens: float
    time: Timing


def costs(rows: Sequence[Row], assessor: str) -> Costs:
    """What `assessor` spent on the rows that it assessed."""
    readings = [row.readings[assessor] for row in rows if assessor in row.readings]
    spent = [reading.assess for reading in readings]
    whole = [reading.duration_ms for reading in readings]
    return Costs(
        generations=_mean([each.generations for each in spent]),
        prompt_tokens=_mean([each.prompt_tokens for each in spent]),
        completion_tokens=_mean([each.completion_tokens for each in spent]),
        whole=timing(whole),
        beyond=timing(_beyond_the_answer(rows) if assessor == DRAFT else whole),
    )


def answer_costs(rows: Sequence[Row]) -> AnswerCosts:
    """What the System 1 answer costs by itself."""
    plain = [row.plain for row in rows if row.plain is not None]
    spent: Sequence[Spent] = [each.spent for each in plain]
    return AnswerCosts(
        n=len(plain),
        prompt_tokens=_mean([each.prompt_tokens for each in spent]),
        completion_tokens=_mean([each.completion_tokens for each in spent]),
        time=timing([each.duration_ms for each in plain]),
    )


def timing(times_ms: Sequence[float]) -> Timing:
    """Median and 95th percentile.

    Example:
        >>> timing([10.0, 20.0, 30.0]).p50
        20.0
    """
    if not times_ms:
        return Timing(n=0, p50=None, p95=None)
    middle, late = np.quantile(times_ms, [0.5, 0.95])
    return Timing(n=len(times_ms), p50=float(middle), p95=float(late))


def _beyond_the_answer(rows: Sequence[Row]) -> Sequence[float]:
    return [
        row.readings[DRAFT].duration_ms - row.plain.duration_ms
        for row in rows
        if row.plain is not None and DRAFT in row.readings
    ]


def _mean(counts: Sequence[int]) -> float:
    return sum(counts) / len(counts) if counts else 0.0
