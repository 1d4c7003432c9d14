"""OpenAI's Responses API of the router, by the stock `openai` client."""

from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel

from chassis.serving.auth import ApiKey, Keyring
from services.router.service.answering import run_in_progress
from services.router.service.runs.values import CallKind
from tests.support.apis import RestApi, RpcApi
from tests.support.gateway import Suite, gateway, metacog_field
from tests.support.models.scripted_llm import Late, ScriptedChoice, ScriptedLLM, Shape
from tests.support.stack import ROUTER, TROUBLED, At, cast, quick_storage, router_at, until

# A server that, unlike the scripted vLLM, was started with a tool parser.
WITH_TOOLS = Shape("tools", checks=False)
CALL: Any = {"id": "call_7", "type": "function", "function": {"name": "look_up", "arguments": '{"q": "x"}'}}
TOOL: Any = {"type": "function", "name": "look_up", "parameters": {"type": "object"}, "strict": False}
RING = Keyring([ApiKey(name=name, sha256=sha256(name.encode()).hexdigest()) for name in ("ann", "bob")])
THOUGHT: Any = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [1, {"text": "hm"}]}
PLAIN: Any = {"model": "metacog/system1", "input": "Say hello."}


class Verdict(BaseModel):
    """Whether it is so."""

    is_so: bool


