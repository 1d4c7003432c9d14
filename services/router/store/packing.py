"""Many numbers in one value: a hundred thousand rows cost the event loop next to nothing."""

from functools import reduce
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, LargeBinary, Select, func, literal_column, select

from kernel.statistics.samples import Array

NOTHING: ColumnElement[bytes] = literal_column("''::bytea", LargeBinary)


def packed(rows: Select[Any]) -> Select[tuple[bytes | None]]:
    """All numbers of `rows`, none of which may be null, as one value of bytes; for `unpacked`."""
    columns: list[ColumnElement[bytes]] = [func.float8send(column, type_=LargeBinary) for column in rows.subquery().c]
    row = reduce(lambda left, right: left.concat(right), columns)
    return select(func.string_agg(row, NOTHING, type_=LargeBinary))


def unpacked(numbers: bytes | None, width: int) -> Array:
    """The rows in what `packed` gave, each of `width` numbers.

    Example:
        >>> unpacked(bytes.fromhex("3fe0000000000000" "3ff0000000000000"), 2).tolist()
        [[0.5, 1.0]]
    """
    return np.frombuffer(numbers or b"", dtype=">f8").astype(np.float64).reshape(-1, width)
