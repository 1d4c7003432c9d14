"""Durations, and the deadlines of the request being served, on the monotonic clock."""

import time
from contextvars import ContextVar

# Time until which the caller of the request being served waits [s, monotonic clock]; None where it is unknown. The gRPC
# edge sets it, so that no work for a request goes on longer.
CALLER_WAITS_UNTIL: ContextVar[float | None] = ContextVar("caller_waits_until", default=None)

# Deadline of the request being served, by its envelope [s, monotonic clock]; None where it has none. The use case sets
# it, so that calls which do not count against the envelope, those of the database above all, keep it too.
REQUEST_ENDS_AT: ContextVar[float | None] = ContextVar("request_ends_at", default=None)

# Time that such a call gets beyond the deadline: what was answered in time is still recorded [s].
GRACE_S = 0.3
# Least time of such a call [s].
LEAST_S = 0.02

# Time by which a reply is ready before its caller ceases to wait, or a tenth of the time where that is less [s].
AHEAD_S = 0.2


def seconds_for_caller(at_most_s: float) -> float:
    """Return the time that the reply to a caller may take [s, > 0]: `at_most_s`, or less before it ceases to wait."""
    until = CALLER_WAITS_UNTIL.get()
    if until is None:
        return at_most_s
    left_s = until - time.monotonic()
    return max(LEAST_S, min(at_most_s, left_s - min(AHEAD_S, left_s / 10)))


def seconds_within_request(at_most_s: float) -> float:
    """Return the time that a call for the request may take [s, > 0]: `at_most_s`, or less before its deadline."""
    ends_at = REQUEST_ENDS_AT.get()
    return at_most_s if ends_at is None else min(at_most_s, max(LEAST_S, ends_at + GRACE_S - time.monotonic()))


def milliseconds_since(started_at: float) -> float:
    """Return the time since `started_at` on the monotonic clock [ms]."""
    return round((time.monotonic() - started_at) * 1000, 3)
