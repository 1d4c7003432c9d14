"""Weights of the roles' fitness that deliberations speak for, and what speaks for them."""

from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import Any

import numpy as np
import orjson
import yaml

from chassis.errors import ConfigurationInvalid
from cli.calibration.recorded_deliberations import Heard
from kernel.learning.contrasts import contrasts, counting_weights
from kernel.learning.evidence import Evidence, WeightsMerit, evidence
from kernel.learning.fitting import FOLDS, told_apart
from kernel.roles import ROLES, TERMS, Role, RoleWeights, VersionedWeights
from kernel.statistics.bootstrap import Estimate
from kernel.statistics.samples import RIGHT
from kernel.values import value


@value
class Fitted:
    """What is chosen, and what speaks for it.

    Attributes:
        weights: What is chosen: fitted weights, or the ones so far.
        before: The weights so far.
        found: What speaks for fitted ones.
        left_out: Deliberations that cannot teach, by the reason [count].
        kept: Components whose weights nothing could be learned of, by role.
        taken: Whether fitted weights are chosen.
    """

    weights: RoleWeights
    before: VersionedWeights
    found: Evidence
    left_out: Mapping[str, int]
    kept: Mapping[Role, tuple[str, ...]]
    taken: bool


def fitted(heard: Heard, before: VersionedWeights, *, anyway: bool, rng: np.random.Generator) -> Fitted:
    """Weights for deliberations like these.

    Args:
        heard: Judged deliberations.
        before: The weights so far.
        anyway: Whether fitted weights are chosen without a gain that is shown.
        rng: Chance, for folds, control and resampling.

    Raises:
        ConfigurationInvalid: When the deliberations do not suffice.
    """
    told = heard.deliberations
    right = sum(each.score >= RIGHT for each in told)
    if min(right, len(told) - right) < FOLDS:
        raise ConfigurationInvalid(
            f"{right} right and {len(told) - right} wrong answers of deliberations that can teach are too few to fit "
            f"weights to; at least {FOLDS} of each are needed, and some hundred for a gain to show"
            + "".join(f"; left out, {reason}: {count}" for reason, count in heard.left_out.items())
        )
    found = evidence(told, before.weights, rng=rng)
    taken = found.shown or anyway
    apart = told_apart(contrasts(told), counting_weights(told), before.weights)
    return Fitted(
        weights=found.fitted if taken else before.weights,
        before=before,
        found=found,
        left_out=heard.left_out,
        kept={
            role: tuple(term for term in before.weights[role] if row >= len(apart) or not apart[row, TERMS.index(term)])
            for row, role in enumerate(ROLES)
        },
        taken=taken,
    )


def weights_file(made: Fitted, version: str = "") -> str:
    """What is chosen, as a file that the assigner reads."""
    weights = {role.value: dict(made.weights[role]) for role in ROLES}
    named = "fitted" if made.taken else "kept"
    name = version or f"{named}-{sha256(orjson.dumps(weights)).hexdigest()[:8]}"
    about = "".join(f"# {line}\n" for line in _facts(made))
    return about + yaml.safe_dump({"version": name, "weights": weights}, sort_keys=False)


def report(made: Fitted) -> str:
    """What is chosen and what speaks for it, for a person."""
    return "\n".join([*_facts(made), *(_row(made, role) for role in ROLES)])


def document(made: Fitted, file: str) -> Mapping[str, Any]:
    """The same for a program."""
    return {
        **yaml.safe_load(file),
        "taken": made.taken,
        "gain_shown": made.found.shown,
        "left_out": made.left_out,
        "weights_before": made.before.weights,
        "version_before": made.before.version,
        "not_learned": made.kept,
        **asdict(made.found),
    }


def _facts(made: Fitted) -> list[str]:
    """What speaks for the choice, a sentence a line."""
    found = made.found
    left_out = "; ".join(f"{reason}: {count}" for reason, count in made.left_out.items()) or "none"
    return [
        f"deliberations: {found.deliberations}, which tell as much as {found.effective:.0f} with equal chances; "
        f"right answers: {found.right}",
        f"left out: {left_out}",
        "how often of a right and a wrong answer the right one had the fitter roles, on answers not fitted to:",
        f"  weights so far ({made.before.version}): {_worth(found.before)}",
        f"  fitted weights: {_worth(found.after)}",
        f"  fitted to shuffled verdicts: {_worth(found.control)}",
        f"gain over the weights so far: {_signed(found.gain)}",
        f"gain over shuffled verdicts: {_signed(found.gain_over_control)}",
        _conclusion(made),
    ]


def _conclusion(made: Fitted) -> str:
    if made.found.shown:
        return "both intervals lie above 0: the fitted weights are taken"
    if made.taken:
        return "no gain: not both intervals lie above 0; the fitted weights are taken because --anyway says so"
    return "no gain: not both intervals lie above 0; the weights stay as they are"


def _worth(worth: WeightsMerit) -> str:
    share = worth.right_share
    matched = f"{worth.matched} deliberations had their roles"
    told = "too few to say how often they are right" if share.value is None else f"{_plain(share)} of answers right"
    return f"{_plain(worth.discrimination)}; {matched}: {told}"


def _plain(found: Estimate) -> str:
    if found.value is None:
        return "unknown"
    return f"{found.value:.3f}" + ("" if found.low is None else f" [{found.low:.3f}, {found.high:.3f}]")


def _signed(found: Estimate) -> str:
    if found.value is None or found.low is None:
        return "it cannot be measured"
    return f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def _row(made: Fitted, role: Role) -> str:
    fitted_row, old = made.found.fitted[role], made.before.weights[role]
    told = ", ".join(f"{term} {old[term]:g} -> {fitted_row[term]:g}" for term in old)
    kept = made.kept[role]
    return f"{role.lower()}: {told}" + (f" (nothing to learn of {', '.join(kept)})" if kept else "")
