"""The rule of a cascade is chosen from labelled questions, for a limit on its mean cost or on the share escalated.

Source: ours (papers.md 5.6). Every rule is played on the same questions; of those within the limit the one that is
right most often is chosen. The best of many rules looks better than it is: what it is worth is measured on questions it
was not chosen on.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import ceil, isnan, nan

import numpy as np

from kernel.statistics.bootstrap import Estimate, bootstrap_interval
from kernel.statistics.samples import FOLDS, Array, Indexes, stratified_folds
from kernel.values import value
from kernel.votes.cascade import CascadeEnd, cascade_end
from kernel.votes.votes import VoteRule

# Labelled questions below which no rule is chosen [count]: a share of .9 is then known to about +-.06, and two rules
# that differ on a tenth of the questions to as much.
LEAST_LABELS = 100
# Questions that a rule must escalate, and must not, before its escalation can be compared [count]: the share right
# among 20 is known to about +-.2.
LEAST_ON_A_SIDE = 20
# Share of the questions on which what a rule gives may be unknown; they count as wrong [0..1].
MOST_UNKNOWN = 0.02
# Cheap sources that are compared in all combinations [count].
MOST_COMPARED = 6


@value
class RecordedAnswer:
    """A recorded answer of one source to one question.

    Attributes:
        key: Equal keys are equal answers to the question; None: an invalid one.
        is_right: Whether it is right; None: unknown.
        cost: What it cost [>= 0, one unit for all]; None: unknown.
    """

    key: str | None
    is_right: bool | None = None
    cost: float | None = None


# The answers to one question, by source.
RecordedQuestion = Mapping[str, RecordedAnswer]


@value
class CascadeRule:
    """A cascade rule says which sources are asked, when they suffice, and who is asked where they do not.

    Attributes:
        sources: Cheap sources, in the order in which they are asked; each answers once.
        agree: Equal answers that decide [count, 1..sources].
        escalate: The strong source, which answers where too few agree; empty: the largest group's answer is given.
    """

    sources: tuple[str, ...]
    agree: int
    escalate: str = ""

    @property
    def vote_rule(self) -> VoteRule:
        """Return when the vote of the cheap sources stops."""
        return VoteRule(agree=self.agree, most=len(self.sources))


@value
class CascadeLimit:
    """A cascade limit is what a rule may spend.

    Attributes:
        cost: Mean cost of a question [>= 0, unit of the recorded costs]; None: any.
        share: Share of the questions that is escalated [0..1]; None: any.
    """

    cost: float | None = None
    share: float | None = None


@value
class RuleEvidence:
    """What recorded questions say about one way to answer them; each figure has its bootstrap interval over questions.

    Attributes:
        share_right: Share right [0..1]; questions where this is unknown count as wrong.
        escalated: Share on which the strong source was asked [0..1].
        cost: Mean cost, of the questions where it is known [>= 0].
    """

    share_right: Estimate
    escalated: Estimate
    cost: Estimate


@value
class CascadeChoice:
    """The chosen rule, with its evidence.

    Attributes:
        rule: The rule.
        questions: Labelled questions [count].
        compared: Rules within the limit, of which it is the best [count].
        undetermined: Rules that could not be compared, since the records do not say what they give [count].
        rare: Rules that could not be compared, since they escalate too seldom or nearly always [count].
        evidence: Of the rule on all questions.
        held_out: Of the choice itself, on questions that the rule was not chosen on.
        over_random: Share right minus that of the same votes with as many questions escalated at random; without a
            value where nothing is escalated or the records do not say what they give.
        against_strong: Share right minus that of always asking the strong source; without a value where unknown.
    """

    rule: CascadeRule
    questions: int
    compared: int
    undetermined: int
    rare: int
    evidence: RuleEvidence
    held_out: RuleEvidence
    over_random: Estimate
    against_strong: Estimate


@value
class NoCascadeChoice:
    """No rule can be chosen.

    Attributes:
        reason: Why, in words.
        questions: Labelled questions [count].
        needed: Labelled questions that are needed at least [count]; None where more of them do not help.
    """

    reason: str
    questions: int
    needed: int | None = None


@value
class PlayedRule:
    """What one rule gives on each question, one entry each; NaN where it is unknown.

    Attributes:
        rule: The rule.
        right: Whether its answer is right [0 or 1].
        cost: What it costs [>= 0].
        escalated: Whether the strong source is asked [0 or 1].
        vote_right: Whether the answer of the cheap sources' vote is right [0 or 1].
        strong_right: Whether the strong source's answer is right [0 or 1].
    """

    rule: CascadeRule
    right: Array
    cost: Array
    escalated: Array
    vote_right: Array
    strong_right: Array

    @property
    def is_determined(self) -> bool:
        """Return whether its answers are known on nearly all questions."""
        return float(np.isnan(self.right).mean()) <= MOST_UNKNOWN

    @property
    def has_both_sides(self) -> bool:
        """Return whether it escalates enough questions, and enough not, to compare both."""
        many = int(self.escalated.sum())
        return min(many, len(self.escalated) - many) >= LEAST_ON_A_SIDE


_NOTHING = Estimate(value=None, low=None, high=None, items=0, resamples=0)


def candidate_rules(sources: Sequence[str], strong: str) -> tuple[CascadeRule, ...]:
    """Return the rules that are compared: every choice of cheap sources, in their order.

    Args:
        sources: Cheap sources in the order in which they are asked, at most `MOST_COMPARED`.
        strong: The strong source; empty: no rule escalates.

    Returns:
        For each choice one to all must agree; one alone suffices only where one is asked. Each with and without
        escalation.

    Raises:
        ValueError: For more sources.

    Example:
        >>> [(rule.sources, rule.agree, rule.escalate) for rule in candidate_rules(["a"], "s")]
        [(('a',), 1, ''), (('a',), 1, 's')]
        >>> len(candidate_rules(["a", "b", "c"], ""))
        8
    """
    if len(sources) > MOST_COMPARED:
        raise ValueError(f"there are {len(sources)} cheap sources; compare at most {MOST_COMPARED}")
    return tuple(
        CascadeRule(sources=chosen, agree=agree, escalate=name)
        for size in range(1, len(sources) + 1)
        for chosen in combinations(sources, size)
        for agree in range(min(2, size), size + 1)
        for name in dict.fromkeys(("", strong))
    )


def labels_needed(limit: CascadeLimit) -> int:
    """Return how many labelled questions a choice needs at least [count].

    Source:
        Ours (papers.md 5.6): `LEAST_LABELS`, and as many as hold `LEAST_ON_A_SIDE` escalated ones where their share is
        limited.

    Example:
        >>> [labels_needed(CascadeLimit(share=share)) for share in (0.1, 0.5, None)]
        [200, 100, 100]
    """
    if not limit.share:
        return LEAST_LABELS
    return max(LEAST_LABELS, ceil(round(LEAST_ON_A_SIDE / limit.share, 9)))


def choose_cascade(
    questions: Sequence[RecordedQuestion],
    rules: Sequence[CascadeRule],
    limit: CascadeLimit,
    rng: np.random.Generator,
) -> CascadeChoice | NoCascadeChoice:
    """Return the rule within the limit that is right most often on labelled questions.

    Of equally good rules the one that escalates less is chosen, then the cheaper one, then the earlier one of `rules`.

    Args:
        questions: Labelled questions. None may be left out because of its label or of what was answered: a rule whose
            answer is unknown on more than `MOST_UNKNOWN` of them is not compared.
        rules: Rules, as `candidate_rules` returns them.
        limit: What the rule may spend in the mean.
        rng: Random generator, for folds and resampling.
    """
    count, needed = len(questions), labels_needed(limit)
    if count < needed:
        return NoCascadeChoice(reason="there are too few labelled questions", questions=count, needed=needed)
    played = [played_rule(rule, questions) for rule in rules]
    determined = [one for one in played if one.is_determined]
    fit = [one for one in determined if not one.rule.escalate or one.has_both_sides]
    every = np.arange(count)
    if not fit:
        reason = "the records do not say what a rule other than their own would have given"
        return NoCascadeChoice(reason=reason, questions=count)
    best = best_rule(fit, limit, every)
    if best is None:
        return NoCascadeChoice(reason=_over_limit(fit, limit), questions=count)
    return CascadeChoice(
        rule=best.rule,
        questions=count,
        compared=sum(_is_within(one, limit, every) for one in fit),
        undetermined=len(played) - len(determined),
        rare=len(determined) - len(fit),
        evidence=_evidence([(best, every)], rng),
        held_out=_held_out(fit, limit, best, rng),
        over_random=_compared(best, gain_over_random, rng) if best.rule.escalate else _NOTHING,
        against_strong=_compared(best, lambda right, _, __, strong: float((right - strong).mean()), rng),
    )


def played_rule(rule: CascadeRule, questions: Sequence[RecordedQuestion]) -> PlayedRule:
    """Return what a rule gives on questions whose answers are recorded."""
    rows = np.array([_on_question(rule, question) for question in questions], dtype=np.float64)
    right, cost, escalated, vote_right, strong_right = rows.T
    return PlayedRule(
        rule=rule, right=right, cost=cost, escalated=escalated, vote_right=vote_right, strong_right=strong_right
    )


def _on_question(rule: CascadeRule, question: RecordedQuestion) -> tuple[float, float, float, float, float]:
    """Return right, cost, escalated, and whether the vote and the strong source are right; NaN for unknown."""
    given: list[RecordedAnswer] = []
    for name in rule.sources:
        if name not in question:
            break
        given.append(question[name])
    strong = question.get(rule.escalate)
    strong_right = nan if strong is None else _number(strong.is_right)
    end = _end(_pattern([one.key for one in given]), rule.agree, len(rule.sources))
    if end.is_open:
        return nan, nan, 0.0, nan, strong_right
    vote_right = 0.0 if end.winner is None else _number(given[end.winner].is_right)
    cost = sum(_number(one.cost) for one in given[: end.asked])
    if end.is_decided or not rule.escalate:
        return vote_right, cost, 0.0, vote_right, strong_right
    return strong_right, cost + (nan if strong is None else _number(strong.cost)), 1.0, vote_right, strong_right


@lru_cache(maxsize=4096)
def _end(pattern: tuple[str | None, ...], agree: int, most: int) -> CascadeEnd:
    return cascade_end(pattern, VoteRule(agree=agree, most=most))


def _pattern(keys: Sequence[str | None]) -> tuple[str | None, ...]:
    """Return the keys, each as the place of the first that is equal to it: a rule depends on nothing else."""
    return tuple(None if key is None else str(keys.index(key)) for key in keys)


def _number(known: float | None) -> float:
    return nan if known is None else float(known)


def best_rule(played: Sequence[PlayedRule], limit: CascadeLimit, rows: Indexes) -> PlayedRule | None:
    """Return the rule that is right most often on some of the questions; None where no rule is within the limit.

    Of equally good ones it is that which escalates less, then the cheaper one, then the first.

    Args:
        played: The rules, on all questions.
        limit: What a rule may spend in the mean of the questions `rows`.
        rows: Indexes of the questions.
    """
    within = [one for one in played if _is_within(one, limit, rows)]

    def rank(one: PlayedRule) -> tuple[float, float, float]:
        cost = _mean_cost(one, rows)
        return (-_share_right(one.right[rows]), float(one.escalated[rows].mean()), np.inf if isnan(cost) else cost)

    return min(within, key=rank, default=None)


def _is_within(one: PlayedRule, limit: CascadeLimit, rows: Indexes) -> bool:
    if limit.share is not None and round(float(one.escalated[rows].mean()), 9) > limit.share:
        return False
    return limit.cost is None or round(_mean_cost(one, rows), 12) <= limit.cost  # NaN is not within


def _mean_cost(one: PlayedRule, rows: Indexes) -> float:
    """Return the mean cost; NaN where it is unknown on more than `MOST_UNKNOWN` of the questions."""
    costs = one.cost[rows]
    known = costs[~np.isnan(costs)]
    return float(known.mean()) if len(known) >= (1 - MOST_UNKNOWN) * len(costs) and len(known) else nan


def _share_right(right: Array) -> float:
    return float(np.nan_to_num(right).mean())


def _over_limit(played: Sequence[PlayedRule], limit: CascadeLimit) -> str:
    every = np.arange(len(played[0].right))
    costs = [cost for cost in (_mean_cost(one, every) for one in played) if not isnan(cost)]
    if limit.cost is not None and not costs:
        return "the records do not say what answers cost"
    if limit.cost is not None:
        return f"the cheapest rule costs {min(costs):.6g} in the mean, more than the limit of {limit.cost:g}"
    return f"every rule escalates more than {limit.share:g} of the questions"


def _evidence(parts: Sequence[tuple[PlayedRule, Indexes]], rng: np.random.Generator) -> RuleEvidence:
    """Return the figures of rules on parts of the questions, taken together."""
    right = np.concatenate([np.nan_to_num(one.right)[rows] for one, rows in parts])
    escalated = np.concatenate([one.escalated[rows] for one, rows in parts])
    costs = np.concatenate([one.cost[rows] for one, rows in parts])
    known = costs[~np.isnan(costs)]
    is_known = len(known) >= (1 - MOST_UNKNOWN) * len(costs) and len(known) > 0
    return RuleEvidence(
        share_right=bootstrap_interval(np.mean, right, rng=rng),
        escalated=bootstrap_interval(np.mean, escalated, rng=rng),
        cost=bootstrap_interval(np.mean, known, rng=rng) if is_known else _NOTHING,
    )


def _held_out(
    played: Sequence[PlayedRule], limit: CascadeLimit, best: PlayedRule, rng: np.random.Generator
) -> RuleEvidence:
    """Return what the choice is worth: each fifth of the questions is answered by the rule that the others choose."""
    every = np.arange(len(best.right))
    parts = []
    for fold in stratified_folds(best.escalated.astype(np.int64).tolist(), FOLDS, rng):
        chosen = best_rule(played, limit, np.setdiff1d(every, fold))
        parts.append((best if chosen is None else chosen, fold))
    return _evidence(parts, rng)


Comparison = Callable[[Array, Array, Array, Array], float]


def _compared(one: PlayedRule, difference: Comparison, rng: np.random.Generator) -> Estimate:
    columns = (one.right, one.escalated, one.vote_right, one.strong_right)
    known = ~np.isnan(np.stack(columns)).any(axis=0)
    if known.mean() < 1 - MOST_UNKNOWN:
        return _NOTHING
    return bootstrap_interval(difference, *(column[known] for column in columns), rng=rng)


def gain_over_random(right: Array, escalated: Array, vote_right: Array, strong_right: Array) -> float:
    """Return what escalating these questions gives above escalating as many at random.

    Args:
        right: Whether the cascade is right on each question [0 or 1, shape (n,)].
        escalated: Whether it escalates there [0 or 1, shape (n,)].
        vote_right: Whether the vote of its cheap sources is right [0 or 1, shape (n,)].
        strong_right: Whether the strong source is right [0 or 1, shape (n,)].

    Returns:
        Difference in share right [-1..1].

    Source:
        Ours (papers.md 5.6): mean(right) - [(1 - e) mean(vote right) + e mean(strong right)], with e the share
        escalated.

    Example:
        >>> gain_over_random(*np.array([[1, 1, 0, 1], [1, 0, 0, 0], [0, 1, 0, 1], [1, 1, 0, 1]]))
        0.1875
    """
    share = escalated.mean()
    return float(right.mean() - (1 - share) * vote_right.mean() - share * strong_right.mean())
