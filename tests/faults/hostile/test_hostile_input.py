"""Requests, replies and files whose form is meant to break what reads them: each gets a named error."""

import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from grpc import aio

from chassis.json_text import MAX_DEPTH, MOST_VALUES
from chassis.page_tokens import parts_of
from encoder.errors import BadRequest
from encoder.settings import Settings as EncoderSettings
from encoder.wire import parse_request
from inference import UnparsableOutput, read_document
from kernel.errors import MalformedRequest
from tests.support.apis import ApiError, RestApi, RpcApi, api_error
from tests.support.models.scripted_llm import RawReply, ScriptedLLM
from tests.support.stack import NO_SERVER, ROUTER, RunningRouter, cast, process, router_at
from tests.unit.cli.running import Metacog

JSON = {"content-type": "application/json"}
HELLO = [{"role": "user", "content": "Say hello."}]
ANSWER = {"type": "object", "required": ["r"]}


@pytest.fixture
async def router(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[RunningRouter]:
    scripted.answer = cast()
    async with router_at(scripted, database_url, tmp_path) as running:
        yield running


def nested(levels: int) -> str:
    """JSON of so many levels."""
    return "[" * levels + "]" * levels


PLACES = {
    "/v1/route": '{{"question": "Is it so?", "extra": {}}}',
    "/v1/answers": '{{"question": "Is it so?", "strategy": "system1", "extra": {}}}',
    "/v1/feedback": '{{"run_id": "r", "label": {}}}',
    "/v1/knowledge": '{{"documents": [{{"text": "a", "labels": {}}}]}}',
    "/v1/chat/completions": '{{"model": "metacog/system1", "messages": [{{"role": "user", "content": {}}}]}}',
}
HOSTILE = {
    "a level too many": (nested(MAX_DEPTH), f"nested deeper than {MAX_DEPTH} levels"),
    "more levels than JSON can be written with": (nested(300), f"nested deeper than {MAX_DEPTH} levels"),
    "more levels than it can be read with": (nested(100_000), f"nested deeper than {MAX_DEPTH} levels"),
    "more values than are read": (f"[{'{},' * MOST_VALUES}1]", "it has too many values: more than 250,000"),
    "levels that are never closed": ("[" * 200_000, "body: it is"),
    "objects in objects": ('{"a":' * 500 + "1" + "}" * 500, f"nested deeper than {MAX_DEPTH} levels"),
    "a surrogate alone": ('"\\ud800"', "surrogate"),
    "no number": ("NaN", "not JSON"),
    "an infinite number": ("Infinity", "not JSON"),
    "a number that is infinite as a double": ("1e400", "infinity"),
    "a whole number of 401 digits": ("1" + "0" * 400, "infinity"),
    "a name twice": ('{"a": 1, "a": 2}', "the name 'a' is there twice"),
    "a name twice, spelled differently": ('{"a": ":", "\\u0061": 2}', "the name 'a' is there twice"),
    "a character that cannot be stored": ('"a\\u0000b"', "U+0000"),
    "a name that cannot be stored": ('{"a\\u0000b": "c"}', "U+0000"),
}


async def test_a_hostile_body_is_rejected_by_name_wherever_json_is_read(
    router: RunningRouter, scripted: ScriptedLLM
) -> None:
    found = {}
    async with httpx.AsyncClient(base_url=router.rest, headers=JSON, timeout=60) as client:
        for path, body in PLACES.items():
            for name, (hostile, problem) in HOSTILE.items():
                reply = await client.post(path, content=body.format(hostile))
                told = reply.json().get("error", reply.json())
                detail = told.get("detail", told.get("message", ""))
                is_named = problem in detail and len(detail) < 500
                found[path, name] = (reply.status_code, told.get("reason", told.get("code")).lower(), is_named)

    assert {case: told for case, told in found.items() if told != (400, "malformed_request", True)} == {}
    assert scripted.bodies == []


async def test_as_many_levels_as_are_allowed_reach_the_model(router: RunningRouter, scripted: ScriptedLLM) -> None:
    deepest = json.loads(nested(MAX_DEPTH - 2))  # inside the body and its field
    body = {"model": "metacog/system1", "messages": HELLO, "metadata": {"levels": deepest}}

    async with httpx.AsyncClient(base_url=router.rest) as client:
        reply = await client.post("/v1/chat/completions", json=body)
        run = await client.get(f"/v1/runs/{reply.headers['x-metacog-run-id']}")

    assert (reply.status_code, run.status_code) == (200, 200)
    assert scripted.bodies[-1]["metadata"]["levels"] == deepest


NOT_STORABLE: list[tuple[str, dict[str, Any], str]] = [
    ("AddKnowledge", {"documents": [{"text": "a", "labels": {"to\x00pic": "b"}}]}, "documents.0.labels"),
    ("AddKnowledge", {"documents": [{"text": "a", "labels": {"topic": "b\x00"}}]}, "documents.0.labels.topic"),
    ("AddKnowledge", {"documents": [{"document_id": "a\x00", "text": "a"}]}, "documents.0.document_id"),
    ("Answer", {"question": "Is it\x00 so?"}, "question"),
    ("SubmitFeedback", {"run_id": "a\x00"}, "run_id"),
    ("ListRuns", {"strategy": "a\x00"}, "strategy"),
    ("ListRuns", {"page_token": "\x00" * 36}, "page_token"),
]


@pytest.mark.parametrize("api", ["rest", "rpc"])
async def test_a_text_that_the_database_cannot_store_is_rejected_with_its_place(
    router: RunningRouter, api: str
) -> None:
    asked = RestApi(router.rest, ROUTER) if api == "rest" else RpcApi(router.grpc, ROUTER)

    for operation, body, place in NOT_STORABLE:
        with pytest.raises(ApiError) as raised:
            await asked.ask(operation, **body)

        assert (raised.value.code, raised.value.reason) == ("INVALID_ARGUMENT", "MALFORMED_REQUEST")
        assert f"{place} holds the character U+0000" in raised.value.message


async def test_a_parameter_that_is_given_twice_is_rejected(router: RunningRouter) -> None:
    async with httpx.AsyncClient(base_url=router.rest) as client:
        reply = await client.get("/v1/runs?strategy=vote&strategy=system1")

    assert (reply.status_code, reply.json()["detail"]) == (400, "strategy: give it once")


def test_the_encoder_rejects_a_hostile_body() -> None:
    for hostile, problem in HOSTILE.values():
        with pytest.raises(BadRequest) as raised:
            parse_request(f'{{"model": "m", "input": {hostile}}}'.encode(), "m", EncoderSettings())

        assert problem.removeprefix("body: ") in str(raised.value)


def test_a_hostile_page_token_is_none() -> None:
    for hostile, _ in HOSTILE.values():
        with pytest.raises(MalformedRequest):
            parts_of(urlsafe_b64encode(f"[{hostile}]".encode()).decode(), 1)


# Errors that quote long texts, and messages that are none


LONG_TEXTS: list[tuple[str, dict[str, Any], str]] = [
    ("GetRun", {"run_id": "{}"}, "RUN_NOT_FOUND"),
    ("ListRuns", {"page_token": "{}"}, "INVALID_PAGE_TOKEN"),
    ("Answer", {"question": "Is it so?", "request_id": "{}"}, "MALFORMED_REQUEST"),
    ("Answer", {"question": "Is it so?", "strategy": "{}"}, "UNKNOWN_STRATEGY"),
]


@pytest.mark.parametrize("text", ["x", "é", "%", "\u2028"])
async def test_an_error_that_quotes_a_long_text_arrives_under_its_own_name(router: RunningRouter, text: str) -> None:
    for api in (RestApi(router.rest, ROUTER), RpcApi(router.grpc, ROUTER)):
        for operation, body, reason in LONG_TEXTS:
            given = {name: item.replace("{}", text * 5_000) for name, item in body.items()}
            with pytest.raises(ApiError) as raised:
                await api.ask(operation, **given)

            assert raised.value.reason == reason
            assert len(raised.value.message.encode()) <= 4096
            assert sum(len(f"{name}{item}".encode()) for name, item in raised.value.metadata.items()) <= 4200


async def test_bytes_that_are_no_message_are_rejected_by_name_in_every_call() -> None:
    settings = {"METACOG_INFERENCE_MODEL": "any", "METACOG_INFERENCE_URL": f"http://{NO_SERVER}/v1"}
    errors = {}
    async with process("arbiter", **settings) as arbiter, aio.insecure_channel(arbiter.grpc) as channel:
        for method in (
            "/metacog.arbiter.v1.ArbiterService/Measure",
            "/metacog.arbiter.v1.ArbiterService/Vote",
            "/grpc.health.v1.Health/Check",
            "/grpc.health.v1.Health/Watch",
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        ):
            for raw in (b"\xff\xff", b"\x0a\x05\xff", b"\x0a\x02\xff\xfe"):
                asked: aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(method)
                call = asked(iter([raw]), timeout=60)
                with pytest.raises(aio.AioRpcError) as raised:
                    async for _ in call:
                        pass
                error = api_error(raised.value)
                errors[method, raw] = (error.code, error.reason)
        logged = [line for line in arbiter.lines if line.get("level") == "error"]

    assert set(errors.values()) == {("INVALID_ARGUMENT", "MALFORMED_REQUEST")}
    assert logged == []


# What models write


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 400, 990, 5_000])
@pytest.mark.parametrize("around", ["{}", "Here it is: {} Done.", "```json\n{}\n```"])
def test_a_models_deep_json_is_unparsable_output(levels: int, around: str) -> None:
    for text in (nested(levels), '{"r":' * levels + "1" + "}" * levels, "[" * levels):
        with pytest.raises(UnparsableOutput):
            read_document(around.replace("{}", text), ANSWER)


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1" + "0" * 5_000, "1e400", "NaN", "-Infinity"])
def test_a_models_number_that_is_none_is_unparsable_output(number: str) -> None:
    schema = {"type": "object", "required": ["r"], "properties": {"r": {"type": "number", "maximum": 100}}}

    for text in (f'{{"r": {number}}}', f'I say {{"r": {number}}}.'):
        with pytest.raises(UnparsableOutput):
            read_document(text, schema)


