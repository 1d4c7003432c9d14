"""What feedback teaches is told until it is taken, or parked where it never will be."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY

from chassis.errors import DatabaseUnavailable, PeerRefused, PeerUnavailable
from kernel.errors import Code
from services.router.core.retries import MOST_ATTEMPTS, is_final, pause_s
from services.router.service.feedback.outbox import DeliveryResult, Outbox, OutboxBacklog, OutboxMessage


class FakeOutbox:
    """Messages in a dict; those that are told again later are due at once."""

    def __init__(self, *payloads: Mapping[str, Any], kind: str = "delegation") -> None:
        self.letters = {
            number: OutboxMessage(id=number, kind=kind, run_id="r", payload=payload, attempts=0)
            for number, payload in enumerate(payloads)
        }
        self.told: list[DeliveryResult] = []
        self.oldest: datetime | None = None
        self.away = False

    async def take(self, kinds: Sequence[str], *, most: int, lease_s: float) -> Sequence[OutboxMessage]:
        if self.away:
            raise DatabaseUnavailable("away")
        due = [letter for letter in self.letters.values() if letter.kind in kinds][:most]
        for letter in due:
            self.letters.pop(letter.id)
        self._taken = {letter.id: letter for letter in due}
        return [
            OutboxMessage(id=one.id, kind=one.kind, run_id=one.run_id, payload=one.payload, attempts=one.attempts + 1)
            for one in due
        ]

    async def note(self, told: Sequence[DeliveryResult]) -> None:
        self.told += told
        for one in told:
            if one.pause_s is not None:
                again = self._taken[one.id]
                self.letters[one.id] = OutboxMessage(
                    id=one.id, kind=again.kind, run_id="r", payload=again.payload, attempts=again.attempts + 1
                )

    async def waiting(self, kinds: Sequence[str]) -> OutboxBacklog:
        return OutboxBacklog(count=len(self.letters), oldest=self.oldest)


class Learner:
    """Takes what it is told, or refuses as it was told to."""

    def __init__(self, *refusals: Exception) -> None:
        self.refusals = list(refusals)
        self.heard: list[Mapping[str, Any]] = []

    async def __call__(self, payload: Mapping[str, Any]) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        self.heard.append(payload)


@asynccontextmanager
async def telling(store: FakeOutbox, learner: Learner, **more: float) -> AsyncIterator[Outbox]:
    """An outbox at work."""
    outbox = Outbox(store, {"delegation": learner}, poll_s=0.01, **more)
    outbox.start()
    yield outbox
    await outbox.close()


async def test_what_is_due_is_told_and_noted() -> None:
    store, learner = FakeOutbox({"task_id": "a"}, {"task_id": "b"}), Learner()

    async with telling(store, learner):
        await until(lambda: len(store.told) == 2)

    assert sorted(told["task_id"] for told in learner.heard) == ["a", "b"]
    assert store.told == [DeliveryResult(id=0), DeliveryResult(id=1)]


@pytest.mark.parametrize(
    "refusal",
    [
        PeerUnavailable("away"),
        PeerRefused("not yet", Code.UNIMPLEMENTED, "NOT_IMPLEMENTED"),
        PeerRefused("late", Code.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"),
        PeerRefused("who?", Code.UNAUTHENTICATED, "UNAUTHENTICATED"),
        DatabaseUnavailable("away"),
        RuntimeError("a bug"),
    ],
)
async def test_what_could_not_be_told_is_told_again(refusal: Exception) -> None:
    store, learner = FakeOutbox({"task_id": "a"}), Learner(refusal, refusal)

    async with telling(store, learner):
        await until(lambda: bool(learner.heard))

    assert learner.heard == [{"task_id": "a"}]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (Code.NOT_FOUND, "TASK_NOT_FOUND"),
        (Code.ALREADY_EXISTS, "FEEDBACK_CONFLICT"),
        (Code.INVALID_ARGUMENT, "MALFORMED_REQUEST"),
    ],
)
async def test_what_will_never_be_taken_is_parked_with_its_reason(code: Code, reason: str) -> None:
    before = parked(reason)
    store, learner = FakeOutbox({"task_id": "a"}), Learner(*[PeerRefused("no", code, reason)] * 9)

    async with telling(store, learner):
        await until(lambda: bool(store.told))
        await asyncio.sleep(0.05)

    assert store.told == [DeliveryResult(id=0, parked=True, error=f"{reason}: no")]
    assert parked(reason) - before == 1


async def test_one_that_is_refused_holds_up_no_other() -> None:
    store = FakeOutbox({"task_id": "a"}, {"task_id": "b"})
    learner = Learner(PeerRefused("no", Code.NOT_FOUND, "TASK_NOT_FOUND"))

    async with telling(store, learner):
        await until(lambda: bool(learner.heard))

    assert len(learner.heard) == 1


async def test_a_database_that_is_away_is_waited_for() -> None:
    store, learner = FakeOutbox({"task_id": "a"}), Learner()
    store.away = True

    async with telling(store, learner):
        await asyncio.sleep(0.05)
        store.away = False
        await until(lambda: bool(learner.heard))

    assert learner.heard == [{"task_id": "a"}]


async def test_what_nobody_here_can_be_told_waits() -> None:
    store, learner = FakeOutbox({"run_id": "r"}, kind="experience"), Learner()

    async with telling(store, learner):
        await asyncio.sleep(0.05)

    assert (learner.heard, store.told, len(store.letters)) == ([], [], 1)


async def test_readiness_speaks_of_what_waits_for_long() -> None:
    store, learner = FakeOutbox({"run_id": "r"}, kind="experience"), Learner()
    async with telling(store, learner, late_s=300) as outbox:
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

    outbox = Outbox(FakeOutbox({"task_id": "a"}), {"delegation": hang}, poll_s=0.01, leaves_within_s=0.05)
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
