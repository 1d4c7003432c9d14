"""Calls that are passed on to a model server: completions, embeddings, tokens, reranking, scores."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from services.router.service.runs.values import CallKind, ListRunsRequest, Run
from tests.support.apis import RestApi, RpcApi
from tests.support.gateway import Suite, gateway
from tests.support.models.scripted_llm import ErrorReply, RawReply, ScriptedLLM, Stall
from tests.support.stack import NO_SERVER, ROUTER, At, RunningRouter, quick_storage, router_at, until

CALLS: list[tuple[str, dict[str, Any], CallKind]] = [
    ("/v1/completions", {"prompt": "one two"}, CallKind.COMPLETION),
    ("/v1/embeddings", {"model": "scripted", "input": "one two"}, CallKind.EMBEDDING),
    ("/v1/embeddings", {"model": "metacog", "input": ["one", "two"]}, CallKind.EMBEDDING),
    ("/tokenize", {"prompt": "one two"}, CallKind.TOKENIZE),
    ("/detokenize", {"tokens": [3, 3]}, CallKind.DETOKENIZE),
    ("/v1/rerank", {"query": "a b", "documents": ["a c", "b a"]}, CallKind.RERANK),
    ("/rerank", {"query": "a b", "documents": ["a c", "b a"]}, CallKind.RERANK),
    ("/v1/score", {"text_1": "a b", "text_2": "a c"}, CallKind.SCORE),
    ("/score", {"text_1": "a b", "text_2": "a c"}, CallKind.SCORE),
]
BY_MODEL = [(path, body, call) for path, body, call in CALLS if body.get("model") != "metacog"]
NAMES = [f"{path}-{body.get('model', '')}" for path, body, _ in CALLS]


@pytest.fixture
def encoder() -> Iterator[ScriptedLLM]:
    """A server of its own for the router's sentence encoder."""
    with ScriptedLLM(model="encoder") as llm:
        yield llm


@pytest.fixture
async def suite(scripted: ScriptedLLM, encoder: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[Suite]:
    more: dict[str, Any] = {"encoder_url": f"{encoder.url}/v1", "aliases": {"gpt-3": "metacog"}}
    async with gateway(scripted, database_url, tmp_path, **more) as suite:
        yield suite


@pytest.fixture
async def http(suite: Suite) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=suite.router.rest) as client:
        yield client


async def run_of(suite: Suite, reply: httpx.Response) -> Run:
    run_id = reply.headers["x-metacog-run-id"]
    await until(lambda: suite.router.journal.flush(1))
    return await suite.runs.get(run_id)


# Every one of them


@pytest.mark.parametrize(("path", "body", "call"), CALLS, ids=NAMES)
async def test_a_call_is_passed_on_and_recorded_by_its_kind(
    suite: Suite,
    http: httpx.AsyncClient,
    scripted: ScriptedLLM,
    encoder: ScriptedLLM,
    path: str,
    body: dict[str, Any],
    call: CallKind,
) -> None:
    reply = (await http.post(path, json=body)).raise_for_status()
    run = await run_of(suite, reply)
    listed = await suite.runs.page(ListRunsRequest(call=call, page_size=1))

    server = encoder if body.get("model") == "metacog" else scripted
    asked = {name: item for name, item in body.items() if name != "model"}
    [(place, sent)] = [(place, sent) for place, sent in server.passed if asked.items() <= sent.items()]
    assert (place.removeprefix("/v1"), sent["model"]) == (path.removeprefix("/v1"), server.model)
    assert set(sent) - set(asked) <= {"model", "max_tokens"}
    assert (run.call, run.outcome, run.error_reason, run.usage.http_calls) == (call, "ANSWERED", "", 1)
    assert [each.run_id for each in listed.runs] == [run.run_id]
    assert bool(run.messages) == (call is CallKind.COMPLETION)  # what nothing answers is not stored
    assert reply.json().get("model", "scripted") in ("scripted", "metacog")


