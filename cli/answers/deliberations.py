"""Shows the account of a run: what its strategy did."""

from metacog.assigner.v1.assigner_pb2 import DeliberationFinished
from metacog.router.v1.router_pb2 import Run
from rich.rule import Rule

from cli.answers import drawing, drawing_answers
from cli.terminal.output import COOL, UNKNOWN, stdout, text


def show_account(run: Run, *, has_printed_note: bool = False) -> None:
    """Print a run's account: the evolution and the note, the distributions and measures, the votes, or the task.

    Args:
        run: The run.
        has_printed_note: Whether the note is printed already.
    """
    if run.HasField("deliberation"):
        _show_dialectic(run.deliberation, has_printed_note=has_printed_note)
    if run.HasField("arbitration"):
        heading("arbitration")
        stdout.print(drawing_answers.arbitration(run.arbitration))
    if run.HasField("vote"):
        heading("vote")
        stdout.print(drawing_answers.votes(run.vote))
    if run.HasField("task"):
        heading("delegation")
        stdout.print(drawing_answers.task(run.task))


def show_citations(run: Run) -> None:
    """Print the passages of documents that the answer of a run could use; nothing where none were asked for."""
    if not run.HasField("citations") and not run.citations_unknown_reason:
        return
    heading("sources")
    if run.citations_unknown_reason:
        stdout.print(text(f"{UNKNOWN}: {run.citations_unknown_reason}"), soft_wrap=True)
    elif not run.citations.by_number:
        stdout.print(text("no document is near"))
    for each in run.citations.by_number:
        stdout.print(text(drawing_answers.citation(each)), soft_wrap=True)


def show_kept(run: Run) -> None:
    """Print the assessments, votes and critiques of a run that was cancelled before it had a result."""
    for asked in run.deliberation.assessments:
        stdout.print(text(f"state of {asked.agent}", "bold"), drawing.state(asked.msv))
    if run.vote.votes:
        heading("vote")
        stdout.print(drawing_answers.cast(run.vote.votes))
    if run.arbitration.critiques:
        heading("arbitration")
        for each in run.arbitration.critiques:
            stdout.print(drawing_answers.critique(each))
    if run.task.assessments or run.task.votes:
        heading("delegation")
    if run.task.assessments:
        stdout.print(drawing_answers.assessments(run.task.assessments))
    if run.task.votes:
        stdout.print(drawing_answers.agents_votes(run.task.votes))


def show_escalation(run: Run) -> None:
    """Print what became of the stronger model, where the votes had one behind them."""
    if run.HasField("escalation"):
        heading("stronger model")
        stdout.print(drawing_answers.escalation(run.escalation))


def show_measured_state(run: Run) -> None:
    """Print the state that the votes measured, where there were any."""
    if run.HasField("state"):
        heading("state measured by the votes")
        stdout.print(drawing.measured_state(run.state))


def _show_dialectic(done: DeliberationFinished, *, has_printed_note: bool) -> None:
    if done.measurements:
        heading("state after each stage")
        stdout.print(drawing.evolution(done.measurements))
    heading("note beside the answer" if done.note else "no note beside the answer")
    if done.note and not has_printed_note:
        stdout.print(text(done.note), soft_wrap=True)
    stdout.print(text(done.note_reason, "dim"), soft_wrap=True)


def heading(title: str) -> None:
    """Print the heading of a section."""
    stdout.print(Rule(text(title, "bold"), align="left", style=COOL))
