"""Whether System 2 pays, by kind of question: reasoning only where it gains enough, against reasoning always.

The rule is that of `kernel.learning.gains`. Of each kind, questions are drawn at random and labelled for both systems;
the figures are those of the other questions. System 1 is a model's direct answer, System 2 its answer with reasoning.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from evals.replay.pack import Agent, Floats, Ints, RecordedSet
from evals.replay.stopping import COST_RATIOS
from evals.stats.bootstrap_means import percentile_estimate, resampled_means
from evals.stats.chance import Chance
from kernel.learning.gains import MINIMUM_GAIN, LabelledPair, gains_by_kind
from kernel.statistics.bootstrap import Estimate
from kernel.values import value

# Labels of each kind [count], and how often they are drawn.
LABELS = (20, 50, 100)
DRAWS = 200
# Questions that must be left to report on, in the mean over the draws [count], and kinds that a set must have.
LEAST_LEFT, LEAST_KINDS = 200, 2
# Names of direct answers and of those with reasoning where a file names no model; else the latter have the mark.
DIRECT, WITH_REASONING, REASONED_MARK = "direct", "cot", "+cot"
# Cost of an answer with reasoning, in direct ones, where the length of either is not recorded.
COST_RATIO = COST_RATIOS[1]


@value
class GainByKindRow:
    """System 2 only on the kinds where labels say that it pays, on the questions that are not labelled.

    Attributes:
        set: Name of the file.
        system_one: The agent whose answers are direct.
        system_two: The agent that reasons.
        kinds: Kinds of question [count].
        labels: Labels of each kind [count]; of a kind with fewer questions all are labelled.
        labelled: Questions that are labelled [count].
        left: Questions that are not [count].
        minimum_gain: Gain from which System 2 is taken [-1..1].
        accuracy_share: Share right, over that of System 2 always [>= 0].
        token_share: Tokens, over those of System 2 always [>= 0].
        random_accuracy_share: `accuracy_share` of System 2 on a random part of the questions that costs as much.
        gain_over_random: `accuracy_share` minus it.
        system_one_accuracy_share: `accuracy_share` of System 1 always.
        token_shares: `token_share` by what an answer with reasoning costs in direct ones; they differ only where the
            length of one of the two is not recorded.
    """

    set: str
    system_one: str
    system_two: str
    kinds: int
    labels: int
    labelled: int
    left: int
    minimum_gain: float
    accuracy_share: Estimate
    token_share: Estimate
    random_accuracy_share: Estimate
    gain_over_random: Estimate
    system_one_accuracy_share: Estimate
    token_shares: dict[int, float]


@value
class KindRow:
    """One kind of question, over all questions of a set.

    Attributes:
        set: Name of the file.
        system_two: The agent that reasons.
        kind: The kind.
        questions: Its questions [count].
        system_one_right: Share of them that System 1 answers rightly [0..1].
        system_two_right: Share that System 2 answers rightly [0..1].
        gain: The difference [-1..1].
    """

    set: str
    system_two: str
    kind: str
    questions: int
    system_one_right: float
    system_two_right: float
    gain: Estimate


def gain_by_kind_rows(
    recorded: RecordedSet, kinds: Sequence[str], chance: Chance, draws: int = DRAWS
) -> Sequence[GainByKindRow]:
    """Return the rows of a file; none without two kinds, or without a model that answers both ways.

    Args:
        recorded: The file.
        kinds: Kind of each question; empty: unknown, and the question is left out.
        chance: Chance.
        draws: Draws of labels [count].
    """
    return [
        _row(recorded.name, questions, labels, chance, draws)
        for questions in _questions(recorded, kinds)
        for labels in LABELS
        if len(questions.which) - questions.labelled(labels) >= LEAST_LEFT
    ]


def kind_rows(recorded: RecordedSet, kinds: Sequence[str], chance: Chance) -> Sequence[KindRow]:
    """Return the gain of each kind of a file over all of its questions, the largest first; none as above."""
    rows = []
    for questions in _questions(recorded, kinds):
        for number, name in enumerate(questions.names):
            right = questions.right[:, questions.which == number]
            seen, drawn = right.mean(axis=1), resampled_means(right, chance)
            gain = percentile_estimate(float(seen[1] - seen[0]), drawn[:, 1] - drawn[:, 0], right.shape[1])
            rows.append(
                KindRow(
                    set=recorded.name,
                    system_two=questions.two,
                    kind=name,
                    questions=right.shape[1],
                    system_one_right=round(float(seen[0]), 12),
                    system_two_right=round(float(seen[1]), 12),
                    gain=gain,
                )
            )
    return sorted(rows, key=lambda row: (row.system_two, -(row.gain.value or 0.0), row.kind))


def both_systems(recorded: RecordedSet) -> Iterator[tuple[Agent, Agent]]:
    """Yield the direct answers of each model with those that it gave after reasoning."""
    for two in recorded.agents.values():
        direct = DIRECT if two.name == WITH_REASONING else two.name.replace(REASONED_MARK, "", 1)
        one = recorded.agents.get(direct)
        if one is not None and one is not two and two.right.any():
            yield one, two


@value
class _Questions:
    """The questions of known kind that a model answered both ways.

    Attributes:
        one: The agent whose answers are direct.
        two: The agent that reasons.
        names: The kinds.
        which: Kind of each question, by number.
        right: How right either was [0..1], shape (2, questions).
        characters: Length of the output of either [characters], shape (2, questions).
    """

    one: str
    two: str
    names: tuple[str, ...]
    which: Ints
    right: Floats
    characters: Floats

    def labelled(self, labels: int) -> int:
        """Return the questions that so many labels of each kind are [count]."""
        return int(np.minimum(np.bincount(self.which), labels).sum())


def _questions(recorded: RecordedSet, kinds: Sequence[str]) -> Iterator[_Questions]:
    named = np.array(kinds, dtype=np.str_)
    for systems in both_systems(recorded) if len(kinds) else ():
        one, two = systems
        asked = np.flatnonzero(one.asked & two.asked & (named != ""))
        names, which = np.unique(named[asked], return_inverse=True)
        if len(names) >= LEAST_KINDS:
            yield _Questions(
                one=one.name,
                two=two.name,
                names=tuple(names.tolist()),
                which=which.astype(np.int64),
                right=np.stack([system.right[asked].mean(axis=1) for system in systems]),
                characters=np.stack([system.characters[asked] for system in systems]),
            )


def _row(name: str, questions: _Questions, labels: int, chance: Chance, draws: int) -> GainByKindRow:
    which, right = questions.which, questions.right
    costs = {ratio: _costs(questions, ratio) for ratio in COST_RATIOS}
    left, deliberate = np.zeros(len(which)), np.zeros(len(which))
    for _ in range(draws):
        drawn = drawn_by_kind(which, labels, chance.rng)
        pays = kinds_that_pay(which[drawn], right[:, drawn])
        left += ~drawn
        deliberate += ~drawn & pays[which]
    # A question counts as often as it was left over; the columns are means over the draws.
    parts = np.stack([left - deliberate, deliberate, left]) / draws
    columns = np.stack(
        [
            *((parts[:2] * right).sum(axis=0), parts[2] * right[0], parts[2] * right[1]),
            *(
                column
                for spent in costs.values()
                for column in ((parts[:2] * spent).sum(axis=0), parts[2] * spent[0], parts[2] * spent[1])
            ),
        ]
    )
    seen, resampled = _shares(columns.mean(axis=1)[None]), _shares(resampled_means(columns, chance))
    figures = {
        name: percentile_estimate(float(seen[name][0]), resampled[name], len(which))
        for name in ("accuracy_share", "random_accuracy_share", "gain_over_random", "system_one_accuracy_share")
    }
    tokens = {ratio: f"token_share_{ratio}" for ratio in COST_RATIOS}
    labelled = questions.labelled(labels)
    return GainByKindRow(
        set=name,
        system_one=questions.one,
        system_two=questions.two,
        kinds=len(questions.names),
        labels=labels,
        labelled=labelled,
        left=len(which) - labelled,
        minimum_gain=MINIMUM_GAIN,
        token_share=percentile_estimate(float(seen[tokens[COST_RATIO]][0]), resampled[tokens[COST_RATIO]], len(which)),
        token_shares={ratio: round(float(seen[key][0]), 12) for ratio, key in tokens.items()},
        **figures,
    )


def drawn_by_kind(which: Ints, labels: int, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which questions are drawn: so many of each kind at random, all of a kind that has fewer.

    Example:
        >>> drawn = drawn_by_kind(np.array([0, 0, 0, 1, 1]), 2, np.random.default_rng(0))
        >>> int(drawn[:3].sum()), int(drawn[3:].sum())
        (2, 2)
    """
    order = np.lexsort((rng.random(len(which)), which))
    sizes = np.bincount(which)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    drawn = np.zeros(len(which), dtype=np.bool_)
    drawn[order] = np.arange(len(which)) - starts < labels
    return drawn


