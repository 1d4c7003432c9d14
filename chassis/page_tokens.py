"""Pages of lists, by what the last item is called."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import TypeVar

from kernel.errors import MalformedRequest

T = TypeVar("T")


class InvalidPageToken(MalformedRequest):
    """The page token is not one that this service gave."""

    reason = "INVALID_PAGE_TOKEN"


def token_of(*parts: str) -> str:
    """A page token that holds `parts`."""
    return urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def parts_of(token: str, count: int) -> tuple[str, ...]:
    """What a page token holds.

    Raises:
        InvalidPageToken: For one that this service did not give.

    Example:
        >>> parts_of(token_of("alpha", "math"), 2)
        ('alpha', 'math')
    """
    try:
        parts = json.loads(urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except ValueError as wrong:
        raise _invalid(token) from wrong
    if not isinstance(parts, list) or len(parts) != count or not all(isinstance(part, str) for part in parts):
        raise _invalid(token)
    return tuple(parts)


def page(
    items: Sequence[T], name_of: Callable[[T], tuple[str, ...]], token: str, size: int, *, parts: int
) -> tuple[Sequence[T], str]:
    """The items after the one that `token` names, at most `size`, and the next token.

    Args:
        items: All items, ordered by name.
        name_of: Name of an item.
        token: Token of the page; empty: the first.
        size: Items on it at most [count, >= 1].
        parts: Parts of a name [count].

    Raises:
        InvalidPageToken: For one that this service did not give.
    """
    after = parts_of(token, parts) if token else ()
    left = [item for item in items if name_of(item) > after]
    shown = left[:size]
    return shown, token_of(*name_of(shown[-1])) if len(left) > size else ""


def _invalid(token: str) -> InvalidPageToken:
    return InvalidPageToken(f"page_token {token!r} was not given by this service", field="page_token")
