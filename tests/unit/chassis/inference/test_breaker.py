import pytest

from inference.config import BreakerSettings
from inference.errors import CircuitOpen
from inference.http.breaker import Breaker


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker("here", BreakerSettings(failures=2, cool_down_s=5.0), clock)


def fail(breaker: Breaker, times: int) -> None:
    for _ in range(times):
        with breaker.admit() as permit:
            permit.record_failure()


def test_failures_in_a_row_open_it(breaker: Breaker) -> None:
    fail(breaker, 2)

    with pytest.raises(CircuitOpen) as raised, breaker.admit():
        pass
    assert raised.value.retry_after_s == 5.0


def test_a_success_in_between_keeps_it_closed(breaker: Breaker) -> None:
    fail(breaker, 1)
    with breaker.admit() as permit:
        permit.record_success()
    fail(breaker, 1)

    assert not breaker.is_open


def test_after_the_cool_down_one_request_is_on_trial_and_no_other(breaker: Breaker, clock: Clock) -> None:
    fail(breaker, 2)
    clock.now = 5.0

    with breaker.admit() as trial:
        with pytest.raises(CircuitOpen), breaker.admit():
            pass
        trial.record_success()

    assert not breaker.is_open


def test_a_trial_that_never_ended_leaves_room_for_the_next(breaker: Breaker, clock: Clock) -> None:
    fail(breaker, 2)
    clock.now = 5.0

    with breaker.admit():
        pass

    with breaker.admit() as trial:
        trial.record_failure()
    clock.now = 9.9
    with pytest.raises(CircuitOpen), breaker.admit():
        pass