@pytest.mark.parametrize("model", ["metacog", "metacog/system1"])
async def test_a_models_deep_reply_is_an_error_of_the_backend(
    router: RunningRouter, scripted: ScriptedLLM, model: str
) -> None:
    deep = RawReply(f'{{"choices": [{{"message": {{"content": "a", "x": {nested(300)}}}}}]}}'.encode())
    scripted.fault(*[deep] * 8)

    async with httpx.AsyncClient(base_url=router.rest, timeout=60) as client:
        reply = await client.post("/v1/chat/completions", json={"model": model, "messages": HELLO})

    assert reply.json()["error"]["code"] == "unparsable_output"


async def test_a_models_deep_stream_is_an_error_of_the_backend(router: RunningRouter, scripted: ScriptedLLM) -> None:
    chunk = f'{{"choices": [{{"index": 0, "delta": {{"content": "a"}}, "finish_reason": "stop", "x": {nested(300)}}}]}}'
    scripted.fault(RawReply(f"data: {chunk}\n\ndata: [DONE]\n\n".encode(), "text/event-stream"))
    body = {"model": "metacog/system1", "messages": HELLO, "stream": True}

    async with httpx.AsyncClient(base_url=router.rest, timeout=60) as client:
        reply = await client.post("/v1/chat/completions", json=body)

    assert "internal" not in reply.text
    assert reply.text.endswith("data: [DONE]\n\n") or reply.status_code == 503


