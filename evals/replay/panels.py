"""Panels: five agents asked one after another until two agree, against all five at once and against one agent.

The rules are those of `kernel.confidence.panels` and `kernel.votes`. Agents have one answer to each question and no
self-assessment, so that the weight of a vote is the competence which an exam of 50 questions shows, the first of each
panel's questions in random order; the figures are those of its other questions.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from evals.replay.calibration import answer_patterns
from evals.replay.pack import INVALID, Agent, Floats, Ints, RecordedSet
from evals.replay.second_opinions import COMPLETE
from evals.stats.bootstrap_means import percentile_estimate, resampled_means
from evals.stats.chance import Chance
from kernel.answers import AnswerType
from kernel.confidence.panels import PanelMember, count_panel, panel_order, panel_stop
from kernel.confidence.voting import Ballot
from kernel.statistics.bootstrap import Estimate
from kernel.values import value
from kernel.votes.votes import Vote, VoteMode, VoteSource, grouped_by_key
from sandbox.client_mathematics import client_mathematics

# Agents of a panel, and panels that are drawn of a set [count].
MEMBERS, PANELS = 5, 100
# Draws after which no further panel is looked for [count].
MOST_DRAWS = 5_000
# Share right from which an agent may be in a panel [0..1], and the width of a panel of alike agents [0..1].
LEAST_RIGHT, ALIKE_WITHIN = 0.3, 0.1
EXAM = 50
ALIKE, UNEQUAL = "alike", "unequal"
LETTERS = "ABCDE"

# Models of one maker or built on one model are relatives: parts of their names, by family.
FAMILIES: Mapping[str, re.Pattern[str]] = {
    "llama": re.compile("llama|athene|wizard|phind|tulu"),
    "mistral": re.compile("mistral|mixtral|mathstral"),
    "openai": re.compile("gpt|^o1-"),
    "google": re.compile("gemini|gemma"),
    "claude": re.compile("claude"),
    "command": re.compile("command-r"),
    "deepseek": re.compile("deepseek|magicoder"),
    "qwen": re.compile("qwen"),
    "yi": re.compile("^yi-"),
    "phi": re.compile("^phi-"),
    "reka": re.compile("reka"),
}


@value
class PanelRow:
    """Panels of one set: the means over its panels.

    Attributes:
        set: Name of the file.
        agents: `alike`, agents within 10 points of share right, or `unequal`, any agents.
        panels: Panels [count].
        accuracy: Share right of the sequential panel [0..1].
        majority_accuracy: Share right of the majority of all five [0..1].
        difference: The share right of the sequential panel minus that of the majority.
        calls_share: Agents that the sequential panel asks, as a share of all five [0..1].
        gain_over_exam: Its accuracy minus that of the agent which the exam would choose.
    """

    set: str
    agents: str
    panels: int
    accuracy: Estimate
    majority_accuracy: float
    difference: Estimate
    calls_share: Estimate
    gain_over_exam: Estimate


def panel_rows(recorded: RecordedSet, chance: Chance, panels: int = PANELS) -> Sequence[PanelRow]:
    """Return the rows of a file; none where it has too few questions, or agents for no panel."""
    rows = []
    for name, width in ((ALIKE, ALIKE_WITHIN), (UNEQUAL, None)):
        drawn = drawn_panels(recorded, chance.rng, width=width, most=panels)
        if drawn and len(recorded) > 2 * EXAM:
            rows.append(_row(recorded, name, drawn, chance))
    return rows


def family(agent: Agent) -> str:
    """Return what an agent's model has in common with its relatives; its own name where it has none.

    Example:
        >>> none, no = np.zeros((0, 1), dtype=int), np.zeros((0, 1), dtype=bool)
        >>> known = {"answers": none, "right": no, "asked": no[:, 0], "characters": none[:, 0]}
        >>> [family(Agent(name=name, **known)) for name in ("Mixtral-8x7B", "mathstral-7B", "Yi-34B", "jamba-1.5")]
        ['mistral', 'mistral', 'yi', 'jamba-1.5']
    """
    name = agent.model.lower()
    return next((one for one, pattern in FAMILIES.items() if pattern.search(name)), name)


def drawn_panels(
    recorded: RecordedSet, rng: np.random.Generator, *, width: float | None, most: int
) -> Sequence[tuple[Agent, ...]]:
    """Return different panels of five agents, each of another family, of those that are 30 % right or more.

    Args:
        recorded: The set.
        rng: Chance.
        width: How much more often the others of a panel may be right than the one drawn first, which is then the
            weakest of them [0..1]; None: any agents.
        most: Panels at most [count].
    """
    able = [agent for agent in recorded.agents.values() if agent.asked.mean() >= COMPLETE]
    shares = {agent.name: float(agent.right[agent.asked].mean()) for agent in able}
    able = [agent for agent in able if shares[agent.name] >= LEAST_RIGHT]
    found: dict[tuple[str, ...], tuple[Agent, ...]] = {}
    for _ in range(MOST_DRAWS if able else 0):
        if len(found) >= most:
            break
        first = able[int(rng.integers(len(able)))]
        others: dict[str, list[Agent]] = {}
        for agent in able:
            above = shares[agent.name] - shares[first.name]
            if family(agent) != family(first) and (width is None or 0 <= above <= width):
                others.setdefault(family(agent), []).append(agent)
        if len(others) < MEMBERS - 1:
            continue
        chosen = rng.choice(sorted(others), MEMBERS - 1, replace=False)
        drawn = [others[name][int(rng.integers(len(others[name])))] for name in chosen.tolist()]
        panel = tuple(sorted((first, *drawn), key=lambda agent: agent.name))
        found.setdefault(tuple(agent.name for agent in panel), panel)
    return list(found.values())


def _row(recorded: RecordedSet, name: str, panels: Sequence[tuple[Agent, ...]], chance: Chance) -> PanelRow:
    sums = np.zeros((4, len(recorded)))
    counts = np.zeros(len(recorded))
    for panel in panels:
        asked = np.logical_and.reduce([agent.asked for agent in panel])
        order = chance.rng.permutation(np.flatnonzero(asked))
        exam, rest = order[:EXAM], order[EXAM:]
        sums[:, rest] += _played(recorded, panel, exam, rest)
        counts[rest] += 1
    columns = sums[:, counts > 0] / counts[counts > 0]
    drawn = resampled_means(columns, chance).T
    right, majority, single, calls = columns.mean(axis=1)
    items = columns.shape[1]
    return PanelRow(
        set=recorded.name,
        agents=name,
        panels=len(panels),
        accuracy=percentile_estimate(float(right), drawn[0], items),
        majority_accuracy=round(float(majority), 12),
        difference=percentile_estimate(float(right - majority), drawn[0] - drawn[1], items),
        calls_share=percentile_estimate(float(calls / MEMBERS), drawn[3] / MEMBERS, items),
        gain_over_exam=percentile_estimate(float(right - single), drawn[0] - drawn[2], items),
    )


def _played(recorded: RecordedSet, panel: Sequence[Agent], exam: Ints, rest: Ints) -> Floats:
    """Return for each question of `rest` whether panel, majority and the exam's choice are right, and the calls."""
    levels = {agent.name: float((agent.right[exam, 0].sum() + 1) / (len(exam) + 2)) for agent in panel}
    members = [PanelMember(agent=name, competence=level, confidence=level) for name, level in levels.items()]
    by_name = {agent.name: agent for agent in panel}
    ordered = [by_name[name] for name in panel_order(members)]
    weights = [levels[agent.name] for agent in ordered]
    numbers = np.stack([agent.answers[:, 0] for agent in ordered], axis=1)
    right = np.stack([agent.right[:, 0] for agent in ordered], axis=1)
    of_rest = np.zeros(len(recorded), dtype=np.bool_)
    of_rest[rest] = True
    found = np.zeros((4, len(recorded)))
    found[2] = right[:, 0]
    for pattern, _, rows in answer_patterns(numbers, recorded.options, of_rest):
        winner, calls = sequential(pattern, weights)
        largest = majority(pattern, weights)
        found[0, rows] = 0 if winner is None else right[rows, winner]
        found[1, rows] = 0 if largest is None else right[rows, largest]
        found[3, rows] = calls
    return found[:, rest]


