"""The one refusal of embedded mode; it is told to the person at the terminal and never crosses a wire.

MetacogError
└── SuiteError
"""

from kernel.errors import Code, MetacogError


class SuiteError(MetacogError):
    """Something of the embedded suite cannot be had or started; the message says what to do."""

    code = Code.FAILED_PRECONDITION
