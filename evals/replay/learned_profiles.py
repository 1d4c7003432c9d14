"""Profiles that are learned on the job: what drawing them towards an agent's other dimensions is worth.

Tasks come in random order. The agent with the highest draw (Thompson sampling) does each, and learns from its label as
in papers.md 3.4; its dimension is the question's category. Once it draws from the Beta reading of the profile itself,
once from that of `kernel.learning.shrinkage`. No self-assessments are recorded, so the profile alone decides.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evals.replay.pack import Agent, Floats, Ints, RecordedSet
from evals.replay.panels import ALIKE, ALIKE_WITHIN, MEMBERS, PANELS, UNEQUAL, drawn_panels
from evals.stats.bootstrap_means import percentile_estimate, resampled_means
from evals.stats.chance import Chance
from kernel.confidence.rules import LEARNING_RATE
from kernel.learning.profiles import INITIAL_COMPETENCE
from kernel.learning.shrinkage import PSEUDO_OBSERVATIONS
from kernel.statistics.bootstrap import Estimate
from kernel.values import value

# Tasks after which the learned choice is looked at [count]; and after all.
TASKS = (500, 2_000)
# Categories below which there is nothing to learn apart [count].
LEAST_CATEGORIES = 2


@value
class LearnedProfileRow:
    """Agents chosen by learned profiles: the means over panels of five agents, each with its own order of tasks.

    Attributes:
        set: Name of the file.
        agents: `alike` or `unequal`, as in the panels.
        panels: Panels and orders [count].
        tasks: Tasks from the start [count].
        accuracy: Share right with profiles as they are [0..1].
        gain: The same with profiles drawn towards the agent's other dimensions, minus it.
        gain_over_best: With drawn profiles, minus the single agent that is best on the same tasks, in hindsight.
    """

    set: str
    agents: str
    panels: int
    tasks: int
    accuracy: Estimate
    gain: Estimate
    gain_over_best: Estimate


class Records(NamedTuple):
    """The profiles of all panels: arrays of shape (panels, agents, categories)."""

    competence: Floats
    weight: Floats
    squares: Floats

    def memory(self) -> Floats:
        """Return the observations that each rests on, as `kernel.learning.profiles.memory`."""
        known = self.squares > 0
        return np.where(known, self.weight**2 / np.where(known, self.squares, 1.0), 0.0)

    def mean(self) -> Floats:
        """Return the mean of the outcomes, as `kernel.learning.profiles.outcome_mean`."""
        known = self.weight > 0
        start = INITIAL_COMPETENCE * (1.0 - self.weight)
        found = np.clip((self.competence - start) / np.where(known, self.weight, 1.0), 0.0, 1.0)
        return np.where(known, found, INITIAL_COMPETENCE)


def learned_profile_rows(recorded: RecordedSet, chance: Chance, panels: int = PANELS) -> Sequence[LearnedProfileRow]:
    """Return the rows of a file; none without categories or without panels."""
    rows: list[LearnedProfileRow] = []
    if len(set(recorded.categories)) < LEAST_CATEGORIES:
        return rows
    for name, width in ((ALIKE, ALIKE_WITHIN), (UNEQUAL, None)):
        drawn = list(drawn_panels(recorded, chance.rng, width=width, most=panels))
        if drawn:
            repeated = [drawn[at % len(drawn)] for at in range(panels)]
            rows += _rows(recorded, name, repeated, chance)
    return rows


def readings(records: Records, category: Ints, *, shrunk: bool) -> tuple[Floats, Floats]:
    """Return the parameters of the Beta distributions of all agents in one category for each panel.

    Args:
        records: The profiles.
        category: Category of the task of each panel, shape (panels,).
        shrunk: Whether the profiles are drawn towards the agent's other categories.

    Returns:
        Two arrays of shape (panels, agents): those of `kernel.learning.profiles.beta_reading`, and of
        `kernel.learning.shrinkage.shrunk_profile` where `shrunk`.
    """
    rows = np.arange(len(category))
    memories, means = records.memory(), records.mean()
    memory, mean = memories[rows, :, category], means[rows, :, category]
    right, wrong = 1.0 + memory * mean, 1.0 + memory * (1.0 - mean)
    if shrunk:
        others = memories.sum(axis=2) - memory
        known = others > 0
        total = (memories * means).sum(axis=2) - memory * mean
        overall = np.where(known, total / np.where(known, others, 1.0), INITIAL_COMPETENCE)
        drawn = np.minimum(PSEUDO_OBSERVATIONS, others)
        right, wrong = right + drawn * overall, wrong + drawn * (1.0 - overall)
    return right, wrong


def _rows(
    recorded: RecordedSet, name: str, panels: Sequence[tuple[Agent, ...]], chance: Chance
) -> Sequence[LearnedProfileRow]:
    numbers = {category: at for at, category in enumerate(sorted(set(recorded.categories)))}
    categories = np.array([numbers[category] for category in recorded.categories])
    right = np.stack([np.stack([agent.right[:, 0] for agent in panel]) for panel in panels])
    orders = np.stack([chance.rng.permutation(len(recorded)) for _ in panels])
    plain, drawn = (_learned(right, categories, orders, chance.rng, shrunk=shrunk) for shrunk in (False, True))
    rows = []
    for tasks in sorted({min(count, len(recorded)) for count in (*TASKS, len(recorded))}):
        first = orders[:, :tasks]
        best = _best(right, first)
        columns = _by_question(first, [plain[:, :tasks], drawn[:, :tasks], best], len(recorded))
        resampled = resampled_means(columns, chance).T
        seen = columns.mean(axis=1)
        items = columns.shape[1]
        rows.append(
            LearnedProfileRow(
                set=recorded.name,
                agents=name,
                panels=len(panels),
                tasks=tasks,
                accuracy=percentile_estimate(float(seen[0]), resampled[0], items),
                gain=percentile_estimate(float(seen[1] - seen[0]), resampled[1] - resampled[0], items),
                gain_over_best=percentile_estimate(float(seen[1] - seen[2]), resampled[1] - resampled[2], items),
            )
        )
    return rows


def _learned(
    right: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    categories: Ints,
    orders: Ints,
    rng: np.random.Generator,
    *,
    shrunk: bool,
) -> Floats:
    """Return whether the agent that did each task was right, in the order of the tasks, shape (panels, tasks)."""
    shape = (len(orders), MEMBERS, int(categories.max()) + 1)
    records = Records(np.full(shape, INITIAL_COMPETENCE), np.zeros(shape), np.zeros(shape))
    rows = np.arange(len(orders))
    hits = np.zeros(orders.shape)
    for place, questions in enumerate(orders.T):
        category = categories[questions]
        agent = rng.beta(*readings(records, category, shrunk=shrunk)).argmax(axis=1)
        outcome = right[rows, agent, questions].astype(np.float64)
        hits[:, place] = outcome
        at = (rows, agent, category)
        records.competence[at] += LEARNING_RATE * (outcome - records.competence[at])
        records.weight[at] += LEARNING_RATE * (1.0 - records.weight[at])
        records.squares[at] = records.squares[at] * (1.0 - LEARNING_RATE) ** 2 + LEARNING_RATE**2
    return hits


def _best(right: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], orders: Ints) -> Floats:
    """Return whether the best single agent of the same tasks was right, shape (panels, tasks)."""
    found = np.zeros(orders.shape)
    for at, order in enumerate(orders):
        own = right[at][:, order]
        found[at] = own[own.mean(axis=1).argmax()]
    return found


def _by_question(orders: Ints, outcomes: Sequence[Floats], items: int) -> Floats:
    """Return the mean of each kind of outcome by question, of the questions that occur, shape (kinds, questions)."""
    counts = np.bincount(orders.ravel(), minlength=items)
    sums = np.stack([np.bincount(orders.ravel(), weights=one.ravel(), minlength=items) for one in outcomes])
    means: Floats = sums[:, counts > 0] / counts[counts > 0]
    return means
