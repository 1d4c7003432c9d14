"""What a check of `metacog doctor` found."""

from enum import StrEnum

from kernel.values import value


class Verdict(StrEnum):
    """How bad it is."""

    FINE = "ok"
    WORTH_KNOWING = "note"
    WRONG = "wrong"
    NOT_CHECKED = "not checked"


@value
class Finding:
    """One finding.

    Attributes:
        name: What was looked at.
        verdict: How bad it is.
        said: What was found.
        advice: What to do; empty when nothing is to be done.
    """

    name: str
    label: Verdict
    said: str
    advice: str = ""


def fine(name: str, said: str) -> Finding:
    """Nothing is wrong."""
    return Finding(name=name, label=Verdict.FINE, said=said)


def note(name: str, said: str, advice: str = "") -> Finding:
    """It works, and is worth knowing."""
    return Finding(name=name, label=Verdict.WORTH_KNOWING, said=said, advice=advice)


def wrong(name: str, said: str, advice: str) -> Finding:
    """It does not work."""
    return Finding(name=name, label=Verdict.WRONG, said=said, advice=advice)


def not_checked(name: str, why: str, advice: str = "") -> Finding:
    """It cannot be looked at from here."""
    return Finding(name=name, label=Verdict.NOT_CHECKED, said=why, advice=advice)
