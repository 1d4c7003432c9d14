"""The cost of an assessment: tokens and milliseconds, beside those of the System 1 answer itself. Pure."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import binom

from evals.routing.requests import DRAFT
from evals.routing.rows import Row, Spent
from evals.stats.bootstrap_means import NOTHING
from evals.stats.chance import seeded
from evals.stats.gains import mean_interval
from kernel.statistics.bootstrap import Estimate
from kernel.values import value

# Of the intervals of tokens, so that they leave the other figures' draws alone.
SEED = 7


@value
class Timing:
    """Times of several requests.

    Attributes:
        n: Requests [count].
        p50: Median, with its interval by order statistics [ms]; unknown without requests.
        p95: 95th percentile [ms].
    """

    n: int
    p50: Estimate
    p95: float | None


@value
class Costs:
    """The spending of one assessor on an item, beyond the System 1 answer.

    Attributes:
        generations: Mean samples drawn [count].
        prompt_tokens: Mean tokens of the prompts, with its interval [count].
        completion_tokens: Mean tokens generated, with its interval [count].
        whole: Time until the choice; with `draft` the System 1 answer is in it.
        beyond: Time beyond the System 1 answer itself: the whole, but with `draft` less what that item's answer took
            when it was asked for by itself.
    """

    generations: float
    prompt_tokens: Estimate
    completion_tokens: Estimate
    whole: Timing
    beyond: Timing


@value
class AnswerCosts:
    """The cost of the System 1 answer by itself, on the items where it was requested so."""

    n: int
    prompt_tokens: Estimate
    completion_tokens: Estimate
    time: Timing


def costs(rows: Sequence[Row], assessor: str) -> Costs:
    """Return what `assessor` spent on the rows that it assessed."""
    chance = seeded(SEED)
    readings = [row.readings[assessor] for row in rows if assessor in row.readings]
    spent = [reading.assess for reading in readings]
    whole = [reading.duration_ms for reading in readings]
    return Costs(
        generations=_mean([each.generations for each in spent]),
        prompt_tokens=mean_interval([each.prompt_tokens for each in spent], chance),
        completion_tokens=mean_interval([each.completion_tokens for each in spent], chance),
        whole=timing(whole),
        beyond=timing(_beyond_the_answer(rows) if assessor == DRAFT else whole),
    )


def answer_costs(rows: Sequence[Row]) -> AnswerCosts:
    """Return what the System 1 answer costs by itself."""
    single_pass = [row.single_pass for row in rows if row.single_pass is not None]
    spent: Sequence[Spent] = [each.spent for each in single_pass]
    chance = seeded(SEED)
    return AnswerCosts(
        n=len(single_pass),
        prompt_tokens=mean_interval([each.prompt_tokens for each in spent], chance),
        completion_tokens=mean_interval([each.completion_tokens for each in spent], chance),
        time=timing([each.duration_ms for each in single_pass]),
    )


def timing(times_ms: Sequence[float]) -> Timing:
    """Median and 95th percentile.

    The ends of the median's interval are two of the times: as many lie below the one, and above the other, as heads
    fall in that many tosses with a probability of at most 2.5 %. Below six times these are the least and the greatest.

    Example:
        >>> timing([10.0, 20.0, 30.0]).p50.value
        20.0
        >>> found = timing([float(ms) for ms in range(1, 21)]).p50  # Conover's table: the 6th and the 15th of twenty
        >>> found.low, found.high
        (6.0, 15.0)
    """
    if not times_ms:
        return Timing(n=0, p50=NOTHING, p95=None)
    ordered = sorted(times_ms)
    middle, late = np.quantile(ordered, [0.5, 0.95])
    outside = max(0, int(binom.ppf(0.025, len(ordered), 0.5)) - 1)
    low, high = ordered[outside], ordered[-1 - outside]
    return Timing(
        n=len(ordered),
        p50=Estimate(value=float(middle), low=low, high=high, items=len(ordered), resamples=0),
        p95=float(late),
    )


def _beyond_the_answer(rows: Sequence[Row]) -> Sequence[float]:
    return [
        row.readings[DRAFT].duration_ms - row.single_pass.duration_ms
        for row in rows
        if row.single_pass is not None and DRAFT in row.readings
    ]


def _mean(counts: Sequence[int]) -> float:
    return sum(counts) / len(counts) if counts else 0.0
