"""One evaluation from start to report: what is recorded already is not asked for again."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.harness.arms import Plan
from evals.harness.item_records import Introduce, introduction, require_same_items
from evals.harness.manifest import FIXED, heading, require_resumable
from evals.harness.plan_recorder import PlanContext, record_plan
from evals.items import Item
from evals.program_checks import ProgramChecker
from evals.records import Record, RecordFile, read_records
from evals.suite import RoutingFacts, SuiteClient, routing_facts
from kernel.values import value

RECORDS, REPORT = "records.jsonl", "report.md"


@value
class Session:
    """The settings by which one evaluation is recorded.

    Attributes:
        command: Its name, e.g. `mc-mas`.
        typed: The command that makes it again.
        folder: The folder of its records.
        asks_router: Whether the router's configuration belongs to the heading.
        introduce: What records hold of an item and its prompt.
    """

    command: str
    typed: str
    folder: Path
    asks_router: bool = False
    introduce: Introduce = introduction


@value
class RunStart:
    """The start of a run, and the fields that must agree with the records before it.

    Attributes:
        heading: The record that opens it.
        items: The items that are asked about.
        fixed: Fields of the heading that stay the same over a run that is resumed.
        introduce: What records hold of an item and its prompt.
    """

    heading: Record
    items: Sequence[Item]
    fixed: Sequence[str] = FIXED
    introduce: Introduce = introduction


def start_run(start: RunStart, records: Sequence[Record], file: RecordFile) -> None:
    """Write the heading of a run that adds to `records`.

    Raises:
        RecordsUnusable: When the records were made differently, or hold other items of the same names.
    """
    require_resumable(start.heading, records, start.fixed)
    require_same_items(start.items, records, start.introduce)
    file.add(start.heading)


async def record(session: Session, plan: Plan, suite: SuiteClient, on_progress: Callable[[], None]) -> None:
    """Record everything in `plan` that the session's folder does not hold yet, and ask again after a transient error.

    Args:
        session: How the evaluation is recorded.
        plan: What is asked.
        suite: The clients of the suite's services.
        on_progress: Called after each request of the plan.

    Raises:
        ServiceUnreachable: When a service, or the model behind it, cannot be reached; what came before is recorded.
        RecordsUnusable: When the folder holds records that were made differently, or of other items of the same names.
        NotInstalled: When programs are asked for, and there is no sandbox to run them in.
    """
    programs = any(item.is_program for item in plan.items)
    checker = ProgramChecker() if programs else None
    file = session.folder / RECORDS
    with RecordFile(file) as sink:
        records = read_records(file)
        facts = await routing_facts(suite) if session.asks_router else RoutingFacts(suite={}, spent={})
        opening = heading(plan, session.command, _source(session, plan), facts)
        start_run(RunStart(heading=opening, items=plan.items, introduce=session.introduce), records, sink)
        context = PlanContext(suite=suite, sink=sink, check=checker, introduce=session.introduce)
        await record_plan(plan, context, records, on_progress)


def _source(session: Session, plan: Plan) -> Mapping[str, Any]:
    return {"typed": session.typed, "sets": list(dict.fromkeys(item.dataset for item in plan.items))}


def records_in(place: Path) -> tuple[Path, Sequence[Record]]:
    """The folder and the records of `place`, which is either.

    Raises:
        RecordsUnusable: When they cannot be read.
    """
    file = place / RECORDS if place.is_dir() else place
    return file.parent, read_records(file)
