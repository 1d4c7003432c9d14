"""The journal loses no run that it could store, whatever its store and its disk do."""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
from prometheus_client import REGISTRY

from chassis.errors import DatabaseUnavailable
from chassis.idempotency import RequestIdReused
from chassis.journal.spool import Spool
from chassis.json_text import dumps
from chassis.worker import WorkerFailing
from inference import Spend
from kernel.conversation import Turn
from kernel.envelope import Envelope, Limits
from kernel.errors import MetacogError
from kernel.msv.affect import vader
from services.router.service.answering.idempotency import IdempotentAnswers
from services.router.service.runs.journal import RunJournal, run_journal
from services.router.service.runs.redaction import without_contents
from services.router.service.runs.values import Run


class FakeStore:
    """Stores documents in a list; raises while it is away or from an attempt on, and has bugs and pauses on demand."""

    def __init__(self) -> None:
        self.stored: list[str] = []
        self.attempts = 0
        self.away = False
        self.breaks_on = ""
        self.away_from: int | None = None
        self.hangs = False

    async def add(self, documents: Sequence[bytes]) -> Sequence[bytes]:
        self.attempts += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.away or (self.away_from is not None and self.attempts >= self.away_from):
            raise DatabaseUnavailable("away")
        names = [orjson.loads(document)["run_id"] for document in documents]
        if self.breaks_on in names:
            self.breaks_on = ""
            raise RuntimeError("a bug in the store")
        self.stored += names
        return ()


def run(name: str, **more: str) -> Run:
    return Run(
        run_id=name,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        messages=[Turn(role="user", content="So?")],
        messages_digest="",
        envelope=Envelope(),
        **more,  # type: ignore[arg-type]
    )


def lost() -> float:
    return REGISTRY.get_sample_value("metacog_journal_lost_total") or 0.0


async def is_healthy(journal: RunJournal) -> bool:
    try:
        await journal.check()
    except MetacogError:
        return False
    return True


async def failure(journal: RunJournal) -> str:
    """What readiness says of a worker that fails."""
    try:
        await journal.check()
    except WorkerFailing as error:
        return error.message
    except DatabaseUnavailable:
        pass
    return ""


async def record_and_close(journal: RunJournal, *names: str) -> None:
    """Record runs, and close the journal."""
    journal.start()
    for name in names:
        journal.record(run(name))
    await journal.close()


async def test_what_is_queued_reaches_the_store_before_the_end(tmp_path: Path) -> None:
    store = FakeStore()

    await record_and_close(run_journal(store, tmp_path / "runs.jsonl", retry_s=0.01), "a", "b")

    assert store.stored == ["a", "b"]


async def test_a_bug_in_the_store_does_not_end_the_writer(tmp_path: Path) -> None:
    store = FakeStore()
    store.breaks_on = "a"
    spool = tmp_path / "runs.jsonl"
    await record_and_close(run_journal(store, spool, retry_s=0.01), "a")

    journal = run_journal(store, spool, retry_s=0.01)
    journal.start()
    await until(lambda: store.stored == ["a"])
    await journal.close()

    assert not spool.read_bytes().strip()


async def test_readiness_names_a_journal_whose_store_has_a_bug_until_runs_reach_the_store(tmp_path: Path) -> None:
    store = FakeStore()
    store.breaks_on = "a"
    journal = run_journal(
        store, tmp_path / "runs.jsonl", retry_s=1.0
    )  # the failure lasts until the run is written back
    journal.start()
    journal.record(run("a"))

    async with asyncio.timeout(10):
        while "RuntimeError: a bug in the store" not in await failure(journal):  # noqa: ASYNC110 - has no event
            await asyncio.sleep(0.001)
    assert await journal.flush(5)
    async with asyncio.timeout(10):
        while not await is_healthy(journal):  # noqa: ASYNC110 - readiness is asked for, and has no event
            await asyncio.sleep(0.001)
    await journal.close()

    assert store.stored == ["a"]


async def test_at_the_end_runs_that_a_slow_store_did_not_take_in_time_go_to_disk(tmp_path: Path) -> None:
    before, store, spool = lost(), FakeStore(), tmp_path / "runs.jsonl"
    store.hangs = True
    journal = run_journal(store, spool)
    journal.start()
    for number in range(300):
        journal.record(run(str(number)))
    await until(lambda: store.attempts == 1)

    async with asyncio.timeout(2):
        await journal.close(within_s=0.05)

    assert [orjson.loads(line)["run_id"] for line in spool.read_bytes().split()] == [str(n) for n in range(300)]
    assert lost() == before


