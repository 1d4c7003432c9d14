"""Weights and threshold of the activation that decisions speak for, and what speaks for them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import yaml

from chassis.errors import ConfigurationInvalid
from cli.calibration.recorded_decisions import TERMS, Case, Run
from configuration.routing import read_routing
from kernel.statistics.bootstrap import Estimate, bootstrap_difference
from kernel.statistics.discrimination import Discrimination, auroc
from kernel.statistics.intervals import wilson
from kernel.statistics.samples import Array, Flags
from kernel.statistics.weighing import (
    FOLDS,
    ShareThreshold,
    Weights,
    fitted_weights,
    held_out_means,
    threshold_for_share,
    weighted_means,
)
from kernel.thresholds import DECIMALS
from kernel.values import value

PAPER_WEIGHTS = (0.30, 0.25, 0.25, 0.20)
PAPER_THRESHOLD = 0.45
SYSTEM_TWO = "SYSTEM_TWO"


@value
class Choice:
    """How the system is chosen.

    Attributes:
        weights: Of the activation, in the order of its terms [>= 0, sum 1].
        threshold: System 2 if and only if the activation reaches it [0..1].
        undetermined: System for a state of which too little is known.
    """

    weights: Weights = PAPER_WEIGHTS
    threshold: float = PAPER_THRESHOLD
    undetermined: str = SYSTEM_TWO


@value
class Gain:
    """How well the activation tells System 1's wrong answers from its right ones.

    Attributes:
        before: With the weights so far.
        after: With fitted weights, each answer by weights that were fitted without it; None without a fit.
        difference: The gain, with its paired interval; None without a fit.
        fitted: Weights fitted to all answers; None without a fit.
    """

    before: Discrimination
    after: Discrimination | None = None
    difference: Estimate | None = None
    fitted: Weights | None = None

    @property
    def shown(self) -> bool:
        """Whether there is a gain: the interval lies above 0."""
        return self.difference is not None and self.difference.low is not None and self.difference.low > 0


@value
class Calibrated:
    """What is chosen, and what speaks for it.

    Attributes:
        choice: What is chosen.
        decisions: Decisions looked at [count].
        undetermined: Those of which too little is known for an activation [count].
        share: Those that go to System 2.
        gain: What the weights are worth.
    """

    choice: Choice
    decisions: int
    undetermined: int
    share: ShareThreshold
    gain: Gain


def calibrated(
    cases: Sequence[Case], old: Choice, *, share: float | None, fit: bool, rng: np.random.Generator
) -> Calibrated:
    """Weights and threshold for decisions like these.

    Args:
        cases: Decisions.
        old: How the system is chosen so far.
        share: System 2 share that is wanted [0..1]; None for the one that `old` gives.
        fit: Whether the weights are fitted; else they stay.
        rng: Chance, for folds and resampling.

    Raises:
        ConfigurationInvalid: When the decisions do not suffice.
    """
    if not cases:
        raise ConfigurationInvalid("there is no decision with a measured state to learn from")
    levels = np.array([case.levels for case in cases], dtype=np.float64)
    gain = _gain(cases, levels, old.weights, fit=fit, rng=rng)
    weights = gain.fitted if gain.fitted is not None and gain.shown else old.weights
    chosen = _share_of(weighted_means(levels, old.weights), old)
    if share is not None or weights != old.weights:
        chosen = _threshold(weighted_means(levels, weights), old, chosen.share if share is None else share)
    return Calibrated(
        choice=Choice(weights=weights, threshold=chosen.threshold, undetermined=old.undetermined),
        decisions=len(cases),
        undetermined=int(np.isnan(weighted_means(levels, weights)).sum()),
        share=chosen,
        gain=gain,
    )


def routing_file(made: Calibrated, version: str = "") -> str:
    """What is chosen, as a file that the router reads."""
    content: dict[str, Any] = {
        "weights": dict(zip(TERMS, made.choice.weights, strict=True)),
        "threshold": made.choice.threshold,
        "undetermined": made.choice.undetermined,
    }
    digest = sha256(orjson.dumps(content)).hexdigest()[:8]
    about = "".join(f"# {line}\n" for line in _facts(made))
    return about + yaml.safe_dump({"version": version or f"calibrated-{digest}", **content}, sort_keys=False)


def _gain(cases: Sequence[Case], levels: Array, old: Weights, *, fit: bool, rng: np.random.Generator) -> Gain:
    """What the old and, if they are fitted, new weights are worth."""
    judged = np.array([case.wrong is not None for case in cases])
    wrong = np.array([bool(case.wrong) for case in cases])[judged]
    before = weighted_means(levels[judged], old)
    if not fit:
        return Gain(before=_told_apart(before, wrong))
    if min(wrong.sum(), (~wrong).sum()) < FOLDS:
        raise ConfigurationInvalid(
            f"{int(wrong.sum())} wrong and {int((~wrong).sum())} right answers of System 1 are too few to fit weights "
            f"to; at least {FOLDS} of each are needed, and some hundred for a gain to show"
        )
    after = held_out_means(levels[judged], wrong, old, rng)
    both = ~np.isnan(before) & ~np.isnan(after)
    difference = bootstrap_difference(_area, (before[both], wrong[both]), (after[both], wrong[both]), rng=rng)
    return Gain(
        before=_told_apart(before, wrong),
        after=_told_apart(after, wrong),
        difference=difference,
        fitted=fitted_weights(levels[judged], wrong, old),
    )


def _told_apart(means: Array, wrong: Flags) -> Discrimination:
    known = ~np.isnan(means)
    return auroc(means[known], wrong[known])


def _area(means: Array, wrong: Flags) -> float | None:
    return auroc(means, wrong).auroc


def _share_of(means: Array, old: Choice) -> ShareThreshold:
    """The threshold so far, and what it does."""
    passing = np.round(np.nan_to_num(means), DECIMALS) >= round(old.threshold, DECIMALS)
    to_two = np.where(np.isnan(means), old.undetermined == SYSTEM_TWO, passing)
    return ShareThreshold(threshold=old.threshold, passing=int(to_two.sum()), total=len(means))


def _threshold(means: Array, old: Choice, share: float) -> ShareThreshold:
    known = means[~np.isnan(means)]
    unknown = len(means) - len(known)
    passing = unknown if old.undetermined == SYSTEM_TWO else 0
    return threshold_for_share(known, share, passing=passing, failing=unknown - passing)


def choice_in_force(routing: Path | None, newest: Run | None, undetermined: str = SYSTEM_TWO) -> Choice:
    """The choice of a file, else that of the newest run, else the paper's.

    Args:
        routing: Routing file that is in force; None: there is none, or it is not known.
        newest: The newest run of the router.
        undetermined: The router's system for a state of which too little is known.
    """
    if routing is not None:
        stated = read_routing(routing)
        weights = PAPER_WEIGHTS if stated.weights is None else tuple(getattr(stated.weights, term) for term in TERMS)
        threshold = PAPER_THRESHOLD if stated.threshold is None else stated.threshold
        return Choice(weights=weights, threshold=threshold, undetermined=stated.undetermined or SYSTEM_TWO)
    level: Mapping[str, Any] | None = newest["route"]["activation"] if newest else None
    if level is None:
        return Choice(undetermined=undetermined)
    weights = tuple(level["weights"][term] for term in TERMS)
    return Choice(weights=weights, threshold=level["threshold"], undetermined=undetermined)


def _facts(made: Calibrated) -> list[str]:
    """What speaks for the choice, a sentence a line."""
    counts, gain, share = made.gain.before, made.gain, made.share
    interval = wilson(share.passing, share.total)
    judged = counts.positives + counts.negatives
    told = [
        f"decisions: {made.decisions}, of which too little is known: {made.undetermined}",
        f"System 1 answers with a verdict: {judged}, of which wrong: {counts.positives}",
        f"AUROC of the activation against System 1 being wrong: {_area_text(gain.before)}",
    ]
    if gain.after is not None and gain.difference is not None:
        told += [
            f"the same with fitted weights, on answers they were not fitted to: {_area_text(gain.after)}",
            f"gain: {_gain_text(gain)}",
        ]
    share_text = f"{share.share:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
    return [*told, f"System 2 share of these decisions: {share_text} ({share.passing} of {share.total})"]


def _area_text(measured: Discrimination) -> str:
    if measured.auroc is None:
        return "none, without both right and wrong answers"
    return f"{measured.auroc:.3f} [{measured.low:.3f}, {measured.high:.3f}]"


def _gain_text(gain: Gain) -> str:
    found = gain.difference
    if found is None or found.value is None or found.low is None:
        return "none, it cannot be measured"
    interval = f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
    return interval if gain.shown else f"no gain: {interval} does not lie above 0; the weights stay as they are"


def report(made: Calibrated, cases: Sequence[Case]) -> str:
    """What is chosen and what speaks for it, for a person."""
    weights = ", ".join(f"{term} {weight:g}" for term, weight in zip(TERMS, made.choice.weights, strict=True))
    assessors = sorted({case.assessor for case in cases if case.assessor})
    mixed = f"these are decisions of {len(assessors)} assessors ({', '.join(assessors)}); --assessor takes one"
    return "\n".join(
        [
            *_facts(made),
            *([mixed] if len(assessors) > 1 else []),
            f"weights: {weights}",
            f"threshold: {made.choice.threshold:g}",
        ]
    )


def document(made: Calibrated, file: str) -> Mapping[str, Any]:
    """The same for a program."""
    gain = made.gain
    return {
        **yaml.safe_load(file),
        "decisions": made.decisions,
        "undetermined_decisions": made.undetermined,
        "system_two_share": made.share.share,
        "before": asdict(gain.before),
        "after": gain.after and asdict(gain.after),
        "gain": gain.difference and asdict(gain.difference),
        "gain_shown": gain.shown,
        "fitted_weights": gain.fitted and dict(zip(TERMS, gain.fitted, strict=True)),
    }
