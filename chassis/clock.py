"""This module measures times on the monotonic clock."""

import time


def milliseconds_since(started_at: float) -> float:
    """Return the time since `started_at` on the monotonic clock [ms]."""
    return round((time.monotonic() - started_at) * 1000, 3)
