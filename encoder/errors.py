"""The refusals of the encoder, told in OpenAI's error shape.

MetacogError
└── Refusal
    ├── BadRequest          400
    ├── Unauthenticated     401
    ├── ModelNotFound       404
    ├── TooLarge            413
    ├── Overloaded          429
    └── StillLoading        503
"""

from typing import ClassVar

from kernel.errors import Code, MetacogError


class Refusal(MetacogError):
    """Something that the encoder does not do.

    Args:
        message: What was wrong and what to do about it.
        param: The field that is at fault, if one is.
    """

    kind: ClassVar[str] = "invalid_request_error"
    code_text: ClassVar[str | None] = None
    retry_after_s: ClassVar[int | None] = None

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param

    @property
    def status(self) -> int:
        """HTTP status."""
        return self.code.http

    @property
    def headers(self) -> dict[str, str]:
        """Headers that go with the answer."""
        return {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}

    def as_openai(self) -> dict[str, dict[str, str | None]]:
        """Body of the answer."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code_text}}


class BadRequest(Refusal):
    """The request is not one for embeddings of text, or is over a limit."""

    code = Code.INVALID_ARGUMENT


class Unauthenticated(Refusal):
    """The bearer key is missing or is none of those configured."""

    code = Code.UNAUTHENTICATED
    code_text = "invalid_api_key"

    @property
    def headers(self) -> dict[str, str]:
        """Headers that go with the answer."""
        return {"WWW-Authenticate": "Bearer"}


class ModelNotFound(Refusal):
    """Another model than the one served was asked for."""

    code = Code.NOT_FOUND
    code_text = "model_not_found"


class TooLarge(Refusal):
    """The body is over the limit."""

    code = Code.INVALID_ARGUMENT

    @property
    def status(self) -> int:
        """HTTP status."""
        return 413


class Overloaded(Refusal):
    """Too many texts wait already."""

    code = Code.RESOURCE_EXHAUSTED
    kind = "rate_limit_error"
    code_text = "rate_limit_exceeded"
    retry_after_s = 1


class StillLoading(Refusal):
    """The model is not loaded yet."""

    code = Code.UNAVAILABLE
    kind = "server_error"
    code_text = "model_loading"
    retry_after_s = 1


class SettingsInvalid(MetacogError):
    """The encoder cannot be started with these settings."""

    code = Code.FAILED_PRECONDITION
