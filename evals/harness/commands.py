"""The evaluation that records belong to. Pure."""

from collections.abc import Sequence

from evals.errors import RecordsUnusable
from evals.records import Record

ROUTING, OUTCOMES = "routing", "routing --outcomes"
# How the reports on these are made again, where their name differs from the command.
_TYPED = {OUTCOMES: f"{OUTCOMES} FILE"}


def command_of(run: Record) -> str:
    """The evaluation that the heading `run` opens; that of the router itself is not named there."""
    return str(run.get("command", ROUTING))


def runs_of(records: Sequence[Record], command: str) -> Sequence[Record]:
    """The headings of `records`, all of which are of the evaluation `command`.

    Raises:
        RecordsUnusable: When there is none, or one is of another evaluation; names it, and how its report is made.
    """
    runs = [record for record in records if record["kind"] == "run"]
    none_of_these = f"the records are none of `metacog eval {command}`"
    if not runs:
        raise RecordsUnusable(f"{none_of_these}: they have no heading")
    other = next((found for run in runs if (found := command_of(run)) != command), None)
    if other is not None:
        typed = f"metacog eval {_TYPED.get(other, other)} --report-only RECORDS"
        raise RecordsUnusable(f"{none_of_these}, but those of `metacog eval {other}`; its report: `{typed}`")
    return runs
