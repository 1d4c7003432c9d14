"""What feedback teaches is delivered until it is accepted, or parked where it never will be."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY

from chassis.errors import DatabaseUnavailable, PeerError, PeerUnavailable
from chassis.worker import WorkerFailing
from kernel.errors import Code
from services.router.core.retries import MOST_ATTEMPTS, is_final, pause_s
from services.router.service.feedback.outbox import DeliveryResult, Outbox, OutboxBacklog, OutboxMessage


class FakeOutbox:
    """Messages in a dict; those that are delivered again are due at once."""

    def __init__(self, *payloads: Mapping[str, Any], kind: str = "delegation") -> None:
        self.messages = {
            number: OutboxMessage(id=number, kind=kind, run_id="r", payload=payload, attempts=0)
            for number, payload in enumerate(payloads)
        }
        self.results: list[DeliveryResult] = []
        self.oldest: datetime | None = None
        self.away = False

    async def take(self, kinds: Sequence[str], *, most: int, lease_s: float) -> Sequence[OutboxMessage]:
        if self.away:
            raise DatabaseUnavailable("away")
        due = [message for message in self.messages.values() if message.kind in kinds][:most]
        for message in due:
            self.messages.pop(message.id)
        self._taken = {message.id: message for message in due}
        return [
            OutboxMessage(id=one.id, kind=one.kind, run_id=one.run_id, payload=one.payload, attempts=one.attempts + 1)
            for one in due
        ]

    async def record(self, results: Sequence[DeliveryResult]) -> None:
        self.results += results
        for one in results:
            if one.pause_s is not None:
                again = self._taken[one.id]
                self.messages[one.id] = OutboxMessage(
                    id=one.id, kind=again.kind, run_id="r", payload=again.payload, attempts=again.attempts + 1
                )

    async def backlog(self, kinds: Sequence[str]) -> OutboxBacklog:
        return OutboxBacklog(count=len(self.messages), oldest=self.oldest)


class FakeReceiver:
    """Accepts what it receives, after raising the given errors."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.received: list[Mapping[str, Any]] = []

    async def __call__(self, payload: Mapping[str, Any]) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.received.append(payload)


@asynccontextmanager
async def delivering(store: FakeOutbox, receiver: FakeReceiver, **more: float) -> AsyncIterator[Outbox]:
    """An outbox at work."""
    outbox = Outbox(store, {"delegation": receiver}, poll_s=0.01, **more)
    outbox.start()
    yield outbox
    await outbox.close()


async def test_what_is_due_is_delivered_and_recorded() -> None:
    store, receiver = FakeOutbox({"task_id": "a"}, {"task_id": "b"}), FakeReceiver()

    async with delivering(store, receiver):
        await until(lambda: len(store.results) == 2)

    assert sorted(payload["task_id"] for payload in receiver.received) == ["a", "b"]
    assert store.results == [DeliveryResult(id=0), DeliveryResult(id=1)]


@pytest.mark.parametrize(
    "error",
    [
        PeerUnavailable("away"),
        PeerError("not yet", Code.UNIMPLEMENTED, "NOT_IMPLEMENTED"),
        PeerError("late", Code.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"),
        PeerError("who?", Code.UNAUTHENTICATED, "UNAUTHENTICATED"),
        DatabaseUnavailable("away"),
        RuntimeError("a bug"),
    ],
)
async def test_what_could_not_be_delivered_is_delivered_again(error: Exception) -> None:
    store, receiver = FakeOutbox({"task_id": "a"}), FakeReceiver(error, error)

    async with delivering(store, receiver):
        await until(lambda: bool(receiver.received))

    assert receiver.received == [{"task_id": "a"}]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (Code.NOT_FOUND, "TASK_NOT_FOUND"),
        (Code.ALREADY_EXISTS, "FEEDBACK_CONFLICT"),
        (Code.INVALID_ARGUMENT, "MALFORMED_REQUEST"),
    ],
)
async def test_what_will_never_be_accepted_is_parked_with_its_reason(code: Code, reason: str) -> None:
    before = parked(reason)
    store, receiver = FakeOutbox({"task_id": "a"}), FakeReceiver(*[PeerError("no", code, reason)] * 9)

    async with delivering(store, receiver):
        await until(lambda: bool(store.results))
        await asyncio.sleep(0.05)

    assert store.results == [DeliveryResult(id=0, parked=True, error=f"{reason}: no")]
    assert parked(reason) - before == 1


