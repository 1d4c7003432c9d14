"""Lines and files as their stores and the worker of lines have them: claims, leases, pauses, losses and deletion."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import psycopg
import pytest

from chassis import database as db
from chassis.admission import CALLER_KEY
from chassis.serving.multipart import FormFile, FormPiece
from inference import BackendFailed, BackendOverloaded
from kernel.errors import MetacogError, Overloaded
from services.router.core.batch_states import BatchStatus, Step
from services.router.errors import FileNotFound
from services.router.service.answering.admission import Admission
from services.router.service.batches.files import UPLOADS_OF_KEY, FileLimits, Files, pages_of
from services.router.service.batches.line_answers import LineReply
from services.router.service.batches.line_worker import LinePaces, LineWorker
from services.router.service.batches.values import INPUT, ClaimedLine, KeptResult, RequestBatch, StoredFile
from services.router.store.batches.batches import PostgresBatches
from services.router.store.batches.files import PostgresFiles
from services.router.store.batches.lines import PostgresBatchLines
from tests.support.stack import until

KEY = "ann"
LINE = b'{"custom_id": "a", "body": {}}\n'
LIMITS = FileLimits(size_bytes=1000, lines=10, line_bytes=100, per_key=10)
QUICK: Any = {"at_once": 2, "most_served": 8, "poll_s": 0.02, "first_pause_s": 0.02}
Answer = Callable[..., Awaitable[LineReply]]


class Stores:
    """The stores of one database."""

    def __init__(self, url: str) -> None:
        self.engine = db.build_engine(url, connections=4)
        sessions = db.build_sessions(self.engine)
        self.files, self.batches, self.lines = (
            PostgresFiles(sessions),
            PostgresBatches(sessions),
            PostgresBatchLines(sessions),
        )
        self._url = url.replace("+psycopg", "")

    def order(self, statement: str) -> Any:  # noqa: ANN401 - rows
        """Run a statement; its rows."""
        with psycopg.connect(self._url) as connection:
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description else None

    async def file(self, lines: list[bytes]) -> StoredFile:
        """Store a file."""
        file = StoredFile(
            file_id="file-in",
            purpose=INPUT,
            filename="a.jsonl",
            size_bytes=sum(map(len, lines)),
            line_count=len(lines),
            created_at=datetime.now(UTC),
        )
        await self.files.begin(file, KEY, 10)
        await self.files.add_lines(file.file_id, 1, lines)
        await self.files.finish(file)
        return file

    async def batch(self, count: int, output_expires_s: int | None = None) -> RequestBatch:
        """Store a batch whose lines may be answered."""
        file = await self.file([LINE] * count)
        now = datetime.now(UTC)
        batch = RequestBatch(
            batch_id="batch_1",
            key_name=KEY,
            endpoint="/v1/chat/completions",
            input_file_id=file.file_id,
            output_file_id=None,
            error_file_id=None,
            labels=None,
            errors=None,
            status=BatchStatus.VALIDATING,
            times={"created_at": now, "expires_at": now + timedelta(hours=24)},
            total=0,
            completed=0,
            failed=0,
            output_expires_s=output_expires_s,
        )
        await self.batches.create(batch, 10, 10)
        assert await self.batches.claim_step("s", 60) is not None
        assert await self.batches.add_lines(batch, "s", 60, {number: "a" for number in range(1, count + 1)})
        assert await self.batches.begin(batch, "s", count, ["file-out", "file-err"])
        return batch

    async def claimed(self, claim: str, lease_s: float = 60) -> ClaimedLine:
        """Claim a line."""
        line = await self.lines.claim(claim, lease_s)
        assert line is not None
        return line


@pytest.fixture
async def stores(empty_database_url: str) -> AsyncIterator[Stores]:
    stores = Stores(empty_database_url)
    yield stores
    await stores.engine.dispose()


def worker_of(lines: object, answer: Answer, admission: Admission | None = None, **paces: Any) -> LineWorker:  # noqa: ANN401
    """A worker whose lines `answer` answers."""

    class Answers:
        async def answer(self, *_: object) -> LineReply:
            return await answer()

    return LineWorker(cast(Any, lines), cast(Any, Answers()), admission or Admission(), LinePaces(**{**QUICK, **paces}))


async def test_results_are_created_and_expire_from_the_end_of_their_batch(stores: Stores) -> None:
    await stores.batch(1, output_expires_s=3600)
    stores.order("UPDATE router.files SET created_at = now() - interval '2 hours' WHERE file_id = 'file-out'")
    await stores.lines.keep(await stores.claimed("a"), b"{}\n", ok=True)
    for step in (Step.FINALIZE, Step.END):
        found = await stores.batches.claim_step("s", 60)
        assert found is not None
        assert found[1] is step
        if step is Step.FINALIZE:
            assert await stores.batches.finalize(found[0], "s")
        else:
            assert await stores.batches.end(found[0], "s", BatchStatus.COMPLETED)

    file = await stores.files.find("file-out", KEY)

    assert file.expires_at == file.created_at + timedelta(hours=1)


async def test_the_lease_of_a_line_that_is_claimed_but_not_answered_runs_out(stores: Stores) -> None:
    await stores.batch(2)
    answered, left = await stores.claimed("a", 0.3), await stores.claimed("a", 0.3)

    await stores.lines.renew("a", [answered.name], 60)
    await asyncio.sleep(0.4)

    assert (await stores.claimed("b")).number == left.number
    assert await stores.lines.claim("b", 60) is None


async def test_the_result_that_ends_the_lines_of_its_batch_says_so(stores: Stores) -> None:
    await stores.batch(4)
    lines = [await stores.claimed("a") for _ in range(4)]

    first = await stores.lines.keep(lines[0], b"{}\n", ok=True)
    again = await stores.lines.keep(lines[0], b"{}\n", ok=True)
    stores.order("UPDATE router.batches SET status = 'cancelling'")
    cancelled = await stores.lines.keep(lines[1], b"{}\n", ok=False)
    stores.order("UPDATE router.batches SET status = 'in_progress', expires_at = now()")
    late = await stores.lines.keep(lines[2], b"{}\n", ok=True)
    stores.order("UPDATE router.batches SET expires_at = now() + interval '1 day'")
    last = await stores.lines.keep(lines[3], b"{}\n", ok=True)

    found = [(one.is_stored, one.ends_lines) for one in (first, again, cancelled, late, last)]
    assert found == [(True, False), (False, False), (True, True), (True, True), (True, True)]


async def test_losses_of_a_line_are_counted_until_it_is_given_back(stores: Stores) -> None:
    await stores.batch(1)

    lost = [(await stores.claimed(name, -1)).losses for name in ("a", "a", "b", "c")]
    line = await stores.claimed("d")
    await stores.lines.release(line, "d", pause_s=0, attempts=5, failures=2)
    again = await stores.claimed("e")

    assert (lost, line.losses) == ([0, 0, 1, 2], 3)
    assert (again.losses, again.attempts, again.failures) == (0, 6, 2)


async def test_a_line_that_waits_holds_no_other_line_of_its_batch_up(stores: Stores) -> None:
    await stores.batch(2)
    first = await stores.claimed("a")

    await stores.lines.release(first, "a", pause_s=60, attempts=1, failures=0)

    assert (await stores.claimed("a")).number == 2


async def test_a_line_whose_processes_ended_gets_an_error_and_is_not_answered(stores: Stores) -> None:
    await stores.batch(1)
    stores.order("UPDATE router.batch_lines SET claim = 'gone', losses = 2, due_at = now()")
    asked = 0

    async def answer() -> LineReply:
        nonlocal asked
        asked += 1
        return LineReply(status=200, run_id="", body={})

    worker = worker_of(stores.lines, answer)
    worker.start()

    async def is_done() -> bool:
        return bool(stores.order("SELECT 1 FROM router.batches WHERE failed_count = 1"))

    await until(is_done)
    await worker.close()
    ((content,),) = stores.order("SELECT content FROM router.file_lines WHERE file_id = 'file-err'")

    assert asked == 0
    assert b'"line_lost"' in content


async def test_a_server_that_fails_is_asked_five_times_and_one_that_is_full_more_often(stores: Stores) -> None:
    await stores.batch(1)
    full = BackendOverloaded("full", backend="b", retry_after_s=0)
    errors: list[MetacogError] = [full] * 3 + [BackendFailed("500", backend="b")] * 9
    left = list(errors)

    async def answer() -> LineReply:
        raise left.pop(0)

    worker = worker_of(stores.lines, answer, first_pause_s=0.001)
    worker.start()

    async def is_done() -> bool:
        return bool(stores.order("SELECT 1 FROM router.batches WHERE failed_count = 1"))

    await until(is_done)
    await worker.close()

    assert len(errors) - len(left) == 3 + 5


async def test_a_line_waits_as_long_as_its_full_server_says(stores: Stores) -> None:
    await stores.batch(1)

    async def answer() -> LineReply:
        raise BackendOverloaded("full", backend="b", retry_after_s=50)

    worker = worker_of(stores.lines, answer)
    worker.start()

    async def is_released() -> bool:
        return bool(stores.order("SELECT 1 FROM router.batch_lines WHERE claim = '' AND attempts = 1"))

    await until(is_released)
    await worker.close()

    ((pause,),) = stores.order("SELECT due_at - now() FROM router.batch_lines")
    assert timedelta(seconds=30) < pause <= timedelta(seconds=50)


async def test_an_overload_of_a_line_pauses_no_other_and_one_of_a_request_pauses_all(stores: Stores) -> None:
    await stores.batch(4)
    admission = Admission()
    asked = 0

    async def answer() -> LineReply:
        nonlocal asked
        asked += 1
        with admission.request():
            raise BackendOverloaded("full", backend="b")

    worker = worker_of(stores.lines, answer, admission)
    worker.start()

    async def all_asked() -> bool:
        return asked >= 4

    await until(all_asked)
    with pytest.raises(BackendOverloaded), admission.request():
        raise BackendOverloaded("full", backend="b")
    await asyncio.sleep(0.1)  # what had begun ends
    stores.order("UPDATE router.batch_lines SET due_at = now()")
    before = asked
    await asyncio.sleep(0.3)
    await worker.close()

    assert asked == before


async def test_leases_are_renewed_while_lines_are_found_without_a_pause() -> None:
    renewed = asyncio.Event()
    number = 0

    class Endless:
        async def claim(self, *_: object) -> ClaimedLine:
            nonlocal number
            number += 1
            await asyncio.sleep(0.002)
            given: Any = {"custom_id": "a", "key_name": KEY, "endpoint": "", "attempts": 1, "failures": 0, "losses": 0}
            return ClaimedLine(batch_id="b", number=number, content=LINE, **given)

        async def renew(self, claim: str, names: list[tuple[str, int]], lease_s: float) -> None:
            if number > 20 and ("b", 1) in names:
                renewed.set()

        async def keep(self, *_: object, **__: object) -> KeptResult:
            return KeptResult(is_stored=True)

        async def release(self, *_: object, **__: object) -> None:
            pass

    hang = True

    async def answer() -> LineReply:
        nonlocal hang
        if hang:  # the first line takes long
            hang = False
            await asyncio.Event().wait()
        return LineReply(status=200, run_id="", body={})

    worker = worker_of(Endless(), answer, at_once=4, lease_s=0.15)
    worker.start()
    async with asyncio.timeout(20):
        await renewed.wait()
    await worker.close()


async def test_a_file_that_is_gone_is_deleted_in_pieces(stores: Stores) -> None:
    await stores.file([LINE] * 25)
    await stores.files.delete("file-in", KEY)
    with pytest.raises(FileNotFound):
        await stores.files.find("file-in", KEY)

    left = []
    while await stores.files.delete_gone(10):
        left.append(stores.order("SELECT count(*) FROM router.file_lines")[0][0])

    assert left == [15, 5, 0]
    assert stores.order("SELECT count(*) FROM router.files") == [(0,)]


async def test_old_files_are_gone_by_their_age(stores: Stores) -> None:
    await stores.file([LINE])
    stores.order("UPDATE router.files SET created_at = now() - interval '3 days'")

    assert await stores.files.end_old(timedelta(days=4), 10) == 0
    assert await stores.files.end_old(timedelta(days=2), 10) == 1
    assert await stores.files.end_old(timedelta(days=2), 10) == 0
    assert await stores.files.delete_gone(10)


async def test_one_long_line_does_not_make_every_page_short(stores: Stores) -> None:
    lines = [b"x" * 300_000 + b"\n", *[b"y" * 999 + b"\n"] * 600]
    file = await stores.file(lines)

    pages = [page async for page in pages_of(stores.files, file)]

    assert [content for page in pages for _, content in page] == lines
    assert [len(page) for page in pages] == [1, 262, 262, 76]


async def test_a_name_that_cannot_be_stored_leaves_no_file(stores: Stores) -> None:
    files = Files(stores.files, LIMITS, keeps=True, now=lambda: datetime.now(UTC))

    async def pieces() -> AsyncIterator[FormPiece]:
        yield FormFile(name="file", filename="a\0b")

    with pytest.raises(MetacogError):
        await files.upload(pieces(), KEY)

    assert stores.order("SELECT count(*) FROM router.files") == [(0,)]


async def test_a_key_has_half_of_the_uploads_at_most(stores: Stores) -> None:
    files = Files(stores.files, LIMITS, keeps=True, now=lambda: datetime.now(UTC))
    is_over = asyncio.Event()

    async def pieces() -> AsyncIterator[FormPiece]:
        await is_over.wait()
        yield FormFile(name="wrong", filename="a")

    CALLER_KEY.set(KEY)
    waiting = [asyncio.create_task(files.upload(pieces(), KEY)) for _ in range(UPLOADS_OF_KEY)]
    await asyncio.sleep(0.01)
    with pytest.raises(Overloaded):
        await files.upload(pieces(), KEY)
    CALLER_KEY.set("bob")
    other = asyncio.create_task(files.upload(pieces(), "bob"))
    await asyncio.sleep(0.01)
    has_place = not other.done()
    is_over.set()
    await asyncio.wait({other, *waiting})

    assert has_place
