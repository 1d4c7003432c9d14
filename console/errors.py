"""Refusals as a person reads them: what is wrong, and what to do about it."""

from collections.abc import Mapping

from kernel.errors import Code, MetacogError
from kernel.values import value


@value
class Notice:
    """A message to a person.

    Attributes:
        title: What is wrong, in a few words.
        detail: The same in full.
        advice: What to do about it.
        reason: Stable name of the reason, for whoever has to look further.
    """

    title: str
    detail: str
    advice: str = ""
    reason: str = ""


class Unusable(MetacogError):
    """Something that was typed in or chosen cannot be used."""

    code = Code.INVALID_ARGUMENT
    reason = "MALFORMED_REQUEST"


class EmptyQuestion(Unusable):
    """There is no question."""

    def __init__(self) -> None:
        super().__init__("Type a question first.")


class BadFile(Unusable):
    """A file cannot be read as a text."""


class TooManyLive(MetacogError):
    """As many questions are being followed as may be."""

    code = Code.RESOURCE_EXHAUSTED
    reason = "OVERLOADED"


class NotLive(MetacogError):
    """What is to be followed is not there any more."""

    code = Code.NOT_FOUND
    reason = "RUN_NOT_FOUND"


class Forbidden(MetacogError):
    """A request comes from another page, or asks for the console under a name that is not its own."""

    code = Code.PERMISSION_DENIED
    reason = "UNAUTHENTICATED"


_TITLES: Mapping[str, tuple[str, str]] = {
    "PEER_UNAVAILABLE": (
        "A service is not reachable",
        "See whether the suite is up (`make status`), and start it with `make up`.",
    ),
    "BACKEND_UNAVAILABLE": (
        "The model server is not reachable",
        "See whether it is up, and whether METACOG_INFERENCE_URL names it.",
    ),
    "BACKEND_OVERLOADED": ("The model server is busy", "Try again in a moment."),
    "BACKEND_UNAUTHORIZED": ("The model server refuses our key", "Set METACOG_INFERENCE_API_KEY."),
    "BACKEND_REFUSED": ("The model server refused the request", ""),
    "ENCODER_UNAVAILABLE": (
        "The sentence encoder is not reachable",
        "Documents and searches need it: see whether it is up (`make status`).",
    ),
    "DATABASE_UNAVAILABLE": ("The database is not reachable", "See whether PostgreSQL is up (`make status`)."),
    "OVERLOADED": ("Too much is under way", "Try again in a moment."),
    "BUDGET_EXHAUSTED": ("The envelope is used up", "Allow more tokens, generations or time under Options."),
    "DEADLINE_EXCEEDED": ("It took too long", "Allow more time under Options, or choose a quicker strategy."),
    "UNAUTHENTICATED": (
        "The key is not accepted",
        "Log in with a key that the suite knows; without a login the console uses METACOG_PEER_KEY.",
    ),
    "TEACHING_NOT_ALLOWED": ("This key may not teach", "Log in with a key that has `may_teach` switched on."),
    "FEEDBACK_CONFLICT": ("This run has another label already", "The first label stands."),
    "RUN_NOT_FOUND": ("There is no such run", "It may be older than what is kept, or belong to another key."),
    "DOCUMENT_NOT_FOUND": ("There is no such document", "It may have been deleted meanwhile."),
    "PROMPT_TOO_LONG": ("The question is too long for the model", "Shorten it."),
    "BODY_TOO_LARGE": ("It is too large", "Split it into smaller parts."),
    "REQUEST_OVER_LIMIT": ("It is over a limit of the service", ""),
    "MALFORMED_REQUEST": ("This cannot be used as it is", ""),
    "INVALID_PAGE_TOKEN": ("This page is out of date", "Go back to the first page."),
    "NOT_IMPLEMENTED": ("This build does not serve that", ""),
    "INTERNAL": ("Something went wrong inside", "The service's log has the details (.metacog/logs)."),
}


def notice(error: MetacogError) -> Notice:
    """What to tell a person of a refusal.

    Example:
        >>> notice(EmptyQuestion()).detail
        'Type a question first.'
    """
    said = error.reason.replace("_", " ").capitalize()
    title, advice = _TITLES.get(error.reason, (said, ""))
    return Notice(title=title, detail=error.message, advice=advice, reason=error.reason)