def set_aside(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.glob("*.rejected")]


async def test_a_journal_may_be_closed_twice_and_what_comes_between_goes_to_disk(tmp_path: Path) -> None:
    store, spool = FakeStore(), tmp_path / "runs.jsonl"
    journal = run_journal(store, spool)
    await record_and_close(journal, "a")

    journal.record(run("b"))
    await journal.close()

    assert store.stored == ["a"]
    assert orjson.loads(spool.read_bytes())["run_id"] == "b"


async def test_an_append_after_a_torn_line_spoils_no_other_run(tmp_path: Path) -> None:
    store = FakeStore()
    spool = tmp_path / "runs.jsonl"
    spool.write_bytes(b'{"run_id": "torn')
    store.away = True
    await record_and_close(run_journal(store, spool, retry_s=0.01), "good")

    store.away = False
    journal = run_journal(store, spool, retry_s=0.01)
    journal.start()
    await until(lambda: store.stored == ["good"])
    await journal.close()

    assert set_aside(tmp_path) == [b'{"run_id": "torn\n']


async def test_a_disk_that_fails_never_reaches_the_answer_and_what_is_lost_is_counted(tmp_path: Path) -> None:
    before = lost()
    store = FakeStore()
    journal = run_journal(store, tmp_path / "missing" / "runs.jsonl", max_queue=2, retry_s=0.01)

    for name in ("a", "b", "c"):
        journal.record(run(name))

    assert lost() - before == 1


async def test_a_spool_that_cannot_be_read_does_not_hold_up_a_healthy_store(tmp_path: Path) -> None:
    store = FakeStore()
    spool = tmp_path / "runs.jsonl"
    spool.mkdir()
    journal = run_journal(store, spool, retry_s=0.01)
    journal.start()

    journal.record(run("a"))
    await until(lambda: store.stored == ["a"])

    await journal.close()
    assert store.stored == ["a"]


async def test_at_the_end_a_store_that_is_away_is_tried_once(tmp_path: Path) -> None:
    store = FakeStore()
    store.away = True
    journal = run_journal(store, tmp_path / "runs.jsonl", retry_s=0.01)
    for number in range(1000):
        journal.record(run(str(number)))

    journal.start()
    await journal.close()

    assert store.attempts == 1
    assert len((tmp_path / "runs.jsonl").read_bytes().split()) == 1000


async def test_a_store_that_hangs_does_not_keep_a_run_in_memory_alone(tmp_path: Path) -> None:
    store, spool = FakeStore(), tmp_path / "runs.jsonl"
    store.hangs = True
    journal = run_journal(store, spool, retry_s=60, write_within_s=0.05)
    journal.start()
    for names in (("a", "b"), ("c",)):  # the second meets a store that is known to hang
        for name in names:
            journal.record(run(name))
        await until(lambda last=names[-1]: spool.exists() and f'"{last}"'.encode() in spool.read_bytes())  # type: ignore[misc]

    with pytest.raises(DatabaseUnavailable, match=r"wait on disk; no answer within 0\.05 s"):
        await journal.check()
    store.hangs = False
    async with asyncio.timeout(5):
        await journal.close()

    assert [orjson.loads(line)["run_id"] for line in spool.read_bytes().split()] == ["a", "b", "c"]


@pytest.mark.parametrize("durable", [False, True])
async def test_a_full_spool_loses_no_run_while_the_store_is_healthy(tmp_path: Path, durable: bool) -> None:
    before, store, path = lost(), FakeStore(), tmp_path / "runs.jsonl"
    store.away = True
    journal = run_journal(store, path, max_spool_bytes=2000, retry_s=0.01, durable=durable)
    journal.start()
    names = [str(number) for number in range(20)]
    for name in names:
        journal.record(run(name))
    await until(lambda: path.exists() and path.stat().st_size > 1000)

    store.away = False
    for name in ("x", "y"):
        journal.record(run(name))

    assert await journal.flush(10)
    assert sorted(store.stored) == sorted([*names, "x", "y"])
    assert lost() == before
    async with asyncio.timeout(10):
        while not await is_healthy(journal):  # noqa: ASYNC110 - readiness is asked for, and has no event
            await asyncio.sleep(0.001)
    await journal.close()