def kinds_that_pay(which: Ints, right: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return of each kind whether the labels say System 2, as the product takes them.

    A kind with too few labels gets System 2: the activation, which decides there, is not recorded.

    Args:
        which: Kind of each labelled question, by number.
        right: How right either system was on them [0..1], shape (2, questions).
    """
    pairs = [
        LabelledPair(kind=str(kind), system_one=first, system_two=second)
        for kind, first, second in zip(which.tolist(), *right.tolist(), strict=True)
    ]
    gains = gains_by_kind(pairs)
    found = [gains.of(str(kind)) for kind in range(int(which.max()) + 1)]
    return np.array([gain is None or gain.pays(MINIMUM_GAIN) is not False for gain in found])


def _costs(questions: _Questions, ratio: int) -> Floats:
    """Return what an answer of either system costs, shape (2, questions); only relations matter.

    Characters stand for tokens where they are recorded. Else an answer with reasoning costs `ratio` direct ones.
    """
    one, two = questions.characters
    is_known_one, is_known_two = (bool(np.isfinite(each).all()) for each in (one, two))
    if not is_known_two:
        two = np.full(len(two), ratio * (one.mean() if is_known_one else 1.0))
    if not is_known_one:
        one = np.full(len(one), two.mean() / ratio)
    return np.stack([one, two])


def _shares(columns: Floats) -> dict[str, Floats]:
    """Return the figures of each row of `columns`: what is right by the rule, of System 1, of System 2; costs alike."""
    by_rule, first, second = columns[:, 0], columns[:, 1], columns[:, 2]
    found: dict[str, Floats] = {"accuracy_share": by_rule / second, "system_one_accuracy_share": first / second}
    for place, ratio in enumerate(COST_RATIOS):
        spent, least, most = (columns[:, 3 + 3 * place + at] for at in range(3))
        found[f"token_share_{ratio}"] = spent / most
        if ratio == COST_RATIO:
            part = np.divide(spent - least, most - least, out=np.ones_like(spent), where=most > least)
            found["random_accuracy_share"] = (part * second + (1 - part) * first) / second
    found["gain_over_random"] = found["accuracy_share"] - found["random_accuracy_share"]
    return found
