import pytest

from kernel.activation import Route
from kernel.errors import Code
from services.router.core.strategies import (
    DEFAULT_SYSTEM_TWO,
    Strategy,
    UnknownStrategy,
    named_strategy,
    stand_ins,
    system_of,
)


@pytest.mark.parametrize("name", ["system1", "dialectic", "arbiter", "delegation"])
def test_a_caller_may_name_every_strategy(name: str) -> None:
    assert named_strategy(name) == name


def test_without_a_name_the_router_decides() -> None:
    assert named_strategy("") is None


@pytest.mark.parametrize("name", ["debate", "SYSTEM_ONE", "Dialectic", " dialectic", "system2"])
def test_an_unknown_strategy_is_refused_and_the_known_ones_are_told(name: str) -> None:
    with pytest.raises(UnknownStrategy) as refused:
        named_strategy(name)

    assert refused.value.metadata == {"strategy": name}
    assert refused.value.message.endswith("there are system1, dialectic, arbiter, delegation")
    assert (refused.value.code, refused.value.reason) == (Code.INVALID_ARGUMENT, "UNKNOWN_STRATEGY")


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
    assert stand_ins(failed) == after


@pytest.mark.parametrize("failed", Strategy)
def test_falling_back_always_ends(failed: Strategy) -> None:
    tried = [failed]

    while following := stand_ins(tried[-1]):
        tried.append(following[0])

    assert len(tried) == len(set(tried))
    assert tried[-1] is Strategy.SYSTEM_ONE