async def test_readiness_reports_a_run_that_waits_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chassis.journal.journal.LATE_S", 0.01)
    store = FakeStore()
    store.hangs = True
    journal = run_journal(store, tmp_path / "runs.jsonl")
    journal.start()
    journal.record(run("a"))
    await until(lambda: store.attempts == 1)
    await asyncio.sleep(0.02)

    with pytest.raises(DatabaseUnavailable, match="the oldest of the runs in memory has waited"):
        await journal.check()
    await journal.close(within_s=0.01)


async def test_a_durable_journal_has_a_run_on_disk_before_its_answer_ends(tmp_path: Path) -> None:
    store, spool = FakeStore(), tmp_path / "runs.jsonl"
    store.hangs = True
    journal = run_journal(store, spool, durable=True)
    journal.start()

    async def answered(name: str) -> bool:
        journal.record(run(name))
        await journal.settle()
        return f'"{name}"'.encode() in spool.read_bytes()

    async with asyncio.TaskGroup() as group:
        on_disk = [group.create_task(answered(str(number))) for number in range(100)]
    await journal.close(within_s=0.05)

    assert all(task.result() for task in on_disk)


async def test_what_a_durable_journal_put_on_disk_is_stored_once(tmp_path: Path) -> None:
    store, spool = FakeStore(), tmp_path / "runs.jsonl"
    journal = run_journal(store, spool, durable=True)
    journal.start()
    for name in ("a", "b", "c"):
        journal.record(run(name))
        await journal.settle()

    assert await journal.flush(5)
    await journal.check()
    await journal.close()

    assert store.stored == ["a", "b", "c"]
    assert not spool.read_bytes().strip()


async def test_a_fast_journal_settles_at_once(tmp_path: Path) -> None:
    journal = run_journal(FakeStore(), tmp_path / "runs.jsonl")
    journal.record(run("a"))

    async with asyncio.timeout(0.5):
        await journal.settle()


