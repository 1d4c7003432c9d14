"""This module declares what a value of metacog is."""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[T]) -> type[T]:
    """Make `cls` an immutable, keyword-only value that also serves as a REST body.

    The pydantic marker makes our own REST API reject unknown fields; everything else ignores it.
    """
    declared = dataclass(frozen=True, slots=True, kw_only=True)(cls)
    declared.__pydantic_config__ = {"extra": "forbid"}  # type: ignore[attr-defined]
    return declared
