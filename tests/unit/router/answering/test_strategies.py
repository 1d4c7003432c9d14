import pytest

from kernel.activation import Route
from kernel.errors import Code, MalformedRequest, MetacogError, Overloaded
from kernel.policy import Strategy
from services.router.core.fallback import attempts, fallbacks, forbids_fallback
from services.router.core.strategies import DEFAULT_SYSTEM_TWO, named_strategy, system_of
from services.router.errors import UnknownStrategy


@pytest.mark.parametrize("name", ["system1", "dialectic", "arbiter", "delegation"])
def test_a_caller_may_name_every_strategy(name: str) -> None:
    assert named_strategy(name) == name


def test_without_a_name_the_router_decides() -> None:
    assert named_strategy("") is None


@pytest.mark.parametrize("name", ["debate", "SYSTEM_ONE", "Dialectic", " dialectic", "system2"])
def test_an_unknown_strategy_is_rejected_and_the_known_ones_are_listed(name: str) -> None:
    with pytest.raises(UnknownStrategy) as rejected:
        named_strategy(name)

    assert rejected.value.metadata == {"strategy": name}
    assert rejected.value.message.endswith("there are system1, vote, cascade, dialectic, arbiter, delegation")
    assert (rejected.value.code, rejected.value.reason) == (Code.INVALID_ARGUMENT, "UNKNOWN_STRATEGY")


@pytest.mark.parametrize(
    ("strategy", "system"),
    [
        (Strategy.SYSTEM_ONE, Route.SYSTEM_ONE),
        (Strategy.DIALECTIC, Route.SYSTEM_TWO),
        (Strategy.ARBITER, Route.SYSTEM_TWO),
        (Strategy.DELEGATION, Route.SYSTEM_TWO),
    ],
)
def test_every_strategy_but_one_is_system_two(strategy: Strategy, system: Route) -> None:
    assert system_of(strategy) is system


def test_system_two_is_the_dialectic_unless_the_caller_names_another() -> None:
    assert DEFAULT_SYSTEM_TWO is Strategy.DIALECTIC


@pytest.mark.parametrize(
    ("failed", "after"),
    [
        (Strategy.ARBITER, (Strategy.DIALECTIC, Strategy.SYSTEM_ONE)),
        (Strategy.DELEGATION, (Strategy.DIALECTIC, Strategy.SYSTEM_ONE)),
        (Strategy.DIALECTIC, (Strategy.SYSTEM_ONE,)),
        (Strategy.SYSTEM_ONE, ()),
    ],
)
def test_a_failed_strategy_falls_back_to_another_and_at_last_to_system_one(
    failed: Strategy, after: tuple[Strategy, ...]
) -> None:
    assert fallbacks(failed) == after


@pytest.mark.parametrize("failed", Strategy)
def test_falling_back_always_ends(failed: Strategy) -> None:
    tried = [failed]

    while following := fallbacks(tried[-1]):
        tried.append(following[0])

    assert len(tried) == len(set(tried))
    assert tried[-1] is Strategy.SYSTEM_ONE


def test_every_attempt_names_the_one_that_follows_it() -> None:
    assert attempts(Strategy.DIALECTIC, fallback=True) == [
        (Strategy.DIALECTIC, Strategy.SYSTEM_ONE),
        (Strategy.SYSTEM_ONE, None),
    ]
    assert attempts(Strategy.DIALECTIC, fallback=False) == [(Strategy.DIALECTIC, None)]


class Slow(MetacogError):
    """A strategy was slow."""

    reason = "DEADLINE_EXCEEDED"


class TooMuch(MetacogError):
    """A request is over the limit of the strategy that it names."""

    reason = "REQUEST_OVER_LIMIT"


@pytest.mark.parametrize(
    ("error", "named", "seconds_left", "forbidden"),
    [
        (Slow("late"), False, 1.0, False),
        (Slow("late"), True, 1.0, False),
        (Slow("late"), False, 0.0, True),
        (MalformedRequest("bad"), False, 1.0, True),
        (Overloaded("busy"), False, 1.0, False),
        (Overloaded("busy"), True, 1.0, True),
        (TooMuch("large"), False, 1.0, False),
        (TooMuch("large"), True, 1.0, True),
    ],
)
def test_a_wrong_request_a_late_one_and_a_busy_named_strategy_have_no_fallback(
    error: MetacogError, named: bool, seconds_left: float, forbidden: bool
) -> None:
    assert forbids_fallback(error, named=named, seconds_left=seconds_left) is forbidden
