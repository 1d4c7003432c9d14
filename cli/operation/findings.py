"""The findings of the checks of `metacog doctor`."""

from enum import StrEnum

from kernel.errors import without_user_info
from kernel.values import value


class Status(StrEnum):
    """The status of a finding, from fine to wrong."""

    FINE = "ok"
    NOTE = "note"
    WRONG = "wrong"
    NOT_CHECKED = "not checked"


@value
class Finding:
    """A finding is the result of one check; no URL in it has user information.

    Attributes:
        name: Name of the check.
        status: Its status.
        detail: What was found.
        advice: What to do; empty if there is nothing to do.
    """

    name: str
    status: Status
    detail: str
    advice: str = ""

    def __post_init__(self) -> None:
        """Take passwords out of the URLs."""
        object.__setattr__(self, "detail", without_user_info(self.detail))
        object.__setattr__(self, "advice", without_user_info(self.advice))


def fine(name: str, detail: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(name=name, status=Status.FINE, detail=detail)


def note(name: str, detail: str, advice: str = "") -> Finding:
    """Return a finding that works with a limitation."""
    return Finding(name=name, status=Status.NOTE, detail=detail, advice=advice)


def wrong(name: str, detail: str, advice: str) -> Finding:
    """Return a finding that does not work."""
    return Finding(name=name, status=Status.WRONG, detail=detail, advice=advice)


def not_checked(name: str, detail: str, advice: str = "") -> Finding:
    """Return a finding that cannot be checked from here."""
    return Finding(name=name, status=Status.NOT_CHECKED, detail=detail, advice=advice)
