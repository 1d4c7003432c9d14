"""Refusals of the delegation service.

MetacogError
├── UnknownAgent             the request names an agent that is not configured
├── UnknownDimension         the request names a dimension that is not configured
├── NoAgents                 nobody is configured
├── TaskNotFound             there is no such task for this key
├── FeedbackConflict         the task has a different label already
├── RequestIdReused          an identifier came back with other content
├── RequestInProgress        the first request with an identifier is still running
├── TeachingNotAllowed       the key may not change what was learned
├── InvalidProfile           an imported profile cannot be
├── SandboxUnavailable       unit tests were asked for, and the sandbox is off or missing
└── CategoryNotFound         there is no such discovered category for this key
"""

from kernel.errors import Code, MetacogError


class UnknownDimension(MetacogError):
    """The request names a dimension that is not configured."""

    code = Code.INVALID_ARGUMENT
    reason = "UNKNOWN_DIMENSION"


class TaskNotFound(MetacogError):
    """There is no such task for this key."""

    code = Code.NOT_FOUND
    reason = "TASK_NOT_FOUND"


class InvalidProfile(MetacogError):
    """An imported profile cannot be."""

    code = Code.INVALID_ARGUMENT
    reason = "INVALID_PROFILE"


class SandboxUnavailable(MetacogError):
    """Unit tests were asked for, and the sandbox is off or missing."""

    code = Code.FAILED_PRECONDITION
    reason = "SANDBOX_UNAVAILABLE"


class CategoryNotFound(MetacogError):
    """There is no such discovered category for this key."""

    code = Code.NOT_FOUND
    reason = "CATEGORY_NOT_FOUND"