@pytest.fixture
async def suite(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[Suite]:
    scripted.answer = cast()
    async with gateway(scripted, database_url, tmp_path) as suite:
        yield suite


@pytest.fixture
def tools() -> Iterator[ScriptedLLM]:
    """A server that takes tools, and sends what it thinks."""
    with ScriptedLLM(WITH_TOOLS) as llm:
        yield llm


@pytest.fixture
async def tool_client(tools: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[AsyncOpenAI]:
    async with (
        router_at(tools, database_url, tmp_path) as router,
        AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none") as client,
    ):
        yield client


async def test_a_response_is_answered_and_its_run_recorded_by_its_kind(suite: Suite, scripted: ScriptedLLM) -> None:
    response = await suite.client.responses.create(
        **PLAIN, instructions="Be brief.", max_output_tokens=64, temperature=0.5, metadata={"a": "b"}
    )
    await until(lambda: suite.router.journal.flush(1))
    run = await suite.runs.get(response.id.removeprefix("resp_"))

    assert (response.output_text, response.status, response.model) == ("the system1", "completed", "metacog/system1")
    assert (response.object, response.instructions, response.metadata) == ("response", "Be brief.", {"a": "b"})
    assert response.usage is not None
    assert response.usage.output_tokens == run.usage.completion_tokens > 0
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert (run.call, run.answer) == (CallKind.RESPONSE, "the system1")
    assert metacog_field(response)["run_id"] == run.run_id
    sent = scripted.bodies[0]
    assert sent["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Say hello."},
    ]
    assert (sent["max_tokens"], sent["temperature"]) == (64, 0.5)


@pytest.mark.parametrize("model", ["metacog", "metacog/dialectic"])
async def test_a_deliberation_answers_whole_and_streamed(suite: Suite, scripted: ScriptedLLM, model: str) -> None:
    scripted.answer = cast(TROUBLED, synthesis="one two three")

    whole = await suite.client.responses.create(model=model, input="Is it so?")
    async with suite.client.responses.stream(model=model, input="Is it so?") as stream:
        streamed = await stream.get_final_response()

    assert whole.output_text == streamed.output_text == "one two three"
    assert metacog_field(whole)["strategy"] == "dialectic"


async def test_a_stream_has_the_events_that_clients_expect(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(system1="one two three")

    events = [event async for event in await suite.client.responses.create(**PLAIN, stream=True)]

    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * 3,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last: Any = events[-1]
    assert (last.response.output_text, last.response.usage.output_tokens) == ("one two three", 3)


async def test_the_bound_on_an_answer_makes_it_incomplete(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(system1="one two three four")

    response = await suite.client.responses.create(**PLAIN, max_output_tokens=2)

    assert (response.output_text, response.status) == ("one two", "incomplete")
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


async def test_an_error_after_the_first_event_is_an_event(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(system1="one two three")
    scripted.fault(Late(2))

    events: list[Any] = [event async for event in await suite.client.responses.create(**PLAIN, stream=True)]

    assert (events[-1].type, events[-1].code) == ("error", "backend_unavailable")
    assert "it broke" in events[-1].message


async def test_an_answer_by_a_schema_is_parsed(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = lambda _: ['{"is_so": true}']

    response = await suite.client.responses.parse(**PLAIN, text_format=Verdict)

    assert response.output_parsed == Verdict(is_so=True)
    assert scripted.bodies[0]["response_format"]["json_schema"]["name"] == "Verdict"


# Tools


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("by_name", [False, True], ids=["all-sent", "continued"])
async def test_tools_are_called_and_their_results_read(
    tool_client: AsyncOpenAI, tools: ScriptedLLM, stream: bool, by_name: bool
) -> None:
    tools.reply(ScriptedChoice("Wait.", tool_calls=[CALL]), "It is 42.")

    async def answer(**more: Any) -> Any:  # noqa: ANN401
        if not stream:
            return await tool_client.responses.create(model="metacog", tools=[TOOL], **more)
        async with tool_client.responses.stream(model="metacog", tools=[TOOL], **more) as events:
            return await events.get_final_response()

    first = await answer(input="What is x?")
    [call] = [item for item in first.output if item.type == "function_call"]
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "42"}
    if by_name:
        second = await answer(input=[output], previous_response_id=first.id)
    else:
        items = [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in first.output]
        second = await answer(input=[{"role": "user", "content": "What is x?"}, *items, output])

    assert (call.name, call.arguments, call.call_id) == ("look_up", '{"q": "x"}', "call_7")
    assert second.output_text == "It is 42."
    asked, called, result = tools.bodies[1]["messages"]
    assert (asked["content"], result) == ("What is x?", {"role": "tool", "tool_call_id": "call_7", "content": "42"})
    assert (called["content"], called["tool_calls"]) == ("Wait.", [CALL])


async def test_what_a_model_thinks_is_an_item_of_its_own(tool_client: AsyncOpenAI, tools: ScriptedLLM) -> None:
    tools.reply(ScriptedChoice("Four.", reasoning="2 + 2"), ScriptedChoice("Four.", reasoning="2 + 2"))

    whole = await tool_client.responses.create(**PLAIN)
    async with tool_client.responses.stream(**PLAIN) as stream:
        streamed = await stream.get_final_response()

    assert [item.type for item in whole.output] == [item.type for item in streamed.output] == ["reasoning", "message"]
    assert whole.output_text == streamed.output_text == "Four."


# Continuing


async def test_a_response_continues_an_earlier_one_without_its_instructions(
    suite: Suite, scripted: ScriptedLLM
) -> None:
    first = await suite.client.responses.create(**PLAIN, instructions="Be brief.")
    second = await suite.client.responses.create(**{**PLAIN, "input": "Again."}, previous_response_id=first.id)
    third = await suite.client.responses.create(**{**PLAIN, "input": "More."}, previous_response_id=second.id)

    assert (second.previous_response_id, third.previous_response_id) == (first.id, second.id)
    assert [message["content"] for message in scripted.bodies[-1]["messages"]] == [
        "Say hello.",
        "the system1",
        "Again.",
        "the system1",
        "More.",
    ]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("most", "kept"), [(100, False), (10_000, True)])
async def test_store_is_whether_the_response_can_be_continued(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, stream: bool, most: int, kept: bool
) -> None:
    monkeypatch.setattr(run_in_progress, "MOST_KEPT_BYTES", most)
    asked: Any = {**PLAIN, "input": "Say hello. " * 20, "store": True}

    if stream:
        last: Any = [event async for event in await suite.client.responses.create(**asked, stream=True)][-1]
        response = last.response
    else:
        response = await suite.client.responses.create(**asked)

    assert response.model_extra["store"] is kept


async def test_a_conversation_is_kept_but_not_shown_with_its_run(suite: Suite) -> None:
    first = await suite.client.responses.create(**PLAIN)
    await until(lambda: suite.router.journal.flush(1))
    run_id = first.id.removeprefix("resp_")

    assert (await suite.runs.get(run_id)).continuation != ""
    for api in (RestApi(suite.router.rest, ROUTER), RpcApi(suite.router.grpc, ROUTER)):
        got = (await api.ask("GetRun", run_id=run_id))["run"]
        [listed] = [run for run in (await api.ask("ListRuns"))["runs"] if run["run_id"] == run_id]
        assert (got.get("continuation", ""), listed.get("continuation", "")) == ("", "")
        assert got["answer"] == listed["answer"] == "the system1"


async def test_a_response_of_another_key_or_that_was_not_stored_is_not_continued(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    async with (
        router_at(scripted, database_url, tmp_path, keyring=RING) as router,
        AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="ann") as ann,
        AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="bob") as bob,
    ):
        stored = await ann.responses.create(**PLAIN)
        passing = await ann.responses.create(**PLAIN, store=False)
        chat = await ann.chat.completions.create(model="metacog/system1", messages=[{"role": "user", "content": "?"}])
        cases = [(bob, stored.id), (ann, passing.id), (ann, "resp_none"), (ann, chat.id.replace("chatcmpl-", "resp_"))]
        for client, previous in cases:
            with pytest.raises(openai.NotFoundError) as raised:
                await client.responses.create(**PLAIN, previous_response_id=previous)
            assert (raised.value.param, raised.value.code) == ("previous_response_id", "run_not_found")


async def test_where_contents_are_not_stored_nothing_is_continued(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    storage = quick_storage(tmp_path, contents=False)
    async with (
        router_at(scripted, database_url, tmp_path, storage=storage) as router,
        AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none") as client,
    ):
        first = await client.responses.create(**PLAIN)
        await until(lambda: router.journal.flush(1))
        run = await router.runs.get(first.id.removeprefix("resp_"))
        for more in ({"previous_response_id": first.id}, {"store": True}):
            with pytest.raises(openai.BadRequestError, match="METACOG_ROUTER_KEEP_CONTENTS") as raised:
                await client.responses.create(**PLAIN, **more)
            assert raised.value.param == next(iter(more))

    assert (run.continuation, run.answer, (first.model_extra or {})["store"]) == ("", "", False)


# Errors


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"background": True}, "background"),
        ({"truncation": "auto"}, "truncation"),
        ({"include": ["reasoning.encrypted_content"]}, "include"),
        ({"service_tier": "flex"}, "service_tier"),
        ({"conversation": "c"}, "conversation"),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input.0.type"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]}, "input.0.content.0.type"),
        ({"metacog": {"colour": "red"}}, "metacog.colour"),
        ({"previous_response_id": ""}, "previous_response_id"),
        ({"previous_response_id": "resp_"}, "previous_response_id"),
        ({"best_of": 4}, "best_of"),
        ({"n_predict": 4}, "n_predict"),
        ({"n_cmpl": 4}, "n_cmpl"),
    ],
)
async def test_a_field_that_does_not_pass_is_an_error_that_names_it(
    suite: Suite, scripted: ScriptedLLM, more: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        await suite.client.responses.create(**PLAIN, extra_body=more)

    assert raised.value.param == param
    assert scripted.bodies == []


async def test_an_image_from_a_host_that_is_not_listed_is_rejected(suite: Suite, scripted: ScriptedLLM) -> None:
    parts: Any = [{"type": "input_image", "image_url": "http://10.0.0.5/a.png", "detail": "auto"}]

    with pytest.raises(openai.BadRequestError) as raised:
        await suite.client.responses.create(model="metacog", input=[THOUGHT, {"role": "user", "content": parts}])

    assert (raised.value.code, raised.value.param) == ("media_source_not_allowed", "input.1.content.0.image_url")
    assert scripted.bodies == []


# A real server


async def test_a_real_llamacpp_answers_and_continues(llm_url: str, database_url: str, tmp_path: Path) -> None:
    async with gateway(At(llm_url, "smollm2"), database_url, tmp_path) as suite:
        first = await suite.client.responses.create(**PLAIN, max_output_tokens=8)
        stream = await suite.client.responses.create(
            **{**PLAIN, "input": "Again."}, max_output_tokens=8, previous_response_id=first.id, stream=True
        )
        last: Any = [event async for event in stream][-1]
        second = last.response

    assert first.output_text
    assert second.output_text
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.input_tokens > first.usage.input_tokens


# Stored responses


async def test_a_stored_response_is_retrieved_as_it_was_given(tool_client: AsyncOpenAI, tools: ScriptedLLM) -> None:
    tools.reply(ScriptedChoice(tool_calls=[CALL]), "It is 42.")
    asked: Any = {"model": "metacog/system1", "tools": [TOOL], "instructions": "Be brief.", "metadata": {"a": "b"}}

    called = await tool_client.responses.create(**asked, input="Say hello.", max_output_tokens=64)
    result: Any = {"type": "function_call_output", "call_id": "call_7", "output": "42"}
    answered = await tool_client.responses.create(**asked, input=[result], previous_response_id=called.id)
    found = [await tool_client.responses.retrieve(response.id) for response in (called, answered)]

    for given, kept in zip((called, answered), found, strict=True):
        same = {"created_at", "usage", "metacog", "ignored", "citations", "citations_unknown_reason"}
        assert kept.model_dump(exclude=same) == given.model_dump(exclude=same)
        assert kept.usage is not None
        assert given.usage is not None
        assert kept.usage.total_tokens == given.usage.total_tokens
        assert metacog_field(kept)["run_id"] == metacog_field(given)["run_id"]


async def test_an_abstention_and_a_streamed_answer_are_retrieved_too(suite: Suite, scripted: ScriptedLLM) -> None:
    events: Any = [event async for event in await suite.client.responses.create(**PLAIN, stream=True)]
    scripted.answer = cast(TROUBLED, synthesis="one two three")
    deliberated = await suite.client.responses.create(model="metacog/dialectic", input="Is it so?")

    found = [await suite.client.responses.retrieve(name) for name in (events[-1].response.id, deliberated.id)]

    assert [response.output_text for response in found] == ["the system1", "one two three"]


async def test_the_items_that_were_read_are_listed_page_by_page(suite: Suite) -> None:
    image = "data:image/png;base64,iVBORw0KGgo="
    parts: Any = [{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": image}]
    first = await suite.client.responses.create(
        **{**PLAIN, "input": [{"role": "user", "content": parts}]}, instructions="Be brief."
    )
    second = await suite.client.responses.create(**PLAIN, previous_response_id=first.id)

    items: Any = suite.client.responses.input_items
    newest_first = [item async for item in items.list(second.id, limit=1)]
    oldest_first = [item async for item in items.list(second.id, order="asc")]

    assert [item.role for item in oldest_first] == ["user", "assistant", "user"]
    assert [item.id for item in newest_first] == [item.id for item in reversed(oldest_first)]
    assert [(part.type, getattr(part, "image_url", "")) for part in oldest_first[0].content] == [
        ("input_text", ""),
        ("input_image", image),
    ]
    assert oldest_first[1].content[0].text == "the system1"


async def test_a_deleted_response_is_gone_with_all_that_it_said_and_its_run_keeps_its_numbers(suite: Suite) -> None:
    asked: Any = {**PLAIN, "extra_body": {"metacog": {"request_id": "once"}}}
    first = await suite.client.responses.create(**asked)
    run_id = first.id.removeprefix("resp_")
    apis = (RestApi(suite.router.rest, ROUTER), RpcApi(suite.router.grpc, ROUTER))
    await apis[0].ask("SubmitFeedback", feedback_id=f"of-{run_id}", run_id=run_id, correct=True, note="my secret")

    await suite.client.responses.delete(first.id)

    for again in (
        suite.client.responses.retrieve(first.id),
        suite.client.responses.delete(first.id),
        suite.client.responses.input_items.list(first.id),
        suite.client.responses.create(**PLAIN, previous_response_id=first.id),
    ):
        with pytest.raises(openai.NotFoundError) as raised:
            await again
        assert raised.value.code == "run_not_found"
    for api in apis:
        run = (await api.ask("GetRun", run_id=run_id))["run"]
        assert "secret" not in str(run)
        assert "system1" not in str([run.get("messages"), run.get("answer")])
        assert "hello" not in str(run)
        assert int(run["usage"]["completion_tokens"]) > 0
    repeated = await suite.client.responses.create(**asked)
    assert (repeated.id != first.id, repeated.output_text) == (True, "the system1")


async def test_only_their_owner_sees_and_deletes_stored_responses(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    async with (
        router_at(scripted, database_url, tmp_path, keyring=RING) as router,
        AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="ann") as ann,
        AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="bob") as bob,
    ):
        stored = await ann.responses.create(**PLAIN)
        passing = await ann.responses.create(**PLAIN, store=False)
        for client, name in ((bob, stored.id), (ann, passing.id), (ann, "resp_none")):
            for call in (client.responses.retrieve, client.responses.delete, client.responses.input_items.list):
                with pytest.raises(openai.NotFoundError) as raised:
                    await call(name)
                assert (raised.value.param, raised.value.code) == ("response_id", "run_not_found")

        assert (await ann.responses.retrieve(stored.id)).output_text == "the system1"


async def test_where_contents_are_not_stored_no_response_is_retrieved(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    storage = quick_storage(tmp_path, contents=False)
    async with (
        router_at(scripted, database_url, tmp_path, storage=storage) as router,
        AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none") as client,
    ):
        first = await client.responses.create(**PLAIN)
        for call in (client.responses.retrieve, client.responses.input_items.list):
            with pytest.raises(openai.BadRequestError, match="METACOG_ROUTER_KEEP_CONTENTS") as raised:
                await call(first.id)
            assert raised.value.param == "response_id"


@pytest.mark.parametrize(
    ("more", "param"),
    [({"limit": 0}, "limit"), ({"limit": 101}, "limit"), ({"after": "msg_x"}, "after"), ({"order": "up"}, "order")],
)
async def test_a_page_that_there_is_not_is_a_400_that_names_the_parameter(
    suite: Suite, more: dict[str, Any], param: str
) -> None:
    first = await suite.client.responses.create(**PLAIN)

    with pytest.raises(openai.BadRequestError) as raised:
        await suite.client.responses.input_items.list(first.id, **more)
    assert raised.value.param == param
    with pytest.raises(openai.BadRequestError) as raised:
        await suite.client.responses.retrieve(first.id, stream=True)
    assert raised.value.param == "stream"
