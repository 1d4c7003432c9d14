"""The delegation service raises these errors.

MetacogError
├── UnknownDimension         the request names a dimension that is not configured
├── TaskNotFound             the key has no such task
├── InvalidProfile           an imported profile is not possible
├── SandboxUnavailable       the request has unit tests, and the sandbox is off or missing
├── CategoryNotFound         the key has no such discovered category
├── (agents, feedback)       kernel.errors: UnknownAgent, NoAgents, FeedbackConflict
├── (database)               chassis.errors: DatabaseUnavailable
├── (idempotency)            chassis.idempotency: RequestIdReused, RequestInProgress
└── (permissions)            chassis.serving.auth: TeachingNotAllowed
"""

from kernel.errors import Code, MetacogError


class UnknownDimension(MetacogError):
    """The request names a dimension that is not configured."""

    code = Code.INVALID_ARGUMENT
    reason = "UNKNOWN_DIMENSION"


class TaskNotFound(MetacogError):
    """The key has no such task."""

    code = Code.NOT_FOUND
    reason = "TASK_NOT_FOUND"


class InvalidProfile(MetacogError):
    """An imported profile is not possible."""

    code = Code.INVALID_ARGUMENT
    reason = "INVALID_PROFILE"


class SandboxUnavailable(MetacogError):
    """The request has unit tests, and the sandbox is off or missing."""

    code = Code.FAILED_PRECONDITION
    reason = "SANDBOX_UNAVAILABLE"


class CategoryNotFound(MetacogError):
    """The key has no such discovered category."""

    code = Code.NOT_FOUND
    reason = "CATEGORY_NOT_FOUND"
