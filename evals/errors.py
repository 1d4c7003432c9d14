"""Errors of an evaluation.

MetacogError
├── ItemsUnreadable      a data folder, a data set or one of its lines cannot be used
├── RecordsUnusable      recorded replies cannot be read, or belong to another evaluation
├── ServiceUnreachable   a service of the suite cannot be reached, or cannot do its work now
└── NotInstalled         a package that only some evaluations need is not installed
"""

from kernel.errors import Code, MetacogError


class ItemsUnreadable(MetacogError):
    """A data folder, a data set or one of its lines cannot be used."""

    code = Code.INVALID_ARGUMENT
    reason = "ITEMS_UNREADABLE"


class RecordsUnusable(MetacogError):
    """Recorded replies cannot be read, or belong to another evaluation."""

    code = Code.FAILED_PRECONDITION
    reason = "RECORDS_UNUSABLE"


class ServiceUnreachable(MetacogError):
    """A service of the suite cannot be reached, or cannot do its work now; what was recorded stays."""

    code = Code.UNAVAILABLE
    reason = "ROUTER_AWAY"


class NotInstalled(MetacogError):
    """A package that only some evaluations need is not installed."""

    code = Code.FAILED_PRECONDITION
    reason = "NOT_INSTALLED"
