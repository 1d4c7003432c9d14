"""This module writes JSON the way that every reply, event, stored document and digest has it."""

from collections.abc import Callable
from functools import partial

import orjson

# The JSON of plain data and values: times are in UTC with a `Z`, and non-finite numbers become null.
dumps: Callable[[object], bytes] = partial(orjson.dumps, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z)
