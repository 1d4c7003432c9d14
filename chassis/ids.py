"""Names of runs and tasks: time-ordered, so that the newest sorts last."""

import secrets
import time
import uuid


def new_id() -> str:
    """A version 7 UUID: milliseconds since 1970, then randomness."""
    stamp = time.time_ns() // 1_000_000
    number = (stamp << 80) | (0x7 << 76) | (secrets.randbits(12) << 64) | (0b10 << 62) | secrets.randbits(62)
    return str(uuid.UUID(int=number))
