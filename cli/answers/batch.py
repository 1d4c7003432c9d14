"""`metacog batch` answers a file of requests in OpenAI's batch format through the router."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cli.answers.batch_journal import BatchJournal, open_journal, write_results
from cli.answers.batch_lines import BatchRequest, BatchResult, read_requests
from cli.terminal.client import Service
from cli.terminal.exits import INTERRUPTED, OK, PARTIAL
from cli.terminal.options import AsJson, Key, RouterUrl
from cli.terminal.output import print_json, snippet, stderr, text

MOST_SHOWN = 20


def batch(  # noqa: PLR0913 - each is an option of the command
    requests: Annotated[
        Path, typer.Argument(help="File of lines with custom_id, method, url and body; `-`: standard input.")
    ],
    out: Annotated[
        Path, typer.Argument(help="File of the results, in the order of the requests; written when all are complete.")
    ],
    concurrency: Annotated[int, typer.Option(min=1, max=1024, help="Concurrent requests.")] = 8,
    attempts: Annotated[int, typer.Option(min=1, help="Attempts for a request that fails temporarily.")] = 5,
    timeout: Annotated[float, typer.Option(min=0.1, help="Time limit of one attempt [s].")] = 600.0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing results.")] = False,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Answer a file of requests in OpenAI's batch format, through the router.

    Each result is stored in OUT.part at once. After an interruption, the same command continues and repeats the failed
    requests; a request that changed in the file is sent again. Failed requests are in OUT with their error, and are
    listed at the end: exit status 5.
    """
    batch_requests = read_requests(requests)
    with open_journal(out) as stored:
        if out.exists() and not force and not stored.results(batch_requests):
            stored.delete_if_empty()
            raise typer.BadParameter(f"{out} exists already; --force overwrites it", param_hint="OUT")
        service = Service("router", router, key=key)
        service.get_document("/v1/models")  # a wrong address or key is reported once, and not for each line
        results = _answered(service, batch_requests, stored, concurrency, attempts, timeout)
        write_results(out, stored, batch_requests, results)
        failed = [done for one in batch_requests if not (done := results[one.custom_id]).succeeded]
        if not failed:
            stored.path.unlink()
    _report(out, len(batch_requests), failed, as_json)
    raise typer.Exit(PARTIAL if failed else OK)


def _answered(
    service: Service,
    batch_requests: Sequence[BatchRequest],
    stored: BatchJournal,
    concurrency: int,
    attempts: int,
    timeout_s: float,
) -> dict[str, BatchResult]:
    """Return every result, including those of earlier attempts."""
    # aiohttp is imported by this command only.
    from cli.answers.batch_sender import SendLimits, send

    before = stored.results(batch_requests)
    left = [one for one in batch_requests if one.custom_id not in before or not before[one.custom_id].succeeded]
    if before:
        stderr.print(f"continuing: {len(batch_requests) - len(left)} of {len(batch_requests)} are answered already")
    limits = SendLimits(concurrency=concurrency, attempts=attempts, timeout_s=timeout_s)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr, transient=True) as progress:
        bar = progress.add_task("requests", total=len(batch_requests), completed=len(batch_requests) - len(left))

        def finished(answered: BatchResult) -> None:
            stored.record(answered)
            progress.advance(bar)

        try:
            asyncio.run(send(service.url, service.key, left, limits, finished))
        except KeyboardInterrupt:
            stderr.print(
                f"interrupted; the answers so far are in {stored.path}, and the same command continues from there"
            )
            raise typer.Exit(INTERRUPTED) from None
    return stored.results(batch_requests)


def _report(out: Path, total: int, failed: Sequence[BatchResult], as_json: bool) -> None:
    if as_json:
        problems = [
            {"custom_id": each.custom_id, "status": each.status, "error": each.error_message} for each in failed
        ]
        print_json({"out": str(out), "requests": total, "succeeded": total - len(failed), "failed": problems})
        return
    stderr.print(f"{total - len(failed)} of {total} answered; results in {out}", soft_wrap=True)
    for each in failed[:MOST_SHOWN]:
        stderr.print(text(f"failed: {each.custom_id}: {snippet(each.error_message)}", "red"), soft_wrap=True)
    if len(failed) > MOST_SHOWN:
        stderr.print(f"... and {len(failed) - MOST_SHOWN} more; each has its error in {out}", soft_wrap=True)
    if failed:
        stderr.print("the same command repeats these requests")
