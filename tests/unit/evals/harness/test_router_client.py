"""What a service's statuses mean to a run: this request is rejected, or nothing can be asked now."""

from collections.abc import AsyncIterator, Iterator

import pytest

from evals.errors import ServiceUnreachable
from evals.harness.failures import TRANSIENT, is_final
from evals.router_client import OF_THE_REQUEST, RequestRejected, RouterClient
from tests.support.models.scripted_service import ScriptedService

ROUTE = "POST /v1/route"


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    """A scripted service."""
    with ScriptedService() as scripted:
        yield scripted


@pytest.fixture
def pauses() -> list[float]:
    """What was waited for, in order [s]."""
    return []


@pytest.fixture
async def client(service: ScriptedService, pauses: list[float]) -> AsyncIterator[RouterClient]:
    """A client whose waiting takes no time."""

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async with RouterClient(service.url, timeout_s=10, sleep=sleep) as opened:
        yield opened


@pytest.mark.parametrize("status", [400, 404, 408, 409, 413, 422, 429, 500, 504])
async def test_a_request_that_is_not_served_is_rejected_and_the_run_continues(
    client: RouterClient, service: ScriptedService, status: int
) -> None:
    service.always(ROUTE, json={"reason": "SOME", "detail": "no"}, status=status)

    with pytest.raises(RequestRejected, match="the router rejected /v1/route: no") as failed:
        await client.post("/v1/route", {})

    assert failed.value.problem == {"status": status, "reason": "SOME", "detail": "no"}
    assert is_final({"error": failed.value.problem}) is (status in (400, 404, 409, 413, 422))


def test_every_transient_error_is_one_that_a_run_can_meet() -> None:
    assert TRANSIENT < OF_THE_REQUEST


@pytest.mark.parametrize(
    ("status", "complaint"),
    [(401, "set METACOG_API_KEY"), (403, "set METACOG_API_KEY"), (502, "with 502"), (503, "with 503")],
)
async def test_a_service_without_a_key_or_a_model_ends_the_run(
    client: RouterClient, service: ScriptedService, pauses: list[float], status: int, complaint: str
) -> None:
    service.reply(ROUTE, json={"detail": "no"}, status=status)

    with pytest.raises(ServiceUnreachable, match=complaint):
        await client.post("/v1/route", {})

    assert pauses == []


async def test_a_lost_connection_ends_the_run(client: RouterClient, service: ScriptedService) -> None:
    service.hang_up(ROUTE)

    with pytest.raises(ServiceUnreachable, match="is it running"):
        await client.post("/v1/route", {})


async def test_a_request_that_came_too_soon_is_sent_again_when_the_service_names_and_at_most_half_a_minute_later(
    client: RouterClient, service: ScriptedService, pauses: list[float]
) -> None:
    service.reply(ROUTE, json={}, status=429, retry_after="2")
    service.reply(ROUTE, json={}, status=429, retry_after="3600")
    service.reply(ROUTE, json={}, status=429)
    service.reply(ROUTE, json={"system": "SYSTEM_ONE"})

    assert await client.post("/v1/route", {"question": "Why?"}) == {"system": "SYSTEM_ONE"}
    assert pauses == [2, 30, 1]
    assert [one.body for one in service.asked] == [{"question": "Why?"}] * 4


async def test_a_service_that_is_away_for_a_named_time_is_asked_again_after_it(
    client: RouterClient, service: ScriptedService, pauses: list[float]
) -> None:
    service.reply(ROUTE, json={"detail": "the circuit of the model server is open"}, status=503, retry_after="5")
    service.reply(ROUTE, json={"system": "SYSTEM_ONE"})

    assert await client.post("/v1/route", {}) == {"system": "SYSTEM_ONE"}
    assert pauses == [5]


async def test_a_service_that_is_always_overloaded_rejects_the_request(
    client: RouterClient, service: ScriptedService, pauses: list[float]
) -> None:
    service.always(ROUTE, json={"reason": "OVERLOADED"}, status=429)

    with pytest.raises(RequestRejected) as failed:
        await client.post("/v1/route", {})

    assert failed.value.problem["status"] == 429
    assert len(service.asked) == 4
    assert len(pauses) == 3


async def test_a_request_that_cannot_succeed_is_not_sent_again(client: RouterClient, service: ScriptedService) -> None:
    service.reply(ROUTE, json={"reason": "BUDGET_EXHAUSTED"}, status=429, x_should_retry="false")

    with pytest.raises(RequestRejected):
        await client.post("/v1/route", {})

    assert len(service.asked) == 1
