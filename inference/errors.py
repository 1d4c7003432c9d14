"""This module defines the errors of a call to a backend or to the encoder.

    MetacogError
    ├── EncoderUnavailable          ENCODER_UNAVAILABLE
    └── InferenceError              any of these
        ├── InvalidCall             INVALID_SAMPLING       the call itself is wrong; nothing is sent
        ├── PromptTooLong           PROMPT_TOO_LONG
        ├── ModelNotFound           MODEL_NOT_FOUND
        ├── EndpointNotServed       ENDPOINT_NOT_SERVED
        ├── RequestRejected         BACKEND_REJECTED       a 4xx that we cannot name better
        ├── BackendOverloaded       BACKEND_OVERLOADED     try again after `retry_after_s`
        ├── BackendUnavailable      BACKEND_UNAVAILABLE
        │   ├── CircuitOpen         BACKEND_UNAVAILABLE    not sent: the backend failed too often just now
        │   ├── BackendFailed       BACKEND_UNAVAILABLE    the backend is there, and failed at the request
        │   ├── InvalidReply        BACKEND_REPLY_INVALID  what came is no HTTP reply, or too long
        │   └── BackendUnauthorized BACKEND_UNAUTHORIZED   our key is not accepted
        ├── DeadlineExceeded        DEADLINE_EXCEEDED
        └── UnparsableOutput        UNPARSABLE_OUTPUT      the reply is not what was requested

`kernel.envelope.BudgetExhausted` is raised before anything is sent.
"""

from kernel.errors import Code, MetacogError


class InferenceError(MetacogError):
    """A call to a backend failed."""


class EncoderUnavailable(MetacogError):
    """The sentence encoder could not be reached, or its reply is not that of an encoder."""

    code = Code.UNAVAILABLE
    reason = "ENCODER_UNAVAILABLE"


class InvalidCall(InferenceError):
    """A field of the call is outside its range; `field` names it."""

    code = Code.INVALID_ARGUMENT
    reason = "INVALID_SAMPLING"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}", field=field)
        self.field = field


class PromptTooLong(InferenceError):
    """The prompt and the requested tokens do not fit into the model's context."""

    code = Code.INVALID_ARGUMENT
    reason = "PROMPT_TOO_LONG"


class ModelNotFound(InferenceError):
    """The backend does not serve the model."""

    code = Code.NOT_FOUND
    reason = "MODEL_NOT_FOUND"


class EndpointNotServed(InferenceError):
    """The backend does not have the endpoint, or not for this model."""

    code = Code.NOT_FOUND
    reason = "ENDPOINT_NOT_SERVED"


class RequestRejected(InferenceError):
    """The backend rejected the request for a reason of its own.

    Attributes:
        backend_message: The backend's message.
    """

    code = Code.INVALID_ARGUMENT
    reason = "BACKEND_REJECTED"

    def __init__(self, backend: str, status: int, backend_message: str) -> None:
        super().__init__(
            f"backend {backend} rejected the request ({status}): {backend_message}",
            backend=backend,
            said=backend_message,
        )
        self.backend_message = backend_message


class BackendOverloaded(InferenceError):
    """The backend, or our own queue for it, is full.

    Attributes:
        retry_after_s: When to try again [s, >= 0]; None where it is unknown.
    """

    code = Code.RESOURCE_EXHAUSTED
    reason = "BACKEND_OVERLOADED"

    def __init__(self, message: str, *, backend: str, retry_after_s: float | None = None) -> None:
        super().__init__(message, backend=backend, **_seconds(retry_after_s))
        self.retry_after_s = retry_after_s


class BackendUnavailable(InferenceError):
    """The backend cannot be reached, broke off, or failed by itself (5xx)."""

    code = Code.UNAVAILABLE
    reason = "BACKEND_UNAVAILABLE"


class CircuitOpen(BackendUnavailable):
    """The backend failed too often just now and gets no requests for a while.

    Attributes:
        retry_after_s: When a request may be sent again [s, >= 0].
    """

    def __init__(self, message: str, *, backend: str, retry_after_s: float) -> None:
        super().__init__(message, backend=backend, **_seconds(retry_after_s))
        self.retry_after_s = retry_after_s


class BackendFailed(BackendUnavailable):
    """The backend is there, and failed at the request (500 and the like): it may do so every time."""


class InvalidReply(BackendUnavailable):
    """What the backend sent is no reply of HTTP to the request, or longer than is read."""

    reason = "BACKEND_REPLY_INVALID"


class BackendUnauthorized(BackendUnavailable):
    """The backend does not accept our API key."""

    reason = "BACKEND_UNAUTHORIZED"


class DeadlineExceeded(InferenceError):
    """The request's time was over before the backend had answered."""

    code = Code.DEADLINE_EXCEEDED
    reason = "DEADLINE_EXCEEDED"


class UnparsableOutput(InferenceError):
    """The backend answered, but the answer is not what was requested."""

    code = Code.INTERNAL
    reason = "UNPARSABLE_OUTPUT"


def _seconds(retry_after_s: float | None) -> dict[str, str]:
    return {} if retry_after_s is None else {"retry_after_s": f"{retry_after_s:g}"}
