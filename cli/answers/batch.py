"""`metacog batch`: a file of requests in OpenAI's batch line format, answered by the router."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cli.answers.batch_journal import Journal, journal, write_results
from cli.answers.batch_lines import Answered, Asked, read_requests
from cli.terminal.client import Service
from cli.terminal.exits import INTERRUPTED, OK, PARTLY
from cli.terminal.options import AsJson, Key, RouterUrl
from cli.terminal.output import emit, snippet, text, told

MOST_SHOWN = 20


def batch(  # noqa: PLR0913 - each is an option of the command
    requests: Annotated[Path, typer.Argument(help="Lines with custom_id, method, url and body; `-`: standard input.")],
    out: Annotated[Path, typer.Argument(help="Results, in the order of the requests; written when all are there.")],
    concurrency: Annotated[int, typer.Option(min=1, max=1024, help="Requests at a time.")] = 8,
    attempts: Annotated[int, typer.Option(min=1, help="Attempts at a request that fails for a while.")] = 5,
    timeout: Annotated[float, typer.Option(min=0.1, help="Time that one attempt gets [s].")] = 600.0,
    force: Annotated[bool, typer.Option("--force", help="Write over results that are there.")] = False,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Answer a file of requests in OpenAI's batch line format, through the router.

    Each result is kept in OUT.part as it comes. The same command goes on after an interruption, and tries again what
    failed; a request that was changed in the file is asked anew. Failed lines are in OUT with their error, and named at
    the end: exit status 5.
    """
    asked = read_requests(requests)
    with journal(out) as kept:
        if out.exists() and not force and not kept.results(asked):
            kept.leave()
            raise typer.BadParameter(f"{out} is there already; --force writes over it", param_hint="OUT")
        service = Service("router", router, key=key)
        service.get("/v1/models")  # a wrong address or key is told now, and not once for each line
        results = _answered(service, asked, kept, concurrency, attempts, timeout)
        write_results(out, kept, asked, results)
        failed = [done for one in asked if not (done := results[one.custom_id]).succeeded]
        if not failed:
            kept.path.unlink()
    _report(out, len(asked), failed, as_json)
    raise typer.Exit(PARTLY if failed else OK)


def _answered(
    service: Service, asked: Sequence[Asked], kept: Journal, concurrency: int, attempts: int, timeout_s: float
) -> dict[str, Answered]:
    """Every result, those of earlier attempts included."""
    # aiohttp is imported by this command only.
    from cli.answers.batch_sender import Pace, send

    before = kept.results(asked)
    left = [one for one in asked if one.custom_id not in before or not before[one.custom_id].succeeded]
    if before:
        told.print(f"going on: {len(asked) - len(left)} of {len(asked)} are answered already")
    pace = Pace(concurrency=concurrency, attempts=attempts, timeout_s=timeout_s)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=told, transient=True) as progress:
        bar = progress.add_task("requests", total=len(asked), completed=len(asked) - len(left))

        def finished(answered: Answered) -> None:
            kept.record(answered)
            progress.advance(bar)

        try:
            asyncio.run(send(service.url, service.key, left, pace, finished))
        except KeyboardInterrupt:
            told.print(f"interrupted; what was answered is in {kept.path}, and the same command goes on from there")
            raise typer.Exit(INTERRUPTED) from None
    return kept.results(asked)


def _report(out: Path, total: int, failed: Sequence[Answered], as_json: bool) -> None:
    if as_json:
        problems = [{"custom_id": each.custom_id, "status": each.status, "error": each.complaint} for each in failed]
        emit({"out": str(out), "requests": total, "succeeded": total - len(failed), "failed": problems})
        return
    told.print(f"{total - len(failed)} of {total} answered; results in {out}", soft_wrap=True)
    for each in failed[:MOST_SHOWN]:
        told.print(text(f"failed: {each.custom_id}: {snippet(each.complaint)}", "red"), soft_wrap=True)
    if len(failed) > MOST_SHOWN:
        told.print(f"... and {len(failed) - MOST_SHOWN} more; each has its error in {out}", soft_wrap=True)
    if failed:
        told.print("the same command tries these again")