async def test_a_character_that_a_model_wrote_and_that_cannot_be_stored_loses_no_run(
    router: RunningRouter, scripted: ScriptedLLM
) -> None:
    scripted.answer = cast(system1="a\x00b")
    api = RestApi(router.rest, ROUTER)
    run = (await api.ask("Answer", question="Is it so?", strategy="system1"))["run"]

    await router.journal.close()

    assert (await api.ask("GetRun", run_id=run["run_id"]))["run"]["answer"] == "ab"


# Files of the command line


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(
    ("command", "line"),
    [
        (
            ("batch", "{file}", "{file}.out"),
            '{{"custom_id": "a", "method": "POST", "url": "/v1/route", "body": {{"question": "?", "x": {}}}}}',
        ),
        (("exam", "--tasks", "{file}"), '{{"question": "2 + 2?", "answer": "4", "kind": "math_computation", "x": {}}}'),
        (("knowledge", "add", "{file}"), '{{"text": "a", "labels": {}}}'),
    ],
    ids=["batch", "exam", "knowledge"],
)
def test_a_hostile_line_of_a_file_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    line: str,
    name: str,
) -> None:
    hostile, problem = HOSTILE[name]
    file = tmp_path / "lines.jsonl"
    file.write_text("\n" + line.format(hostile) + "\n")

    done = Metacog(capsys, monkeypatch)(
        *(word.format(file=file) for word in command), "--router", f"http://{NO_SERVER}"
    )

    said = " ".join((done.out + done.err).split())
    assert done.status in (2, 5)
    assert f"line 2: {'it is' if problem.startswith('body: ') else ''}" in said
    assert problem.removeprefix("body: ") in said
    assert "Traceback" not in said
