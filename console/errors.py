"""The errors of the console, and the notices that explain an error to the user."""

from collections.abc import Mapping

from kernel.errors import Code, MetacogError
from kernel.values import value


@value
class Notice:
    """A notice explains an error to the user.

    Attributes:
        title: The problem in a few words.
        detail: The message of the error.
        advice: What to do about it.
        reason: Stable name of the reason.
    """

    title: str
    detail: str
    advice: str = ""
    reason: str = ""


class InvalidInput(MetacogError):
    """The input of the user is invalid."""

    code = Code.INVALID_ARGUMENT
    reason = "MALFORMED_REQUEST"


class EmptyQuestion(InvalidInput):
    """The question is empty."""

    def __init__(self) -> None:
        super().__init__("Type a question first.")


class BadFile(InvalidInput):
    """A file cannot be read as text."""


class FormTooLarge(MetacogError):
    """A form is larger than it may be."""

    code = Code.INVALID_ARGUMENT
    reason = "BODY_TOO_LARGE"


class TooManyLive(MetacogError):
    """The limit of live runs is reached."""

    code = Code.RESOURCE_EXHAUSTED
    reason = "OVERLOADED"


class NotLive(MetacogError):
    """A live run does not exist any more."""

    code = Code.NOT_FOUND
    reason = "RUN_NOT_FOUND"


class Forbidden(MetacogError):
    """A request comes from another page, or uses an unknown host name."""

    code = Code.PERMISSION_DENIED
    reason = "UNAUTHENTICATED"


_TITLES: Mapping[str, tuple[str, str]] = {
    "PEER_UNAVAILABLE": (
        "A service is not reachable",
        "Check whether the suite is up (`make status`), and start it with `make up`.",
    ),
    "BACKEND_UNAVAILABLE": (
        "The model server is not reachable",
        "Check whether it is up, and whether METACOG_INFERENCE_URL is its address.",
    ),
    "BACKEND_REPLY_INVALID": (
        "The model server sent something that is no reply",
        "Check that METACOG_INFERENCE_URL is the address of a model server;"
        " a reply over METACOG_INFERENCE_MAX_REPLY_BYTES is rejected too.",
    ),
    "BACKEND_OVERLOADED": ("The model server is busy", "Try again in a moment."),
    "BACKEND_UNAUTHORIZED": ("The model server rejects the key", "Set METACOG_INFERENCE_API_KEY."),
    "BACKEND_REJECTED": ("The model server rejected the request", ""),
    "ENCODER_UNAVAILABLE": (
        "The sentence encoder is not reachable",
        "Documents and searches need it: check whether it is up (`make status`).",
    ),
    "DATABASE_UNAVAILABLE": ("The database is not reachable", "Check whether PostgreSQL is up (`make status`)."),
    "OVERLOADED": ("The suite is overloaded", "Try again in a moment."),
    "BUDGET_EXHAUSTED": ("The limits are exhausted", "Allow more tokens, generations or time under Options."),
    "DEADLINE_EXCEEDED": ("The time limit is exceeded", "Allow more time under Options, or choose a faster strategy."),
    "UNAUTHENTICATED": (
        "The key is not accepted",
        "Log in with a key of this suite; without a login the console uses METACOG_PEER_KEY.",
    ),
    "TEACHING_NOT_ALLOWED": ("This key has no permission to teach", "Log in with a key that has `may_teach`."),
    "FEEDBACK_CONFLICT": ("This run has another label already", "The first label is final."),
    "RUN_NOT_FOUND": (
        "There is no such run",
        "It may have been deleted after the retention time, or have another key.",
    ),
    "DOCUMENT_NOT_FOUND": ("There is no such document", "It may have been deleted."),
    "PROMPT_TOO_LONG": ("The question is too long for the model", "Shorten it."),
    "BODY_TOO_LARGE": ("The request is too large", "Split it into smaller parts."),
    "REQUEST_OVER_LIMIT": ("The request exceeds a limit of the service", ""),
    "MALFORMED_REQUEST": ("The input is invalid", ""),
    "INVALID_PAGE_TOKEN": ("This page is out of date", "Go back to the first page."),
    "NOT_IMPLEMENTED": ("This version does not support the request", ""),
    "INTERNAL": ("An internal error occurred", "The log of the service has the details (.metacog/logs)."),
}


def notice(error: MetacogError) -> Notice:
    """Return the notice that explains an error.

    Example:
        >>> notice(EmptyQuestion()).detail
        'Type a question first.'
    """
    default = error.reason.replace("_", " ").capitalize()
    title, advice = _TITLES.get(error.reason, (default, ""))
    return Notice(title=title, detail=error.message, advice=advice, reason=error.reason)
