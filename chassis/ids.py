"""Names of runs and tasks: time-ordered, so that the newest sorts last."""

import secrets
import time
import uuid


def new_id() -> str:
    """A version 7 UUID: milliseconds since 1970, the rest of the time in 4096ths of one, then randomness."""
    stamp, rest_ns = divmod(time.time_ns(), 1_000_000)
    number = (stamp << 80) | (0x7 << 76) | (rest_ns * 4096 // 1_000_000 << 64) | (0b10 << 62) | secrets.randbits(62)
    return str(uuid.UUID(int=number))
