"""The figures that every report has of an arm: right, spent, trusted. Pure."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from evals.harness.rows import Row
from evals.harness.scores import by_item, over_seeds
from evals.plots.charts import Bar
from evals.stats.chance import Chance
from evals.stats.gains import Spread, mean_interval
from kernel.statistics.bootstrap import Estimate
from kernel.statistics.reliability import Reliability, chance_calibration_error, reliability
from kernel.values import value


@value
class Means:
    """Mean spending of an arm on an item.

    Attributes:
        generations: Samples drawn [count].
        calls: Calls sent to backends [count].
        prompt_tokens: Tokens of the prompts [count].
        completion_tokens: Tokens generated [count].
        duration_ms: Median time [ms]; None without rows.
    """

    generations: float
    calls: float
    prompt_tokens: float
    completion_tokens: float
    duration_ms: float | None

    @property
    def tokens(self) -> float:
        """Tokens in all [count]."""
        return self.prompt_tokens + self.completion_tokens


@value
class Trust:
    """Calibration of an arm's confidences.

    Attributes:
        n: Answers with a confidence [count].
        found: Calibration error, Brier score and bins.
        by_chance: Calibration error that perfect calibration shows with these confidences; None without any.
    """

    n: int
    found: Reliability
    by_chance: float | None


@value
class ArmFigures:
    """One arm.

    Attributes:
        name: Its name.
        items: Items that it answered [count].
        accuracy: Share right, with its interval over items.
        by_seed: The same over seeds.
        unreadable: Answers that could not be read; they count as wrong [count].
        undecided: Answers that no rule can judge; they count as wrong [count].
        means: What it spends.
        trust: How far its confidences can be trusted.
        failed: Failed requests, which are left out of all of these [count].
        strict: Share right where they count as wrong; None without any.
    """

    name: str
    items: int
    accuracy: Estimate
    by_seed: Spread
    unreadable: int
    undecided: int
    means: Means
    trust: Trust
    failed: int = 0
    strict: Estimate | None = None


def arm_figures(name: str, rows: Sequence[Row], chance: Chance, failed: Sequence[Row] = ()) -> ArmFigures:
    """The figures of one arm.

    Args:
        name: Its name.
        rows: What it answered.
        chance: For resampling.
        failed: Its failed requests.
    """
    scores = by_item(rows)
    strict = by_item([*rows, *failed])
    return ArmFigures(
        name=name,
        items=len(scores),
        accuracy=mean_interval(list(scores.values()), chance),
        by_seed=over_seeds(rows),
        unreadable=sum(row.label.answer is None for row in rows),
        undecided=sum(not row.label.decided for row in rows),
        means=means(rows),
        trust=trust([(row.said.confidence, row.right) for row in rows]),
        failed=len(failed),
        strict=mean_interval(list(strict.values()), chance) if failed else None,
    )


def means(rows: Sequence[Row]) -> Means:
    """Return what the requests behind `rows` spent, in the mean."""
    spent = [row.said.spent for row in rows]
    return Means(
        generations=_mean([each.generations for each in spent]),
        calls=_mean([each.http_calls for each in spent]),
        prompt_tokens=_mean([each.prompt_tokens for each in spent]),
        completion_tokens=_mean([each.completion_tokens for each in spent]),
        duration_ms=float(np.median([row.said.duration_ms for row in rows])) if rows else None,
    )


def trust(judged: Sequence[tuple[float | None, bool]]) -> Trust:
    """Return how far confidences agree with labels; unknown confidences are left out.

    Args:
        judged: Confidence [0..1] and label of each answer.
    """
    known = [(min(1.0, max(0.0, level)), right) for level, right in judged if level is not None]
    beliefs = [level for level, _ in known]
    return Trust(
        n=len(known),
        found=reliability(beliefs, [float(right) for _, right in known]),
        by_chance=chance_calibration_error(beliefs),
    )


def accuracy_by(rows: Sequence[Row], group: Callable[[Row], Sequence[str]], chance: Chance) -> Mapping[str, Estimate]:
    """Share right in each group; a row may be in several."""
    names = dict.fromkeys(name for row in rows for name in group(row))
    return {
        name: mean_interval(list(by_item([row for row in rows if name in group(row)]).values()), chance)
        for name in names
    }


def bar(found: Estimate) -> Bar:
    """An estimate as a bar."""
    return Bar(level=found.value, low=found.low, high=found.high)


def difficulties(row: Row) -> Sequence[str]:
    """The difficulty of an item, as a group; none where it is not known."""
    return (row.item.difficulty,) if row.item.difficulty else ()


def dimensions(row: Row) -> Sequence[str]:
    """The dimension of an item as a group: `cross_domain` where it takes several, none where it is not known."""
    taken = row.item.dimensions
    return ("cross_domain",) if len(taken) > 1 else tuple(taken)


def _mean(counts: Sequence[int]) -> float:
    return sum(counts) / len(counts) if counts else 0.0