async def test_a_message_that_is_rejected_holds_up_no_other() -> None:
    store = FakeOutbox({"task_id": "a"}, {"task_id": "b"})
    receiver = FakeReceiver(PeerError("no", Code.NOT_FOUND, "TASK_NOT_FOUND"))

    async with delivering(store, receiver):
        await until(lambda: bool(receiver.received))

    assert len(receiver.received) == 1


async def test_a_bug_in_one_receiver_holds_up_no_other_message_and_readiness_names_the_worker() -> None:
    store, begun = FakeOutbox({"task_id": "a"}, {"task_id": "b"}), asyncio.Event()

    async def broken(payload: Mapping[str, Any]) -> None:
        if payload["task_id"] == "a":
            begun.set()
            raise ZeroDivisionError("a bug")

    outbox = Outbox(store, {"delegation": broken}, poll_s=0.01, first_pause_s=60)
    outbox.start()
    await begun.wait()
    await until(lambda: len(store.results) == 2)
    with pytest.raises(WorkerFailing, match="the worker outbox failed"):
        await outbox.check()
    await outbox.close()

    assert [(one.id, one.error[:8], one.pause_s is None) for one in store.results] == [
        (0, "INTERNAL", False),
        (1, "", True),
    ]


async def test_a_database_that_is_away_is_waited_for() -> None:
    store, receiver = FakeOutbox({"task_id": "a"}), FakeReceiver()
    store.away = True

    async with delivering(store, receiver):
        await asyncio.sleep(0.05)
        store.away = False
        await until(lambda: bool(receiver.received))

    assert receiver.received == [{"task_id": "a"}]


async def test_a_message_without_a_receiver_here_waits() -> None:
    store, receiver = FakeOutbox({"run_id": "r"}, kind="experience"), FakeReceiver()

    async with delivering(store, receiver):
        await asyncio.sleep(0.05)

    assert (receiver.received, store.results, len(store.messages)) == ([], [], 1)


async def test_readiness_reports_what_waits_for_long() -> None:
    store, receiver = FakeOutbox({"run_id": "r"}, kind="experience"), FakeReceiver()
    async with delivering(store, receiver, late_s=300) as outbox:
        store.oldest = datetime.now(UTC) - timedelta(seconds=200)
        await outbox.check()

        store.oldest = datetime.now(UTC) - timedelta(minutes=7)
        with pytest.raises(PeerUnavailable, match="1 messages of feedback wait, the oldest for 7 minutes"):
            await outbox.check()


async def test_a_receiver_that_hangs_does_not_hold_up_the_end() -> None:
    begun = asyncio.Event()

    async def hang(_payload: Mapping[str, Any]) -> None:
        begun.set()
        await asyncio.Event().wait()

    outbox = Outbox(FakeOutbox({"task_id": "a"}), {"delegation": hang}, poll_s=0.01, close_within_s=0.05)
    outbox.start()
    await begun.wait()

    async with asyncio.timeout(2):
        await outbox.close()


def test_pauses_double_up_to_a_bound_and_are_spread() -> None:
    assert [pause_s(attempts, 0.5) for attempts in (1, 2, 3, 8, 9, 10, 10_000)] == [1, 2, 4, 128, 256, 300, 300]
    assert (pause_s(1, 0.0), pause_s(1, 1.0)) == (0.5, 1.5)


def test_a_receiver_that_is_away_is_waited_for_and_one_that_keeps_breaking_is_left_alone() -> None:
    assert not is_final(Code.UNAVAILABLE, 10_000)
    assert not is_final(Code.INTERNAL, MOST_ATTEMPTS - 1)
    assert is_final(Code.INTERNAL, MOST_ATTEMPTS)
    assert is_final(Code.NOT_FOUND, 1)


def parked(reason: str) -> float:
    labels = {"kind": "delegation", "reason": reason}
    return REGISTRY.get_sample_value("metacog_outbox_parked_total", labels) or 0.0


async def until(true: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 - what is waited for is the fake, which has no event
            await asyncio.sleep(0.001)
