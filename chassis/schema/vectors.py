"""Columns hold vectors of pgvector, of whatever length their encoder makes."""

from collections.abc import Callable
from typing import Any

import orjson
from sqlalchemy import Dialect
from sqlalchemy.types import UserDefinedType


def vector_text(row: Any) -> str:  # noqa: ANN401 - a row of an array of vectors, which numpy does not type
    """Return a vector as PostgreSQL reads it.

    Example:
        >>> import numpy as np
        >>> vector_text(np.array([0.5, -1.0], dtype=np.float32))
        '[0.5,-1.0]'
    """
    return orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY).decode()


class VectorOfAnyLength(UserDefinedType[Any]):
    """The type `vector` of pgvector is written and never read back: only PostgreSQL compares vectors."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        """Return the name of the type."""
        return "vector"

    def bind_processor(self, _dialect: Dialect) -> Callable[[Any], str | None]:
        """Return the function that writes a vector."""
        return lambda row: None if row is None else vector_text(row)
