"""Calibration of the probability of being right, over panels of recorded models.

System 1 and the models nearest to it vote; `kernel.votes` says who wins and how probably it is right. The prior is
fitted on the fitting half without the model that is reported, whether as System 1 or as a voter. Labels are drawn at
random from the other half, and the figures are those of its remaining questions.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evals.replay.pack import INVALID, Agent, Floats, Ints, RecordedSet
from evals.replay.second_opinions import nearest_agents, one_answer, system_one_agents
from evals.replay.stopping import DRAFT, REASONED
from evals.stats.chance import Chance
from kernel.statistics.reliability import brier_score, calibration_error, chance_calibration_error
from kernel.values import value
from kernel.votes.probability import (
    LabelCount,
    Prior,
    ProbabilityModel,
    VoteEvidence,
    prior_of,
    probability_model,
    terms,
)
from kernel.votes.votes import Vote, VoteGroup, VoteMode, VoteRule, VoteSource, grouped_by_key, vote_stop

# Panels of which all vote, and panels that stop when two agree.
ALL, AGREE_2 = "all", "agree_2"
# Votes of a panel, System 1's included [count].
VOTES = 5
# Labels of a deployment [count], and how often they are drawn.
LABELS = (25, 50, 100, 300, 1_000)
DRAWS = 200
# Questions that must be left to report on [count].
LEAST_LEFT = 200

Flags = npt.NDArray[np.bool_]


@value
class CalibrationRow:
    """How well probabilities are calibrated: the mean over System 1 models and draws of labels.

    Attributes:
        set: Name of the file.
        labels: Labels of the deployment [count].
        method: `raw`, the share of valid votes for the winner; `prior`; or `product`, the prior drawn towards labels.
        votes: `all`, a fixed panel of five, or `agree_2`, asking until two agree.
        ece: Expected calibration error [0..1].
        floor: ECE that perfect calibration would show by chance [0..1].
        brier: Mean squared error [0..1].
        models: System 1 models [count].
    """

    set: str
    labels: int
    method: str
    votes: str
    ece: float
    floor: float
    brier: float
    models: int


class _Column(NamedTuple):
    """The answers of one voter: one to each question."""

    answers: Ints
    right: Flags
    agent: Agent
    mode: VoteMode


def _column(answers: Ints, right: Flags, agent: Agent, mode: VoteMode = VoteMode.REASONED) -> _Column:
    return _Column(answers, right, agent, mode)


class Voted(NamedTuple):
    """The votes of one panel on all questions of a file: which evidence each gave, and whether the winner was right."""

    evidence: tuple[VoteEvidence, ...]
    which: Ints
    right: Flags
    valid: Flags


@value
class Figures:
    """ECE, its floor, and the Brier score of one System 1 model."""

    ece: float
    floor: float
    brier: float


def calibration_rows(recorded: RecordedSet, chance: Chance, draws: int = DRAWS) -> Sequence[CalibrationRow]:
    """Return the rows of a file; none where it has too few questions or models."""
    firsts = system_one_agents(recorded)
    names = {agent.name: agent for agent in recorded.agents.values()}
    if len(firsts) < 3 or len({agent.model for agent in names.values()}) < VOTES + 1:
        return ()
    panels = Panels(recorded, chance)
    rows: list[CalibrationRow] = []
    for votes, stops in ((ALL, False), (AGREE_2, True)):
        found: dict[tuple[str, int], list[Figures]] = {}
        for first in firsts:
            for key, figures in _model_figures(panels, firsts, first, stops, chance, draws).items():
                found.setdefault(key, []).append(figures)
        for (method, labels), each in sorted(found.items(), key=lambda entry: (entry[0][1], entry[0][0])):
            rows.append(
                CalibrationRow(
                    set=recorded.name,
                    labels=labels,
                    method=method,
                    votes=votes,
                    ece=float(np.mean([one.ece for one in each])),
                    floor=float(np.mean([one.floor for one in each])),
                    brier=float(np.mean([one.brier for one in each])),
                    models=len(each),
                )
            )
    return rows


def shipped_prior(pack: Sequence[RecordedSet], chance: Chance) -> Prior:
    """Return the prior of all questions: what the product ships.

    Besides the panels it is fitted on five answers of one model, and on a direct answer with four reasoned ones of the
    same model, so that it knows what agreement of one model with itself, and of two modes, is worth.
    """
    models: list[tuple[Floats, Floats]] = []
    for recorded in pack:
        panels = Panels(recorded, chance)
        every = np.ones(len(recorded), dtype=np.bool_)
        for first in system_one_agents(recorded):
            for stops in (False, True):
                found = [
                    panels.votes(first, "", stops),
                    panels.own_votes(first, stops),
                    panels.draft_votes(first, stops),
                ]
                models += [_training(voted, every) for voted in found if voted is not None and voted.valid.any()]
    return prior_of([one for one in models if len(one[1])])


class Panels:
    """The votes of all panels of a file, each computed once."""

    def __init__(self, recorded: RecordedSet, chance: Chance) -> None:
        self.recorded = recorded
        self._drawn = {agent.name: one_answer(agent, chance.rng) for agent in recorded.agents.values()}
        self._known: dict[tuple[tuple[str, ...], bool], Voted] = {}

    def votes(self, first: Agent, without: str, stops: bool) -> Voted:
        """Return the votes of `first` and of the agents nearest to it, of which none is of the model `without`."""
        near = nearest_agents(self.recorded, first, VOTES)
        others = [agent for agent in near if agent.model != without][: VOTES - 1]
        panel = (first, *others)
        key = (tuple(agent.name for agent in panel), stops)
        if key not in self._known:
            columns = [_column(self._drawn[agent.name][0], self._drawn[agent.name][1], agent) for agent in panel]
            self._known[key] = self._voted(columns, stops, has_draft=True)
        return self._known[key]

    def own_votes(self, agent: Agent, stops: bool) -> Voted | None:
        """Return the votes of five answers of one agent; None where it has fewer."""
        if agent.samples < VOTES:
            return None
        return self._voted(self._samples(agent, VOTES), stops, has_draft=False)

    def draft_votes(self, first: Agent, stops: bool) -> Voted | None:
        """Return the votes of a direct answer and four reasoned ones of its model; None where they are not recorded."""
        agents = self.recorded.agents
        direct, reasoned = agents.get(first.model + DRAFT), agents.get(first.model + REASONED)
        if direct is None or reasoned is None or reasoned.samples < VOTES - 1:
            return None
        return self._voted(
            [*self._samples(direct, 1, VoteMode.DRAFT), *self._samples(reasoned, VOTES - 1)], stops, has_draft=True
        )

    def _samples(self, agent: Agent, count: int, mode: VoteMode = VoteMode.REASONED) -> list[_Column]:
        """Return the answers of an agent at `count` places drawn at random for each question."""
        rng = np.random.default_rng(0)
        order = rng.permuted(np.broadcast_to(np.arange(agent.samples), agent.answers.shape), axis=1)
        answers = np.take_along_axis(agent.answers, order, 1)
        right = np.take_along_axis(agent.right, order, 1)
        return [_column(answers[:, at], right[:, at], agent, mode) for at in range(count)]

    def _voted(self, panel: Sequence[_Column], stops: bool, *, has_draft: bool) -> Voted:
        recorded = self.recorded
        numbers = np.stack([column.answers for column in panel], axis=1)
        right = np.stack([column.right for column in panel], axis=1)
        asked = np.logical_and.reduce([column.agent.asked for column in panel])
        sources = [
            VoteSource(
                model=column.agent.model,
                mode=column.mode,
                competence=float(column.agent.right[recorded.fitting & column.agent.asked].mean()),
            )
            for column in panel
        ]
        seen: dict[VoteEvidence, int] = {}
        which = np.zeros(len(recorded), dtype=np.int64)
        hits, valid = np.zeros((2, len(recorded)), dtype=np.bool_)
        for pattern, options, rows in answer_patterns(numbers, recorded.options, asked):
            found = _outcome(pattern, sources, stops)
            if found is None:
                continue
            winners, votes = found
            agreed = [sources[at] for at in winners]
            evidence = VoteEvidence(
                agreeing=len(winners),
                valid=votes,
                models=len({source.model for source in agreed}),
                modes=len({source.mode for source in agreed}),
                draft_agrees=has_draft and 0 in winners,
                options=options,
            )
            winner = winners[0]
            which[rows] = seen.setdefault(evidence, len(seen))
            hits[rows], valid[rows] = right[rows, winner], True
        return Voted(tuple(seen), which, hits, valid)


def answer_patterns(numbers: Ints, options: Ints, asked: Flags) -> Iterator[tuple[tuple[int, ...], int, Ints]]:
    """Yield which answers of a panel are equal, the options of the question, and the questions where it is so.

    An answer is numbered by the first that is equal to it.
    """
    same = (numbers[:, :, None] == numbers[:, None, :]).argmax(axis=2)
    same[numbers == INVALID] = INVALID
    known = np.flatnonzero(asked)
    distinct, where = np.unique(np.column_stack([same[known], options[known]]), axis=0, return_inverse=True)
    for at, row in enumerate(distinct.tolist()):
        yield tuple(row[:-1]), row[-1], known[where.reshape(-1) == at]


def _outcome(pattern: Sequence[int], sources: Sequence[VoteSource], stops: bool) -> tuple[tuple[int, ...], int] | None:
    """Return the votes for the winning answer, and how many votes are valid; None without a valid one."""
    rule = VoteRule(agree=2, most=len(sources))
    votes: list[Vote] = []
    keys: list[str | None] = []
    groups: Sequence[VoteGroup] = ()
    for number, source in zip(pattern, sources, strict=True):
        keys.append(None if number == INVALID else str(number))
        votes.append(Vote(source=source, answer=keys[-1]))
        groups = grouped_by_key(keys, votes)
        if stops and vote_stop(groups, votes, rule) is not None:
            break
    return (groups[0].votes, sum(len(group.votes) for group in groups)) if groups else None


def held_out_chances(panels: Panels, firsts: Sequence[Agent]) -> Sequence[tuple[Floats, Floats]]:
    """Return for each System 1 model the probability that the winner of its panel is right, and whether it is.

    All five vote. The prior is fitted on the fitting half without the model; questions of that half, and those without
    a valid vote, are NaN. None where there are too few models.
    """
    recorded = panels.recorded
    if len(firsts) < 3 or len({agent.model for agent in recorded.agents.values()}) < VOTES + 1:
        return ()
    found = []
    for first in firsts:
        others = [one for one in firsts if one.model != first.model]
        prior = prior_of([_training(panels.votes(one, first.model, False), recorded.fitting) for one in others])
        voted = panels.votes(first, "", False)
        reported = voted.valid & ~recorded.fitting
        chances = np.where(reported, _chances(probability_model(prior), voted.evidence)[voted.which], np.nan)
        found.append((chances, np.where(reported, voted.right.astype(np.float64), np.nan)))
    return found


def _model_figures(
    panels: Panels, firsts: Sequence[Agent], first: Agent, stops: bool, chance: Chance, draws: int
) -> Mapping[tuple[str, int], Figures]:
    recorded = panels.recorded
    prior = prior_of(
        [
            _training(panels.votes(one, first.model, stops), recorded.fitting)
            for one in firsts
            if one.model != first.model
        ]
    )
    voted = panels.votes(first, "", stops)
    reported = np.flatnonzero(voted.valid & ~recorded.fitting)
    which, right = voted.which[reported], voted.right[reported]
    raw = np.array([one.agreeing / one.valid for one in voted.evidence])
    alone = _chances(probability_model(prior), voted.evidence)
    found = {("raw", 0): _figures(raw[which], right), ("prior", 0): _figures(alone[which], right)}
    for labels in LABELS:
        if len(reported) - labels < LEAST_LEFT:
            continue
        each: list[Figures] = []
        floor = None
        for _ in range(draws):
            order = chance.rng.permutation(len(reported))
            known, left = order[:labels], order[labels:]
            model = probability_model(prior, _counted(voted.evidence, which[known], right[known]))
            chances = _chances(model, voted.evidence)[which[left]]
            each.append(_figures(chances, right[left], floor))
            floor = each[0].floor
        found["product", labels] = Figures(
            ece=float(np.mean([one.ece for one in each])),
            floor=each[0].floor,
            brier=float(np.mean([one.brier for one in each])),
        )
    return found


def _training(voted: Voted, rows: Flags) -> tuple[Floats, Floats]:
    """Return the terms of the questions with two valid votes or more, and whether their winners were right."""
    design = np.array([terms(one) for one in voted.evidence])
    compared = np.array([one.valid > 1 for one in voted.evidence])
    kept = rows & voted.valid
    kept[kept] = compared[voted.which[kept]]
    return design[voted.which[kept]], voted.right[kept].astype(np.float64)


def _chances(model: ProbabilityModel, evidence: Sequence[VoteEvidence]) -> Floats:
    return np.array([model.probability(one) for one in evidence])


def _counted(evidence: Sequence[VoteEvidence], which: Ints, right: Flags) -> Sequence[LabelCount]:
    labels = np.bincount(which, minlength=len(evidence))
    hits = np.bincount(which, weights=right, minlength=len(evidence))
    return [
        LabelCount(evidence=one, labels=int(count), right=int(hit))
        for one, count, hit in zip(evidence, labels, hits, strict=True)
        if count
    ]


def _figures(chances: Floats, right: Flags, floor: float | None = None) -> Figures:
    """Return the figures; the floor, which takes long, only where it is not known."""
    labels = right.astype(np.float64)
    known = chance_calibration_error(chances) if floor is None else floor
    return Figures(
        ece=calibration_error(chances, labels) or 0.0, floor=known or 0.0, brier=brier_score(chances, labels) or 0.0
    )
