"""A request that is made twice is answered once, whatever store knows it."""

import asyncio
from dataclasses import dataclass, field

import pytest

from chassis.idempotency import Attempt, LocalRequests, RequestIdReused, RequestInProgress, check_digest, once
from kernel.errors import MetacogError

WITHIN_S = 5.0


def plenty() -> float:
    return 60.0


def none_left() -> float:
    return 0.0


@dataclass
class Answers:
    """Answers of one process in a dictionary, with the requests that are running."""

    recorded: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    looked_up: int = 0

    def __post_init__(self) -> None:
        self.store = LocalRequests(self.find)

    async def find(self, key_name: str, request_id: str, digest: str) -> str | None:
        await asyncio.sleep(0)
        self.looked_up += 1
        earlier = self.recorded.get((key_name, request_id))
        if earlier is None:
            return None
        check_digest(earlier[0], digest, request_id, run_id="r1")
        return earlier[1]

    async def answer(self, request_id: str, digest: str, text: str, *, key_name: str = "alice") -> str:
        async with once(self.store, key_name, request_id, digest, plenty) as attempt:
            if attempt.earlier is not None:
                return attempt.earlier
            self.recorded[key_name, request_id] = (digest, text)
            return text


@dataclass
class Leases:
    """A store with leases, which keeps what was answered and counts what was left."""

    free: bool = True
    left: int = 0
    waited: list[float] = field(default_factory=list)
    lease_s: float = 0.0
    document: str | None = None

    async def begin(self, key_name: str, request_id: str, digest: str, *, lease_s: float) -> str | None:
        self.lease_s = lease_s
        return "claim" if self.free else None

    async def answered(self, key_name: str, request_id: str) -> str | None:
        return self.document

    async def leave(self, key_name: str, request_id: str, claim: str) -> None:
        assert claim == "claim"
        self.left += 1

    async def wait(self, key_name: str, request_id: str, *, at_most_s: float) -> None:
        self.waited.append(at_most_s)


async def test_a_repetition_gets_the_earlier_answer() -> None:
    answers = Answers()

    assert await answers.answer("id", "d", "first") == "first"
    assert await answers.answer("id", "d", "second") == "first"


async def test_without_an_identifier_every_request_is_answered() -> None:
    answers = Answers()

    assert await answers.answer("", "d", "first") == "first"
    assert await answers.answer("", "d", "second") == "second"
    assert answers.looked_up == 0


async def test_identifiers_belong_to_a_key() -> None:
    answers = Answers()

    await answers.answer("id", "d", "first")

    assert await answers.answer("id", "d", "second", key_name="bob") == "second"


async def test_an_identifier_with_another_request_is_rejected() -> None:
    answers = Answers()
    await answers.answer("id", "d", "first")

    with pytest.raises(RequestIdReused) as rejected:
        await answers.answer("id", "other", "second")

    assert rejected.value.metadata == {"request_id": "id", "run_id": "r1"}
    assert await answers.answer("id", "d", "third") == "first", "the rejected request holds nothing"


async def test_a_repetition_waits_for_the_first_one() -> None:
    answers, may_end, has_begun = Answers(), asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with once(answers.store, "alice", "id", "d", plenty):
            has_begun.set()
            await may_end.wait()
            answers.recorded["alice", "id"] = ("d", "first")

    async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as group:
        group.create_task(first())
        await has_begun.wait()
        repetitions = [group.create_task(answers.answer("id", "d", "again")) for _ in range(3)]
        may_end.set()

    assert [repetition.result() for repetition in repetitions] == ["first"] * 3


async def test_a_repetition_ends_at_its_deadline_while_the_first_one_runs() -> None:
    answers = Answers()

    async with once(answers.store, "alice", "id", "d", plenty):
        with pytest.raises(RequestInProgress, match="still running"):
            async with once(answers.store, "alice", "id", "d", none_left):
                pass


async def test_a_wait_is_bounded_by_the_time_left() -> None:
    left_s = iter([3.0, 3.0, 1.0, 0.5, 0.0, 0.0])
    store = Leases(free=False)

    with pytest.raises(RequestInProgress):
        async with once(store, "alice", "id", "d", lambda: next(left_s)):
            pass

    assert store.waited == [3.0, 0.5]


async def test_one_of_those_who_wait_may_try_after_the_first_one_failed() -> None:
    answers, may_fail, has_begun = Answers(), asyncio.Event(), asyncio.Event()

    async def failing() -> None:
        async with once(answers.store, "alice", "id", "d", plenty):
            has_begun.set()
            await may_fail.wait()
            raise ValueError("a bug")

    async def first() -> None:
        with pytest.raises(ValueError, match="a bug"):
            await failing()

    async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as group:
        group.create_task(first())
        await has_begun.wait()
        repetitions = [group.create_task(answers.answer("id", "d", f"try {place}")) for place in range(3)]
        may_fail.set()

    assert len({repetition.result() for repetition in repetitions}) == 1


async def test_a_cancelled_attempt_lets_the_next_one_try() -> None:
    answers, has_begun = Answers(), asyncio.Event()

    async def first() -> None:
        async with once(answers.store, "alice", "id", "d", plenty):
            has_begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(first())
    await has_begun.wait()
    task.cancel()
    await asyncio.wait({task})

    assert await answers.answer("id", "d", "second") == "second"


async def test_a_failed_look_up_holds_nothing() -> None:
    calls = 0

    async def find(key_name: str, request_id: str, digest: str) -> str | None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ConnectionError("away")
        return None

    store = LocalRequests(find)
    with pytest.raises(ConnectionError):
        async with once(store, "alice", "id", "d", plenty):
            pass

    async with once(store, "alice", "id", "d", none_left) as attempt:
        assert attempt.earlier is None


async def test_an_answered_attempt_is_not_left_to_the_next_one() -> None:
    store = Leases()

    async with once(store, "alice", "id", "d", plenty) as attempt:
        attempt.mark_answered()

    assert store.left == 0
    assert store.lease_s > plenty(), "the lease outlasts the request"


async def test_an_attempt_that_failed_is_left_to_the_next_one() -> None:
    store = Leases()

    with pytest.raises(ValueError, match="a bug"):
        async with once(store, "alice", "id", "d", plenty):
            raise ValueError("a bug")

    assert store.left == 1


async def test_a_store_that_cannot_be_reached_at_the_end_does_not_hide_the_failure() -> None:
    class Away(Leases):
        async def leave(self, key_name: str, request_id: str, claim: str) -> None:
            raise MetacogError("the database is away")

    with pytest.raises(ValueError, match="a bug"):
        async with once(Away(), "alice", "id", "d", plenty):
            raise ValueError("a bug")


async def test_an_earlier_answer_is_nothing_to_leave() -> None:
    store = Leases(free=False, document="first")

    async with once(store, "alice", "id", "d", plenty) as attempt:
        assert isinstance(attempt, Attempt)
        assert attempt.earlier == "first"

    assert store.left == 0
