"""One evaluation from start to report: what is recorded already is not asked for again."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from evals.commit import commit
from evals.harness.introducing import same_items
from evals.records import Recorder, read_records
from evals.router_client import RouterClient
from evals.routing.asking import Plan, ask_all, heading, resumable
from evals.routing.files import RECORDS, write_report
from evals.routing.report import HUB
from kernel.values import value


@value
class Source:
    """Where the items come from: the folder (or the option that stands for it), the sets, how many of each."""

    folder: str
    sets: tuple[str, ...]
    items: int


async def record(
    plan: Plan,
    source: Source,
    router: RouterClient,
    folder: Path,
    told: Callable[[], None],
    seconds: float | None = None,
) -> None:
    """Ask for everything in `plan` that `folder` does not hold yet.

    After `seconds` [s] it ends, and gives up what is under way then; None: when everything is recorded.

    Raises:
        RouterAway: When the router, or the model behind it, is away; what came before is recorded.
        RecordsUnusable: When the folder holds records that were made otherwise, or of other items of the same names.
    """
    file = folder / RECORDS
    with Recorder(file) as recorder:
        records = read_records(file)
        about = {"commit": commit(), "data": source.folder, "sets": list(source.sets), "items": source.items}
        opening = await heading(router, plan, about)
        resumable(opening, records)
        same_items(plan.items, records)
        recorder.add(opening)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ask_all(router, plan, records, recorder, told)


def rewrite(records: Path) -> tuple[Path, str]:
    """Write the report again from records alone; returns its folder and text.

    Args:
        records: The records, or the folder that they are in.

    Raises:
        RecordsUnusable: When they cannot be read.
    """
    file = records / RECORDS if records.is_dir() else records
    return file.parent, write_report(read_records(file), file.parent)


def source(folder: Path, plan: Plan, items: int) -> Source:
    """Where the items of `plan` come from."""
    return Source(folder=str(folder), sets=tuple(dict.fromkeys(item.dataset for item in plan.items)), items=items)


def public_source(names: Sequence[str], plan: Plan, items: int) -> Source:
    """Where the items of `plan` come from, if they are public sets by these names."""
    return Source(
        folder=f"{HUB} {','.join(names)}", sets=tuple(dict.fromkeys(item.dataset for item in plan.items)), items=items
    )
