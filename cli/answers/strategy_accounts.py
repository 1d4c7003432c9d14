"""A strategy's own account of what it did, as a run keeps it: shown by what it is."""

from enum import Enum

from rich.rule import Rule

from cli.answers import drawing, drawing_answers
from cli.terminal.client import Body
from cli.terminal.output import COOL, shown, text


class Account(Enum):
    """Who gave an account, by a field that only it has."""

    DIALECTIC = "measurements"
    ARBITER = "solver_results"
    DELEGATION = "assessments"
    NONE = ""


def kind(done: Body) -> Account:
    """Who gave an account.

    Example:
        >>> kind({"solver_results": []}), kind({})
        (<Account.ARBITER: 'solver_results'>, <Account.NONE: ''>)
    """
    return next((account for account in Account if account.value in done), Account.NONE)


def show_account(done: Body, *, noted: bool = False) -> None:
    """What came of the work: evolution and note, distributions and measures, or who did it and how sure they were.

    Args:
        done: The account.
        noted: Whether the note has been shown as it came.
    """
    match kind(done):
        case Account.DIALECTIC:
            _dialectic(done, noted=noted)
        case Account.ARBITER:
            heading("arbitration")
            shown.print(drawing_answers.arbitration(done))
        case Account.DELEGATION:
            heading("delegation")
            shown.print(drawing_answers.task(done))


def _dialectic(done: Body, *, noted: bool) -> None:
    if done["measurements"]:
        heading("state after each stage")
        shown.print(drawing.evolution(done["measurements"]))
    heading("note beside the answer" if done["note"] else "no note beside the answer")
    if done["note"] and not noted:
        shown.print(text(done["note"]), soft_wrap=True)
    shown.print(text(done["note_reason"], "dim"), soft_wrap=True)


def heading(title: str) -> None:
    """The head of a section."""
    shown.print(Rule(text(title, "bold"), align="left", style=COOL))
