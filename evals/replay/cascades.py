"""Cascades: three or four small models answer, and a strong one only where too few of them agree.

The rule is that of `kernel.votes.cascade`. Which models are small is read from their names; every three, or four, of
different families are a cascade, so that nothing is chosen by its result. The strong model is the best of its family,
for each of the three families whose best are right most often.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations, permutations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evals.replay.pack import INVALID, Agent, Floats, RecordedSet
from evals.replay.panels import LEAST_RIGHT, family
from evals.replay.second_opinions import COMPLETE
from evals.replay.stopping import pattern_of
from evals.stats.bootstrap_means import percentile_estimate, resampled_means
from evals.stats.chance import Chance
from kernel.statistics.bootstrap import Estimate
from kernel.values import value
from kernel.votes.cascade import CascadeEnd, cascade_end
from kernel.votes.votes import VoteRule

# Parameters of a small model [billions].
LEAST_SIZE, MOST_SIZE = 7.0, 9.0
# Families whose best model is the strong one [count].
STRONG = 3
# A strong model is at least so much more often right than the best small one [0..1].
LEAST_AHEAD = 0.05
RULES = tuple(VoteRule(agree=agree, most=most) for agree, most in ((2, 3), (3, 3), (3, 4)))

_SIZE = re.compile(r"(?<![\dx.])(\d+(?:\.\d+)?)b(?![a-z])")


@value
class CascadeRow:
    """One rule and one strong model on one set: the means over all cascades of so many small models.

    Attributes:
        set: Name of the file.
        rule: How many of the small models must agree, as `2 of 3`.
        strong: The strong model.
        cascades: Cascades of three small models [count].
        small: The small models that are in one.
        strong_accuracy: Share right of the strong model alone [0..1].
        accuracy: Share right of the cascades [0..1].
        accuracy_share: Accuracy over the strong model's.
        least_share, largest_share: The same for the worst and the best cascade [>= 0].
        strong_share: Share of the questions on which the strong model is asked [0..1].
        small_calls: Small models asked for each question, the mean over all orders of asking [count].
        gain_over_random: Accuracy minus that of the same votes with as many questions escalated at random.
        gain_over_random_alone: Accuracy minus that of one small model (the mean of its own) with as many questions sent
            to the strong one at random.
        pays_from: Price of a strong answer, in small ones, from which the cascade is cheaper than the strong model
            alone [>= 0]; None where it never is.
    """

    set: str
    rule: str
    strong: str
    cascades: int
    small: tuple[str, ...]
    strong_accuracy: float
    accuracy: Estimate
    accuracy_share: Estimate
    least_share: float
    largest_share: float
    strong_share: Estimate
    small_calls: Estimate
    gain_over_random: Estimate
    gain_over_random_alone: Estimate
    pays_from: float | None


class _Voted(NamedTuple):
    """What the small models of a cascade give on each question; arrays of shape (items,)."""

    calls: Floats
    escalated: Floats
    vote_right: Floats
    alone_right: Floats


def cascade_rows(recorded: RecordedSet, chance: Chance) -> Sequence[CascadeRow]:
    """Return the rows of a file; none where it has no three small models, or none that is much stronger."""
    able = able_agents(recorded)
    rows: list[CascadeRow] = []
    for rule in RULES:
        groups = small_groups(able, rule.most)
        small = {agent.name: agent for group in groups for agent in group}
        strong = strong_agents(able, list(small.values())) if groups else []
        asked = np.logical_and.reduce([agent.asked for agent in (*small.values(), *strong)])
        voted = [_voted(group, rule, asked) for group in groups] if strong else []
        rows += [
            CascadeRow(
                set=recorded.name,
                rule=f"{rule.agree} of {rule.most}",
                strong=agent.name,
                small=tuple(sorted(small)),
                **_measured(voted, agent.right[asked, 0].astype(np.float64), chance),
            )
            for agent in strong
        ]
    return rows


def able_agents(recorded: RecordedSet) -> Sequence[Agent]:
    """Return one agent for each model that was asked nearly all questions and is 30 % right or more.

    Of several settings of a model it is the first by name.
    """
    found: dict[str, Agent] = {}
    for name in sorted(recorded.agents):
        agent = recorded.agents[name]
        if agent.asked.mean() >= COMPLETE and share_right(agent) >= LEAST_RIGHT:
            found.setdefault(agent.model, agent)
    return list(found.values())


def billions(model: str) -> float | None:
    """Return how many parameters a model has, as its name states [billions]; None where it does not.

    Mixtures of experts, as 8x7B, are larger than the number before the B says: of them nothing is said.

    Example:
        >>> [billions(name) for name in ("gemma-2-9b-it", "Qwen2.5-0.5B", "Mixtral-8x7B", "gpt-4o", "Yi-1.5-9B-Chat")]
        [9.0, 0.5, None, None, 9.0]
    """
    found = _SIZE.search(model.lower())
    return float(found[1]) if found else None


def small_groups(able: Sequence[Agent], size: int) -> Sequence[tuple[Agent, ...]]:
    """Return every `size` agents of 7 to 9 billion parameters that are of different families."""
    small = [agent for agent in able if LEAST_SIZE <= (billions(agent.model) or 0.0) <= MOST_SIZE]
    return [group for group in combinations(small, size) if len({family(agent) for agent in group}) == size]


def strong_agents(able: Sequence[Agent], small: Sequence[Agent]) -> Sequence[Agent]:
    """Return the best agent of each of the three families whose best are right most often, if ahead of the small."""
    best: dict[str, Agent] = {}
    for agent in sorted(able, key=lambda agent: (-share_right(agent), agent.name)):
        best.setdefault(family(agent), agent)
    least = max(share_right(agent) for agent in small) + LEAST_AHEAD
    return [agent for agent in list(best.values())[:STRONG] if share_right(agent) >= least]


def share_right(agent: Agent) -> float:
    """Return the share of an agent's answers that are right [0..1]."""
    return float(agent.right[agent.asked].mean())


