"""The probability that the winning answer of a vote is right.

Source: ours (papers.md 5.2). A prior, fitted on recorded answers of other models, is drawn towards the labels of a
deployment: by ridge regression from the first label on, and by a logistic curve (Platt) on top where there are enough
of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log, log2

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from kernel.statistics.recalibration import platt_curve
from kernel.values import value
from kernel.votes.states import ProbabilityState
from kernel.votes.votes import Vote, VoteGroup, VoteMode

Floats = NDArray[np.float64]

# Terms of the log-odds, in the order of the coefficients.
TERMS = ("constant", "agreeing", "share", "log2_models", "more_modes", "draft_agrees", "log_options")
# Observations that the overall share right stands for in the share of a kind [count].
KIND_WEIGHT = 10.0
# Labels from which the logistic curve may be put on top [count], and the parts in which it is tried first [count].
PLATT_LABELS = 300
PLATT_FOLDS = 5
# Probabilities stay this far from 0 and 1.
NEAREST = 1e-6
# Ridge of the common fit and of each model's own [precision]; least variance of a coefficient between models.
WEAK_RIDGE, OWN_RIDGE, LEAST_SPREAD = 0.01, 50.0, 0.001
# Variance of a coefficient of which no model's votes say anything.
UNSEEN_SPREAD = 1.0
# Newton's method ends when no coefficient moves further than this, and after this many steps.
TINY = 1e-9
MOST_STEPS = 50


@value
class VoteEvidence:
    """This evidence is what the votes of one question say about the winning answer.

    Attributes:
        agreeing: Votes for it [count, >= 1].
        valid: Votes with a valid answer [count, >= agreeing].
        models: Distinct models among the agreeing votes [count, >= 1].
        modes: Distinct modes among them [count, >= 1].
        draft_agrees: Whether the draft is one of them.
        options: Answers that the question lists [count]; 0 where the answer is free.
        kind: Kind of the question; empty when it has none.

    Raises:
        ValueError: On construction, for more models or modes than agreeing votes, or more of these than valid ones.
    """

    agreeing: int
    valid: int
    models: int = 1
    modes: int = 1
    draft_agrees: bool = False
    options: int = 0
    kind: str = ""

    def __post_init__(self) -> None:
        if not (1 <= self.models <= self.agreeing and 1 <= self.modes <= self.agreeing <= self.valid):
            raise ValueError(f"models and modes are 1 to agreeing, and agreeing at most valid: {self!r}")


def vote_evidence(
    groups: Sequence[VoteGroup], votes: Sequence[Vote], *, options: int = 0, kind: str = ""
) -> VoteEvidence | None:
    """Return the evidence for the winning answer; None without a valid vote.

    Args:
        groups: Groups of the votes, the winner first.
        votes: The votes.
        options: Answers that the question lists [count]; 0 where the answer is free.
        kind: Kind of the question.
    """
    if not groups:
        return None
    sources = [votes[index].source for index in groups[0].votes]
    return VoteEvidence(
        agreeing=len(sources),
        valid=sum(len(group.votes) for group in groups),
        models=len({source.model for source in sources}),
        modes=len({source.mode for source in sources}),
        draft_agrees=any(source.mode is VoteMode.DRAFT for source in sources),
        options=options,
        kind=kind,
    )


@lru_cache(maxsize=4_096)
def terms(evidence: VoteEvidence) -> Floats:
    """Return the terms of the log-odds, by which the coefficients are multiplied: an array of shape (7,).

    Returns:
        The terms, in the order of `TERMS` [shape (7,); counts, shares and logarithms, as their names say].

    Example:
        >>> terms(VoteEvidence(agreeing=2, valid=4, models=2, options=1, draft_agrees=True)).tolist()
        [1.0, 2.0, 0.5, 1.0, 0.0, 1.0, 0.0]
    """
    found = np.array(
        [
            1.0,
            evidence.agreeing,
            evidence.agreeing / evidence.valid,
            log2(evidence.models),
            evidence.modes - 1,
            float(evidence.draft_agrees),
            log(evidence.options) if evidence.options else 0.0,
        ]
    )
    found.flags.writeable = False
    return found


@value
class Prior:
    """The prior is what other models' recorded answers say before there is a label.

    Attributes:
        coefficients: One for each of `TERMS` [log-odds per unit of the term].
        precision: Inverse covariance of the coefficients between models, 7 rows of 7 [1 / coefficient²]: how firmly
            each is held.
        share_right: Share of right answers among those it was fitted on [0..1].
    """

    coefficients: tuple[float, ...]
    precision: tuple[tuple[float, ...], ...]
    share_right: float


@value
class LabelCount:
    """This value counts the judged answers to which votes gave the same evidence.

    Attributes:
        evidence: The evidence.
        labels: Judged answers [count, >= 1].
        right: Right ones among them [count, 0..labels].

    Raises:
        ValueError: On construction, for no label, or right ones that are not between 0 and the labels.
    """

    evidence: VoteEvidence
    labels: int
    right: int

    def __post_init__(self) -> None:
        if not 0 <= self.right <= self.labels or self.labels < 1:
            raise ValueError(f"right must lie between 0 and labels, which is at least 1: {self!r}")


@value
class ProbabilityModel:
    """A probability model gives the probability that a winning answer is right.

    Attributes:
        coefficients: One for each of `TERMS` [log-odds per unit of the term].
        kinds: Labels and right ones among them, by kind [count].
        share_right: Share right over all labels, or the prior's without any [0..1].
        curve: Slope and intercept of the logistic curve over the log-odds [slope >= 0, intercept in log-odds]; None
            without one.
        labels: Labels that it was fitted on [count].
    """

    coefficients: tuple[float, ...]
    kinds: Mapping[str, tuple[int, int]]
    share_right: float
    curve: tuple[float, float] | None = None
    labels: int = 0

    @property
    def state(self) -> ProbabilityState:
        """Return whether its probabilities follow from the prior alone or from labels too."""
        return ProbabilityState.FITTED if self.labels else ProbabilityState.PRIOR

    def kind_share(self, kind: str) -> float:
        """Return the share of right answers on a kind of question [0..1], drawn towards the overall share.

        Source: ours (papers.md 5.2): (r + 10 p̄) / (n + 10).
        """
        labels, right = self.kinds.get(kind, (0, 0))
        return (right + KIND_WEIGHT * self.share_right) / (labels + KIND_WEIGHT)

    def offset(self, kind: str) -> float:
        """Return what the kind adds to the log-odds.

        Returns:
            Difference of the kind's log-odds from those of all [log-odds].
        """
        return _log_odds(self.kind_share(kind)) - _log_odds(self.share_right)

    def probability(self, evidence: VoteEvidence) -> float:
        """Return the probability that the winning answer is right [0..1].

        Source: ours (papers.md 5.2). With one valid vote there is no agreement to judge by, and it is the share of the
        kind.
        """
        if evidence.valid == 1:
            return self.kind_share(evidence.kind)
        odds = float(terms(evidence) @ np.asarray(self.coefficients)) + self.offset(evidence.kind)
        if self.curve is not None:
            slope, intercept = self.curve
            odds = slope * odds + intercept
        return float(expit(odds))


def probability_model(prior: Prior, counts: Sequence[LabelCount] = ()) -> ProbabilityModel:
    """Return the prior drawn towards labels.

    The coefficients are those of greatest posterior probability: logistic regression with the prior's coefficients and
    precision (ridge regression towards the prior). From `PLATT_LABELS` labels on, a logistic curve over the log-odds is
    added where it lowers the Brier score in cross-validation by more than one standard error; a curve that does not
    would only add noise.

    Args:
        prior: The prior.
        counts: Judged answers by their evidence; those with a single valid vote count in the shares only.

    Source:
        Ours (papers.md 5.2); the precision matrix in place of one strength, and the test of the curve, are ours.
    """
    kinds = _kinds(counts)
    labels, right = sum(one.labels for one in counts), sum(one.right for one in counts)
    share = min(max(right / labels, NEAREST), 1 - NEAREST) if labels else prior.share_right
    start = ProbabilityModel(coefficients=prior.coefficients, kinds=kinds, share_right=share, labels=labels)
    compared = [one for one in counts if one.evidence.valid > 1]
    if not compared:
        return start
    observed = _Observed(
        design=np.array([terms(one.evidence) for one in compared]),
        offsets=np.array([start.offset(one.evidence.kind) for one in compared]),
        labels=np.array([one.labels for one in compared], dtype=np.float64),
        right=np.array([one.right for one in compared], dtype=np.float64),
    )
    fitted = observed.fitted(prior)
    curve = _curve(observed, prior, fitted) if observed.labels.sum() >= PLATT_LABELS else None
    return replace(start, coefficients=tuple(fitted.tolist()), curve=curve)


def ridge_coefficients(
    design: Floats, labels: Floats, prior: Prior, *, offsets: Floats | None = None, counts: Floats | None = None
) -> Floats:
    """Return the coefficients of greatest posterior probability, by Newton's method with step halving.

    Args:
        design: Terms of each observation [shape (n, 7)].
        labels: Share of right ones of each observation [0..1, shape (n,)].
        prior: Coefficients and their precision.
        offsets: What is added to the log-odds of each observation [log-odds, shape (n,)].
        counts: How often each observation occurred [count, shape (n,)]; None: once.

    Returns:
        A coefficient for each term [log-odds per unit of the term, shape (7,)].
    """
    start, precision = np.asarray(prior.coefficients), np.asarray(prior.precision)
    shift = np.zeros(len(design)) if offsets is None else offsets
    weights = np.ones(len(design)) if counts is None else counts

    def loss(at: Floats) -> float:
        odds = design @ at + shift
        pull = (at - start) @ precision @ (at - start) / 2
        return float(weights @ (np.logaddexp(0, odds) - labels * odds) + pull)

    found = start.copy()
    for _ in range(MOST_STEPS):
        chances = expit(design @ found + shift)
        uphill = design.T @ (weights * (chances - labels)) + precision @ (found - start)
        curvature = (design * (weights * chances * (1 - chances))[:, None]).T @ design + precision
        step = np.linalg.solve(curvature, uphill)
        here, part = loss(found), 1.0
        while part > TINY and loss(found - part * step) > here:
            part /= 2
        found = found - part * step
        if float(np.abs(part * step).max()) < TINY:
            break
    return found


def prior_of(models: Sequence[tuple[Floats, Floats]], *, strength: float = 1.0) -> Prior:
    """Return the prior that recorded answers of several models give (empirical Bayes).

    One fit over all models, each with the same weight, gives common coefficients; each model's own are drawn towards
    them by a ridge of `OWN_RIDGE`. The prior is the mean of the models' own coefficients, and the inverse of their
    covariance: a coefficient on which the models agree is held firmly, and one whose term never varies hardly at all.

    Args:
        models: For each model the terms of its votes [shape (n, 7)], and whether the winning answer was right [1 or 0,
            shape (n,)].
        strength: Factor on the precision [> 0].

    Raises:
        ValueError: When there are fewer than two models.
    """
    if len(models) < 2:
        raise ValueError("a prior needs the recorded answers of two models or more")
    patterns = [_patterns(design, right) for design, right in models]
    size = sum(len(right) for _, right in models) / len(models)
    common = ridge_coefficients(
        np.concatenate([design for design, _, _ in patterns]),
        np.concatenate([share for _, share, _ in patterns]),
        _round_prior(np.zeros(len(TERMS)), WEAK_RIDGE),
        counts=np.concatenate([counts * size / counts.sum() for _, _, counts in patterns]),
    )
    towards = _round_prior(common, OWN_RIDGE)
    own = np.array([ridge_coefficients(design, share, towards, counts=counts) for design, share, counts in patterns])
    spread = _spread(own, patterns)
    precision = strength * np.linalg.inv(spread)
    return Prior(
        coefficients=tuple(own.mean(axis=0).tolist()),
        precision=tuple(map(tuple, ((precision + precision.T) / 2).tolist())),
        share_right=float(np.mean([right.mean() for _, right in models])),
    )


def _spread(own: Floats, patterns: Sequence[tuple[Floats, Floats, Floats]]) -> Floats:
    """Return the covariance of the models' own coefficients; a model counts for those terms that vary in its votes."""
    varies = np.array([np.ptp(design, axis=0) > 0 for design, _, _ in patterns])
    varies[:, 0] = True
    share = varies.mean(axis=0)
    scale = 1 / np.sqrt(np.where(share > 0, share, 1.0))
    spread: Floats = np.cov(own, rowvar=False, bias=True) * np.outer(scale, scale) + np.eye(len(TERMS)) * LEAST_SPREAD
    unseen = np.flatnonzero(share == 0)
    spread[unseen, :] = spread[:, unseen] = 0.0
    spread[unseen, unseen] = UNSEEN_SPREAD
    return spread


