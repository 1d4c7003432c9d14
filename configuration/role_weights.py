"""This module reads the weights of the roles' fitness from a file, under the name of a version.

Read by the assigner at its start only, checked by `metacog config validate --role-weights FILE`, and written by
`metacog fit-roles`.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import field
from hashlib import sha256
from pathlib import Path

from configuration.yaml_file import Number, YamlFile
from kernel.roles import DEFAULT_VERSION, InvalidWeights, Role, VersionedWeights, checked_weights
from kernel.values import value

VERSION = re.compile(r"[!-~]{1,64}")


@value
class RoleWeightsFile:
    """The file states weights by role; a role that it leaves out keeps its default.

    Attributes:
        version: Name recorded with the results of these weights; empty: a digest of them.
        weights: Weight of each component, by role [>= 0, each role's sum 1].
    """

    version: str = ""
    weights: Mapping[Role, Mapping[str, Number]] = field(default_factory=dict)


def read_role_weights(path: Path) -> VersionedWeights:
    """Return the weights of the file at `path`.

    Raises:
        ConfigurationInvalid: When the file cannot be used; names the line and the reason.
    """
    file = YamlFile(path, RoleWeightsFile)
    content = file.content
    if not content.weights:
        raise file.error_at(["weights"], "weights: at least one role is needed; without a file the defaults hold")
    if content.version == DEFAULT_VERSION:
        raise file.error_at(["version"], f"version: {DEFAULT_VERSION!r} is the name of the defaults; choose another")
    if content.version and not VERSION.fullmatch(content.version):
        message = f"version: {content.version!r} must be at most 64 letters, digits and signs, without blanks"
        raise file.error_at(["version"], message)
    try:
        weights = checked_weights(content.weights)
    except InvalidWeights as error:
        raise file.error_at(["weights", error.metadata["role"]], f"weights: {error.message}") from error
    return VersionedWeights(version=content.version or _digest(weights), weights=weights)


def _digest(weights: Mapping[Role, Mapping[str, float]]) -> str:
    return sha256(json.dumps(weights, sort_keys=True).encode()).hexdigest()[:12]