@pytest.mark.parametrize("api", ["rest", "rpc"])
async def test_the_kind_of_call_is_in_both_apis(suite: Suite, http: httpx.AsyncClient, api: str) -> None:
    asked: Any = RestApi(suite.router.rest, ROUTER) if api == "rest" else RpcApi(suite.router.grpc, ROUTER)
    reply = await http.post("/v1/completions", json={"prompt": "one two"})
    await run_of(suite, reply)

    run = (await asked.ask("GetRun", run_id=reply.headers["x-metacog-run-id"]))["run"]
    [listed] = (await asked.ask("ListRuns", call="COMPLETION", page_size=1))["runs"]

    assert (run["call"], listed["run_id"]) == ("COMPLETION", run["run_id"])
    assert [turn["content"] for turn in run["messages"]] == ["one two"]


@pytest.mark.parametrize(("path", "body", "call"), CALLS, ids=NAMES)
async def test_a_field_that_is_not_listed_is_an_error_that_names_it_and_the_setting(
    http: httpx.AsyncClient, scripted: ScriptedLLM, path: str, body: dict[str, Any], call: CallKind
) -> None:
    reply = await http.post(path, json={**body, "priority": 1})

    error = reply.json()["error"]
    assert (reply.status_code, error["param"], error["code"]) == (400, "priority", "malformed_request"), call
    assert "METACOG_ROUTER_PASSED_FIELDS" in error["message"]
    assert scripted.passed == []


@pytest.mark.parametrize(("path", "body", "call"), BY_MODEL)
async def test_a_server_without_the_endpoint_is_named(
    suite: Suite, http: httpx.AsyncClient, scripted: ScriptedLLM, path: str, body: dict[str, Any], call: CallKind
) -> None:
    scripted.serves = frozenset()
    scripted.fault(ErrorReply(501, "This server does not support it"))
    replies = [await http.post(path, json=body) for _ in range(2)]

    for reply in replies:
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "endpoint_not_served"), call
        assert "name a model whose server does" in reply.json()["error"]["message"]
        assert (await run_of(suite, reply)).error_reason == "ENDPOINT_NOT_SERVED"


@pytest.mark.parametrize(("path", "body", "call"), CALLS, ids=NAMES)
async def test_a_model_that_is_not_there_is_an_error_of_openais_shape(
    http: httpx.AsyncClient, path: str, body: dict[str, Any], call: CallKind
) -> None:
    unknown = await http.post(path, json={**body, "model": "nobody"})
    strategy = await http.post(path, json={**body, "model": "metacog/vote"})

    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found"), call
    assert (strategy.status_code, strategy.json()["error"]["param"]) == (400, "model")


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings", "/tokenize", "/v1/rerank"])
async def test_what_the_model_reads_must_be_there(http: httpx.AsyncClient, path: str) -> None:
    without = await http.post(path, json={"model": "scripted"})
    number = await http.post(path, json={"prompt": 7, "input": {"a": 1}, "query": [[]], "documents": []})

    assert (without.status_code, number.status_code) == (400, 400)
    assert without.json()["error"]["param"] in ("prompt", "input", "query")


async def test_a_body_over_its_limit_is_rejected(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> None:
    async with (
        router_at(scripted, database_url, tmp_path, passed_max_body_bytes=2048) as router,
        httpx.AsyncClient(base_url=router.rest) as client,
    ):
        replies = [await client.post(path, json={**body, "user": "x" * 2048}) for path, body, _ in CALLS]

    assert {reply.status_code for reply in replies} == {413}
    assert {reply.json()["error"]["code"] for reply in replies} == {"body_too_large"}


async def test_a_reply_that_is_no_object_is_an_error(http: httpx.AsyncClient, scripted: ScriptedLLM) -> None:
    scripted.fault(RawReply(b"[1, 2]"))

    reply = await http.post("/tokenize", json={"prompt": "one"})

    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "backend_reply_invalid")


async def test_a_server_that_is_busy_is_asked_again(http: httpx.AsyncClient, scripted: ScriptedLLM) -> None:
    scripted.fault(ErrorReply(429, "busy"))

    reply = await http.post("/v1/score", json={"text_1": "a b", "text_2": "a"})

    assert (reply.status_code, len(scripted.passed)) == (200, 2)


