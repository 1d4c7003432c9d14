"""Until when the caller of the request being served waits."""

from contextvars import ContextVar

# Until when the caller of the request being served waits [s, monotonic clock]; None where nobody said. Set by the gRPC
# edge, so that nothing done on a request's behalf outlives its caller's patience.
CALLER_WAITS_UNTIL: ContextVar[float | None] = ContextVar("caller_waits_until", default=None)
