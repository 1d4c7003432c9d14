"""Promises: which share of the answers is given where their error is bounded, and how often the bound is broken.

Panels of five recorded models vote, and labels are drawn at random; `kernel.votes.promise` says which levels of
agreement they prove. The figures are those of the questions that were not drawn. Nothing is fitted to other models.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from evals.replay.calibration import AGREE_2, ALL, DRAWS, LEAST_LEFT, VOTES, Flags, Panels, Voted
from evals.replay.pack import Agent, Ints, RecordedSet
from evals.replay.second_opinions import COMPLETE, LEAST_RIGHT, MOST_RIGHT
from evals.stats.chance import Chance
from kernel.values import value
from kernel.votes.agreement import AgreementLevel
from kernel.votes.promise import LevelCount, proved_levels

ERRORS_AT_MOST = (0.05, 0.1, 0.2)
LABELS = (100, 200, 400)
# Panels by the share right of their System 1 [%].
MIDDLING, STRONG = "20 to 80 % right", "above 80 % right"


@value
class PromiseRow:
    """This row is the mean over the panels of one set, and over the draws of labels.

    Attributes:
        set: Name of the file.
        agents: How often System 1 of the panels is right; its panel are the models nearest to it.
        votes: `all`, all five vote, or `agree_2`, asking until two agree.
        error_at_most: The promised error of the answers that are given [0..1].
        labels: Labels that were drawn [count].
        kept_share: Answers that are given, as a share of the valid ones [0..1].
        broken_share: Draws after which the error of the given answers is above the promise [0..1].
        worst_broken_share: The same of the panel with the largest [0..1].
        given_error: Error of the given answers, over all draws that give any [0..1]; None where none does.
        panels: Panels [count].
    """

    set: str
    agents: str
    votes: str
    error_at_most: float
    labels: int
    kept_share: float
    broken_share: float
    worst_broken_share: float
    given_error: float | None
    panels: int


@value
class _Kept:
    """What became of the questions that were not drawn, over all draws of one panel: sums and counts."""

    given: float
    errors: float
    left: float
    broken: int
    draws: int


def promise_rows(recorded: RecordedSet, chance: Chance, draws: int = DRAWS) -> Sequence[PromiseRow]:
    """Return the rows of a file; none where it has too few models for a panel, or too few questions."""
    if len({agent.model for agent in recorded.agents.values()}) < VOTES:
        return ()
    panels = Panels(recorded, chance)
    rows: list[PromiseRow] = []
    for agents, firsts in _firsts(recorded).items():
        for votes, stops in ((ALL, False), (AGREE_2, True)):
            found: dict[tuple[float, int], list[_Kept]] = {}
            for first in firsts:
                for cell, kept in _panel(panels.votes(first, "", stops), chance, draws):
                    found.setdefault(cell, []).append(kept)
            rows += [_row(recorded.name, agents, votes, cell, each) for cell, each in sorted(found.items())]
    return rows


def _firsts(recorded: RecordedSet) -> Mapping[str, Sequence[Agent]]:
    """Return the agents that can be System 1, one of each model, by how often they are right."""
    found: dict[str, dict[str, Agent]] = {MIDDLING: {}, STRONG: {}}
    for agent in recorded.agents.values():
        share = agent.right[agent.asked].mean()
        if agent.asked.mean() >= COMPLETE and share >= LEAST_RIGHT:
            found[STRONG if share > MOST_RIGHT else MIDDLING].setdefault(agent.model, agent)
    return {agents: list(firsts.values()) for agents, firsts in found.items()}


def _panel(voted: Voted, chance: Chance, draws: int) -> Iterator[tuple[tuple[float, int], _Kept]]:
    """Yield what becomes of one panel, by promised error and labels."""
    valid = np.flatnonzero(voted.valid)
    which, wrong = voted.which[valid], ~voted.right[valid]
    levels = [AgreementLevel(agreeing=one.agreeing, against=one.valid - one.agreeing) for one in voted.evidence]
    for labels in LABELS:
        if len(valid) - labels < LEAST_LEFT:
            continue
        orders = [chance.rng.permutation(len(valid)) for _ in range(draws)]
        for error_at_most in ERRORS_AT_MOST:
            each = [_draw(levels, which, wrong, order, labels, error_at_most) for order in orders]
            yield (
                (error_at_most, labels),
                _Kept(
                    given=sum(given for given, _ in each),
                    errors=sum(errors for _, errors in each),
                    left=draws * (len(valid) - labels),
                    broken=sum(errors > error_at_most * given for given, errors in each),
                    draws=draws,
                ),
            )


def _draw(
    levels: Sequence[AgreementLevel], which: Ints, wrong: Flags, order: Ints, labels: int, error_at_most: float
) -> tuple[int, int]:
    """Return how many of the questions that are not drawn are answered, and how many of these answers are wrong."""
    drawn, left = which[order[:labels]], which[order[labels:]]
    numbers = np.bincount(drawn, minlength=len(levels))
    errors = np.bincount(drawn, weights=wrong[order[:labels]], minlength=len(levels))
    counts = [
        LevelCount(level=level, labels=int(number), errors=int(wrongs))
        for level, number, wrongs in zip(levels, numbers, errors, strict=True)
        if number
    ]
    proved = proved_levels(counts, error_at_most)
    if proved.last is None:
        return 0, 0
    given = np.array([proved.includes(level) for level in levels])[left]
    return int(given.sum()), int((given & wrong[order[labels:]]).sum())


def _row(name: str, agents: str, votes: str, cell: tuple[float, int], panels: Sequence[_Kept]) -> PromiseRow:
    given = sum(one.given for one in panels)
    return PromiseRow(
        set=name,
        agents=agents,
        votes=votes,
        error_at_most=cell[0],
        labels=cell[1],
        kept_share=float(np.mean([one.given / one.left for one in panels])),
        broken_share=float(np.mean([one.broken / one.draws for one in panels])),
        worst_broken_share=max(one.broken / one.draws for one in panels),
        given_error=sum(one.errors for one in panels) / given if given else None,
        panels=len(panels),
    )
