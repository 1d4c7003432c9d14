"""Second opinions: how well the answers of other models show that the first answer is wrong."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evals.replay.pack import INVALID, Agent, Floats, Ints, RecordedSet
from evals.stats.bootstrap_means import percentile_estimate
from evals.stats.chance import Chance
from kernel.statistics.bootstrap import Estimate
from kernel.statistics.discrimination import auroc
from kernel.values import value

# How many other models are asked, in turn.
OPINIONS = (1, 2, 3, 5)
# Share right of a model that can stand for System 1 [0..1].
LEAST_RIGHT, MOST_RIGHT = 0.2, 0.8
# Share of the questions that an agent must have been asked.
COMPLETE = 0.99


@value
class SecondOpinionRow:
    """This row says how well the share of models with another answer separates wrong first answers from right ones.

    Attributes:
        set: Name of the file.
        agent: The agent whose answer is System 1's.
        opinions: Other models that were asked [count].
        auroc: Of the share that answers differently.
        length_auroc: Of the length of the question, the control.
        shuffled_auroc: Of the same shares, given to other questions at random: the control for the measure itself.
        others: The other agents, those nearest in share right on the fitting half.
    """

    set: str
    agent: str
    opinions: int
    auroc: Estimate
    length_auroc: float | None
    shuffled_auroc: float | None
    others: tuple[str, ...]


def second_opinion_rows(recorded: RecordedSet, chance: Chance) -> Sequence[SecondOpinionRow]:
    """Return each possible System 1 with the models nearest to it; reported on the half that chose none of them."""
    rows: list[SecondOpinionRow] = []
    reported = ~recorded.fitting
    lengths = recorded.lengths.astype(np.float64)
    for first in system_one_agents(recorded):
        others = nearest_agents(recorded, first, max(OPINIONS))
        drawn = {agent.name: one_answer(agent, chance.rng) for agent in (first, *others)}
        answers, right = drawn[first.name]
        asked = reported & np.logical_and.reduce([agent.asked for agent in (first, *others)])
        wrong = ~right[asked]
        if wrong.all() or not wrong.any():
            continue
        differs = np.stack([(drawn[one.name][0] != answers) | (answers == INVALID) for one in others])[:, asked]
        for opinions in OPINIONS:
            if opinions > len(others):
                continue
            levels = differs[:opinions].mean(axis=0)
            rows.append(
                SecondOpinionRow(
                    set=recorded.name,
                    agent=first.name,
                    opinions=opinions,
                    auroc=auroc_estimate(levels, wrong, chance),
                    length_auroc=auroc(lengths[asked], wrong).auroc,
                    shuffled_auroc=auroc(chance.rng.permutation(levels), wrong).auroc,
                    others=tuple(one.name for one in others[:opinions]),
                )
            )
    return rows


def system_one_agents(recorded: RecordedSet) -> Sequence[Agent]:
    """Return the agents that are right on 20 to 80 % of all questions; of several settings of a model the first."""
    found: dict[str, Agent] = {}
    for agent in recorded.agents.values():
        if agent.asked.mean() >= COMPLETE and LEAST_RIGHT <= agent.right[agent.asked].mean() <= MOST_RIGHT:
            found.setdefault(agent.model, agent)
    return list(found.values())


def nearest_agents(recorded: RecordedSet, first: Agent, count: int) -> Sequence[Agent]:
    """Return the agents of other models that are nearest in share right on the fitting half, one for each model."""
    level = _share(first, recorded.fitting)
    others = [agent for agent in recorded.agents.values() if agent.asked.mean() >= COMPLETE]
    ranked = sorted(others, key=lambda agent: (abs(_share(agent, recorded.fitting) - level), agent.name))
    found: dict[str, Agent] = {}
    for agent in ranked:
        if agent.model != first.model:
            found.setdefault(agent.model, agent)
    return list(found.values())[:count]


def one_answer(agent: Agent, rng: np.random.Generator) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return one answer to each question, drawn from the samples, and whether it is right; shape (items,) each."""
    rows = np.arange(len(agent.answers))
    picks = rng.integers(agent.samples, size=len(rows))
    return agent.answers[rows, picks], agent.right[rows, picks]


def auroc_estimate(levels: Floats, positive: npt.NDArray[np.bool_], chance: Chance) -> Estimate:
    """Return AUROC with its bootstrap interval over questions.

    The levels take few values, so a resample of questions is a draw of how many have each value: exact, and quick.
    """
    seen = auroc(levels, positive).auroc
    _, where = np.unique(levels, return_inverse=True)
    width = int(where.max()) + 1
    cells = np.bincount(where.reshape(-1) + width * positive, minlength=2 * width)
    drawn = chance.rng.multinomial(len(levels), cells / cells.sum(), size=chance.draws).astype(np.float64)
    below, above = drawn[:, :width], drawn[:, width:]
    pairs = below.sum(axis=1) * above.sum(axis=1)
    lower = np.cumsum(below, axis=1) - below
    wins = (above * (lower + below / 2)).sum(axis=1)
    areas = wins[pairs > 0] / pairs[pairs > 0]
    return percentile_estimate(float(seen or 0.0), areas, len(levels))


def _share(agent: Agent, rows: npt.NDArray[np.bool_]) -> float:
    return float(agent.right[rows & agent.asked].mean())
