"""Stored documents as the next version of metacog may write them."""

import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import StrEnum
from typing import Any, Union, get_args, get_origin, get_type_hints

ADDED = {"added_by_the_next_version": {"depth": [1, {"colour": "red"}]}}
WORD = "LATER_WORD"


def of_next_version(document: Any, kind: Any, *, new_words: bool = True) -> Any:  # noqa: ANN401 - plain data of any kind
    """Return a stored document of `kind` with an unknown field in every object.

    Args:
        document: The document as this version stores it.
        kind: Type of its value.
        new_words: Whether every value of an enum is a word that this version does not list.
    """
    if document is None:
        return None
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(each for each in get_args(kind) if each is not types.NoneType)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        known = {
            name: of_next_version(item, hints.get(name, Any), new_words=new_words) for name, item in document.items()
        }
        return {**known, **ADDED}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return WORD if new_words and document else document
    inner = (get_args(kind) or (Any,))[-1]
    if inner is Ellipsis:
        inner = get_args(kind)[0]
    if isinstance(document, list):
        return [of_next_version(each, inner, new_words=new_words) for each in document]
    if isinstance(document, Mapping) and inner is not Any:
        return {key: of_next_version(each, inner, new_words=new_words) for key, each in document.items()}
    return {**document, **ADDED} if isinstance(document, Mapping) else document
