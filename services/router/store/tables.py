"""What all tables of the router share."""

from sqlalchemy import MetaData
from sqlalchemy.orm import DeclarativeBase

from kernel.errors import MalformedRequest

SCHEMA = "router"


MAX_PAGE = 200


class RouterTable(DeclarativeBase):
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
