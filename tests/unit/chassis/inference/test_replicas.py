import asyncio

from inference.config import CircuitSettings, Endpoint
from inference.http.circuit import RequestEnd
from inference.http.replicas import Replica, Replicas

ONE, TWO, THREE = (Endpoint(url=f"http://{name}/v1") for name in ("one", "two", "three"))
CLOCK = [0.0]


def replicas(*endpoints: Endpoint) -> Replicas:
    return Replicas("here", endpoints, CircuitSettings(failures=1, cool_down_s=5.0), lambda: CLOCK[0], is_away)


async def is_away(_: Replica) -> str:
    return "it is away"


def chosen(group: Replicas, tried: tuple[Replica, ...] = ()) -> str:
    found = group.choose(tried)
    return "" if found is None else found.endpoint.url


def test_idle_replicas_take_turns() -> None:
    group = replicas(ONE, TWO, THREE)

    assert {chosen(group) for _ in range(3)} == {ONE.url, TWO.url, THREE.url}


def test_idle_replicas_take_turns_in_proportion_to_their_weights() -> None:
    group = replicas(Endpoint(url=ONE.url, weight=3.0), TWO)

    turns = [chosen(group) for _ in range(8)]

    assert (turns.count(ONE.url), turns.count(TWO.url)) == (6, 2)
    assert TWO.url in turns[:4]  # not three quarters first


def test_a_request_goes_to_the_replica_that_is_least_busy_for_its_weight() -> None:
    group = replicas(Endpoint(url=ONE.url, weight=3.0), TWO)
    first = group.all[0]
    first.in_flight = 1  # (1 + 1) / 3 = 0.67 against (0 + 1) / 1 = 1
    assert chosen(group) == ONE.url

    first.in_flight = 3  # (3 + 1) / 3 = 1.33 against 1
    assert chosen(group) == TWO.url


async def test_a_replica_whose_circuit_is_open_is_chosen_last() -> None:
    CLOCK[0] = 0.0
    group = replicas(ONE, TWO)
    group.all[0].circuit.record("request", RequestEnd.FAILED)
    await asyncio.sleep(0)  # the probe runs

    assert {chosen(group) for _ in range(4)} == {TWO.url}
    assert group.other((group.all[1],)) is None
    assert chosen(group, (group.all[1],)) == ONE.url  # nothing else is left
    CLOCK[0] = 5.0  # it may be tried again
    assert {chosen(group) for _ in range(4)} == {ONE.url, TWO.url}


def test_a_replica_that_lists_other_models_is_left_out_until_it_lists_this_one() -> None:
    group = replicas(ONE, TWO)

    group.leave_out({1})
    assert {chosen(group) for _ in range(4)} == {ONE.url}
    group.leave_out(())
    assert {chosen(group) for _ in range(4)} == {ONE.url, TWO.url}


def test_all_replicas_stay_where_all_would_be_left_out() -> None:
    group = replicas(ONE, TWO)

    group.leave_out({0, 1})

    assert chosen(group) in {ONE.url, TWO.url}
