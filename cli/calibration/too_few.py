"""The error for a choice that too few records support."""

from kernel.errors import Code, MetacogError


class TooFewLabels(MetacogError):
    """There are too few records or labels to choose from; the message names how many there are and are needed."""

    code = Code.FAILED_PRECONDITION
    reason = "TOO_FEW_LABELS"
