"""Only the arbiter raises these errors.

MetacogError
└── RecordingTooShort    a replay asks for more samples than the recording holds
"""

from kernel.errors import Code, MetacogError


class RecordingTooShort(MetacogError):
    """A replay asks for more samples than the recording holds."""

    code = Code.INVALID_ARGUMENT
    reason = "RECORDING_TOO_SHORT"
