"""The figures behind the paper's tables. Pure."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from evals.harness.arm_figures import Trust, trust
from evals.harness.rows import Row
from evals.mc_mas.questions import Question, Sampled
from evals.mc_mas.votes import Vote, arbitrated, share_right, vote, with_fewer
from evals.stats.chance import Chance
from evals.stats.gains import Spread, mean_interval, paired_gain, spread
from kernel.statistics.bootstrap import Estimate
from kernel.values import value

MEASURES = (
    "novelty", "redundancy", "entropy_reduction", "compression", "semantic_share", "symbolic_share", "untraced_share",
    "solver_invalid_share", "arbiter_invalid_share",
)  # fmt: skip
SINGLE, MAJORITY, FULL, SAME = "one sample", "majority vote", "MC-MAS", "self-consistency"
# Ways to pick fewer arbitration samples, for the curve over K_a.
PICKS = 40

Score = Callable[[Question], float | None]


@value
class Compared:
    """One way to answer beside the full procedure, on the same questions.

    Attributes:
        name: Its name.
        accuracy: Share right.
        by_seed: The same over seeds.
        overconfident: Share of overconfident errors.
        tokens: Generated tokens of a question, in the mean [count].
        generations: Samples of a question, in the mean [count].
        gain: How much more often the full procedure is right; None of itself.
        partial: Whether the recording does not report all tokens, so that there were more.
    """

    name: str
    accuracy: Estimate
    by_seed: Spread
    overconfident: Estimate
    tokens: float
    generations: float
    gain: Estimate | None
    partial: bool = False


@value
class SetFigures:
    """One data set, or all of them.

    Attributes:
        name: Its name.
        questions: Questions, each seed counted [count].
        items: Questions, one with several seeds being one [count].
        best: Number of the solver that is right most often.
        ways: Ways to answer, the best solver first.
        measures: Mean measures where they are defined.
        entropies: Mean entropy of the solvers and of the arbiter [nats].
        invalid: Share of solver and of arbitration samples without an answer [0..1].
        agreed: Share of questions on which all solver samples agree [0..1].
    """

    name: str
    questions: int
    items: int
    best: int
    ways: Sequence[Compared]
    measures: Mapping[str, Estimate]
    entropies: tuple[Estimate, Estimate]
    invalid: tuple[float, float]
    agreed: float


@value
class Fewer:
    """The result of K_a arbitration samples.

    Attributes:
        samples: K_a [count].
        accuracy: Share right.
        entropy: Mean entropy of the arbiter [nats].
        reduction: Entropy of the solvers less that of the arbiter, where both are defined, in the mean [nats].
        overconfident: Overconfident errors of all questions, in the mean over picks and seeds [count].
        generations: Samples of a question, critiques counted, in the mean [count].
    """

    samples: int
    accuracy: Estimate
    entropy: float | None
    reduction: Estimate
    overconfident: float
    generations: float


@value
class Figures:
    """The figures that the report shows.

    Attributes:
        sets: Each data set, and all of them together last.
        curve: What fewer arbitration samples give, over all sets.
        trust: How far the arbiter's confidence can be trusted.
        questions: Questions, one with several seeds being one [count].
        seeds: Seeds [count].
        undecided: Questions, each seed counted, with an answer that no rule can judge [count].
    """

    sets: Sequence[SetFigures]
    curve: Sequence[Fewer]
    trust: Trust
    questions: int
    seeds: int
    undecided: int


def figures(questions: Sequence[Question], control: Sequence[Row], chance: Chance) -> Figures:
    """The figures of recorded questions.

    Args:
        questions: The questions.
        control: Rows of self-consistency on the same items; empty where it was not sampled.
        chance: For all resampling.
    """
    names = list(dict.fromkeys(question.item.dataset for question in questions))
    sets = [_set(name, [q for q in questions if q.item.dataset == name], control, chance) for name in names]
    whole = [_set("all", questions, control, chance)] if len(names) > 1 else []
    votes = [(question, arbitrated(question, question.arbiter)) for question in questions]
    return Figures(
        sets=[*sets, *whole],
        curve=curve(questions, chance),
        trust=trust([(found.confidence, found.right > 0.5) for _, found in votes]),
        questions=len({question.item.id for question in questions}),
        seeds=_seeds(questions),
        undecided=sum(question.undecided for question in questions),
    )


def curve(questions: Sequence[Question], chance: Chance) -> Sequence[Fewer]:
    """Return what fewer arbitration samples give, up to all that were recorded.

    Source:
        MC-MAS Eq. 9 and Table 6 (papers.md 2.4).
    """
    most = max((len(question.arbiter) for question in questions), default=0)
    sizes = [size for size in (1, 5, 10, 25) if size < most] + [most]
    return [_fewer(questions, size, chance) for size in sizes if size]


def best_solver(questions: Sequence[Question]) -> int:
    """Number of the solver whose own vote is right most often; of equal ones the first."""
    count = min((len(question.solvers) for question in questions), default=0)
    rights = [sum(_solver(number)(question).right for question in questions) for number in range(count)]
    return max(range(count), key=lambda number: rights[number]) if count else 0


def _set(name: str, questions: Sequence[Question], control: Sequence[Row], chance: Chance) -> SetFigures:
    best = best_solver(questions)
    full = _whole
    ways = [
        _compared(f"solver {best + 1}", questions, _solver(best), chance, samples=lambda q: q.solvers[best]),
        _compared(MAJORITY, questions, lambda q: vote(q, q.solved), chance, samples=lambda q: q.solved),
        _compared(FULL, questions, full, chance, samples=lambda q: (*q.solved, *q.arbiter)),
    ]
    return SetFigures(
        name=name,
        questions=len(questions),
        items=len({question.item.id for question in questions}),
        best=best,
        ways=[_alone(questions, chance), *ways, *_same_generations(questions, control, chance)],
        measures={each: _measure(questions, each, chance) for each in MEASURES},
        entropies=(
            mean_interval(_per_item(questions, lambda q: vote(q, q.solved).entropy), chance),
            mean_interval(_per_item(questions, lambda q: vote(q, q.arbiter).entropy), chance),
        ),
        invalid=(_invalid([q.solved for q in questions]), _invalid([q.arbiter for q in questions])),
        agreed=float(np.mean([vote(q, q.solved).entropy == 0 for q in questions])),
    )


def _whole(question: Question) -> Vote:
    return arbitrated(question, question.arbiter)


def _solver(number: int) -> Callable[[Question], Vote]:
    return lambda question: vote(question, question.solvers[number])


def _compared(
    name: str,
    questions: Sequence[Question],
    elect: Callable[[Question], Vote],
    chance: Chance,
    *,
    samples: Callable[[Question], Sequence[Sampled]],
) -> Compared:
    found = {id(question): elect(question) for question in questions}
    right = _per_item(questions, lambda q: found[id(q)].right)
    whole = name == FULL
    return Compared(
        name=name,
        accuracy=mean_interval(right, chance),
        by_seed=_over_seeds(questions, lambda q: found[id(q)].right),
        overconfident=mean_interval(_per_item(questions, lambda q: found[id(q)].overconfident), chance),
        tokens=float(np.mean([q.tokens if whole else _tokens(samples(q)) for q in questions])),
        generations=float(np.mean([len(samples(q)) + whole * q.critiques for q in questions])),
        gain=None if whole else paired_gain(right, _per_item(questions, lambda q: _whole(q).right), chance),
        partial=whole and any(q.critique_tokens is None for q in questions),
    )


def _alone(questions: Sequence[Question], chance: Chance) -> Compared:
    """One sample of a solver: what a single-pass answer is worth."""
    right = _per_item(questions, lambda q: share_right(q, q.solved))
    tokens = [_tokens(q.solved) / max(1, len(q.solved)) for q in questions]
    return Compared(
        name=SINGLE,
        accuracy=mean_interval(right, chance),
        by_seed=_over_seeds(questions, lambda q: share_right(q, q.solved)),
        overconfident=mean_interval([], chance),
        tokens=float(np.mean(tokens)),
        generations=1.0,
        gain=paired_gain(right, _per_item(questions, lambda q: _whole(q).right), chance),
    )


def _same_generations(questions: Sequence[Question], control: Sequence[Row], chance: Chance) -> Sequence[Compared]:
    """Self-consistency with as many generations, of each model that was sampled for these questions."""
    arms = dict.fromkeys(row.arm for row in control)
    each = [_same(name, questions, [row for row in control if row.arm == name], chance) for name in arms]
    return [found for found in each if found is not None]


def _same(name: str, questions: Sequence[Question], control: Sequence[Row], chance: Chance) -> Compared | None:
    rows = {(row.item.id, row.seed): row for row in control}
    both = [question for question in questions if (question.item.id, question.seed) in rows]
    if not both:
        return None
    row_of = {id(question): rows[question.item.id, question.seed] for question in both}
    right = _per_item(both, lambda q: float(row_of[id(q)].right))
    sure = _per_item(both, lambda q: float(not row_of[id(q)].right and (row_of[id(q)].said.confidence or 0) > 0.7))
    spent = [row_of[id(question)].said.spent for question in both]
    return Compared(
        name=name,
        accuracy=mean_interval(right, chance),
        by_seed=_over_seeds(both, lambda q: float(row_of[id(q)].right)),
        overconfident=mean_interval(sure, chance),
        tokens=float(np.mean([each.completion_tokens for each in spent])),
        generations=float(np.mean([each.generations for each in spent])),
        gain=paired_gain(right, _per_item(both, lambda q: _whole(q).right), chance),
    )


def _fewer(questions: Sequence[Question], count: int, chance: Chance) -> Fewer:
    found = {id(q): with_fewer(q, count, chance.rng, PICKS) for q in questions}
    known = [each.entropy for each in found.values() if each.entropy is not None]
    sizes = [len(q.solved) + q.critiques + min(count, len(q.arbiter)) for q in questions]
    return Fewer(
        samples=count,
        accuracy=mean_interval(_per_item(questions, lambda q: found[id(q)].right), chance),
        entropy=float(np.mean(known)) if known else None,
        reduction=mean_interval(_per_item(questions, lambda q: _reduced(q, found[id(q)].entropy)), chance),
        overconfident=sum(each.overconfident for each in found.values()) / _seeds(questions),
        generations=float(np.mean(sizes)),
    )


def _seeds(questions: Sequence[Question]) -> int:
    return len({question.seed for question in questions})


def _tokens(samples: Sequence[Sampled]) -> int:
    return sum(sample.tokens for sample in samples)


def _per_item(questions: Sequence[Question], score: Score) -> list[float]:
    """Mean score of each item over the seeds that have one, in the order of the items."""
    return list(means_by_item([(question.item.id, score(question)) for question in questions]).values())


def means_by_item(scored: Sequence[tuple[str, float | None]]) -> Mapping[str, float]:
    """Mean score of each item over its seeds; without those where it is not defined.

    Example:
        >>> means_by_item([("a", 0.0), ("b", 0.5), ("a", 1.0), ("b", None), ("c", None)])
        {'a': 0.5, 'b': 0.5}
    """
    scores: dict[str, list[float]] = {}
    for item, score in scored:
        if score is not None:
            scores.setdefault(item, []).append(score)
    return {item: sum(each) / len(each) for item, each in scores.items()}


def _over_seeds(questions: Sequence[Question], score: Callable[[Question], float]) -> Spread:
    seeds = dict.fromkeys(question.seed for question in questions)
    return spread([float(np.mean([score(q) for q in questions if q.seed == seed])) for seed in seeds])


def _measure(questions: Sequence[Question], name: str, chance: Chance) -> Estimate:
    return mean_interval(_per_item(questions, lambda question: _told(question, name)), chance)


def _told(question: Question, name: str) -> float | None:
    """A measure as the arbiter reported it; where it reported none, what can be counted from the samples alone."""
    if question.measures or name not in _COUNTED:
        level: float | None = question.measures.get(name)
        return level
    return _COUNTED[name](question)


def _entropy_reduction(question: Question) -> float | None:
    return _reduced(question, vote(question, question.arbiter).entropy)


def _reduced(question: Question, after: float | None) -> float | None:
    before = vote(question, question.solved).entropy
    return None if before is None or after is None else before - after


def _compression(question: Question) -> float | None:
    before, reduction = vote(question, question.solved).entropy, _entropy_reduction(question)
    return None if not before or reduction is None else reduction / before


def _invalid(samples: Sequence[Sequence[Sampled]]) -> float:
    each = [sample.answer is None for some in samples for sample in some]
    return sum(each) / len(each) if each else 0.0


_COUNTED: Mapping[str, Callable[[Question], float | None]] = {
    "entropy_reduction": _entropy_reduction,
    "compression": _compression,
    "solver_invalid_share": lambda question: _invalid([question.solved]),
    "arbiter_invalid_share": lambda question: _invalid([question.arbiter]),
}
