"""Fits the weights of the roles' fitness to labelled deliberations, and reports the evidence."""

from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import Any

import numpy as np
import orjson
import yaml

from chassis.errors import ConfigurationInvalid
from cli.calibration.recorded_deliberations import DeliberationSample
from kernel.learning.contrasts import contrasts, counting_weights
from kernel.learning.evidence import Evidence, WeightsMerit, evidence
from kernel.learning.fitting import informative_weights
from kernel.roles import FITNESS_TERMS, ROLES, Role, RoleWeights, VersionedWeights
from kernel.statistics.bootstrap import Estimate
from kernel.statistics.samples import FOLDS, RIGHT
from kernel.values import value


@value
class RoleFit:
    """The chosen weights, with their evidence.

    Attributes:
        weights: Chosen weights: fitted ones, or the current ones.
        before: Current weights.
        found: Evidence for the fitted weights.
        left_out: Deliberations that cannot be used, by reason [count].
        kept: Components whose weights the data do not determine, by role.
        taken: Whether the fitted weights are chosen.
    """

    weights: RoleWeights
    before: VersionedWeights
    found: Evidence
    left_out: Mapping[str, int]
    kept: Mapping[Role, tuple[str, ...]]
    taken: bool


def fitted(sample: DeliberationSample, before: VersionedWeights, *, anyway: bool, rng: np.random.Generator) -> RoleFit:
    """Fit weights to deliberations.

    Args:
        sample: Labelled deliberations.
        before: Current weights.
        anyway: Whether fitted weights are chosen without a significant gain.
        rng: Random generator, for folds, control and resampling.

    Raises:
        ConfigurationInvalid: There are too few deliberations.
    """
    deliberations = sample.deliberations
    right = sum(each.score >= RIGHT for each in deliberations)
    if min(right, len(deliberations) - right) < FOLDS:
        raise ConfigurationInvalid(
            f"{right} right and {len(deliberations) - right} wrong answers of usable deliberations are too few to fit "
            f"weights; at least {FOLDS} of each are needed, and some hundred for a significant gain"
            + "".join(f"; left out, {reason}: {count}" for reason, count in sample.left_out.items())
        )
    found = evidence(deliberations, before.weights, rng=rng)
    taken = found.shown or anyway
    apart = informative_weights(contrasts(deliberations), counting_weights(deliberations), before.weights)
    return RoleFit(
        weights=found.fitted if taken else before.weights,
        before=before,
        found=found,
        left_out=sample.left_out,
        kept={
            role: tuple(
                term for term in before.weights[role] if row >= len(apart) or not apart[row, FITNESS_TERMS.index(term)]
            )
            for row, role in enumerate(ROLES)
        },
        taken=taken,
    )


def weights_file(result: RoleFit, version: str = "") -> str:
    """Format the chosen weights as a role weights file of the assigner."""
    weights = {role.value: dict(result.weights[role]) for role in ROLES}
    named = "fitted" if result.taken else "kept"
    name = version or f"{named}-{sha256(orjson.dumps(weights)).hexdigest()[:8]}"
    about = "".join(f"# {line}\n" for line in _facts(result))
    return about + yaml.safe_dump({"version": name, "weights": weights}, sort_keys=False)


def report(result: RoleFit) -> str:
    """Describe the chosen weights and their evidence as text."""
    return "\n".join([*_facts(result), *(_row(result, role) for role in ROLES)])


def document(result: RoleFit, file: str) -> Mapping[str, Any]:
    """Describe the chosen weights and their evidence as JSON."""
    return {
        **yaml.safe_load(file),
        "taken": result.taken,
        "gain_shown": result.found.shown,
        "left_out": result.left_out,
        "weights_before": result.before.weights,
        "version_before": result.before.version,
        "not_learned": result.kept,
        **asdict(result.found),
    }


def _facts(result: RoleFit) -> list[str]:
    """Describe the evidence, one sentence a line."""
    found = result.found
    left_out = "; ".join(f"{reason}: {count}" for reason, count in result.left_out.items()) or "none"
    return [
        f"deliberations: {found.deliberations}, effective sample size {found.effective:.0f}; "
        f"right answers: {found.right}",
        f"left out: {left_out}",
        "discrimination on held-out answers (chance that a right answer has fitter roles than a wrong one):",
        f"  current weights ({result.before.version}): {_merit(found.before)}",
        f"  fitted weights: {_merit(found.after)}",
        f"  fitted to shuffled labels: {_merit(found.control)}",
        f"gain over the current weights: {_signed(found.gain)}",
        f"gain over shuffled labels: {_signed(found.gain_over_control)}",
        _conclusion(result),
    ]


def _conclusion(result: RoleFit) -> str:
    if result.found.shown:
        return "both intervals lie above 0: the fitted weights are used"
    if result.taken:
        return "no gain: not both intervals lie above 0; --anyway uses the fitted weights"
    return "no gain: not both intervals lie above 0; the weights do not change"


def _merit(merit: WeightsMerit) -> str:
    share = merit.right_share
    matched = f"{merit.matched} deliberations had their roles"
    right = "too few for the share of right answers" if share.value is None else f"{_interval(share)} of answers right"
    return f"{_interval(merit.discrimination)}; {matched}: {right}"


def _interval(found: Estimate) -> str:
    if found.value is None:
        return "unknown"
    return f"{found.value:.3f}" + ("" if found.low is None else f" [{found.low:.3f}, {found.high:.3f}]")


def _signed(found: Estimate) -> str:
    if found.value is None or found.low is None:
        return "it cannot be measured"
    return f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def _row(result: RoleFit, role: Role) -> str:
    fitted_row, old = result.found.fitted[role], result.before.weights[role]
    changes = ", ".join(f"{term} {old[term]:g} -> {fitted_row[term]:g}" for term in old)
    kept = result.kept[role]
    return f"{role.lower()}: {changes}" + (f" (not determined: {', '.join(kept)})" if kept else "")
