"""The figures of long-horizon tasks: end states, single steps, and what deliberation at each step gains. Pure.

Source: ours (papers.md 4.4).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from evals.harness.rows import RecordedEvaluation, Row
from evals.horizon.arms import AT_ONCE, state_after, step_of
from evals.horizon.tasks import Step, applied, end_state
from evals.records import Record
from evals.stats.chance import Chance
from evals.stats.gains import mean_interval, paired_gain
from evals.stats.shares import Share, share
from kernel.statistics.bootstrap import Estimate
from kernel.values import value

Case = tuple[str, int]
"""Task and seed."""


@value
class Episode:
    """The course of one task by one strategy, with one seed.

    Attributes:
        task: The task.
        length: Its steps [count].
        right: Whether the end state is right.
        steps: Of each step, whether it was right for what the lock showed before it; empty where all was asked at once.
        generations: Samples drawn [count].
        tokens: Tokens generated [count].
    """

    task: str
    length: int
    right: bool
    steps: tuple[bool, ...]
    generations: int
    tokens: int


@value
class StrategyFigures:
    """The figures of one strategy on the tasks of one length.

    Attributes:
        name: Its name.
        length: Steps of the tasks [count].
        right: Share of end states that are right.
        steps: Share of single steps that are right; None where all was asked at once.
        first_error: Step of the first error, in the mean over tasks with one; None without any.
        generations: Samples of a task, in the mean [count].
        tokens: Tokens generated for a task, in the mean [count].
        gains: How much more often the end state is right than by each other strategy; of the one that is compared.
    """

    name: str
    length: int
    right: Estimate
    steps: Share | None
    first_error: float | None
    generations: float
    tokens: float
    gains: Mapping[str, Estimate]

    @property
    def independent(self) -> float | None:
        """Return the share of end states right if steps err independently, and no error undoes another [0..1]."""
        level = self.steps.value if self.steps else None
        return None if level is None else level**self.length


def episodes(evaluation: RecordedEvaluation, records: Sequence[Record]) -> Mapping[str, Mapping[Case, Episode]]:
    """Return the whole episodes by strategy; one of which a step is missing is left out."""
    items = {record["id"]: record for record in records if record["kind"] == "item"}
    rows: dict[str, dict[Case, dict[int, Row]]] = {}
    for row in evaluation.rows:
        strategy, number = step_of(row.arm)
        rows.setdefault(strategy, {}).setdefault((row.item.id, row.seed), {})[number] = row
    return {
        strategy: {
            case: made
            for case, steps in cases.items()
            if (made := _episode(items[case[0]], strategy, steps)) is not None
        }
        for strategy, cases in rows.items()
    }


def figures(
    found: Mapping[str, Mapping[Case, Episode]], strategy: str, chance: Chance
) -> Mapping[int, Sequence[StrategyFigures]]:
    """Return the figures by length, and over all lengths under 0.

    Args:
        found: Episodes by strategy.
        strategy: The one that is compared with the others.
        chance: For all resampling.
    """
    lengths = sorted({one.length for cases in found.values() for one in cases.values()})
    return {
        length: [_way(name, length, found, strategy, chance) for name in found]
        for length in (*lengths, *([0] if len(lengths) > 1 else []))
    }


def _episode(item: Record, strategy: str, rows: Mapping[int, Row]) -> Episode | None:
    steps = [Step(kind=kind, first=first, second=second) for kind, first, second in item["steps"]]
    asked = [0] if strategy == AT_ONCE else list(range(1, len(steps) + 1))
    if any(number not in rows for number in asked):
        return None
    spent = [rows[number].said.spent for number in asked]
    shown, right = item["start"], []
    for step, number in zip(steps, asked, strict=False) if strategy != AT_ONCE else ():
        after = state_after(shown, rows[number].said.text)
        right.append(after == applied(shown, step) and rows[number].label.answer is not None)
        shown = after
    ended = rows[0].right if strategy == AT_ONCE else shown == end_state(item["start"], steps)
    return Episode(
        task=item["id"],
        length=len(steps),
        right=ended,
        steps=tuple(right),
        generations=sum(each.generations for each in spent),
        tokens=sum(each.completion_tokens for each in spent),
    )


def _way(
    name: str, length: int, found: Mapping[str, Mapping[Case, Episode]], strategy: str, chance: Chance
) -> StrategyFigures:
    own = _of_length(found[name], length)
    each = list(own.values())
    single = [right for one in each for right in one.steps]
    errors = [one.steps.index(False) + 1 for one in each if False in one.steps]
    others = [other for other in found if other != name] if name == strategy else []
    return StrategyFigures(
        name=name,
        length=length,
        right=mean_interval(list(_by_task(own).values()), chance),
        steps=share(single) if single else None,
        first_error=float(np.mean(errors)) if errors else None,
        generations=float(np.mean([one.generations for one in each])) if each else 0.0,
        tokens=float(np.mean([one.tokens for one in each])) if each else 0.0,
        gains={other: _gain(_of_length(found[other], length), own, chance) for other in others},
    )


def _of_length(cases: Mapping[Case, Episode], length: int) -> Mapping[Case, Episode]:
    return {case: one for case, one in cases.items() if length in (0, one.length)}


def _gain(before: Mapping[Case, Episode], after: Mapping[Case, Episode], chance: Chance) -> Estimate:
    both = [case for case in before if case in after]
    first, second = (_by_task({case: some[case] for case in both}) for some in (before, after))
    return paired_gain(list(first.values()), [second[task] for task in first], chance)


def _by_task(cases: Mapping[Case, Episode]) -> Mapping[str, float]:
    """Return the share of seeds with which each task ended right."""
    labels: dict[str, list[bool]] = {}
    for one in cases.values():
        labels.setdefault(one.task, []).append(one.right)
    return {task: sum(each) / len(each) for task, each in labels.items()}