async def test_a_time_limit_of_the_request_holds(suite: Suite, http: httpx.AsyncClient, scripted: ScriptedLLM) -> None:
    scripted.fault(Stall())

    reply = await http.post("/tokenize", json={"prompt": "one", "metacog": {"envelope": {"timeout_ms": 200}}})

    assert (reply.status_code, reply.json()["error"]["code"]) == (504, "deadline_exceeded")
    await scripted.until(lambda llm: llm.disconnects == 1)
    assert (await run_of(suite, reply)).error_reason == "DEADLINE_EXCEEDED"


async def test_a_client_that_goes_away_stops_the_call(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.fault(Stall())
    async with httpx.AsyncClient(base_url=suite.router.rest) as client:
        asking = asyncio.create_task(client.post("/v1/score", json={"text_1": "a", "text_2": "b"}))
        await scripted.until(lambda llm: len(llm.passed) == 1)
        asking.cancel()

    await scripted.until(lambda llm: llm.disconnects == 1)


async def test_without_contents_no_word_of_a_call_is_stored(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    async with (
        router_at(scripted, database_url, tmp_path, storage=quick_storage(tmp_path, contents=False)) as router,
        httpx.AsyncClient(base_url=router.rest) as client,
    ):
        reply = await client.post("/v1/completions", json={"prompt": "a secret word"})
        await until(lambda: router.journal.flush(1))
        run = await router.runs.get(reply.headers["x-metacog-run-id"])

    assert reply.json()["choices"][0]["text"] == " a secret word"
    assert (run.messages, run.answer, run.call) == ([], "", CallKind.COMPLETION)


# Completions


async def test_a_completion_by_the_stock_client_keeps_its_fields(suite: Suite, scripted: ScriptedLLM) -> None:
    answer = await suite.client.completions.create(
        model="metacog/system1", prompt=["one two three", "four"], max_tokens=2, n=2, seed=-1, extra_body={"top_k": 5}
    )

    assert [choice.text for choice in answer.choices] == [" one two", " one two", " four", " four"]
    assert (answer.model, answer.id[:5], answer.object) == ("metacog/system1", "cmpl-", "text_completion")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (4, 6)
    [(_, sent)] = scripted.passed
    assert (sent["max_tokens"], sent["n"], sent["top_k"], sent["model"]) == (2, 2, 5, "scripted")


async def test_a_completion_without_a_limit_has_16_tokens_as_at_openai(suite: Suite, scripted: ScriptedLLM) -> None:
    answer = await suite.client.completions.create(model="gpt-3", prompt="word " * 40)

    assert (scripted.passed[0][1]["max_tokens"], answer.choices[0].finish_reason) == (16, "length")


@pytest.mark.parametrize("include_usage", [True, False])
async def test_a_completion_is_streamed_and_recorded(suite: Suite, include_usage: bool) -> None:
    options: Any = {"stream_options": {"include_usage": True}} if include_usage else {}
    stream = await suite.client.completions.create(model="scripted", prompt="one two three", stream=True, **options)
    chunks = [chunk async for chunk in stream]

    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == " one two three"
    assert {(chunk.model, chunk.id) for chunk in chunks} == {("scripted", chunks[0].id)}
    assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage] == ([3] if include_usage else [])
    await until(lambda: suite.router.journal.flush(1))
    run = await suite.runs.get(chunks[0].id.removeprefix("cmpl-"))
    assert (run.answer, run.call, run.usage.completion_tokens) == (" one two three", CallKind.COMPLETION, 3)
    assert (run.finish_reason, run.usage.generations) == ("stop", 1)


async def test_an_error_before_the_first_chunk_is_a_status(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.fault(ErrorReply(400, "temperature must be non-negative"))

    with pytest.raises(openai.BadRequestError) as raised:
        await suite.client.completions.create(model="scripted", prompt="one", stream=True)

    assert raised.value.code == "invalid_sampling"


@pytest.mark.parametrize("field", ["best_of", "n_predict", "prompt_embeds", "lora_request"])
async def test_no_field_leads_out_of_the_envelope(http: httpx.AsyncClient, scripted: ScriptedLLM, field: str) -> None:
    reply = await http.post("/v1/completions", json={"prompt": "one", field: 5})

    assert (reply.status_code, reply.json()["error"]["param"], scripted.passed) == (400, field, [])


async def test_the_envelope_bounds_a_completion(http: httpx.AsyncClient, scripted: ScriptedLLM) -> None:
    limits = {"envelope": {"max_generated_tokens": 4}}
    cut = await http.post("/v1/completions", json={"prompt": "a b c d e f", "max_tokens": 9, "metacog": limits})
    none = await http.post("/v1/completions", json={"prompt": ["a"] * 5, "metacog": limits})

    assert (cut.json()["choices"][0]["text"], scripted.passed[0][1]["max_tokens"]) == (" a b c d", 4)
    assert (none.status_code, none.json()["error"]["code"]) == (429, "budget_exhausted")


# Embeddings


async def test_embeddings_by_the_stock_client_come_from_the_encoder(suite: Suite) -> None:
    answer = await suite.client.embeddings.create(model="metacog", input=["one", "two"])
    named = await suite.client.embeddings.create(model="encoder", input=["one", "two"])
    same = await suite.client.embeddings.create(model="scripted", input="one", encoding_format="float")

    assert [len(each.embedding) for each in answer.data] == [32, 32]
    assert answer.data[0].embedding == pytest.approx(same.data[0].embedding)
    assert answer.data == named.data
    assert (answer.model, named.model) == ("metacog", "encoder")


async def test_the_encoder_is_listed_as_embeddings_take_it(suite: Suite) -> None:
    listed = {model.id: model.model_dump() for model in (await suite.client.models.list()).data}
    found = (await suite.client.models.retrieve("encoder")).model_dump()

    assert found == listed["encoder"]
    assert (found["metacog"], found["owned_by"]) == ({"kind": "encoder"}, "backend")


async def test_an_encoder_that_is_away_is_an_error_of_openais_shape(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    async with router_at(scripted, database_url, tmp_path, encoder_url=f"http://{NO_SERVER}/v1") as router:
        first = await embedded(router)
        for _ in range(8):
            last = await embedded(router)

    assert (first.status_code, first.json()["error"]["code"]) == (503, "encoder_unavailable")
    assert (last.status_code, last.json()["error"]["code"]) == (503, "backend_unavailable")  # its circuit is open


async def embedded(router: RunningRouter) -> httpx.Response:
    async with httpx.AsyncClient(base_url=router.rest) as client:
        limits = {"envelope": {"timeout_ms": 400}}
        return await client.post("/v1/embeddings", json={"model": "metacog", "input": "a", "metacog": limits})


# Several models


async def test_a_call_goes_to_the_server_of_the_model_that_it_names(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    with ScriptedLLM(model="reranker") as other:
        models = {"reranker": At(other.url, "reranker")}
        async with (
            router_at(scripted, database_url, tmp_path, models=models) as router,
            httpx.AsyncClient(base_url=router.rest) as client,
        ):
            body = {"model": "reranker", "query": "a b", "documents": ["a c", "b a"]}
            reply = (await client.post("/v1/rerank", json=body)).json()

    assert [result["relevance_score"] for result in reply["results"]] == [0.5, 1.0]
    assert (reply["model"], len(other.passed), scripted.passed) == ("reranker", 1, [])


# A real server


async def test_a_real_llamacpp_completes_and_takes_text_apart(llm_url: str, database_url: str, tmp_path: Path) -> None:
    async with (
        gateway(At(llm_url, "smollm2"), database_url, tmp_path) as suite,
        httpx.AsyncClient(base_url=suite.router.rest) as client,
    ):
        whole = await suite.client.completions.create(model="smollm2", prompt="One, two, three,", max_tokens=4)
        stream = await suite.client.completions.create(
            model="smollm2", prompt="One, two, three,", max_tokens=4, stream=True
        )
        streamed = [chunk async for chunk in stream]
        tokens = (await client.post("/tokenize", json={"content": "One, two"})).json()["tokens"]
        text = (await client.post("/detokenize", json={"tokens": tokens})).json()["content"]
        embedding = await client.post("/v1/embeddings", json={"model": "smollm2", "input": "One"})

    assert whole.choices[0].text
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 4
    assert "".join(choice.text for chunk in streamed for choice in chunk.choices)
    assert text.strip() == "One, two"
    assert (embedding.status_code, embedding.json()["error"]["code"]) == (404, "endpoint_not_served")
