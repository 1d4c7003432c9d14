"""This module holds the time until which the caller of a request waits."""

from contextvars import ContextVar

# Time until which the caller of the request being served waits [s, monotonic clock]; None where it is unknown. The gRPC
# edge sets it, so that no work for a request goes on longer.
CALLER_WAITS_UNTIL: ContextVar[float | None] = ContextVar("caller_waits_until", default=None)