def _round_prior(coefficients: Floats, precision: float) -> Prior:
    """Return a prior that holds all coefficients alike."""
    rows = (np.eye(len(coefficients)) * precision).tolist()
    return Prior(coefficients=tuple(coefficients.tolist()), precision=tuple(map(tuple, rows)), share_right=0.5)


def _patterns(design: Floats, right: Floats) -> tuple[Floats, Floats, Floats]:
    """Return distinct rows, the share of right ones among each, and how often each occurred."""
    rows, where = np.unique(design, axis=0, return_inverse=True)
    where = where.reshape(-1)
    counts = np.bincount(where, minlength=len(rows)).astype(np.float64)
    return rows, np.bincount(where, weights=right, minlength=len(rows)) / counts, counts


def _kinds(counts: Sequence[LabelCount]) -> Mapping[str, tuple[int, int]]:
    kinds: dict[str, tuple[int, int]] = {}
    for one in counts:
        labels, right = kinds.get(one.evidence.kind, (0, 0))
        kinds[one.evidence.kind] = (labels + one.labels, right + one.right)
    return kinds


def _log_odds(chance: float) -> float:
    return float(logit(min(max(chance, NEAREST), 1 - NEAREST)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Observed:
    """Judged answers by distinct evidence: arrays with one row for each."""

    design: Floats
    offsets: Floats
    labels: Floats
    right: Floats

    def fitted(self, prior: Prior) -> Floats:
        kept = self.labels > 0
        return ridge_coefficients(
            self.design[kept],
            self.right[kept] / self.labels[kept],
            prior,
            offsets=self.offsets[kept],
            counts=self.labels[kept],
        )

    def odds(self, coefficients: Floats) -> Floats:
        return self.design @ coefficients + self.offsets


def _curve(observed: _Observed, prior: Prior, fitted: Floats) -> tuple[float, float] | None:
    """Return the logistic curve on top of the fitted coefficients; None where it does not lower the Brier score."""
    rows = len(observed.labels)
    wrong = observed.labels - observed.right
    repeats = np.concatenate([observed.right, wrong]).astype(np.int64)
    row = np.repeat(np.tile(np.arange(rows), 2), repeats)
    right = np.repeat(np.repeat([1.0, 0.0], rows), repeats)
    part_of = np.arange(len(row)) % PLATT_FOLDS
    gains = np.zeros(len(row))
    for part in range(PLATT_FOLDS):
        kept, left = part_of != part, part_of == part
        own = replace(
            observed,
            labels=np.bincount(row[kept], minlength=rows).astype(np.float64),
            right=np.bincount(row[kept], weights=right[kept], minlength=rows).astype(np.float64),
        )
        odds = observed.odds(own.fitted(prior))[row]
        slope, intercept = platt_curve(expit(odds[kept]), right[kept])
        before, after = expit(odds[left]), expit(slope * odds[left] + intercept)
        gains[left] = (before - right[left]) ** 2 - (after - right[left]) ** 2
    if gains.mean() <= gains.std(ddof=1) / np.sqrt(len(row)):
        return None
    return platt_curve(expit(observed.odds(fitted)[row]), right)
