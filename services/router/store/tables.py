"""What all tables of the router share."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import MetaData
from sqlalchemy.orm import DeclarativeBase

from kernel.errors import MalformedRequest

SCHEMA = "router"
MAX_PAGE = 200


class InvalidPageToken(MalformedRequest):
    """The page token is not one that this service gave."""

    reason = "INVALID_PAGE_TOKEN"


class Base(DeclarativeBase):
    """Tables of the router."""

    metadata = MetaData(schema=SCHEMA)


def checked_page_size(page_size: int, most: int = MAX_PAGE) -> int:
    """`page_size`, if a page may be that long.

    Raises:
        MalformedRequest: When it may not.
    """
    if not 1 <= page_size <= most:
        raise MalformedRequest(f"page_size is {page_size}; it must lie in 1..{most}", field="page_size")
    return page_size


def without_nul(item: Any) -> Any:  # noqa: ANN401 - plain data is of any kind
    """`item` without the one character that PostgreSQL cannot keep."""
    if isinstance(item, str):
        return item.replace("\x00", "")
    if isinstance(item, dict):
        return {key: without_nul(part) for key, part in item.items()}
    return [without_nul(part) for part in item] if isinstance(item, list) else item


def utc(time: datetime) -> datetime:
    """`time` with its zone; one that names none is read as UTC, on both faces."""
    return time if time.tzinfo else time.replace(tzinfo=UTC)
