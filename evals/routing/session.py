"""The router's evaluation from start to report: what is recorded already is not asked for again."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from evals.commit import commit
from evals.harness.session import RunStart, records_in, start_run
from evals.records import RecordFile, read_records
from evals.router_client import RouterClient
from evals.routing.files import RECORDS, write_report
from evals.routing.report import HUB
from evals.routing.requests import FIXED, Plan, heading, record_plan
from kernel.values import value


@value
class Source:
    """The source of the items: the folder (or its option), the sets, and the number of items of each."""

    folder: str
    sets: tuple[str, ...]
    items: int


async def record(
    plan: Plan,
    source: Source,
    router: RouterClient,
    folder: Path,
    on_progress: Callable[[], None],
    seconds: float | None = None,
) -> None:
    """Record everything in `plan` that `folder` does not hold yet.

    Args:
        plan: What is asked.
        source: Where its items come from.
        router: The router that is asked.
        folder: The folder of the records.
        on_progress: Called after each request of the plan.
        seconds: Time after which it ends, and gives up the requests in flight [s]; None: when everything is recorded.

    Raises:
        ServiceUnreachable: When the router, or the model behind it, cannot be reached; what came before is recorded.
        RecordsUnusable: When the folder holds records that were made differently, or of other items of the same names.
    """
    file = folder / RECORDS
    with RecordFile(file) as sink:
        records = read_records(file)
        about = {"commit": commit(), "data": source.folder, "sets": list(source.sets), "items": source.items}
        opening = await heading(router, plan, about)
        start_run(RunStart(heading=opening, items=plan.items, fixed=FIXED), records, sink)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await record_plan(router, plan, records, sink, on_progress)


def rewrite(records: Path) -> tuple[Path, str]:
    """Write the report again from records alone; returns its folder and text.

    Args:
        records: The records, or the folder that they are in.

    Raises:
        RecordsUnusable: When they cannot be read.
    """
    folder, known = records_in(records)
    return folder, write_report(known, folder)


def source(folder: Path, plan: Plan, items: int) -> Source:
    """Return where the items of `plan` come from."""
    return _source(str(folder), plan, items)


def public_source(names: Sequence[str], plan: Plan, items: int) -> Source:
    """Return where the items of `plan` come from, if they are public sets by these names."""
    return _source(f"{HUB} {','.join(names)}", plan, items)


def _source(folder: str, plan: Plan, items: int) -> Source:
    return Source(folder=folder, sets=tuple(dict.fromkeys(item.dataset for item in plan.items)), items=items)
