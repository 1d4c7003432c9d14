"""Shows the deliberation of a run, which is the record of its strategy."""

from enum import Enum

from rich.rule import Rule

from cli.answers import drawing, drawing_answers
from cli.terminal.client import Body
from cli.terminal.output import COOL, stdout, text


class DeliberationKind(Enum):
    """The strategy of a deliberation; the value is a field that only its record has."""

    DIALECTIC = "measurements"
    ARBITER = "solver_results"
    DELEGATION = "assessments"
    VOTE = "evidence"
    NONE = ""


def kind_of(done: Body) -> DeliberationKind:
    """Return the kind of a deliberation.

    Example:
        >>> kind_of({"solver_results": []}), kind_of({})
        (<DeliberationKind.ARBITER: 'solver_results'>, <DeliberationKind.NONE: ''>)
    """
    return next((kind for kind in DeliberationKind if kind.value in done), DeliberationKind.NONE)


def show_deliberation(done: Body, *, has_printed_note: bool = False) -> None:
    """Print a deliberation: the evolution and the note, the distributions and measures, or the delegated task.

    Args:
        done: The deliberation.
        has_printed_note: Whether the note is printed already.
    """
    match kind_of(done):
        case DeliberationKind.DIALECTIC:
            _show_dialectic(done, has_printed_note=has_printed_note)
        case DeliberationKind.ARBITER:
            heading("arbitration")
            stdout.print(drawing_answers.arbitration(done))
        case DeliberationKind.VOTE:
            heading("vote")
            stdout.print(drawing_answers.votes(done))
        case DeliberationKind.DELEGATION:
            heading("delegation")
            stdout.print(drawing_answers.task(done))


def show_escalation(run: Body) -> None:
    """Print what became of the stronger model, where the votes had one behind them."""
    if run.get("escalation"):
        heading("stronger model")
        stdout.print(drawing_answers.escalation(run["escalation"]))


def show_measured_state(run: Body) -> None:
    """Print the state that the votes measured, where there were any."""
    if run.get("state"):
        heading("state measured by the votes")
        stdout.print(drawing.measured_state(run["state"]))


def _show_dialectic(done: Body, *, has_printed_note: bool) -> None:
    if done["measurements"]:
        heading("state after each stage")
        stdout.print(drawing.evolution(done["measurements"]))
    heading("note beside the answer" if done["note"] else "no note beside the answer")
    if done["note"] and not has_printed_note:
        stdout.print(text(done["note"]), soft_wrap=True)
    stdout.print(text(done["note_reason"], "dim"), soft_wrap=True)


def heading(title: str) -> None:
    """Print the heading of a section."""
    stdout.print(Rule(text(title, "bold"), align="left", style=COOL))
