"""A threshold sends items on: these figures count the errors of System 1 among them. Pure.

An item without an activation goes where the router sent it, whatever the threshold: it ranks first if it was sent, and
last if it was kept.
"""

from collections.abc import Sequence
from math import ceil, inf

import numpy as np

from evals.routing.rows import Reading, Row
from evals.stats.chance import Chance
from evals.stats.separation import Flags, Levels, flags
from evals.stats.shares import Share, share
from kernel.statistics.bootstrap import Estimate, bootstrap_interval
from kernel.values import value

# Shares of the items that are sent on [0..1].
SHARES = (0.1, 0.2, 0.3, 0.5)


@value
class Caught:
    """Errors that are sent on.

    Attributes:
        sent: Items sent on [0..1]; sending as many by chance would catch this share of the errors.
        errors: Of System 1's wrong answers, those among the items sent [0..1].
    """

    sent: float
    errors: Estimate


@value
class Catching:
    """The errors that sending by one assessor's activation catches.

    Attributes:
        assessor: Its name.
        wrong: System 1's wrong answers among the items that it assessed.
        at: With the items of the highest activation sent, for each of `SHARES`.
        in_force: At the threshold in force.
    """

    assessor: str
    wrong: Share
    at: Sequence[Caught]
    in_force: Caught


def catching(assessor: str, rows: Sequence[Row], chance: Chance) -> Catching:
    """Return what sending by the activation of `assessor` catches.

    Args:
        assessor: Its name.
        rows: Items; those that it did not assess are left out. At least one that it did.
        chance: For the intervals.
    """
    assessed = [row for row in rows if assessor in row.readings]
    levels = np.array([_rank(row.readings[assessor]) for row in assessed], dtype=np.float64)
    sent = flags([row.readings[assessor].sent for row in assessed])
    wrong = flags([row.wrong for row in assessed])
    in_force = bootstrap_interval(caught, sent, wrong, rng=chance.rng, resamples=chance.draws)
    return Catching(
        assessor=assessor,
        wrong=share(row.wrong for row in assessed),
        at=[_at(each, levels, wrong, chance) for each in SHARES],
        in_force=Caught(sent=float(np.mean(sent)), errors=in_force),
    )


def caught(sent: Flags, wrong: Flags) -> float | None:
    """Share of the wrong ones that are sent [0..1]; None when none is wrong.

    Example:
        >>> caught(np.array([True, True, False, False]), np.array([True, False, True, False]))
        0.5
    """
    return float(np.mean(sent[wrong])) if wrong.any() else None


def caught_at(sent: float, levels: Levels, wrong: Flags) -> float | None:
    """Share of the wrong ones among the items of the highest levels [0..1]; None when none is wrong.

    Items of one level that only some can be sent of count as a draw among them would on average.

    Args:
        sent: Items sent (0..1].
        levels: Level of each item.
        wrong: Whether it is wrong.

    Example:
        >>> caught_at(0.5, np.array([0.9, 0.8, 0.8, 0.1]), np.array([True, True, False, False]))
        0.75
    """
    if not wrong.any():
        return None
    room = sent * len(levels)
    lowest = np.sort(levels)[::-1][ceil(room) - 1]
    above, ties = levels > lowest, levels == lowest
    drawn = (room - above.sum()) / ties.sum()
    return float(wrong[above].sum() + drawn * wrong[ties].sum()) / int(wrong.sum())


def _at(sent: float, levels: Levels, wrong: Flags, chance: Chance) -> Caught:
    def statistic(drawn: Levels, errors: Flags) -> float | None:
        return caught_at(sent, drawn, errors)

    errors = bootstrap_interval(statistic, levels, wrong, rng=chance.rng, resamples=chance.draws)
    return Caught(sent=sent, errors=errors)


def _rank(reading: Reading) -> float:
    if reading.activation is None:
        return inf if reading.sent else -inf
    return reading.activation
