"""This module writes JSON the way that every reply, event, stored document and digest has it."""

import orjson


def dumps(content: object) -> bytes:
    """Return the JSON of plain data and values; times are in UTC with a `Z`, and non-finite numbers become null.

    Example:
        >>> dumps({"conflict": 0.5, "answer": float("nan")})
        b'{"conflict":0.5,"answer":null}'
    """
    return orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z)
