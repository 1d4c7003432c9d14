"""One evaluation from start to report: what is recorded already is not asked for again."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.checking import Checker
from evals.harness.arms import Plan
from evals.harness.introducing import Introduce, introduction, same_items
from evals.harness.manifest import heading, resumable
from evals.harness.running import World, ask_all
from evals.records import Record, Recorder, read_records
from evals.suite import Faces, RoutingFacts, routing_facts
from kernel.answers import AnswerType
from kernel.values import value

RECORDS, REPORT = "records.jsonl", "report.md"


@value
class Session:
    """How one evaluation is recorded.

    Attributes:
        command: Its name, e.g. `mc-mas`.
        typed: The command that makes it again.
        folder: Where records go.
        asks_router: Whether the router's configuration belongs to the heading.
        introduce: What records keep of an item and its prompt.
    """

    command: str
    typed: str
    folder: Path
    asks_router: bool = False
    introduce: Introduce = introduction


async def record(session: Session, plan: Plan, faces: Faces, told: Callable[[], None]) -> None:
    """Ask for everything in `plan` that the session's folder does not hold yet, and again what was refused in passing.

    Raises:
        RouterAway: When a service, or the model behind it, is away; what came before is recorded.
        RecordsUnusable: When the folder holds records that were made otherwise, or of other items of the same names.
        NotInstalled: When programs are asked for, and there is no sandbox to run them in.
    """
    programs = any(item.answer_type is AnswerType.CODE for item in plan.items)
    checker = Checker() if programs else None
    file = session.folder / RECORDS
    with Recorder(file) as recorder:
        records = read_records(file)
        facts = await routing_facts(faces) if session.asks_router else RoutingFacts(suite={}, spent={})
        opening = heading(plan, session.command, _source(session, plan), facts)
        resumable(opening, records)
        same_items(plan.items, records, session.introduce)
        recorder.add(opening)
        world = World(
            suite=faces,
            writer=recorder,
            check=checker,
            introduce=session.introduce,
        )
        await ask_all(plan, world, records, told)


def _source(session: Session, plan: Plan) -> Mapping[str, Any]:
    return {"typed": session.typed, "sets": list(dict.fromkeys(item.dataset for item in plan.items))}


def records_in(place: Path) -> tuple[Path, Sequence[Record]]:
    """The folder and the records of `place`, which is either.

    Raises:
        RecordsUnusable: When they cannot be read.
    """
    file = place / RECORDS if place.is_dir() else place
    return file.parent, read_records(file)
