"""The choice of a cascade's rule from labels: how far it falls short of the best rule, by the number of labels.

The choice is that of `kernel.votes.cascade_choice`. Labelled questions are drawn at random; the figures are those of
the other questions.
"""

from collections.abc import Sequence

import numpy as np

from evals.replay.cascades import able_agents, small_groups, strong_agents
from evals.replay.pack import INVALID, Agent, RecordedSet
from evals.stats.chance import Chance
from kernel.values import value
from kernel.votes.cascade_choice import (
    CascadeLimit,
    RecordedAnswer,
    RecordedQuestion,
    best_rule,
    candidate_rules,
    played_rule,
)

# Small models that are compared, at most; the first that many are there is taken [count].
SIZES = (4, 3)
# Share of the questions that may be escalated [0..1].
LIMIT = CascadeLimit(share=0.25)
LABELS = (25, 50, 100, 200, 400)
DRAWS = 200
# Questions that must be left to report on [count].
LEAST_LEFT = 200


@value
class CascadeLabelsRow:
    """The rule that so many labels choose, on the other questions: over random draws of the labels.

    Attributes:
        set: Name of the file.
        strong: The strong model.
        small: The small models whose combinations are compared.
        labels: Labelled questions [count].
        shortfall: Share right of the rule that all questions would choose, minus that of the chosen one, in the mean.
        largest_shortfall: The same, larger in one of ten draws.
        optimism: Share right on the labelled questions minus that on the others, in the mean.
        escalated: Share escalated, in the mean [0..1].
        most_escalated: The same, larger in one of ten draws [0..1].
    """

    set: str
    strong: str
    small: tuple[str, ...]
    labels: int
    shortfall: float
    largest_shortfall: float
    optimism: float
    escalated: float
    most_escalated: float


def cascade_labels_rows(recorded: RecordedSet, chance: Chance, draws: int = DRAWS) -> Sequence[CascadeLabelsRow]:
    """Return the rows of a file: of the first cascade by name, with the best strong model; none without one."""
    able = able_agents(recorded)
    group = next((groups[0] for size in SIZES if (groups := small_groups(able, size))), None)
    strong = strong_agents(able, group) if group else []
    if not group or not strong:
        return []
    names = [agent.name for agent in group]
    questions = _questions(recorded, (*group, strong[0]))
    played = [played_rule(rule, questions) for rule in candidate_rules(names, strong[0].name)]
    best = best_rule(played, LIMIT, np.arange(len(questions)))
    rows = []
    for labels in LABELS:
        if best is None or len(questions) - labels < LEAST_LEFT:
            continue
        found = np.zeros((3, draws))
        for draw in range(draws):
            order = chance.rng.permutation(len(questions))
            seen, left = order[:labels], order[labels:]
            chosen = best_rule(played, LIMIT, seen) or best
            right = float(chosen.right[left].mean())
            found[:, draw] = (
                float(best.right[left].mean()) - right,
                float(chosen.right[seen].mean()) - right,
                float(chosen.escalated[left].mean()),
            )
        shortfall, optimism, escalated = found.mean(axis=1).tolist()
        rows.append(
            CascadeLabelsRow(
                set=recorded.name,
                strong=strong[0].name,
                small=tuple(names),
                labels=labels,
                shortfall=round(shortfall, 12),
                largest_shortfall=round(float(np.quantile(found[0], 0.9)), 12),
                optimism=round(optimism, 12),
                escalated=round(escalated, 12),
                most_escalated=round(float(np.quantile(found[2], 0.9)), 12),
            )
        )
    return rows


def _questions(recorded: RecordedSet, agents: Sequence[Agent]) -> Sequence[RecordedQuestion]:
    """Return the questions that all of the agents were asked."""
    asked = np.flatnonzero(np.logical_and.reduce([agent.asked for agent in agents]))
    return [
        {
            agent.name: RecordedAnswer(
                key=None if agent.answers[at, 0] == INVALID else str(agent.answers[at, 0]),
                is_right=bool(agent.right[at, 0]),
            )
            for agent in agents
        }
        for at in asked.tolist()
    ]
