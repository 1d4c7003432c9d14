"""What is not a `MetacogError` is a bug; the edges of all APIs log and report it in the same way."""

from prometheus_client import Counter

from chassis.log import logger
from kernel.errors import InternalError, MetacogError

# What a model or another server did wrong has a name, even where its code is INTERNAL, and is none.
BUGS = Counter("metacog_bugs_total", "Errors without a name that reached the edge, each logged with its trace.")

_log = logger(__name__)


def named_error(error: Exception, **where: str) -> MetacogError:
    """Return `error` if it is a named error; else log and count it, and return `InternalError`, without its message.

    Args:
        error: What reached the edge.
        where: What the log states of the request, such as its operation.
    """
    if isinstance(error, MetacogError):
        return error
    _log.error("a bug reached the edge", **where, exc_info=error)
    BUGS.inc()
    return InternalError()
