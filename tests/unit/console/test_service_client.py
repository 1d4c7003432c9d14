"""The client of the services returns messages of the contract, or an error that says what is wrong."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from metacog.delegation.v1.tasks_pb2 import Assessment
from metacog.router.v1.router_pb2 import AnswerResponse, AnswerToken, GetRunResponse

from chassis.errors import PeerError
from chassis.json_text import dumps
from console.replies.service_client import ServiceClient
from kernel.errors import Code

RUN: Mapping[str, object] = {
    "run_id": "r1",
    "confidence": None,
    "usage": {"cost": 0.0},
    "deliberation": {"votes": [], "groups": []},
}
EVENTS = (
    'event: answer_token\ndata: {"text": "Yes"}\n\n'
    'event: run_postponed\ndata: {"until": "tomorrow"}\n\n'
    'event: agent_assessed\ndata: {"agent": "ada", "confidence": 0.7, "verbalized": null}\n\n'
)


@asynccontextmanager
async def client_of(replies: Mapping[str, tuple[int, str]]) -> AsyncIterator[ServiceClient]:
    """A client of a service that replies with a status and a text by path."""

    async def answer(request: web.Request) -> web.Response:
        status, text = replies[request.path]
        return web.Response(status=status, text=text)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as http:
        yield ServiceClient("router", str(server.make_url("")), http)


async def test_a_reply_is_a_message_in_which_null_is_unset_and_zero_is_zero() -> None:
    async with client_of({"/v1/runs/r1": (200, dumps({"run": RUN}).decode())}) as client:
        run = (await client.get("/v1/runs/r1", GetRunResponse)).run

    assert (run.run_id, run.HasField("confidence"), run.HasField("vote")) == ("r1", False, True)
    assert (run.usage.HasField("cost"), run.usage.cost) == (True, 0.0)


async def test_a_record_has_the_json_as_the_service_sent_it() -> None:
    async with client_of({"/v1/runs/r1": (200, '{"run": {"run_id": "r1", "of_tomorrow": [1]}}')}) as client:
        record = await client.get_record("/v1/runs/r1", GetRunResponse)

    assert record.message.run.run_id == "r1"
    assert '"of_tomorrow": [' in record.text


@pytest.mark.parametrize("text", ['{"run": "r1"}', "[]"])
async def test_a_reply_of_another_form_is_an_error_that_names_service_and_message(text: str) -> None:
    async with client_of({"/v1/runs/r1": (200, text)}) as client:
        with pytest.raises(PeerError, match=r"The router at .* another version than the console: .*GetRunResponse"):
            await client.get("/v1/runs/r1", GetRunResponse)


async def test_an_error_of_the_service_is_raised_with_its_own_reason() -> None:
    problem = '{"code": "NOT_FOUND", "reason": "RUN_NOT_FOUND", "detail": "none", "metadata": {"run_id": "r1"}}'
    async with client_of({"/v1/runs/r1": (404, problem)}) as client:
        with pytest.raises(PeerError) as raised:
            await client.get("/v1/runs/r1", GetRunResponse)

    assert (raised.value.code, raised.value.reason, raised.value.metadata["run_id"]) == (
        Code.NOT_FOUND,
        "RUN_NOT_FOUND",
        "r1",
    )


async def test_events_are_messages_with_their_name_in_the_contract_and_unknown_ones_are_left_out() -> None:
    async with client_of({"/v1/answers": (200, EVENTS)}) as client:
        events = [event async for event in client.stream("/v1/answers", {}, AnswerResponse, timeout_s=5.0)]

    assert events == [
        ("answer_token", AnswerToken(text="Yes")),
        ("task_agent_assessed", Assessment(agent="ada", confidence=0.7)),
    ]
