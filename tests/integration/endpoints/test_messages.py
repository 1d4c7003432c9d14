"""Anthropic's Messages API of the router, by the stock `anthropic` client with its defaults."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import anthropic
import httpx
import pytest
from anthropic import AsyncAnthropic

from chassis.serving.auth import ApiKey, Keyring
from services.router.service.runs.values import CallKind
from tests.support.gateway import Suite, gateway, metacog_field
from tests.support.models.scripted_llm import ErrorReply, Late, ScriptedChoice, ScriptedLLM, Shape, Stall
from tests.support.stack import TROUBLED, At, cast, router_at, until

HELLO: Any = [{"role": "user", "content": "Say hello."}]
# A server that, unlike the scripted vLLM, was started with a tool parser.
WITH_TOOLS = Shape("tools", checks=False)
CALL: Any = {"id": "call_7", "type": "function", "function": {"name": "look_up", "arguments": '{"q": "x"}'}}
TOOL: Any = {"name": "look_up", "description": "Looks up.", "input_schema": {"type": "object"}}
PIXEL = "iVBORw0KGgo="
RING = Keyring([ApiKey(name="ann", sha256=sha256(b"secret").hexdigest())])


@pytest.fixture
async def suite(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[Suite]:
    scripted.answer = cast()
    async with gateway(scripted, database_url, tmp_path, aliases={"claude-of-ours": "metacog/system1"}) as suite:
        yield suite


@pytest.fixture
async def client(suite: Suite) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=suite.router.rest, api_key="none") as client:
        yield client


@pytest.fixture
def tools() -> Iterator[ScriptedLLM]:
    """A server that takes tools, and sends what it thinks."""
    with ScriptedLLM(WITH_TOOLS) as llm:
        yield llm


@pytest.fixture
async def tool_client(tools: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[AsyncAnthropic]:
    async with (
        router_at(tools, database_url, tmp_path) as router,
        AsyncAnthropic(base_url=router.rest, api_key="none") as client,
    ):
        yield client


async def ask(client: AsyncAnthropic, model: str = "metacog/system1", **more: Any) -> Any:  # noqa: ANN401
    return await client.messages.create(model=model, **{"max_tokens": 64, "messages": HELLO, **more})


# Texts


async def test_a_message_is_answered_and_its_run_recorded_by_its_kind(suite: Suite, client: AsyncAnthropic) -> None:
    message = await ask(client, "claude-of-ours")
    await until(lambda: suite.router.journal.flush(1))
    run = await suite.runs.get(message.id.removeprefix("msg_"))

    assert [block.text for block in message.content] == ["the system1"]
    assert (message.model, message.role, message.stop_reason) == ("claude-of-ours", "assistant", "end_turn")
    assert message.usage.output_tokens == run.usage.completion_tokens > 0
    assert message.usage.input_tokens == run.usage.prompt_tokens > 0
    assert (run.call, run.answer, run.strategy) == (CallKind.MESSAGE, "the system1", "system1")
    assert metacog_field(message)["run_id"] == run.run_id


@pytest.mark.parametrize(
    ("model", "strategy"),
    [
        ("metacog", "dialectic"),
        ("metacog/dialectic", "dialectic"),
        ("metacog-system1", "system1"),
        ("scripted", "system1"),
    ],
)
async def test_every_strategy_answers_by_its_name(
    client: AsyncAnthropic, scripted: ScriptedLLM, model: str, strategy: str
) -> None:
    scripted.answer = cast(TROUBLED)

    whole = await ask(client, model, extra_body={"metacog": {"envelope": {"max_generations": 20}}})
    async with client.messages.stream(model=model, max_tokens=64, messages=HELLO) as stream:
        streamed: Any = await stream.get_final_message()

    assert metacog_field(whole)["strategy"] == strategy
    assert whole.content[0].text == streamed.content[0].text != ""
    assert streamed.stop_reason == "end_turn"


async def test_the_request_reaches_the_backend_as_a_chat(client: AsyncAnthropic, scripted: ScriptedLLM) -> None:
    turns: Any = [
        {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "text", "text": "Hello."},
            ],
        },
        {"role": "user", "content": "Again."},
    ]
    await ask(
        client,
        messages=turns,
        system=[{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
        stop_sequences=["END"],
        metadata={"user_id": "me"},
        extra_body={"temperature": 0.5, "top_p": 0.9, "top_k": 5},
    )

    sent = scripted.bodies[0]
    assert sent["messages"] == [
        {"role": "system", "content": "Be brief.\n\nBe kind."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Again."},
    ]
    assert {name: sent[name] for name in ("stop", "temperature", "top_p", "top_k", "user", "max_tokens")} == {
        "stop": ["END"],
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 5,
        "user": "me",
        "max_tokens": 64,
    }


async def test_the_bound_on_an_answer_is_its_reason_to_stop(client: AsyncAnthropic, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(system1="one two three four")

    message = await ask(client, max_tokens=2)

    assert (message.content[0].text, message.stop_reason) == ("one two", "max_tokens")


# Streams


async def test_a_stream_has_the_events_that_clients_expect(client: AsyncAnthropic, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(system1="one two three")

    events = [event async for event in await ask(client, stream=True)]

    assert [event.type for event in events] == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * 3,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert "".join(event.delta.text for event in events if event.type == "content_block_delta") == "one two three"
    last: Any = events[-2]
    assert (last.delta.stop_reason, last.usage.output_tokens, last.usage.input_tokens > 0) == ("end_turn", 3, True)
    assert metacog_field(last)["strategy"] == "system1"


async def test_a_blocking_client_reads_a_stream_too(suite: Suite) -> None:
    def read() -> str:
        with (
            anthropic.Anthropic(base_url=suite.router.rest, api_key="none") as client,
            client.messages.stream(model="metacog/system1", max_tokens=64, messages=HELLO) as stream,
        ):
            return "".join(stream.text_stream)

    assert await asyncio.to_thread(read) == "the system1"


async def test_stage_events_do_not_disturb_a_stream(client: AsyncAnthropic, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(TROUBLED, synthesis="one two three")
    options = {"metacog": {"stage_events": True}}

    async with client.messages.stream(
        model="metacog/dialectic", max_tokens=64, messages=HELLO, extra_body=options
    ) as stream:
        message = await stream.get_final_message()

    assert [block.text for block in message.content if block.type == "text"] == ["one two three"]


async def test_an_error_after_the_first_event_is_an_event_of_its_own(
    client: AsyncAnthropic, scripted: ScriptedLLM
) -> None:
    scripted.answer = cast(system1="one two three")
    scripted.fault(Late(2))

    with pytest.raises(anthropic.APIError, match="it broke"):
        _ = [event async for event in await ask(client, stream=True)]


async def test_a_client_that_goes_away_stops_the_answer(client: AsyncAnthropic, scripted: ScriptedLLM) -> None:
    scripted.fault(Stall())
    asking = asyncio.create_task(ask(client))
    await scripted.until(lambda llm: llm.in_flight == 1)
    asking.cancel()

    await scripted.until(lambda llm: llm.disconnects == 1)


# Tools and images


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_tools_are_called_and_their_results_read(
    tool_client: AsyncAnthropic, tools: ScriptedLLM, stream: bool
) -> None:
    tools.reply(ScriptedChoice("Wait.", tool_calls=[CALL]), "It is 42.")
    asked: Any = {"model": "metacog", "max_tokens": 64, "tools": [TOOL]}

    async def answer(messages: Any) -> Any:  # noqa: ANN401
        if not stream:
            return await tool_client.messages.create(**asked, messages=messages)
        async with tool_client.messages.stream(**asked, messages=messages) as events:
            return await events.get_final_message()

    first = await answer(HELLO)
    [use] = [block for block in first.content if block.type == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "42"}]}
    turns = [*HELLO, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = await answer(turns)

    assert (use.id, use.name, use.input, first.stop_reason) == ("call_7", "look_up", {"q": "x"}, "tool_use")
    assert second.content[0].text == "It is 42."
    called = {**CALL, "function": {"name": "look_up", "arguments": '{"q":"x"}'}}
    assert tools.bodies[1]["messages"][1]["tool_calls"] == [called]
    assert tools.bodies[1]["messages"][2] == {"role": "tool", "tool_call_id": "call_7", "content": "42"}
    function = {"name": "look_up", "description": "Looks up.", "parameters": {"type": "object"}}
    assert tools.bodies[0]["tools"] == [{"type": "function", "function": function}]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("finish", "arguments", "reason"),
    [
        ("length", '{"q": "x', "max_tokens"),
        ("length", "", "max_tokens"),
        ("content_filter", '{"q"', "refusal"),
        ("tool_calls", "{}", "tool_use"),
        ("stop", "{}", "tool_use"),
    ],
)
async def test_a_call_that_was_cut_is_no_call_to_make(
    tool_client: AsyncAnthropic, tools: ScriptedLLM, stream: bool, finish: str, arguments: str, reason: str
) -> None:
    function = {"name": "look_up", "arguments": arguments}
    tools.reply(ScriptedChoice("Wait.", tool_calls=[{**CALL, "function": function}], finish=finish))

    if stream:
        events = [event async for event in await ask(tool_client, tools=[TOOL], stream=True)]
        [ended] = [event for event in events if event.type == "message_delta"]
        assert ended.delta.stop_reason == reason
        return
    message = await ask(tool_client, tools=[TOOL])

    assert message.stop_reason == reason
    uses = [block.input for block in message.content if block.type == "tool_use"]
    assert uses == ([{}] if reason == "tool_use" else [])


async def test_a_call_whose_arguments_are_no_object_is_left_out(
    tool_client: AsyncAnthropic, tools: ScriptedLLM
) -> None:
    tools.reply(ScriptedChoice(tool_calls=[{**CALL, "function": {"name": "look_up", "arguments": "[1]"}}]))

    message = await ask(tool_client, tools=[TOOL])

    assert ([block.type for block in message.content], message.stop_reason) == (["text"], "end_turn")


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "look_up"}, {"type": "function", "function": {"name": "look_up"}}),
    ],
)
async def test_the_choice_of_a_tool_is_passed_on(
    tool_client: AsyncAnthropic,
    tools: ScriptedLLM,
    choice: Any,  # noqa: ANN401
    sent: Any,  # noqa: ANN401
) -> None:
    await ask(tool_client, tools=[TOOL], tool_choice=choice)

    assert tools.bodies[0]["tool_choice"] == sent


async def test_what_a_model_thinks_is_a_block_of_its_own(tool_client: AsyncAnthropic, tools: ScriptedLLM) -> None:
    tools.reply(ScriptedChoice("Four.", reasoning="2 + 2"), ScriptedChoice("Four.", reasoning="2 + 2"))

    whole = await ask(tool_client, thinking={"type": "enabled", "budget_tokens": 1024})
    async with tool_client.messages.stream(model="metacog/system1", max_tokens=64, messages=HELLO) as stream:
        streamed: Any = await stream.get_final_message()

    for message in (whole, streamed):
        assert [block.type for block in message.content] == ["thinking", "text"]
        assert message.content[1].text == "Four."
    assert tools.bodies[0]["chat_template_kwargs"] == {"enable_thinking": True}


async def test_an_image_in_the_request_reaches_the_backend(client: AsyncAnthropic, scripted: ScriptedLLM) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    content: Any = [{"type": "text", "text": "What is it?"}, {"type": "image", "source": source}]

    await ask(client, messages=[{"role": "user", "content": content}])

    part = scripted.bodies[0]["messages"][0]["content"][1]
    assert part == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}


@pytest.mark.parametrize("inside_result", [False, True])
async def test_an_image_from_a_host_that_is_not_listed_is_rejected_by_its_place(
    client: AsyncAnthropic, scripted: ScriptedLLM, inside_result: bool
) -> None:
    image = {"type": "image", "source": {"type": "url", "url": "http://10.0.0.5/a.png"}}
    block: Any = {"type": "tool_result", "tool_use_id": "t", "content": [image]} if inside_result else image
    called: Any = {"type": "tool_use", "id": "t", "name": "look_up", "input": {"url": "http://10.0.0.5/"}}

    with pytest.raises(anthropic.BadRequestError) as raised:
        await ask(
            client,
            messages=[*HELLO, {"role": "assistant", "content": [called]}, {"role": "user", "content": [block]}],
            tools=[TOOL],
        )

    place = "messages.2.content.0.content.0.source.url" if inside_result else "messages.2.content.0.source.url"
    error: Any = raised.value.body
    assert (error["error"]["param"], error["error"]["code"]) == (place, "media_source_not_allowed")
    assert scripted.bodies == []


# Errors


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"container": "c"}, "container"),
        ({"mcp_servers": []}, "mcp_servers"),
        ({"service_tier": "auto"}, "service_tier"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools.0.type"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": [{"type": "search_result"}]}]}, "messages.0.content.0"),
        ({"thinking": {"type": "maybe"}}, "thinking.type"),
        ({"temperature": 1.5}, "temperature"),
        ({"stop_sequences": [""]}, "stop_sequences"),
        ({"metacog": {"colour": "red"}}, "metacog.colour"),
        ({"best_of": 4}, "best_of"),
        ({"n_predict": 4}, "n_predict"),
        ({"n_cmpl": 4}, "n_cmpl"),
    ],
)
async def test_a_field_that_does_not_pass_is_an_error_that_names_it(
    client: AsyncAnthropic, scripted: ScriptedLLM, more: dict[str, Any], param: str
) -> None:
    with pytest.raises(anthropic.BadRequestError) as raised:
        await ask(client, **{name: more[name] for name in more if name == "messages"}, extra_body=more)

    error: Any = raised.value.body
    assert (error["type"], error["error"]["type"]) == ("error", "invalid_request_error")
    assert error["error"]["param"] == param
    assert scripted.bodies == []


async def test_a_request_without_max_tokens_is_an_error(suite: Suite) -> None:
    async with httpx.AsyncClient(base_url=suite.router.rest) as http:
        reply = await http.post("/v1/messages", json={"model": "metacog", "messages": HELLO})

    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "max_tokens")


async def test_errors_have_the_classes_of_the_client(client: AsyncAnthropic, scripted: ScriptedLLM) -> None:
    with pytest.raises(anthropic.NotFoundError):
        await ask(client, "nobody")
    scripted.fault(*[ErrorReply(429, "busy", {"retry-after": "0"})] * 50)
    with pytest.raises(anthropic.RateLimitError):
        await ask(client.with_options(max_retries=0))


@pytest.mark.parametrize("headers", [{"x-api-key": "secret"}, {"authorization": "Bearer secret"}])
async def test_a_key_comes_by_either_header(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, headers: dict[str, str]
) -> None:
    scripted.answer = cast()
    body = {"model": "metacog/system1", "max_tokens": 8, "messages": HELLO}
    async with (
        router_at(scripted, database_url, tmp_path, keyring=RING) as router,
        httpx.AsyncClient(base_url=router.rest) as http,
    ):
        known = await http.post("/v1/messages", json=body, headers=headers)
        wrong = await http.post("/v1/messages", json=body, headers={name: f"{key}!" for name, key in headers.items()})
        none = await http.post("/v1/messages", json=body)

    assert [reply.status_code for reply in (known, wrong, none)] == [200, 401, 401]
    assert wrong.json()["error"]["type"] == none.json()["error"]["type"] == "authentication_error"


# Counting


@pytest.mark.parametrize("model", ["metacog", "metacog/vote", "metacog/dialectic", "claude-of-ours", "scripted"])
async def test_tokens_are_counted_by_the_models_server(
    client: AsyncAnthropic, scripted: ScriptedLLM, model: str
) -> None:
    counted = await client.messages.count_tokens(model=model, messages=HELLO, system="Be brief.")

    assert counted.input_tokens == 2
    assert scripted.passed[-1][1]["messages"][0] == {"role": "system", "content": "Be brief."}


# A real server


async def test_a_real_llamacpp_answers_a_message(llm_url: str, database_url: str, tmp_path: Path) -> None:
    async with (
        router_at(At(llm_url, "smollm2"), database_url, tmp_path) as router,
        AsyncAnthropic(base_url=router.rest, api_key="none") as client,
    ):
        whole: Any = await client.messages.create(
            model="metacog/system1", max_tokens=8, messages=HELLO, system="Be brief."
        )
        async with client.messages.stream(model="metacog/system1", max_tokens=8, messages=HELLO) as stream:
            streamed: Any = await stream.get_final_message()

    for message in (whole, streamed):
        assert message.content[0].type == "text"
        assert message.content[0].text
        assert 0 < message.usage.output_tokens <= 8