def sequential(pattern: Sequence[int], weights: Sequence[float]) -> tuple[int | None, int]:
    """Return the place of the first agent that gave the panel's answer, None without a valid one, and the calls.

    Args:
        pattern: Number of each agent's answer in the order in which they are asked; equal numbers are equal answers.
        weights: Weights of their votes.

    Example:
        >>> sequential((0, 1, 0, 0, 0), [0.5] * 5), sequential((0, 1, 2, 3, 4), [0.5, 0.9, 0.4, 0.3, 0.2])
        ((0, 3), (1, 5))
    """
    ballots: list[Ballot] = []
    mathematics = client_mathematics()
    count = count_panel(ballots, AnswerType.CHOICE, mathematics=mathematics)
    for place, (number, weight) in enumerate(zip(pattern, weights, strict=True)):
        answer = None if number == INVALID else LETTERS[number]
        ballots.append(Ballot(agent=str(place), answer=answer, weight=weight))
        count = count_panel(ballots, AnswerType.CHOICE, mathematics=mathematics)
        if panel_stop(count, asked=len(ballots), members=len(pattern)) is not None:
            break
    return (min(map(int, count.winners)) if count.winners else None), len(ballots)


def majority(pattern: Sequence[int], weights: Sequence[float]) -> int | None:
    """Return the place of the first agent that gave the most frequent answer; ties by the sum of their log-odds.

    Example:
        >>> majority((0, 1, 1, 2, 2), [0.5, 0.5, 0.5, 0.6, 0.6]), majority((-1, -1, -1, -1, -1), [0.5] * 5)
        (3, None)
    """
    keys = [None if number == INVALID else str(number) for number in pattern]
    sources = [VoteSource(model=str(at), mode=VoteMode.REASONED, competence=one) for at, one in enumerate(weights)]
    groups = grouped_by_key(keys, [Vote(source=one, answer=key) for one, key in zip(sources, keys, strict=True)])
    return groups[0].votes[0] if groups else None
