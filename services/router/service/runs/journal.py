"""The journal records runs; one that answered a request with an identifier is held to recognise a repetition."""

from functools import partial

from chassis.journal.journal import Journal
from chassis.recent import Name
from services.router.service.runs.values import Run

RunJournal = Journal[Run]


def request_of(run: Run) -> Name | None:
    """Return the key and the request that a run answered; None for a request without an identifier."""
    return (run.key_name, run.request_id) if run.request_id else None


run_journal = partial(RunJournal, kind=Run, name="runs", request_of=request_of)
