"""`metacog eval record` records answers of the running suite, and replays what is recorded."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress

from cli.evaluation.common import (
    ARBITER,
    COLUMNS,
    ROUTER,
    Arbiter,
    Concurrency,
    Data,
    Hub,
    Items,
    Router,
    Sets,
    Timeout,
    interruptible,
    items_of,
    reject_two_sources,
    show,
)
from cli.evaluation.common import record as record_all
from cli.terminal.output import stderr
from evals.harness.command_line import command_line

if TYPE_CHECKING:
    from evals.recording.recorder import Recorded, RecordingPlan
    from evals.suite import Addresses

DEFAULT_RECORDING = Path("recording.jsonl.gz")


def record(  # noqa: PLR0913 - each is an option of the command
    ctx: typer.Context,
    data: Data = None,
    hub: Hub = "",
    sets: Sets = "",
    items: Items = 100,
    other: Annotated[str, typer.Option(help="Another model of models.yaml, for second opinions.")] = "",
    described: Annotated[
        str, typer.Option(help="Quantisation, version of the model server: what the suite does not report of itself.")
    ] = "",
    recording: Annotated[
        Path, typer.Option(help="File of the recording; continued where it exists.")
    ] = DEFAULT_RECORDING,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the recording.")] = 7,
    minutes: Annotated[int, typer.Option(min=0, help="Begin no further item after this time; 0: no limit.")] = 0,
    concurrency: Concurrency = 1,
    timeout: Timeout = 900,
    router: Router = ROUTER,
    arbiter: Arbiter = ARBITER,
    live: Annotated[
        int, typer.Option(min=0, help="Have the router answer this many recorded items anew, beside the replay.")
    ] = 0,
    report: Annotated[
        Path | None, typer.Option(help="Folder for report.md and figures.json; nothing is recorded then.")
    ] = None,
    pack: Annotated[
        Path | None, typer.Option(help="Folder for the pack of `metacog eval replay`; nothing is recorded then.")
    ] = None,
) -> None:
    """Record what the running suite answers, without the questions, and replay the product's rules on it.

    Of each item: the System 1 answer, three reasoned answers, a program that is run, an answer of another model, and
    two framings of a one-token check. The same command continues after an interruption. --report and --pack read the
    recording; --live with --report also asks the router. The key is METACOG_API_KEY.
    """
    from evals.recording.compressed import read_compressed
    from evals.recording.packing import write_pack
    from evals.recording.recorder import RecordingPlan, item_records
    from evals.suite import Addresses

    reject_two_sources(ctx)
    if live and report is None:
        raise typer.BadParameter("--live needs --report, which has the folder of its records", param_hint="--live")
    addresses = Addresses(router=router, arbiter=arbiter)
    if live or (report is None and pack is None):
        plan = RecordingPlan(
            items=items_of(data, hub, sets, items, programs=False),
            other=other,
            seed=seed,
            described=described,
            concurrency=concurrency,
            timeout_ms=timeout * 1000,
            within_s=minutes * 60.0 if minutes else None,
        )
        if report is None:
            return interruptible(_recorded(plan, recording, addresses), recording.parent)
        _ask_live(plan, live, recording, report, addresses)
    if pack is not None:
        records = read_compressed(recording)
        for path in write_pack(item_records(records), records, pack):
            stderr.print(f"written to {path}", soft_wrap=True)
    if report is not None:
        _write_report(recording, report)
    return None


async def _recorded(plan: "RecordingPlan", recording: Path, addresses: "Addresses") -> None:
    from evals.recording.compressed import CompressedRecords
    from evals.recording.recorder import record_items
    from evals.suite import SuiteClient

    key = os.environ.get("METACOG_API_KEY", "")
    with Progress(*COLUMNS, console=stderr) as progress, CompressedRecords(recording) as file:
        task = progress.add_task(f"{len(plan.items)} items", total=len(plan.items))
        async with SuiteClient(addresses, key=key, timeout_s=plan.timeout_ms / 1000) as suite:
            found = await record_items(plan, suite.post, file, lambda: progress.advance(task))
    _tell(found, recording)


def _tell(found: "Recorded", recording: Path) -> None:
    for problem in found.failed:
        stderr.print(f"not recorded: {problem}", soft_wrap=True)
    stderr.print(f"{found.items} items are in {recording}, {found.added} of them new", soft_wrap=True)


def _ask_live(plan: "RecordingPlan", many: int, recording: Path, report: Path, addresses: "Addresses") -> None:
    from dataclasses import asdict

    from evals.harness.rows import recorded_evaluation
    from evals.harness.session import RECORDS, Session
    from evals.recording.compressed import CompressedRecords, read_compressed
    from evals.recording.live import COMMAND, LIVE, live_answers, live_items, live_plan, live_records
    from evals.recording.recorder import item_records
    from evals.records import read_records

    chosen = live_items(plan.items, item_records(read_compressed(recording)), many)
    typed = command_line(COMMAND, recording=recording.name, report=report.name, live=many)
    session = Session(command=COMMAND, typed=typed, folder=report / LIVE, asks_router=True)
    record_all(live_plan(chosen, plan.concurrency, plan.timeout_ms), session, addresses)
    answered = live_answers(recorded_evaluation(read_records(report / LIVE / RECORDS), COMMAND))
    with CompressedRecords(recording) as file:
        known = live_records(file.records)
        for answer in answered:
            if answer not in known:
                file.add({"kind": LIVE, **asdict(answer)})


def _write_report(recording: Path, report: Path) -> None:
    from evals.recording.compressed import read_compressed
    from evals.recording.figures import recording_figures
    from evals.recording.live import COMMAND, live_records, live_rows
    from evals.recording.recorder import item_records
    from evals.recording.report import REPORT, write_recording_report

    records = read_compressed(recording)
    items = item_records(records)
    live = live_rows(live_records(records), items)
    typed = command_line(COMMAND, recording=recording.name, report=report.name)
    show(report, write_recording_report(records, recording_figures(items), live, report, typed), REPORT)
