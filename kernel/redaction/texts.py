"""These functions return what stays of a text where questions and answers are not stored."""

import re
from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,127}")
_REASON = re.compile(r"(?:[A-Za-z0-9_-]{1,32}(?: failed)?: )?[A-Z][A-Z0-9_]{2,39}(?=:|$)")
WORDS = frozenset({"baseline", "budget", "profile", "skipped", "uninformative", "unparseable", "unparsable"})
WITHHELD = "withheld"


def bare_reason(reason: str) -> str:
    """Return the code of a reason and the part that it is about, without what it may quote.

    Example:
        >>> bare_reason("dialectic: BACKEND_UNAVAILABLE: the backend said 'Ann is ill'")
        'dialectic: BACKEND_UNAVAILABLE'
        >>> bare_reason("Ann is ill")
        'withheld'
    """
    if not reason or reason in WORDS:
        return reason
    found = _REASON.match(reason)
    return found.group() if found else WITHHELD


def bare_reasons(reasons: Mapping[str, str]) -> dict[str, str]:
    """Return reasons by name, without what they may quote."""
    return {name: bare_reason(reason) for name, reason in reasons.items() if bare_name(name)}


def bare_name(name: str) -> str:
    """Return `name` if it can be a name; an empty text otherwise."""
    return name if _NAME.fullmatch(name) else ""
