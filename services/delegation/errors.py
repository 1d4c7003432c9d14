"""The delegation service raises these errors.

MetacogError
├── UnknownDimension         the request names a dimension that is not configured
├── TaskNotFound             the key has no such task
├── InvalidProfile           an imported profile is not possible
├── CategoryNotFound         the key has no such discovered category
├── (agents, feedback)       kernel.errors: UnknownAgent, NoAgents, FeedbackConflict
├── (database)               chassis.errors: DatabaseUnavailable
├── (idempotency)            chassis.idempotency: RequestIdReused, RequestInProgress
├── (sandbox)                sandbox: SandboxUnavailable
└── (permissions)            kernel.errors: TeachingNotAllowed
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


class CategoryNotFound(MetacogError):
    """The key has no such discovered category."""

    code = Code.NOT_FOUND
    reason = "CATEGORY_NOT_FOUND"
