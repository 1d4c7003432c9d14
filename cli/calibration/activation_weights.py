"""Fits the weights and the threshold of the activation to recorded decisions, and reports the evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import yaml
from metacog.router.v1.router_pb2 import Run

from chassis.errors import ConfigurationInvalid
from cli.calibration.recorded_decisions import Case
from cli.calibration.too_few import TooFewLabels
from configuration.routing import read_routing
from kernel.activation import PAPER_THRESHOLD, PAPER_WEIGHTS, TERMS, Route
from kernel.statistics.bootstrap import Estimate, bootstrap_difference
from kernel.statistics.discrimination import Discrimination, auroc
from kernel.statistics.intervals import wilson
from kernel.statistics.samples import FOLDS, Array, Flags
from kernel.statistics.weighing import (
    ShareThreshold,
    Weights,
    fitted_weights,
    held_out_means,
    threshold_for_share,
    weighted_means,
)
from kernel.thresholds import DECIMALS
from kernel.values import value

PAPER: Weights = tuple(getattr(PAPER_WEIGHTS, term) for term in TERMS)
# Decisions from which a threshold is chosen for a share [count]: the share of later ones is then known to about +-.10.
LEAST_DECISIONS = 100
SYSTEM_TWO = Route.SYSTEM_TWO.value


@value
class Choice:
    """The parameters of the choice of the system.

    Attributes:
        weights: Weights of the activation, in the order of its terms [>= 0, sum 1].
        threshold: System 2 if and only if the activation reaches it [0..1].
        undetermined: System for a state with too few known components.
    """

    weights: Weights = PAPER
    threshold: float = PAPER_THRESHOLD
    undetermined: str = SYSTEM_TWO


@value
class Gain:
    """The discrimination of the activation between wrong and right answers of System 1.

    Attributes:
        before: Discrimination with the current weights.
        after: Discrimination with fitted weights, held out for each answer; None without a fit.
        difference: The gain, with its paired interval; None without a fit.
        fitted: Weights fitted to all answers; None without a fit.
    """

    before: Discrimination
    after: Discrimination | None = None
    difference: Estimate | None = None
    fitted: Weights | None = None

    @property
    def shown(self) -> bool:
        """Whether the interval of the gain lies above 0."""
        return self.difference is not None and self.difference.low is not None and self.difference.low > 0


@value
class Calibration:
    """The chosen parameters, with their evidence.

    Attributes:
        choice: Chosen parameters.
        decisions: Decisions in the sample [count].
        undetermined: Decisions without an activation, as too few components are known [count].
        share: Share of the decisions for System 2.
        gain: Discrimination of the weights.
    """

    choice: Choice
    decisions: int
    undetermined: int
    share: ShareThreshold
    gain: Gain


def calibrated(
    cases: Sequence[Case], old: Choice, *, share: float | None, fit: bool, rng: np.random.Generator
) -> Calibration:
    """Choose weights and threshold for decisions like these.

    Args:
        cases: Decisions.
        old: Current parameters.
        share: Target share of System 2 [0..1]; None for that of `old`.
        fit: Whether to fit the weights.
        rng: Random generator, for folds and resampling.

    Raises:
        TooFewLabels: There are too few decisions.
        ConfigurationInvalid: There are too few labels to fit weights to.
    """
    if not cases:
        raise TooFewLabels(
            f"there is no decision with a measured state to learn from; at least {LEAST_DECISIONS} are needed"
        )
    if share is not None and len(cases) < LEAST_DECISIONS:
        raise TooFewLabels(
            f"{len(cases)} decisions with a measured state are too few to choose a threshold for a share; at least"
            f" {LEAST_DECISIONS} are needed"
        )
    levels = np.array([case.levels for case in cases], dtype=np.float64)
    gain = _gain(cases, levels, old.weights, fit=fit, rng=rng)
    weights = gain.fitted if gain.fitted is not None and gain.shown else old.weights
    chosen = _share_of(weighted_means(levels, old.weights), old)
    if share is not None or weights != old.weights:
        chosen = _threshold(weighted_means(levels, weights), old, chosen.share if share is None else share)
    return Calibration(
        choice=Choice(weights=weights, threshold=chosen.threshold, undetermined=old.undetermined),
        decisions=len(cases),
        undetermined=int(np.isnan(weighted_means(levels, weights)).sum()),
        share=chosen,
        gain=gain,
    )


def routing_file(result: Calibration, version: str = "") -> str:
    """Format the chosen parameters as a routing file of the router."""
    content: dict[str, Any] = {
        "weights": dict(zip(TERMS, result.choice.weights, strict=True)),
        "threshold": result.choice.threshold,
        "undetermined": result.choice.undetermined,
    }
    digest = sha256(orjson.dumps(content)).hexdigest()[:8]
    about = "".join(f"# {line}\n" for line in _facts(result))
    return about + yaml.safe_dump({"version": version or f"calibrated-{digest}", **content}, sort_keys=False)


def _gain(cases: Sequence[Case], levels: Array, old: Weights, *, fit: bool, rng: np.random.Generator) -> Gain:
    """Measure the discrimination of the current weights, and of fitted ones if `fit` is set."""
    labelled = np.array([case.wrong is not None for case in cases])
    wrong = np.array([bool(case.wrong) for case in cases])[labelled]
    before = weighted_means(levels[labelled], old)
    if not fit:
        return Gain(before=_discrimination(before, wrong))
    if min(wrong.sum(), (~wrong).sum()) < FOLDS:
        raise ConfigurationInvalid(
            f"{int(wrong.sum())} wrong and {int((~wrong).sum())} right answers of System 1 are too few to fit weights "
            f"to; at least {FOLDS} of each are needed, and some hundred for a gain to show"
        )
    after = held_out_means(levels[labelled], wrong, old, rng)
    both = ~np.isnan(before) & ~np.isnan(after)
    difference = bootstrap_difference(_area, (before[both], wrong[both]), (after[both], wrong[both]), rng=rng)
    return Gain(
        before=_discrimination(before, wrong),
        after=_discrimination(after, wrong),
        difference=difference,
        fitted=fitted_weights(levels[labelled], wrong, old),
    )


def _discrimination(means: Array, wrong: Flags) -> Discrimination:
    known = ~np.isnan(means)
    return auroc(means[known], wrong[known])


def _area(means: Array, wrong: Flags) -> float | None:
    return auroc(means, wrong).auroc


def _share_of(means: Array, old: Choice) -> ShareThreshold:
    """Return the current threshold with its share of System 2."""
    passing = np.round(np.nan_to_num(means), DECIMALS) >= round(old.threshold, DECIMALS)
    to_two = np.where(np.isnan(means), old.undetermined == SYSTEM_TWO, passing)
    return ShareThreshold(threshold=old.threshold, passing=int(to_two.sum()), total=len(means))


def _threshold(means: Array, old: Choice, share: float) -> ShareThreshold:
    known = means[~np.isnan(means)]
    unknown = len(means) - len(known)
    passing = unknown if old.undetermined == SYSTEM_TWO else 0
    return threshold_for_share(known, share, passing=passing, failing=unknown - passing)


def choice_in_force(routing: Path | None, newest: Run | None, undetermined: str = SYSTEM_TWO) -> Choice:
    """Return the parameters of a file, else those of the newest run, else the paper's.

    Args:
        routing: Routing file in force; None: there is none, or it is unknown.
        newest: The newest run of the router.
        undetermined: The router's system for a state with too few known components.
    """
    if routing is not None:
        stated = read_routing(routing)
        weights = PAPER if stated.weights is None else tuple(getattr(stated.weights, term) for term in TERMS)
        threshold = PAPER_THRESHOLD if stated.threshold is None else stated.threshold
        return Choice(weights=weights, threshold=threshold, undetermined=stated.undetermined or SYSTEM_TWO)
    if newest is None or not newest.route.HasField("activation"):
        return Choice(undetermined=undetermined)
    level = newest.route.activation
    if any(term not in level.weights for term in TERMS):
        raise ConfigurationInvalid(f"run {newest.run_id} has no weights of the activation; name the file by --routing")
    weights = tuple(level.weights[term] for term in TERMS)
    return Choice(weights=weights, threshold=level.threshold, undetermined=undetermined)


def _facts(result: Calibration) -> list[str]:
    """Describe the evidence, one sentence a line."""
    counts, gain, share = result.gain.before, result.gain, result.share
    interval = wilson(share.passing, share.total)
    labelled = counts.positives + counts.negatives
    lines = [
        f"decisions: {result.decisions}, of which undetermined: {result.undetermined}",
        f"System 1 answers with a label: {labelled}, of which wrong: {counts.positives}",
        f"AUROC of the activation for wrong answers of System 1: {_area_text(gain.before)}",
    ]
    if gain.after is not None and gain.difference is not None:
        lines += [
            f"AUROC with fitted weights, on held-out answers: {_area_text(gain.after)}",
            f"gain: {_gain_text(gain)}",
        ]
    share_text = f"{share.share:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
    return [*lines, f"System 2 share of these decisions: {share_text} ({share.passing} of {share.total})"]


def _area_text(measured: Discrimination) -> str:
    if measured.auroc is None:
        return "undefined without both right and wrong answers"
    return f"{measured.auroc:.3f} [{measured.low:.3f}, {measured.high:.3f}]"


def _gain_text(gain: Gain) -> str:
    found = gain.difference
    if found is None or found.value is None or found.low is None:
        return "undefined, it cannot be measured"
    interval = f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
    return interval if gain.shown else f"no gain: {interval} does not lie above 0; the weights do not change"


def report(result: Calibration, cases: Sequence[Case]) -> str:
    """Describe the chosen parameters and their evidence as text."""
    weights = ", ".join(f"{term} {weight:g}" for term, weight in zip(TERMS, result.choice.weights, strict=True))
    assessors = sorted({case.assessor for case in cases if case.assessor})
    mixed = f"these are decisions of {len(assessors)} assessors ({', '.join(assessors)}); --assessor selects one"
    return "\n".join(
        [
            *_facts(result),
            *([mixed] if len(assessors) > 1 else []),
            f"weights: {weights}",
            f"threshold: {result.choice.threshold:g}",
        ]
    )


def document(result: Calibration, file: str) -> Mapping[str, Any]:
    """Describe the chosen parameters and their evidence as JSON."""
    gain = result.gain
    return {
        **yaml.safe_load(file),
        "decisions": result.decisions,
        "undetermined_decisions": result.undetermined,
        "system_two_share": result.share.share,
        "before": asdict(gain.before),
        "after": gain.after and asdict(gain.after),
        "gain": gain.difference and asdict(gain.difference),
        "gain_shown": gain.shown,
        "fitted_weights": gain.fitted and dict(zip(TERMS, gain.fitted, strict=True)),
    }
