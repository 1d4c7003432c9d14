"""The dimensions of competence, as the configuration has them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from chassis.yaml_file import YamlFile
from kernel.values import value
from services.delegation.core.errors import UnknownDimension

Text = Annotated[str, Field(min_length=1)]


@value
class Dimension:
    """A kind of ability.

    Attributes:
        id: Identifier, e.g. `math_computation`.
        description: What it is, for the model that classifies.
        prototypes: Tasks that ask for it, for the nearest in meaning.
        keywords: Words that give it away, for the keyword baseline.
    """

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,128}$")]
    description: Text
    prototypes: Sequence[Text] = ()
    keywords: Sequence[Text] = ()


@value
class DimensionsFile:
    """The dimensions file."""

    dimensions: Annotated[Sequence[Dimension], Field(min_length=1, max_length=100)]


def read_dimensions(path: Path) -> tuple[Dimension, ...]:
    """Dimensions of the file at `path`.

    Raises:
        ConfigurationInvalid: When the file cannot be used; names the line and the reason.
    """
    file = YamlFile(path, DimensionsFile)
    listed = tuple(file.content.dimensions)
    for place, dimension in enumerate(listed):
        if dimension.id in [other.id for other in listed[:place]]:
            raise file.wrong(["dimensions", place], f"id {dimension.id!r} is used twice")
    return listed


def known_dimension(name: str, known: Sequence[str] | Mapping[str, object]) -> None:
    """Return if there is a dimension of that name.

    Raises:
        UnknownDimension: When there is not.
    """
    if name not in known:
        raise UnknownDimension(f"dimension {name!r} is not configured; there are {', '.join(known)}", dimension=name)