@cache
def _end(pattern: tuple[int, ...], rule: VoteRule) -> CascadeEnd:
    return cascade_end([None if number == INVALID else str(number) for number in pattern], rule)


def _voted(group: Sequence[Agent], rule: VoteRule, asked: npt.NDArray[np.bool_]) -> _Voted:
    """Return what small models give, the mean over all orders in which they can be asked."""
    items = int(asked.sum())
    calls, escalated, vote_right = np.zeros(items), np.zeros(items), np.zeros(items)
    orders = list(permutations(group))
    for order in orders:
        answers = np.stack([agent.answers[asked, 0] for agent in order], axis=1)
        right = np.stack([agent.right[asked, 0] for agent in order], axis=1)
        for at, numbers in enumerate(answers.tolist()):
            end = _end(pattern_of(numbers), rule)
            calls[at] += end.asked
            escalated[at] += not end.is_decided
            vote_right[at] += 0 if end.winner is None else right[at, end.winner]
    alone = np.mean([agent.right[asked, 0] for agent in group], axis=0)
    return _Voted(calls / len(orders), escalated / len(orders), vote_right / len(orders), alone)


def _measured(voted: Sequence[_Voted], strong: Floats, chance: Chance) -> Mapping[str, Any]:
    """Return the figures of a row, by the name of its field; `strong` says where the strong model is right."""
    calls, escalated, vote_right, alone = (np.stack(column) for column in zip(*voted, strict=True))
    given = vote_right + escalated * (strong - vote_right)
    columns = np.concatenate([given, escalated, vote_right, alone, calls, strong[None]])
    drawn = _figures(resampled_means(columns, chance), len(voted))
    seen = _figures(columns.mean(axis=1)[None], len(voted))
    shares = given.mean(axis=1) / strong.mean()
    left = 1.0 - float(escalated.mean())
    return {
        "cascades": len(voted),
        "strong_accuracy": round(float(strong.mean()), 12),
        "least_share": round(float(shares.min()), 12),
        "largest_share": round(float(shares.max()), 12),
        "pays_from": round(float(calls.mean()) / left, 12) if left > 0 else None,
        **{
            field: percentile_estimate(float(getattr(seen, field)[0]), getattr(drawn, field), columns.shape[1])
            for field in _Figures._fields
        },
    }


class _Figures(NamedTuple):
    """The figures of each resample, arrays of shape (draws,)."""

    accuracy: Floats
    accuracy_share: Floats
    strong_share: Floats
    small_calls: Floats
    gain_over_random: Floats
    gain_over_random_alone: Floats


def _figures(means: Floats, count: int) -> _Figures:
    """Return the figures, means over the cascades, of the means over questions, shape (draws, 5 * count + 1)."""
    given, escalated, vote_right, alone, calls = (means[:, count * at : count * (at + 1)] for at in range(5))
    strong = means[:, -1:]

    def over(first: Floats) -> Floats:
        gains: Floats = (given - (1 - escalated) * first - escalated * strong).mean(axis=1)
        return gains

    return _Figures(
        accuracy=given.mean(axis=1),
        accuracy_share=given.mean(axis=1) / strong[:, 0],
        strong_share=escalated.mean(axis=1),
        small_calls=calls.mean(axis=1),
        gain_over_random=over(vote_right),
        gain_over_random_alone=over(alone),
    )
