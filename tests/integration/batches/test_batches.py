"""Batches of the router, by the stock `openai` client."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

import openai
import psycopg
import pytest
from openai import AsyncOpenAI

from chassis.ids import new_id
from chassis.serving.auth import ApiKey, Keyring
from inference import embeddings
from services.router.service.batches.progress import POLL_S
from services.router.service.runs.values import CallKind, ListRunsRequest
from services.router.store.batches.batches import PostgresBatches
from services.router.store.batches.lines import PostgresBatchLines
from tests.contract.fake_knowledge import FakeEncoder
from tests.support.apis import RestApi
from tests.support.arbiter import arbiter_at
from tests.support.batches import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    RESPONSES,
    Line,
    begun,
    body_of,
    client_of,
    content_of,
    counts,
    ended,
    line,
    results,
)
from tests.support.gateway import HELLO
from tests.support.models.scripted_llm import ErrorReply, ScriptedLLM
from tests.support.stack import ROUTER, RunningRouter, cast, quick_storage, router_at, until

RING = Keyring([ApiKey(name=name, sha256=sha256(name.encode()).hexdigest()) for name in ("ann", "bob")])


@pytest.fixture
async def router(scripted: ScriptedLLM, empty_database_url: str, tmp_path: Path) -> AsyncIterator[RunningRouter]:
    scripted.answer = cast()
    async with router_at(scripted, empty_database_url, tmp_path) as router:
        yield router


@pytest.fixture
async def client(router: RunningRouter) -> AsyncIterator[AsyncOpenAI]:
    async with client_of(router) as client:
        yield client


async def test_a_batch_is_answered_line_by_line_and_its_results_are_read_in_any_order(
    client: AsyncOpenAI, router: RunningRouter
) -> None:
    names = [f"q{number}" for number in range(20)]

    made = await begun(client, [line(name) for name in names], metadata={"for": "test"})
    batch = await ended(client, made)
    answered = await results(client, batch.output_file_id)

    assert (made.status, made.output_file_id, made.metadata) == ("validating", None, {"for": "test"})
    assert (batch.status, batch.endpoint, batch.completion_window) == ("completed", CHAT, "24h")
    assert (counts(batch), batch.error_file_id, batch.errors) == ([20, 20, 0], None, None)
    assert batch.in_progress_at is not None
    assert batch.finalizing_at is not None
    assert batch.completed_at is not None
    assert batch.expires_at == batch.created_at + 86_400
    assert batch.created_at <= batch.in_progress_at <= batch.finalizing_at <= batch.completed_at
    assert set(answered) == set(names)
    for name, result in answered.items():
        assert (result["error"], result["response"]["status_code"]) == (None, 200)
        completion = body_of(result)
        assert completion["choices"][0]["message"]["content"] == "the system1"
        assert (completion["model"], completion["metacog"]["strategy"]) == ("metacog/system1", "system1")
        assert result["response"]["request_id"] == completion["metacog"]["run_id"], name
    await until(lambda: router.journal.flush(1))
    run = await router.runs.get(answered["q7"]["response"]["request_id"])
    assert (run.messages[0].content, run.call) == ("Say q7.", CallKind.CHAT)
    shown = await client.files.retrieve(batch.output_file_id or "")
    assert (shown.purpose, shown.filename) == ("batch_output", f"{batch.id}_output.jsonl")
    assert shown.bytes == len((await client.files.content(shown.id)).content)


async def test_errors_of_lines_go_to_the_file_of_errors_in_openais_shape(client: AsyncOpenAI) -> None:
    hello = [{"role": "user", "content": "Hello."}]
    lines = [
        line("good"),
        line("model", model="gpt-9", messages=hello),
        line("field", model="metacog", messages=hello, colour="red"),
        line("option", model="metacog", messages=hello, metacog={"envelope": {"timeout_ms": 0}}),
    ]

    batch = await ended(client, await begun(client, lines))
    good, bad = await results(client, batch.output_file_id), await results(client, batch.error_file_id)

    assert (batch.status, counts(batch)) == ("completed", [4, 1, 3])
    assert (set(good), set(bad)) == ({"good"}, {"model", "field", "option"})
    errors = {name: (one["response"]["status_code"], body_of(one)["error"]) for name, one in bad.items()}
    assert (errors["model"][0], errors["model"][1]["code"], errors["model"][1]["param"]) == (
        404,
        "model_not_found",
        "model",
    )
    assert (errors["field"][0], errors["field"][1]["code"], errors["field"][1]["param"]) == (
        400,
        "malformed_request",
        "colour",
    )
    assert (errors["option"][0], errors["option"][1]["code"]) == (400, "invalid_envelope")


async def test_the_lines_of_every_endpoint_are_answered(client: AsyncOpenAI) -> None:
    asked: dict[Any, Line] = {
        RESPONSES: line("r", RESPONSES, model="metacog/system1", input="Say hello.", instructions="Be brief."),
        COMPLETIONS: line("c", COMPLETIONS, model="metacog", prompt="Once", max_tokens=4),
    }

    async with asyncio.TaskGroup() as group:
        made = {endpoint: group.create_task(begun(client, [one], endpoint)) for endpoint, one in asked.items()}
    found = {endpoint: await ended(client, task.result()) for endpoint, task in made.items()}
    replies = {endpoint: await results(client, batch.output_file_id) for endpoint, batch in found.items()}

    response = body_of(replies[RESPONSES]["r"])
    assert (response["object"], response["output"][0]["content"][0]["text"]) == ("response", "the system1")
    continued = await client.responses.create(
        model="metacog/system1", input="And again.", previous_response_id=response["id"]
    )
    assert continued.previous_response_id == response["id"]
    assert body_of(replies[COMPLETIONS]["c"])["choices"]


async def test_votes_run_in_batches_with_the_options_of_each_line(
    scripted: ScriptedLLM, empty_database_url: str, tmp_path: Path
) -> None:
    scripted.answer = lambda body: ["Final Answer: 4" if "Final Answer" in str(body["messages"]) else "It is 4."]
    question = [{"role": "user", "content": "What is 2 + 2?"}]
    lines = [line("v", model="metacog/vote", messages=question, metacog={"vote": {"agree": 2, "most": 3}})]
    async with (
        arbiter_at(scripted, programs=False) as arbiter,
        router_at(scripted, empty_database_url, tmp_path, others={"arbiter": arbiter.grpc}) as router,
        client_of(router) as client,
    ):
        batch = await ended(client, await begun(client, lines))
        answered = body_of((await results(client, batch.output_file_id))["v"])

    assert answered["choices"][0]["message"]["content"] == "It is 4."
    assert answered["metacog"]["strategy"] == "vote"


@pytest.mark.parametrize(
    ("lines", "problems"),
    [
        (b'{"custom_id": "a"\n', [("invalid_json_line", 1, None)]),
        (b"[]\n\n7\n", [("invalid_json_line", 1, None), ("invalid_json_line", 3, None)]),
        (b"\n\n", [("empty_file", None, None)]),
        (content_of([line("a"), line("a")]), [("duplicate_custom_id", 2, "custom_id")]),
        (content_of([{**line("a"), "method": "GET"}]), [("invalid_method", 1, "method")]),
        (content_of([line("a"), line("b", RESPONSES)]), [("invalid_url", 2, "url")]),
        (content_of([{**line("a"), "body": "x"}]), [("invalid_body", 1, "body")]),
        (content_of([line("a", stream=True)]), [("invalid_body", 1, "body.stream")]),
        (content_of([{**line("a"), "custom_id": 7}]), [("invalid_custom_id", 1, "custom_id")]),
        (
            b'{"method": "POST", "url": "/v1/chat/completions", "body": {}, "x": 1}',
            [("missing_required_parameter", 1, "custom_id"), ("unknown_parameter", 1, "x")],
        ),
    ],
)
async def test_a_file_with_lines_that_cannot_be_used_fails_by_line_code_and_field(
    client: AsyncOpenAI, scripted: ScriptedLLM, lines: bytes, problems: list[tuple[str, int | None, str | None]]
) -> None:
    batch = await ended(client, await begun(client, lines))

    assert (batch.status, batch.failed_at is not None) == ("failed", True)
    assert batch.errors is not None
    assert batch.errors.object == "list"
    assert [(one.code, one.line, one.param) for one in batch.errors.data or []] == problems
    assert all(one.message for one in batch.errors.data or [])
    assert scripted.bodies == []
    assert (batch.output_file_id, batch.error_file_id, counts(batch)) == (None, None, [0, 0, 0])


async def test_a_batch_is_cancelled_and_each_line_has_one_result(client: AsyncOpenAI, scripted: ScriptedLLM) -> None:
    names = [f"q{number}" for number in range(30)]
    scripted.token_delay_s = 0.5

    made = await begun(client, [line(name) for name in names])
    await scripted.until(lambda llm: len(llm.bodies) >= 1)
    cancelling = await client.batches.cancel(made.id)
    scripted.token_delay_s = 0.0
    again = await client.batches.cancel(made.id)
    batch = await ended(client, made)
    done, left = await results(client, batch.output_file_id), await results(client, batch.error_file_id)
    with pytest.raises(openai.BadRequestError) as late:
        await client.batches.cancel(made.id)

    assert (cancelling.status, again.status, batch.status) == ("cancelling", "cancelling", "cancelled")
    assert batch.cancelling_at is not None
    assert batch.cancelled_at is not None
    assert set(done) | set(left) == set(names)
    assert not set(done) & set(left)
    assert counts(batch) == [30, len(done), len(left)]
    assert left
    assert {one["error"]["code"] for one in left.values()} == {"batch_cancelled"}
    assert late.value.code == "batch_ended"


async def test_a_batch_whose_window_is_over_expires_with_what_it_has(
    client: AsyncOpenAI, scripted: ScriptedLLM, empty_database_url: str
) -> None:
    names = [f"q{number}" for number in range(12)]
    scripted.token_delay_s = 0.5

    made = await begun(client, [line(name) for name in names])
    await scripted.until(lambda llm: len(llm.bodies) >= 1)
    with psycopg.connect(empty_database_url.replace("+psycopg", "")) as connection:
        connection.execute("UPDATE router.batches SET expires_at = now()")
    batch = await ended(client, made)
    done, left = await results(client, batch.output_file_id), await results(client, batch.error_file_id)

    assert (batch.status, batch.expired_at is not None) == ("expired", True)
    assert set(done) | set(left) == set(names)
    assert not set(done) & set(left)
    assert {one["error"]["code"] for one in left.values()} == {"batch_expired"}
    assert {one["response"] for one in left.values()} == {None}


async def test_lines_whose_model_server_is_away_are_tried_again(client: AsyncOpenAI, scripted: ScriptedLLM) -> None:
    scripted.fault(*[ErrorReply(503, "warming up")] * 4)

    batch = await ended(client, await begun(client, [line("a"), line("b")]))

    assert (batch.status, counts(batch)) == ("completed", [2, 2, 0])


async def test_batches_are_listed_page_by_page_newest_first(client: AsyncOpenAI) -> None:
    made = [(await begun(client, [line("a")])).id for _ in range(3)]

    page = await client.batches.list(limit=2)
    everything = [batch.id async for batch in client.batches.list(limit=2)]
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.batches.list(after="batch_that_is_not_there")

    assert ([batch.id for batch in page.data], page.has_more) == ([made[2], made[1]], True)
    assert everything == made[::-1]
    assert (unknown.value.code, unknown.value.param) == ("batch_not_found", "after")


async def test_batches_and_their_results_belong_to_their_key_alone(
    scripted: ScriptedLLM, empty_database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    async with (
        router_at(scripted, empty_database_url, tmp_path, keyring=RING) as router,
        client_of(router, "ann") as ann,
        client_of(router, "bob") as bob,
    ):
        made = await begun(ann, [line("a")])
        batch = await ended(ann, made)
        for foreign in (bob.batches.retrieve(made.id), bob.batches.cancel(made.id)):
            with pytest.raises(openai.NotFoundError) as error:
                await foreign
            assert error.value.code == "batch_not_found"
        with pytest.raises(openai.NotFoundError):
            await bob.files.content(batch.output_file_id or "")
        with pytest.raises(openai.NotFoundError) as foreign_file:
            await bob.batches.create(input_file_id=made.input_file_id, endpoint=CHAT, completion_window="24h")
        listed = await bob.batches.list()
        run_id = (await results(ann, batch.output_file_id))["a"]["response"]["request_id"]
        await until(lambda: router.journal.flush(1))
        runs = [run.run_id for run in (await router.runs.page(ListRunsRequest(), key_name="ann")).runs]

    assert (foreign_file.value.code, foreign_file.value.param) == ("file_not_found", "input_file_id")
    assert listed.data == []
    assert run_id in runs


async def test_what_a_batch_cannot_have_is_rejected_by_name(client: AsyncOpenAI) -> None:
    file = await client.files.create(file=("a.jsonl", b"{}"), purpose="batch")
    usual: Any = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h"}
    wrong: list[tuple[Any, str, str]] = [
        ({"completion_window": "48h"}, "completion_window", "malformed_request"),
        ({"endpoint": "/v1/messages"}, "endpoint", "malformed_request"),
        ({"metadata": {"a": "x" * 513}}, "metadata.a", "malformed_request"),
        ({"extra_body": {"colour": "red"}}, "colour", "malformed_request"),
    ]
    for fields, param, code in wrong:
        with pytest.raises(openai.BadRequestError) as error:
            await client.batches.create(**{**usual, **fields})
        assert (error.value.param, error.value.code) == (param, code)
    with pytest.raises(openai.NotFoundError) as gone:
        await client.batches.create(**{**usual, "input_file_id": "file-x"})
    assert gone.value.param == "input_file_id"


async def test_batches_of_a_key_are_bounded_and_its_file_in_use_cannot_be_deleted(
    scripted: ScriptedLLM, empty_database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    scripted.token_delay_s = 1.0
    bounds = {"batches_per_key": 2, "batches_active_per_key": 1}
    async with AsyncExitStack() as stack:
        router = await stack.enter_async_context(router_at(scripted, empty_database_url, tmp_path, **bounds))  # type: ignore[arg-type]
        client = await stack.enter_async_context(client_of(router))
        first = await begun(client, [line("a")])
        with pytest.raises(openai.BadRequestError) as active:
            await begun(client, [line("b")])
        with pytest.raises(openai.BadRequestError) as used:
            await client.files.delete(first.input_file_id)
        scripted.token_delay_s = 0.0
        await ended(client, first)
        first = await client.batches.retrieve(first.id)
        await client.files.delete(first.input_file_id)
        second = await ended(client, await begun(client, [line("c")]))
        third = await ended(client, await begun(client, [line("d")]))
        left = [batch.id async for batch in client.batches.list()]
        with pytest.raises(openai.NotFoundError):
            await client.files.content(first.output_file_id or "")

    assert (active.value.code, "METACOG_ROUTER_BATCHES_ACTIVE_PER_KEY" in active.value.message) == (
        "too_many_batches",
        True,
    )
    assert used.value.code == "file_in_use"
    assert left == [third.id, second.id]  # the oldest one that had ended went, with its results


async def test_lines_take_a_quarter_of_the_places_at_most_and_interactive_requests_are_served_meanwhile(
    scripted: ScriptedLLM, empty_database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    scripted.token_delay_s = 0.7
    async with (
        router_at(scripted, empty_database_url, tmp_path, max_in_flight=8) as router,
        client_of(router) as client,
    ):
        made = await begun(client, [line(f"q{number}") for number in range(10)])
        await scripted.until(lambda llm: len(llm.bodies) == 2)
        await asyncio.sleep(0.5)
        lines = router.admission.requests.in_flight
        scripted.token_delay_s = 0.0
        asked = await client.chat.completions.create(model="metacog/system1", messages=HELLO)
        after = len(scripted.bodies)
        batch = await ended(client, made)

    assert (lines, after) == (2, 3)
    assert asked.choices[0].message.content == "the system1"
    assert counts(batch) == [10, 10, 0]


async def test_without_contents_a_batch_is_rejected_by_name(
    scripted: ScriptedLLM, empty_database_url: str, tmp_path: Path
) -> None:
    storage = quick_storage(tmp_path, contents=False)
    async with (
        router_at(scripted, empty_database_url, tmp_path, storage=storage) as router,
        client_of(router) as client,
    ):
        with pytest.raises(openai.BadRequestError) as error:
            await client.batches.create(input_file_id="file-x", endpoint=CHAT, completion_window="24h")

    assert (error.value.param, error.value.code) == ("input_file_id", "malformed_request")
    assert "METACOG_ROUTER_KEEP_CONTENTS" in error.value.message


async def test_a_line_costs_no_look_at_the_steps_of_batches_but_the_last_one(
    scripted: ScriptedLLM, empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted.answer = cast()
    looks, own = 0, PostgresBatches.claim_step

    async def counted(self: PostgresBatches, claim: str, lease_s: float) -> Any:  # noqa: ANN401 - as it is
        nonlocal looks
        looks += 1
        return await own(self, claim, lease_s)

    monkeypatch.setattr(PostgresBatches, "claim_step", counted)
    began = time.monotonic()
    async with (
        router_at(scripted, empty_database_url, tmp_path, max_in_flight=4) as router,
        client_of(router) as client,
    ):
        batch = await ended(client, await begun(client, [line(f"q{number}") for number in range(20)]))

    by_time = (time.monotonic() - began) / POLL_S

    assert counts(batch) == [20, 20, 0]
    assert looks - by_time <= 8  # at the start, to validate, to begin, to finalize, to end, and that there is no more


async def test_a_line_that_is_repeated_after_its_run_has_the_citations_of_that_run(
    scripted: ScriptedLLM, empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted.answer = cast()
    monkeypatch.setattr(embeddings, "HttpTransport", lambda **_: FakeEncoder())
    encoder_url = "http://encoder/v1"
    question = [{"role": "user", "content": "How deep is the fjord?"}]
    cited = line("a", model="metacog/system1", messages=question, metacog={"knowledge": {"cite": 1}})
    document = {"document_id": new_id(), "title": "The fjord", "text": "How deep is the fjord? 200 metres."}
    unkept = asyncio.Event()

    async def never(*_: object, **__: object) -> None:
        unkept.set()
        await asyncio.Event().wait()

    async with (
        router_at(scripted, empty_database_url, tmp_path, encoder_url=encoder_url) as router,
        client_of(router) as client,
    ):
        api = RestApi(router.rest, ROUTER)
        await api.ask("AddKnowledge", documents=[document])
        with monkeypatch.context() as patched:
            patched.setattr(PostgresBatchLines, "keep", never)
            made = await begun(client, [cited])
            await unkept.wait()
            await until(lambda: router.journal.flush(1))
    async with (
        router_at(scripted, empty_database_url, tmp_path, encoder_url=encoder_url) as router,
        client_of(router) as client,
    ):
        api = RestApi(router.rest, ROUTER)
        await api.ask("AddKnowledge", documents=[{**document, "text": "How deep is the fjord? Nine metres."}])
        with psycopg.connect(empty_database_url.replace("+psycopg", "")) as connection:
            connection.execute("UPDATE router.batch_lines SET due_at = now()")  # the lease has run out
        batch = await ended(client, made)
        explanation = body_of((await results(client, batch.output_file_id))["a"])["metacog"]
        run = (await api.ask("GetRun", run_id=explanation["run_id"]))["run"]
        await api.ask("DeleteKnowledge", document_id=document["document_id"])

    assert len(scripted.bodies) == 1
    assert [one["passage"] for one in explanation["citations"]] == [document["text"]]
    assert explanation["citations"] == run["citations"]


async def test_embeddings_run_in_batches(
    scripted: ScriptedLLM, empty_database_url: str, tmp_path: Path, encoder_url: str
) -> None:
    lines = [line(name, EMBEDDINGS, model="metacog", input=f"A text {name}.") for name in ("a", "b")]
    async with (
        router_at(scripted, empty_database_url, tmp_path, encoder_url=encoder_url) as router,
        client_of(router) as client,
    ):
        batch = await ended(client, await begun(client, lines, EMBEDDINGS))
        vectors = await results(client, batch.output_file_id)

    assert {name: len(body_of(one)["data"]) for name, one in vectors.items()} == {"a": 1, "b": 1}


async def test_old_batches_and_files_are_deleted_with_their_age_and_those_in_use_stay(
    scripted: ScriptedLLM, empty_database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    storage = quick_storage(tmp_path, days=2, retention_every_s=0.1)
    async with (
        router_at(scripted, empty_database_url, tmp_path, storage=storage) as router,
        client_of(router) as client,
    ):
        old = await ended(client, await begun(client, [line("a")]))
        scripted.token_delay_s = 10.0
        active = await begun(client, [line("b")])
        young = await client.files.create(file=("a.jsonl", b"{}"), purpose="batch")
        with psycopg.connect(empty_database_url.replace("+psycopg", "")) as connection:
            connection.execute("UPDATE router.batches SET created_at = created_at - interval '3 days'")
            connection.execute(
                "UPDATE router.files SET created_at = created_at - interval '3 days' WHERE file_id <> %s", [young.id]
            )

        async def is_gone() -> bool:
            return {batch.id async for batch in client.batches.list()} == {active.id}

        await until(is_gone)

        async def are_files_gone() -> bool:
            return {file.id async for file in client.files.list()} == {young.id, active.input_file_id}

        await until(are_files_gone)
        batch = await client.batches.retrieve(active.id)

    assert old.output_file_id
    assert batch.status in ("validating", "in_progress")
