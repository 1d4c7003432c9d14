"""The error of embedded mode, which is shown at the terminal and never sent over a network.

MetacogError
└── SuiteError
"""

from kernel.errors import Code, MetacogError


class SuiteError(MetacogError):
    """A part of the embedded suite is not available or does not start; the message describes what to do."""

    code = Code.FAILED_PRECONDITION
