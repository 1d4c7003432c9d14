"""This module defines the errors of the encoder, which it returns in OpenAI's error shape.

MetacogError
└── EncoderError
    ├── BadRequest          400
    ├── Unauthenticated     401
    ├── ModelNotFound       404
    ├── TooLarge            413
    ├── Overloaded          429
    ├── StillLoading        503
    └── EncodingFailed      503
"""

from typing import ClassVar

from kernel.errors import Code, MetacogError


class EncoderError(MetacogError):
    """The encoder cannot answer a request.

    Args:
        message: What was wrong and what to do about it.
        param: The field that is wrong, if one is.
    """

    kind: ClassVar[str] = "invalid_request_error"
    code_text: ClassVar[str | None] = None
    retry_after_s: ClassVar[int | None] = None

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param

    @property
    def status(self) -> int:
        """Return the HTTP status."""
        return self.code.http

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}

    def as_openai(self) -> dict[str, dict[str, str | None]]:
        """Return the body of the answer."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code_text}}


class BadRequest(EncoderError):
    """The request is not one for embeddings of text, or is over a limit."""

    code = Code.INVALID_ARGUMENT


class Unauthenticated(EncoderError):
    """The bearer key is missing or is not one of those configured."""

    code = Code.UNAUTHENTICATED
    code_text = "invalid_api_key"

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {"WWW-Authenticate": "Bearer"}


class ModelNotFound(EncoderError):
    """The request names another model than the one served."""

    code = Code.NOT_FOUND
    code_text = "model_not_found"


class TooLarge(EncoderError):
    """The body is over the limit."""

    code = Code.INVALID_ARGUMENT

    @property
    def status(self) -> int:
        """Return the HTTP status."""
        return 413


class Overloaded(EncoderError):
    """Too many texts are waiting already."""

    code = Code.RESOURCE_EXHAUSTED
    kind = "rate_limit_error"
    code_text = "rate_limit_exceeded"
    retry_after_s = 1


class StillLoading(EncoderError):
    """The model is not loaded yet."""

    code = Code.UNAVAILABLE
    kind = "server_error"
    code_text = "model_loading"
    retry_after_s = 1


class EncodingFailed(EncoderError):
    """The model failed on a batch; a later request may succeed."""

    code = Code.UNAVAILABLE
    kind = "server_error"
    code_text = "encoding_failed"
    retry_after_s = 1


class SettingsInvalid(MetacogError):
    """The encoder cannot be started with these settings."""

    code = Code.FAILED_PRECONDITION
