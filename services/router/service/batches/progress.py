"""Batches go from state to state in the background: each step is one process's, by a lease, and may be taken again.

A process that is killed leaves its step to the next one, which begins it anew; its transactions check the lease, so
that a step which was held up changes nothing any more.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from chassis.ids import new_id
from chassis.json_text import InvalidJson, loads_request
from chassis.log import logger
from chassis.worker import BackgroundWorker, RoundTooLong, round_within, wait_within
from kernel.errors import MetacogError
from kernel.values import value
from services.router.core.batch_lines import LineChecker, LineProblem, listed_problems, unanswered_line
from services.router.core.batch_states import BatchStatus, Step
from services.router.errors import FileNotFound
from services.router.metrics import BATCH_LINES, BATCH_LINES_WAITING, BATCHES
from services.router.service.batches.files import FileStore, pages_of
from services.router.service.batches.line_answers import written_line
from services.router.service.batches.values import FILE, RequestBatch

POLL_S = 2.0
# A step that was begun is another process's after this time without a sign of life [s].
LEASE_S = 60.0
# Time that one step may take before it counts as hung [s].
STEP_WITHIN_S = 1800.0
# Lines that get their error at once, and lines of a file that is gone that are deleted at once [count].
PAGE, DELETED_LINES = 500, 5000
# Time between two looks at which files are gone [s].
SWEEP_EVERY_S = 60.0
CLOSE_WITHIN_S = 3.0

_log = logger(__name__)


class StepStore(Protocol):
    """This store holds batches and their lines. Every method may raise `DatabaseUnavailable`.

    A method with a claim returns whether it still held; where it did not, nothing was changed.
    """

    async def claim_step(self, claim: str, lease_s: float) -> tuple[RequestBatch, Step] | None:
        """Return a batch with its next step; no other process gets it while the lease lasts."""

    async def clear_lines(self, batch: RequestBatch, claim: str, lease_s: float) -> bool:
        """Delete the lines of a batch."""

    async def add_lines(self, batch: RequestBatch, claim: str, lease_s: float, lines: Mapping[int, str]) -> bool:
        """Store lines, as `custom_id` by number."""

    async def begin(self, batch: RequestBatch, claim: str, total: int, files: Sequence[str]) -> bool:
        """Let the lines of a batch be answered, with two new files for results."""

    async def fail(self, batch: RequestBatch, claim: str, problems: Sequence[Mapping[str, Any]]) -> bool:
        """End a batch whose input file cannot be used."""

    async def finalize(self, batch: RequestBatch, claim: str) -> bool:
        """Begin the last step of a batch."""

    async def unanswered(self, batch: RequestBatch, most: int) -> Sequence[tuple[int, str]]:
        """Return number and `custom_id` of lines without a result."""

    async def give_up(self, batch: RequestBatch, claim: str, lease_s: float, errors: Mapping[int, bytes]) -> bool:
        """Store errors of lines, by number."""

    async def end(self, batch: RequestBatch, claim: str, status: BatchStatus) -> bool:
        """Close the files of results, and end a batch."""

    async def lines_left(self) -> int:
        """Return how many lines of all batches have no result yet."""

    async def delete_old(self, age: timedelta, most: int) -> int:
        """Delete batches that have ended and are older than an age; return how many."""


class ExpiringFiles(FileStore, Protocol):
    """This store holds files, of which some expire."""

    async def end_old(self, age: timedelta, most: int) -> int:
        """Let files that are older than an age be gone; return how many."""

    async def delete_gone(self, most_lines: int) -> bool:
        """Delete a piece of a file that is gone, and with the last one the file; return whether there was one."""


@value
class StepPaces:
    """These options say when steps are looked for, and how long one holds.

    Attributes:
        poll_s: Time between two looks at what is to be done [s].
        lease_s: Time after which a step without a sign of life is another process's [s].
        sweep_every_s: Time between two looks at which files are gone [s].
    """

    poll_s: float = POLL_S
    lease_s: float = LEASE_S
    sweep_every_s: float = SWEEP_EVERY_S


class BatchProgress:
    """Takes the steps of batches, one after another.

    Args:
        store: The batches.
        files: Their files.
        paces: When, and for how long.
        keeps: Whether contents are stored; where they are not, no batch begins.
        clock: Monotonic clock [s].
    """

    def __init__(
        self,
        store: StepStore,
        files: ExpiringFiles,
        paces: StepPaces,
        *,
        keeps: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._files = files
        self._paces = paces
        self._keeps = keeps
        self._lease_s = paces.lease_s
        self._claim = new_id()
        self._wake = asyncio.Event()
        self._sweep_at = clock()  # of the clock
        self._clock = clock
        self._is_away = False
        self._worker = BackgroundWorker("batches", self._run_round)

    def start(self) -> None:
        """Begin to take steps."""
        self._worker.start()

    def wake(self) -> None:
        """Report that there may be a step to take; never waits."""
        self._wake.set()

    async def check(self) -> None:
        """Return while steps are taken; raises `WorkerFailing` otherwise."""
        await self._worker.check()

    async def close(self) -> None:
        """Stop; a step that is not ended is taken again."""
        self._wake.set()
        await self._worker.close(within_s=CLOSE_WITHIN_S)

    async def _run_round(self, stop: asyncio.Event) -> None:
        await wait_within(self._wake, self._paces.poll_s)
        self._wake.clear()
        if stop.is_set():
            return
        try:
            while not stop.is_set() and await self._take_step():
                pass
            BATCH_LINES_WAITING.set(await self._store.lines_left())
            await self._sweep()
        except RoundTooLong:
            raise
        except MetacogError as error:
            if not self._is_away:
                _log.warning("batches wait", problem=error.message)
            self._is_away = True
        else:
            self._is_away = False

    async def _take_step(self) -> bool:
        """Take one step; return whether there was one."""
        found = await self._store.claim_step(self._claim, self._lease_s)
        if found is None:
            return False
        batch, step = found
        async with round_within(STEP_WITHIN_S):
            await self._take(batch, step)
        return True

    async def _take(self, batch: RequestBatch, step: Step) -> None:
        match step:
            case Step.VALIDATE:
                await self._validate(batch)
            case Step.FINALIZE:
                await self._store.finalize(batch, self._claim)
            case Step.END:
                await self._end(batch, BatchStatus.COMPLETED)
            case Step.EXPIRE:
                message = "the completion window was over before this line was answered"
                await self._give_up(batch, "batch_expired", message, BatchStatus.EXPIRED)
            case Step.CANCEL:
                message = "the batch was cancelled before this line was answered"
                await self._give_up(batch, "batch_cancelled", message, BatchStatus.CANCELLED)
            case Step.WAIT:
                pass

    async def _end(self, batch: RequestBatch, status: BatchStatus) -> None:
        if await self._store.end(batch, self._claim, status):
            BATCHES.labels(status).inc()

    async def _validate(self, batch: RequestBatch) -> None:
        checker = LineChecker(batch.endpoint)
        total = await self._checked(batch, checker)
        if total is None:
            return
        if total == 0 and not checker.problems:
            checker.note(None, "empty_file", "the input file has no lines")
        if checker.problems:
            await self._fail(batch, checker.problems)
        else:
            await self._store.begin(batch, self._claim, total, [f"{FILE}{new_id()}", f"{FILE}{new_id()}"])

    async def _fail(self, batch: RequestBatch, problems: Sequence[LineProblem]) -> None:
        if await self._store.fail(batch, self._claim, listed_problems(problems)):
            BATCHES.labels(BatchStatus.FAILED).inc()

    async def _checked(self, batch: RequestBatch, checker: LineChecker) -> int | None:
        """Check the input file, and store its lines; return how many, or None where the step is another process's."""
        if not self._keeps:
            checker.note(None, "contents_not_stored", "contents are not stored here, so that no batch can be answered")
            return 0
        if not await self._store.clear_lines(batch, self._claim, self._lease_s):
            return None
        total = 0
        try:
            file = await self._files.find(batch.input_file_id, batch.key_name)
            async for page in pages_of(self._files, file):
                lines: dict[int, str] = {}
                for number, content in page:
                    custom_id = _checked_line(checker, number, content)
                    if custom_id is not None:
                        lines[number] = custom_id
                    await asyncio.sleep(0)  # a page of long lines holds nothing else up
                total += len(lines)
                if not await self._store.add_lines(batch, self._claim, self._lease_s, lines):
                    return None
        except FileNotFound:
            checker.note(None, "file_not_found", f"the input file {batch.input_file_id} is gone", "input_file_id")
        return total

    async def _give_up(self, batch: RequestBatch, code: str, message: str, status: BatchStatus) -> None:
        """Give each line that is left its error, and end the batch."""
        while batch.error_file_id and (left := await self._store.unanswered(batch, PAGE)):
            errors = {
                number: written_line(unanswered_line(batch.batch_id, number, custom_id, code=code, message=message))
                for number, custom_id in left
            }
            if not await self._store.give_up(batch, self._claim, self._lease_s, errors):
                return
            BATCH_LINES.labels(code.removeprefix("batch_")).inc(len(left))
        await self._end(batch, status)

    async def _sweep(self) -> None:
        """Delete a piece of a file that is gone; the next piece waits for the steps that are due meanwhile."""
        now = self._clock()
        if now < self._sweep_at:
            return
        self._sweep_at = now + self._paces.sweep_every_s
        if await self._files.delete_gone(DELETED_LINES):
            self._sweep_at = now
            self._wake.set()


def _checked_line(checker: LineChecker, number: int, content: bytes) -> str | None:
    """Return the `custom_id` of a line; None for an empty line, or after noting what is wrong with it."""
    if not content.strip():
        return None
    try:
        line = loads_request(content)
    except InvalidJson as error:
        checker.note(number, "invalid_json_line", f"{error}")
        return None
    return checker.check(number, line)
