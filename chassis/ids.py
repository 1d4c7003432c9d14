"""Names of runs and tasks: time-ordered, so that the newest sorts last."""

import secrets
import time
import uuid


def new_id() -> str:
    """Return a version 7 UUID: milliseconds since 1970, the rest of the time in 4096ths of one, then randomness."""
    stamp, rest_ns = divmod(time.time_ns(), 1_000_000)
    number = (stamp << 80) | (0x7 << 76) | (rest_ns * 4096 // 1_000_000 << 64) | (0b10 << 62) | secrets.randbits(62)
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def age_s(name: str) -> float | None:
    """Return time since `new_id` made a name [s]; None for a name that it did not make."""
    try:
        number = uuid.UUID(name)
    except ValueError:
        return None
    return time.time() - (number.int >> 80) / 1000 if number.version == 7 else None
