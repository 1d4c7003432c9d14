"""Votes over recorded samples, by the arbiter's own rules. Pure.

Source: MC-MAS Eq. 2, 5 and 6 (papers.md 2.1). Invalid samples are dropped; of equally frequent answers the one with
more solver samples wins, then the first in canonical order; without a valid arbitration sample the solvers' vote is the
answer.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from evals.mc_mas.questions import Question, Sampled
from kernel.answers import entropy
from kernel.arbitration.consensus import ranked_answers
from kernel.arbitration.defaults import OVERCONFIDENT
from kernel.thresholds import exceeds
from kernel.values import value


@value
class Vote:
    """The result of a vote over samples.

    Attributes:
        answer: The answer; None without a valid sample.
        confidence: Its share of the valid samples [0..1]; None without any.
        entropy: Entropy of the shares [nats]; None without any.
        right: Whether the answer is right [0 or 1].
        overconfident: Whether it is wrong with a confidence above `OVERCONFIDENT` [0 or 1].
    """

    answer: str | None
    confidence: float | None
    entropy: float | None
    right: float
    overconfident: float


def vote(question: Question, samples: Sequence[Sampled]) -> Vote:
    """The result of a vote over `samples`; the solvers' samples break ties.

    Args:
        question: The question.
        samples: Some of its samples; without a valid one among them nothing is elected.
    """
    counts = Counter(sample.answer for sample in samples if sample.answer is not None)
    if not counts:
        return Vote(answer=None, confidence=None, entropy=None, right=0.0, overconfident=0.0)
    behind = Counter(sample.answer for sample in question.solved if sample.answer is not None)
    answer = ranked_answers(counts, behind)[0]
    confidence = counts[answer] / counts.total()
    right = answer in question.right
    return Vote(
        answer=answer,
        confidence=confidence,
        entropy=entropy(list(counts.values())),
        right=float(right),
        overconfident=float(not right and exceeds(confidence, OVERCONFIDENT)),
    )


def arbitrated(question: Question, samples: Sequence[Sampled]) -> Vote:
    """The vote over the arbiter's `samples`; the solvers' vote where none of them is valid."""
    found = vote(question, samples)
    return found if found.answer is not None else vote(question, question.solved)


def share_right(question: Question, samples: Sequence[Sampled]) -> float:
    """Share of `samples` that are right: what one of them alone is worth [0..1]; an invalid one is wrong."""
    return sum(sample.answer in question.right for sample in samples) / len(samples) if samples else 0.0


@value
class Fewer:
    """The result of fewer arbitration samples, in the mean over ways to pick them.

    Attributes:
        right: Probability that the answer is right [0..1].
        entropy: Mean entropy where there is one [nats]; None where there never is.
        overconfident: Probability of an overconfident error [0..1].
    """

    right: float
    entropy: float | None
    overconfident: float


def with_fewer(question: Question, count: int, rng: np.random.Generator, draws: int) -> Fewer:
    """Return what `count` of the arbitration samples would have given.

    Args:
        question: The question.
        count: Samples that are drawn [count]; all of them give the recorded outcome.
        rng: Chance.
        draws: Ways to pick them [count]; a single one is picked in every way that there is.

    Source:
        MC-MAS Table 6 (papers.md 2.4); the mean over ways to pick samples is ours, the paper draws anew.
    """
    every = question.arbiter
    orders = _every_order(len(every), count) or _orders(len(every), count, rng, draws)
    parts = [[every[place] for place in order] for order in orders]
    picked = [arbitrated(question, part) for part in parts]
    known = [level for part in parts if (level := vote(question, part).entropy) is not None]
    return Fewer(
        right=sum(each.right for each in picked) / len(picked),
        entropy=sum(known) / len(known) if known else None,
        overconfident=sum(each.overconfident for each in picked) / len(picked),
    )


def _every_order(size: int, count: int) -> Sequence[Sequence[int]]:
    """All ways to pick `count` samples where they are few: all of them, or one; else nothing."""
    if count >= size:
        return [range(size)]
    return [[place] for place in range(size)] if count == 1 else []


def _orders(size: int, count: int, rng: np.random.Generator, draws: int) -> Sequence[Sequence[int]]:
    return [rng.choice(size, size=count, replace=False).tolist() for _ in range(draws)]