def test_a_spool_takes_no_more_than_its_bound_and_is_for_this_user_alone(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", max_bytes=12)

    too_many = spool.put([b"12345", b"67890", b"x"])

    assert (too_many, spool.size()) == ([b"67890"], 9)
    assert spool.path.stat().st_mode & 0o077 == 0


def test_a_spool_is_read_line_by_line_and_forgets_what_is_dropped(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", max_bytes=1000)
    spool.put([b"one", b"two"])

    assert spool.read(most=2) == [b"\n", b"one\n"]
    spool.drop(5)
    assert (spool.read(), spool.size()) == ([b"two\n"], 4)
    spool.put([b"three"])
    assert spool.read() == [b"two\n", b"\n", b"three\n"]
    spool.drop(spool.size())
    assert (spool.size(), spool.path.read_bytes()) == (0, b"")


def test_a_spool_has_room_again_once_half_of_it_is_dropped(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", max_bytes=20)
    assert spool.put([b"1234567890", b"x"]) == []
    assert spool.put([b"abcdefgh"]) == [b"abcdefgh"]

    spool.drop(12)

    assert spool.path.read_bytes().split() == [b"x"]
    assert spool.put([b"abcdefgh"]) == []


async def test_all_that_waits_goes_to_disk_at_once_while_the_store_is_away(tmp_path: Path) -> None:
    store, spool = FakeStore(), tmp_path / "runs.jsonl"
    store.away = True
    journal = run_journal(store, spool, retry_s=60)
    for number in range(1000):
        journal.record(run(str(number)))

    journal.start()
    await until(lambda: spool.exists() and len(spool.read_bytes().split()) == 1000)

    assert store.attempts == 1
    await journal.close()


async def test_what_was_written_back_before_a_failure_is_not_written_again(tmp_path: Path) -> None:
    store, spool = FakeStore(), tmp_path / "runs.jsonl"
    lines = [b'{"run_id": "torn', *(dumps(run(str(number))) for number in range(300))]
    Spool(spool, 1 << 20).put(lines)
    store.away_from = 2
    journal = run_journal(store, spool, retry_s=0.01)
    journal.start()
    await until(lambda: store.attempts > 3)

    store.away_from = None

    assert await journal.flush(5)
    await journal.close()
    assert store.stored == [str(number) for number in range(300)]
    assert set_aside(tmp_path) == [b'{"run_id": "torn\n']


async def test_a_run_that_failed_here_does_not_hide_the_one_that_answered_elsewhere(tmp_path: Path) -> None:
    journal = run_journal(FakeStore(), tmp_path / "runs.jsonl")
    journal.record(run("failed", request_id="r", error_reason="BACKEND_UNAVAILABLE"))

    async def find(_key: str, _request: str) -> Run:
        return run("answered", request_id="r", request_digest="d")

    spend = Spend(Limits(max_generations=1, max_generated_tokens=1, timeout_ms=1000))
    async with IdempotentAnswers(find, journal.recent).once("", "r", "d", spend) as repetition:
        assert repetition.earlier is not None
        assert repetition.earlier.run_id == "answered"


async def test_a_run_is_flushed_once_it_is_in_the_store(tmp_path: Path) -> None:
    store = FakeStore()
    journal = run_journal(store, tmp_path / "runs.jsonl", retry_s=0.01)
    assert await journal.flush(0.01)

    journal.record(run("a"))
    assert not await journal.flush(0.01)
    journal.start()

    assert await journal.flush(5)
    assert store.stored == ["a"]
    await journal.close()


async def test_a_run_on_disk_is_not_flushed_before_it_is_written_back(tmp_path: Path) -> None:
    store = FakeStore()
    store.away = True
    journal = run_journal(store, tmp_path / "runs.jsonl", retry_s=0.01)
    journal.start()
    journal.record(run("a"))
    assert not await journal.flush(0.1)

    store.away = False

    assert await journal.flush(5)
    assert store.stored == ["a"]
    await journal.close()


async def test_runs_that_overflow_to_disk_are_not_flushed_before_they_are_written_back(tmp_path: Path) -> None:
    store = FakeStore()
    journal = run_journal(store, tmp_path / "runs.jsonl", max_queue=2, retry_s=0.01)
    for name in ("a", "b", "c"):
        journal.record(run(name))
        await journal.settle()
    assert not await journal.flush(0.01)

    journal.start()

    assert await journal.flush(5)
    assert store.stored == ["a", "b", "c"]
    await journal.close()


async def test_what_is_not_stored_reaches_neither_disk_nor_store_and_is_remembered_in_memory(tmp_path: Path) -> None:
    store = FakeStore()
    store.away = True
    journal = run_journal(store, tmp_path / "runs.jsonl", retry_s=0.01, redact=without_contents)
    secret = run("a", request_id="r", answer="Ann is ill")

    journal.start()
    journal.record(secret)
    await until(lambda: (tmp_path / "runs.jsonl").exists())
    await journal.close()

    assert b"Ann" not in (tmp_path / "runs.jsonl").read_bytes()
    recent = journal.recent("", "r")
    assert recent is not None
    assert dumps(recent) == dumps(secret)


@pytest.mark.parametrize("remembered", [True, False])
async def test_an_answer_whose_contents_were_not_stored_is_repeated_while_it_is_remembered(
    tmp_path: Path, remembered: bool
) -> None:
    journal = run_journal(FakeStore(), tmp_path / "runs.jsonl", redact=without_contents)
    first = run("first", request_id="r", request_digest="d")
    if remembered:
        journal.record(first)

    async def find(_key: str, _request: str) -> Run:
        return without_contents(first)

    spend = Spend(Limits(max_generations=1, max_generated_tokens=1, timeout_ms=1000))
    async with IdempotentAnswers(find, journal.recent).once("", "r", "d", spend) as repetition:
        assert (repetition.earlier is not None) is remembered
    with pytest.raises(RequestIdReused):
        async with IdempotentAnswers(find, journal.recent).once("", "r", "another", spend):
            pass


async def until(true: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 - what is waited for is the store, which has no event
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("text", ["\N{FACE WITH TEARS OF JOY}" * 9000, "good bad but ugly " * 6000])
def test_the_affect_of_a_long_text_looks_at_no_more_than_its_ends(text: str) -> None:
    ends = vader(text[:1000] + " " + text[-1000:])

    assert vader(text) == ends


async def test_runs_in_memory_are_bounded_by_bytes_and_those_over_it_go_to_disk(
    tmp_path: Path,
) -> None:
    before, store, spool = lost(), FakeStore(), tmp_path / "runs.jsonl"
    journal = run_journal(store, spool, max_queue_bytes=12_000, retry_s=0.01)
    names = [f"large-{number}" for number in range(8)]

    for name in names:  # nothing writes yet
        journal.record(run(name, answer="x" * 4_000))
        assert (REGISTRY.get_sample_value("metacog_journal_queue_bytes") or 0.0) <= 12_000
        await journal.settle()  # as each answer does
    on_disk = [orjson.loads(line)["run_id"] for line in spool.read_bytes().split()]
    journal.start()
    assert await journal.flush(10)
    await journal.close()

    assert on_disk == names
    assert (store.stored, lost()) == (names, before)


@contextmanager
def hanging_disk(path: Path) -> Iterator[None]:
    """Have whoever opens a file at `path` wait until the block ends, and fail then."""
    os.mkfifo(path)
    try:
        yield
    finally:
        with path.open("rb"):
            pass


async def test_while_the_disk_hangs_the_event_loop_goes_on_and_memory_stays_bounded(tmp_path: Path) -> None:
    before, store, spool = lost(), FakeStore(), tmp_path / "runs.jsonl"
    journal = run_journal(store, spool, max_queue=10, disk_within_s=60)

    with hanging_disk(spool):
        for number in range(6):
            journal.record(run(str(number)))
        await journal.settle()  # six are on their way to disk now
        for number in range(6, 26):
            journal.record(run(str(number)))
    dropped = lost() - before
    journal.start()
    await until(lambda: len(store.stored) == 16)
    await journal.close()

    assert dropped == 10
    assert store.stored == [str(number) for number in (*range(6), *range(16, 26))]


async def test_a_disk_that_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    before, store, spool = lost(), FakeStore(), tmp_path / "runs.jsonl"
    store.hangs = True
    journal = run_journal(store, spool, disk_within_s=0.1)
    journal.start()
    journal.record(run("a"))
    await until(lambda: store.attempts == 1)

    with hanging_disk(spool):
        async with asyncio.timeout(5):
            await journal.close(within_s=0.05)

    assert lost() - before == 1


async def test_a_disk_that_hangs_does_not_keep_runs_from_a_healthy_store(tmp_path: Path) -> None:
    store, spool = FakeStore(), tmp_path / "runs.jsonl"
    journal = run_journal(store, spool, durable=True, disk_within_s=0.05)

    with hanging_disk(spool):
        journal.start()
        journal.record(run("a"))
        await until(lambda: store.stored == ["a"])
    await journal.close()


async def test_a_store_that_hangs_while_it_is_written_back_is_tried_again(tmp_path: Path) -> None:
    store, spool = FakeStore(), tmp_path / "runs.jsonl"
    Spool(spool, 1 << 20).put([dumps(run("a"))])
    store.hangs = True
    journal = run_journal(store, spool, retry_s=0.01, write_back_within_s=0.05)
    journal.start()
    await until(lambda: store.attempts > 1)

    store.hangs = False

    assert await journal.flush(5)
    await journal.close()
    assert store.stored == ["a"]


async def test_a_disk_that_fails_leaves_as_many_bytes_in_memory_as_may_be(tmp_path: Path) -> None:
    before, store = lost(), FakeStore()
    journal = run_journal(store, tmp_path / "missing" / "runs.jsonl", max_queue_bytes=12_000, retry_s=0.01)

    for name in ("a", "b", "c", "d"):
        journal.record(run(name, answer="x" * 4_000))
    journal.start()
    await until(lambda: store.stored == ["c", "d"])
    await journal.close()

    assert lost() - before == 2


async def test_recent_runs_are_bounded_by_bytes_and_whoever_was_dropped_too_early_is_not_taken_for_new(
    tmp_path: Path,
) -> None:
    store = FakeStore()
    journal = run_journal(store, tmp_path / "runs.jsonl", max_recent_bytes=12_000, retry_s=0.01)
    for name in ("a", "b", "c"):
        journal.record(run(name, request_id=name, answer="x" * 4_000))

    held = [name for name in ("a", "b", "c") if journal.recent("", name) is not None]
    behind_before = journal.is_behind()
    journal.start()
    assert await journal.flush(10)
    behind_after = journal.is_behind()
    await journal.close()

    assert held == ["b", "c"]
    assert (behind_before, behind_after) == (True, False)


async def test_a_run_larger_than_all_recent_runs_may_be_is_held_alone(tmp_path: Path) -> None:
    journal = run_journal(FakeStore(), tmp_path / "runs.jsonl", max_recent_bytes=1_000)

    journal.record(run("a", request_id="a"))
    journal.record(run("b", request_id="b", answer="x" * 4_000))

    assert (journal.recent("", "a"), journal.recent("", "b") is not None) == (None, True)
