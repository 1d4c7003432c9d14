"""Requests that were made before: errors that both routers of requests give."""

from kernel.errors import Code, MetacogError


class RequestIdReused(MetacogError):
    """A request identifier came back with another request."""

    code = Code.ALREADY_EXISTS
    reason = "REQUEST_ID_REUSED"


class RequestInProgress(MetacogError):
    """The first request with an identifier had not ended when its repetition had to."""

    code = Code.ABORTED
    reason = "REQUEST_IN_PROGRESS"
