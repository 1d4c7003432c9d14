"""How much may be in flight, and when a rejected request may be retried."""

from collections.abc import AsyncGenerator

import pytest

from chassis.admission import AdmissionLimit
from inference import BackendOverloaded
from kernel.errors import Code, Overloaded
from kernel.policy import Strategy
from services.router.service.answering.admission import Admission


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def served(bound: AdmissionLimit, clock: Clock, *seconds: float) -> None:
    for each in seconds:
        with bound.place():
            clock.now += each


def test_one_more_than_may_be_is_rejected_by_name() -> None:
    admission = Admission(max_in_flight=2)

    with admission.request(), admission.request(), pytest.raises(Overloaded) as raised, admission.request():
        pass

    assert (raised.value.code, raised.value.reason) == (Code.RESOURCE_EXHAUSTED, "OVERLOADED")
    assert raised.value.metadata == {"kind": "requests", "in_flight": "2", "retry_after_s": "1"}


def test_a_place_is_free_again_however_its_request_ended() -> None:
    bound = AdmissionLimit("requests", 1)

    with pytest.raises(ValueError, match="broken"), bound.place():
        raise ValueError("broken")

    with bound.place():
        assert bound.in_flight == 1
    assert bound.in_flight == 0


def test_deliberations_have_a_bound_of_their_own() -> None:
    admission = Admission(max_in_flight=8, max_deliberations=1)

    with admission.request(), admission.attempt(Strategy.DIALECTIC):
        with pytest.raises(Overloaded) as raised, admission.request(), admission.attempt(Strategy.DIALECTIC):
            pass
        assert admission.requests.in_flight == 1

    assert raised.value.metadata["kind"] == "deliberations"


@pytest.mark.parametrize(
    ("seconds", "wait"),
    [((), 1), ((0.01, 0.01), 1), ((4.2,), 5), ((300.0,), 30), ((10.0, 0.0), 9), ((2.0, *[8.0] * 100), 8)],
)
def test_a_rejected_request_may_be_retried_after_about_the_time_that_requests_take(
    clock: Clock, seconds: tuple[float, ...], wait: int
) -> None:
    bound = AdmissionLimit("requests", 1, clock)

    served(bound, clock, *seconds)

    assert bound.retry_after_s == wait


def test_a_full_backend_that_names_no_time_gets_one(clock: Clock) -> None:
    bound = AdmissionLimit("requests", 4, clock)
    served(bound, clock, 3.0)

    with pytest.raises(BackendOverloaded) as silent, bound.place():
        raise BackendOverloaded("full", backend="b")
    with pytest.raises(BackendOverloaded) as telling, bound.place():
        raise BackendOverloaded("full", backend="b", retry_after_s=90)

    assert (silent.value.metadata["retry_after_s"], telling.value.metadata["retry_after_s"]) == ("3", "90")


async def test_work_that_is_bounded_holds_a_place_while_it_runs() -> None:
    admission = Admission(max_in_flight=1)

    async def work(text: str, *, times: int) -> str:
        assert admission.requests.in_flight == 1
        return text * times

    bounded = admission.bounding(work)

    assert await bounded("a", times=2) == "aa"
    with admission.request(), pytest.raises(Overloaded):
        await bounded("a", times=1)


async def test_events_that_are_bounded_hold_a_place_until_they_end_or_are_left() -> None:
    bound = AdmissionLimit("uploads", 1)

    async def counting() -> AsyncGenerator[int, None]:
        yield 1
        yield 2

    bounded = bound.bounding_events(counting)
    events = bounded()
    assert (await anext(events), bound.in_flight) == (1, 1)
    with pytest.raises(Overloaded, match="1 uploads are in flight"):
        await anext(bounded())

    await events.aclose()

    assert bound.in_flight == 0
    assert [number async for number in bounded()] == [1, 2]
    assert bound.in_flight == 0
