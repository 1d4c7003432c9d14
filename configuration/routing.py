"""This module reads the activation's weights and threshold from a file, under the name of a version.

Read by the router at its start only, and checked by `metacog config validate --routing FILE`.
"""

import re
from dataclasses import fields
from pathlib import Path
from typing import Literal

from configuration.yaml_file import Number, YamlFile
from kernel.values import value
from kernel.weighted_mean import sums_to_one

VERSION = re.compile(r"[!-~]{1,64}")
# Name that the router gives to the paper's own values; a file may not use it.
PAPER = "paper"


@value
class Weights:
    """The weights are those of the activation's terms [dimensionless, >= 0, sum 1]."""

    correctness: Number
    conflict: Number
    importance: Number
    experience: Number


@value
class RoutingFile:
    """The routing file states values of the activation; what it leaves out is as in the paper.

    Attributes:
        version: Name recorded with each decision; empty: a digest of the content.
        weights: Weights of the activation, all four.
        threshold: System 2 if and only if the activation reaches it [0..1].
        undetermined: System for a state of which too little is known.
    """

    version: str = ""
    weights: Weights | None = None
    threshold: Number | None = None
    undetermined: Literal["SYSTEM_ONE", "SYSTEM_TWO"] | None = None


def read_routing(path: Path) -> RoutingFile:
    """Return the routing file at `path`.

    Raises:
        ConfigurationInvalid: When the file cannot be used; names the line and the reason.
    """
    file = YamlFile(path, RoutingFile)
    content = file.content
    if content == RoutingFile():
        raise file.error_at([], "states nothing; give version, weights, threshold or undetermined")
    if content.version == PAPER:
        raise file.error_at(["version"], f"version: {PAPER!r} is the name of the paper's own values; choose another")
    if content.version and not VERSION.fullmatch(content.version):
        message = f"version: {content.version!r} must be at most 64 letters, digits and signs, without blanks"
        raise file.error_at(["version"], message)
    if content.threshold is not None and not 0 <= content.threshold <= 1:
        raise file.error_at(["threshold"], f"threshold: it is {content.threshold}; it must lie in [0, 1]")
    if content.weights is not None:
        _check_weights(file, content.weights)
    return content


def _check_weights(file: YamlFile[RoutingFile], weights: Weights) -> None:
    given = {field.name: getattr(weights, field.name) for field in fields(weights)}
    for name, weight in given.items():
        if not 0 <= weight <= 1:
            raise file.error_at(["weights", name], f"weights.{name}: it is {weight}; it must lie in [0, 1]")
    if not sums_to_one(given.values()):
        total = sum(given.values())
        raise file.error_at(["weights"], f"weights: they must sum to 1; they sum to {total:.10g}")
