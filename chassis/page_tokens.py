"""A page token names the last item of the page before; only the service that gave it can read it."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import accumulate
from typing import TypeVar

from chassis.json_text import loads_request
from kernel.errors import MalformedRequest

T = TypeVar("T")

MAX_PAGE = 200
# Stored documents of a page at most, as the database compresses them [bytes]: several times that as JSON.
MOST_PAGE_BYTES = 1024 * 1024
# Characters of an identifier that `chassis.ids.new_id` makes [count].
ID_LENGTH = 36


class InvalidPageToken(MalformedRequest):
    """The page token is not one that this service gave for this list."""

    reason = "INVALID_PAGE_TOKEN"


def invalid_token(token: str) -> InvalidPageToken:
    """Return the error for a token that this service did not give."""
    return InvalidPageToken(f"page_token {token!r} was not given by this service", field="page_token")


def token_of(*parts: str | int) -> str:
    """Return a page token that holds `parts`."""
    return urlsafe_b64encode(json.dumps([str(part) for part in parts]).encode()).decode().rstrip("=")


def parts_of(token: str, count: int) -> tuple[str, ...]:
    """Return the parts that a page token holds, as texts; `time_in` and `number_in` read them further.

    Raises:
        InvalidPageToken: For a token that this service did not give.

    Example:
        >>> parts_of(token_of("alpha", 7), 2)
        ('alpha', '7')
        >>> parts_of("alpha", 2)
        Traceback (most recent call last):
        chassis.page_tokens.InvalidPageToken: page_token 'alpha' was not given by this service
    """
    try:
        parts = loads_request(urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4)))
    except ValueError as error:  # of base64 or of JSON
        raise invalid_token(token) from error
    if not isinstance(parts, list) or len(parts) != count or not all(map(_is_text, parts)):
        raise invalid_token(token)
    return tuple(parts)


def time_in(part: str, token: str) -> datetime:
    """Return the time that a part of `token` holds.

    Raises:
        InvalidPageToken: When it holds none.

    Example:
        >>> time_in("2026-03-01T12:00:00+00:00", "token").hour
        12
    """
    try:
        return datetime.fromisoformat(part)
    except ValueError as error:
        raise invalid_token(token) from error


def number_in(part: str, token: str) -> int:
    """Return the whole number that a part of `token` holds [>= 0].

    Raises:
        InvalidPageToken: When it holds none.

    Example:
        >>> number_in("20", "token")
        20
    """
    if not (part.isascii() and part.isdigit() and len(part) <= 18):
        raise invalid_token(token)
    return int(part)


def id_in(token: str) -> str:
    """Return the identifier that is the whole of `token`, for lists that are ordered by identifiers.

    Raises:
        InvalidPageToken: When it cannot be an identifier that this service made.
    """
    if len(token) != ID_LENGTH or not _is_text(token):
        raise invalid_token(token)
    return token


def page(
    items: Sequence[T], name_of: Callable[[T], tuple[str, ...]], token: str, size: int, *, parts: int
) -> tuple[Sequence[T], str]:
    """Return the items after the one that `token` names, at most `size`, and the next token.

    Args:
        items: All items, ordered by name.
        name_of: Name of an item.
        token: Token of the page; empty: the first.
        size: Items on it at most [count, >= 1].
        parts: Parts of a name [count].

    Raises:
        InvalidPageToken: For a token that this service did not give.

    Example:
        >>> shown, following = page(["a", "b", "c"], lambda item: (item,), token_of("a"), 1, parts=1)
        >>> shown, parts_of(following, 1)
        (['b'], ('b',))
    """
    after = parts_of(token, parts) if token else ()
    left = [item for item in items if name_of(item) > after]
    shown = left[:size]
    return shown, token_of(*name_of(shown[-1])) if len(left) > size else ""


def checked_page_size(page_size: int, most: int = MAX_PAGE) -> int:
    """Return `page_size` if a page may be that long.

    Raises:
        MalformedRequest: When it may not.
    """
    if not 1 <= page_size <= most:
        raise MalformedRequest(f"page_size is {page_size}; it must lie in 1..{most}", field="page_size")
    return page_size


def fitting(sized: Sequence[tuple[str, int]], page_size: int, most_bytes: int = MOST_PAGE_BYTES) -> Sequence[str]:
    """Return the identifiers of the documents that a page has room for: the first, whatever its size.

    Args:
        sized: Identifier and size of each document, in the order of the list [bytes].
        page_size: Documents on the page at most [count, >= 1].
        most_bytes: Size of all of them together at most [bytes].

    Example:
        >>> fitting([("a", 60), ("b", 30), ("c", 20)], 3, 100)
        ['a', 'b']
        >>> fitting([("a", 600), ("b", 30)], 3, 100)
        ['a']
    """
    totals = accumulate(size for _, size in sized[:page_size])
    return [name for (name, _), total in zip(sized, totals, strict=False) if total <= most_bytes] or [
        name for name, _ in sized[:1]
    ]


def _is_text(part: object) -> bool:
    """Return whether `part` is a text that PostgreSQL can compare with."""
    return isinstance(part, str) and "\x00" not in part
