"""The dimensions file lists kinds of ability that tasks need, with examples of each.

Read at the start of the delegation service and of the router.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from configuration.yaml_file import YamlFile
from kernel.values import value

# The dimensions that ship.
SHIPPED = Path(__file__).parents[1] / "config" / "dimensions.yaml"

Text = Annotated[str, Field(min_length=1)]


@value
class Dimension:
    """A dimension is a kind of ability that tasks need.

    Attributes:
        id: Identifier, e.g. `math_computation`.
        description: Its description, for the model that classifies.
        prototypes: Tasks that need it, for classification by embedding.
        keywords: Words that indicate it, for the keyword baseline.
    """

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,128}$")]
    description: Text
    prototypes: Sequence[Text] = ()
    keywords: Sequence[Text] = ()


@value
class DimensionsFile:
    """The dimensions file lists all dimensions."""

    dimensions: Annotated[Sequence[Dimension], Field(min_length=1, max_length=100)]


def read_dimensions(path: Path) -> tuple[Dimension, ...]:
    """Return the dimensions of the file at `path`.

    Raises:
        ConfigurationInvalid: When the file cannot be used; names the line and the reason.
    """
    file = YamlFile(path, DimensionsFile)
    listed = tuple(file.content.dimensions)
    for index, dimension in enumerate(listed):
        if dimension.id in [other.id for other in listed[:index]]:
            raise file.error_at(["dimensions", index], f"id {dimension.id!r} is used twice")
    return listed


def prototypes_of(dimensions: Sequence[Dimension]) -> Mapping[str, Sequence[str]]:
    """Return the prototypes of each dimension, by its identifier."""
    return {each.id: each.prototypes for each in dimensions}
