"""OpenAI's chat completions, field by field, by the stock `openai` client."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionChunk
from pydantic import BaseModel

from tests.support.gateway import HELLO, Suite, gateway, metacog_field, text_of
from tests.support.models.scripted_llm import (
    LLAMACPP,
    MINIMAL,
    Cut,
    ErrorReply,
    RawReply,
    ScriptedChoice,
    ScriptedLLM,
    Shape,
    Stall,
)
from tests.support.stack import NO_SERVER, At, cast, router_at, stage_of

# A server that, unlike the scripted vLLM, was started with a tool parser.
WITH_TOOLS = Shape("tools", checks=False)
USAGE: Any = {"include_usage": True}
CALL: Any = {"id": "call_7", "type": "function", "function": {"name": "look_up", "arguments": '{"q": "the x"}'}}
TOOLS: Any = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]
IMAGE: Any = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}
AUDIO: Any = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
FILE: Any = {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}}

EVERY_ROLE: Any = [
    {"role": "developer", "content": "Be brief.", "name": "dev"},
    {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
    {"role": "user", "content": [{"type": "text", "text": "What is it?"}, IMAGE, AUDIO, FILE], "name": "ann"},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot say."}], "refusal": "I cannot say."},
    {"role": "user", "content": "Look it up."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_7", "content": [{"type": "text", "text": "42"}]},
    {"role": "assistant", "function_call": {"name": "look_up", "arguments": "{}"}, "content": None},
    {"role": "function", "name": "look_up", "content": "43"},
    {"role": "assistant", "content": "It is 42.", "audio": {"id": "audio_1"}},
    {"role": "user", "content": "Why?"},
]

EVERY_FIELD: Any = {
    "frequency_penalty": 0.5,
    "presence_penalty": -0.5,
    "logit_bias": {"7": 1},
    "metadata": {"team": "a"},
    "modalities": ["text"],
    "parallel_tool_calls": False,
    "prompt_cache_key": "k",
    "reasoning_effort": "low",
    "safety_identifier": "s",
    "seed": 7,
    "stop": ["END"],
    "store": False,
    "temperature": 0.3,
    "tool_choice": "auto",
    "tools": TOOLS,
    "top_p": 0.9,
    "user": "ann",
    "verbosity": "low",
}


@pytest.fixture
async def suite(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[Suite]:
    scripted.answer = cast()
    async with gateway(scripted, database_url, tmp_path) as suite:
        yield suite


@pytest.fixture
async def with_tools(database_url: str, tmp_path: Path) -> AsyncIterator[tuple[Suite, ScriptedLLM]]:
    """A gateway to a server that takes tools."""
    with ScriptedLLM(WITH_TOOLS) as llm:
        async with gateway(llm, database_url, tmp_path) as suite:
            yield suite, llm


async def lines(suite: Suite, **body: Any) -> list[str]:  # noqa: ANN401
    """The lines of a stream as they are on the wire."""
    sent = {"model": "metacog/system1", "messages": HELLO, "stream": True, **body}
    async with httpx.AsyncClient(base_url=suite.router.rest, timeout=30) as client:
        reply = await client.post("/v1/chat/completions", json=sent)
    return [line for line in reply.text.splitlines() if line]


def documents(lines: list[str]) -> list[dict[str, Any]]:
    """The chunks among `lines`."""
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]


# What goes in


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_every_role_and_part_reaches_the_backend_as_it_came(
    with_tools: tuple[Suite, ScriptedLLM], stream: bool
) -> None:
    suite, llm = with_tools

    await (suite.chunks if stream else suite.ask)("metacog/system1", messages=EVERY_ROLE)

    assert llm.bodies[0]["messages"] == EVERY_ROLE


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_every_field_reaches_the_backend_as_it_came(with_tools: tuple[Suite, ScriptedLLM], stream: bool) -> None:
    suite, llm = with_tools
    unknown = {"guided_choice": ["a"], "chat_template_kwargs": {"enable_thinking": False}}

    await suite.ask("metacog/system1", stream=stream, extra_body=unknown, **EVERY_FIELD)

    await llm.until(lambda it: len(it.bodies) == 1)
    sent = {name: field for name, field in llm.bodies[0].items() if name in {**EVERY_FIELD, **unknown}}
    assert sent == {**EVERY_FIELD, **unknown}


@pytest.mark.parametrize("kind", [{}, [], 7, True], ids=str)
async def test_a_type_of_a_tool_that_is_no_text_is_an_error_that_names_it(
    with_tools: tuple[Suite, ScriptedLLM],
    kind: Any,  # noqa: ANN401
) -> None:
    suite, llm = with_tools

    with pytest.raises(openai.BadRequestError, match=r"tools\.0\.type must be a text"):
        await suite.ask("metacog/system1", extra_body={"tools": [{"type": kind}]})

    assert llm.bodies == []


NEVER: dict[str, Any] = {
    "service_tier": "priority",
    "store": True,
    "web_search_options": {},
    "models": ["a-dear-one"],
    "provider": {"order": ["one"]},
    "plugins": [{"id": "web"}],
    "priority": -5,
    "chat_template": "{{ messages }}",
    "kv_transfer_params": {"do_remote_decode": True},
    "logits_processors": ["builtins.print"],
    "prediction": {"type": "content", "content": "It is"},
    "nobody_knows_this": [1],
}


@pytest.mark.parametrize("model", ["metacog/system1", "metacog/dialectic", "metacog", "scripted"])
async def test_a_field_that_is_not_listed_is_an_error_that_names_it_and_the_setting(
    suite: Suite, scripted: ScriptedLLM, model: str
) -> None:
    for name, given in NEVER.items():
        with pytest.raises(openai.BadRequestError, match=f"{name}: .*METACOG_ROUTER_PASSED_FIELDS") as raised:
            await suite.ask(model, extra_body={name: given})
        assert (raised.value.param, raised.value.code) == (name, "malformed_request")

    assert scripted.bodies == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"chat_template_kwargs": {"chat_template": "{{ messages }}"}}, "chat_template_kwargs.chat_template"),
        ({"tools": [*TOOLS, {"type": "web_search"}]}, "tools.1.type"),
    ],
    ids=["template", "tool of the server"],
)
async def test_a_listed_field_leads_to_nothing_that_is_not(
    with_tools: tuple[Suite, ScriptedLLM], body: dict[str, Any], field: str
) -> None:
    suite, llm = with_tools

    with pytest.raises(openai.BadRequestError, match=field) as raised:
        await suite.ask("metacog/system1", extra_body=body)

    assert raised.value.param == field
    assert llm.bodies == []


async def test_the_operator_may_let_more_fields_pass(database_url: str, tmp_path: Path) -> None:
    more: dict[str, Any] = {"priority": 3, "tools": [*TOOLS, {"type": "web_search"}]}
    with ScriptedLLM(WITH_TOOLS) as llm:
        async with gateway(llm, database_url, tmp_path, passed_fields=["priority", "tools.web_search"]) as suite:
            await suite.ask("metacog/system1", extra_body=more)
            with pytest.raises(openai.BadRequestError, match="service_tier"):
                await suite.ask("metacog/system1", service_tier="flex")

    assert {name: llm.bodies[0][name] for name in more} == more
    assert len(llm.bodies) == 1


async def test_fields_that_are_null_are_as_good_as_left_out(suite: Suite) -> None:
    nothing = dict.fromkeys(
        ["stream", "stream_options", "n", "stop", "seed", "temperature", "top_p", "max_tokens", "max_completion_tokens",
         "response_format", "logprobs", "top_logprobs", "tools", "functions", "audio", "metacog"]
    )  # fmt: skip

    async with httpx.AsyncClient(base_url=suite.router.rest) as client:
        for model in ("metacog/system1", "metacog/dialectic"):
            reply = await client.post(
                "/v1/chat/completions", json={"model": model, "messages": HELLO, **nothing}, timeout=30
            )
            assert reply.status_code == 200, reply.text


async def test_the_newer_bound_on_tokens_goes_before_the_older(suite: Suite, scripted: ScriptedLLM) -> None:
    await suite.ask("metacog/system1", max_tokens=9, max_completion_tokens=3)
    await suite.ask("metacog/dialectic", max_tokens=9, max_completion_tokens=3)

    assert (scripted.bodies[0]["max_completion_tokens"], scripted.bodies[0].get("max_tokens")) == (3, None)
    assert [body["max_tokens"] for body in scripted.bodies if stage_of(body) == "synthesis"] == [3]


async def test_a_whole_number_may_come_with_a_point(suite: Suite, scripted: ScriptedLLM) -> None:
    await suite.ask("metacog/system1", extra_body={"max_tokens": 5.0, "n": 2.0, "seed": 7.0})

    sent = [scripted.bodies[0][name] for name in ("max_tokens", "n", "seed")]
    assert (sent, [type(number) for number in sent]) == ([5, 2, 7], [int, int, int])


@pytest.mark.parametrize("model", ["metacog", "metacog/system1"])
async def test_each_of_many_answers_has_as_much_room_as_one(suite: Suite, scripted: ScriptedLLM, model: str) -> None:
    await suite.ask("metacog/system1")
    await suite.ask(model, n=10, temperature=1.0)

    alone, among_ten = scripted.bodies[0]["max_tokens"], scripted.bodies[-1]["max_tokens"]
    assert alone == among_ten == 1024


async def test_a_negative_seed_is_a_seed_too(suite: Suite, scripted: ScriptedLLM) -> None:
    await suite.ask("metacog/system1", seed=-1)
    await suite.ask("metacog/dialectic", seed=-1)

    assert scripted.bodies[0]["seed"] == 2**63 - 1
    assert all(body["seed"] >= 0 for body in scripted.bodies)


async def test_a_document_by_schema_comes_from_a_single_pass_call(suite: Suite, scripted: ScriptedLLM) -> None:
    class Point(BaseModel):
        x: int
        name: str

    scripted.answer = None
    parsed = await suite.client.chat.completions.parse(model="metacog", messages=HELLO, response_format=Point)
    loose = await suite.ask(response_format={"type": "json_object"})

    assert parsed.choices[0].message.parsed == Point(x=1, name="word")
    assert scripted.bodies[0]["response_format"]["json_schema"]["schema"]["required"] == ["x", "name"]
    assert scripted.bodies[1]["response_format"] == {"type": "json_object"}
    assert [metacog_field(answer)["reason"] for answer in (parsed, loose)] == ["format", "format"]


@pytest.mark.parametrize("part", [IMAGE, AUDIO, FILE], ids=["image", "audio", "file"])
async def test_what_is_no_text_is_for_a_single_pass_call_alone(suite: Suite, scripted: ScriptedLLM, part: Any) -> None:  # noqa: ANN401
    seen: Any = [*HELLO, {"role": "user", "content": [{"type": "text", "text": "What is this?"}, part]}]

    answer = await suite.ask(messages=seen)
    with pytest.raises(openai.BadRequestError) as raised:
        await suite.ask("metacog/dialectic", messages=seen, metacog={"fallback": False})

    assert (metacog_field(answer)["strategy"], metacog_field(answer)["reason"]) == ("system1", "format")
    assert scripted.bodies[0]["messages"] == seen
    assert raised.value.param == "messages.1.content"
    assert len(scripted.bodies) == 1


# Tools


async def test_a_streamed_tool_call_is_put_together_by_the_client(with_tools: tuple[Suite, ScriptedLLM]) -> None:
    suite, llm = with_tools
    llm.reply(ScriptedChoice(tool_calls=[CALL, {**CALL, "id": "call_8"}]))

    async with suite.client.chat.completions.stream(model="metacog", messages=HELLO, tools=TOOLS) as stream:
        answer = await stream.get_final_completion()

    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert [(call.id, call.function.arguments) for call in calls] == [
        ("call_7", '{"q": "the x"}'),
        ("call_8", '{"q": "the x"}'),
    ]
    assert answer.choices[0].finish_reason == "tool_calls"


async def test_the_result_of_a_tool_goes_back_under_the_name_of_its_call(
    with_tools: tuple[Suite, ScriptedLLM],
) -> None:
    suite, llm = with_tools
    llm.reply(ScriptedChoice(tool_calls=[CALL]), "It is 42.")
    asked = (await suite.ask(tools=TOOLS)).choices[0].message

    turns = [*HELLO, asked, {"role": "tool", "tool_call_id": asked.tool_calls[0].id, "content": "42"}]
    answer = await suite.ask(messages=turns, tools=TOOLS)

    assert answer.choices[0].message.content == "It is 42."
    assert llm.bodies[1]["messages"][1]["tool_calls"] == [CALL]
    assert llm.bodies[1]["messages"][2]["tool_call_id"] == "call_7"


@pytest.mark.parametrize("model", ["metacog/system1", "metacog/dialectic", "metacog"])
async def test_a_conversation_that_used_tools_continues_without_them(
    suite: Suite, scripted: ScriptedLLM, model: str
) -> None:
    turns: Any = [*HELLO, {"role": "assistant", "content": None, "tool_calls": [CALL]},
                  {"role": "tool", "tool_call_id": "call_7", "content": "42"}]  # fmt: skip

    answer = await suite.ask(model, messages=turns)

    assert metacog_field(answer)["outcome"] == "ANSWERED"
    read = next(body for body in scripted.bodies if stage_of(body) in ("system1", "thesis"))["messages"]
    if stage_of(scripted.bodies[-1]) == "system1":
        assert read == turns
    else:
        assert 'assistant: [calls look_up with {"q": "the x"}]' in read[-1]["content"]
        assert "tool: 42" in read[-1]["content"]


async def test_the_call_of_a_named_tool_is_an_answer_though_it_ends_with_stop(
    database_url: str, tmp_path: Path
) -> None:
    named: Any = {"type": "function", "function": {"name": "look_up"}}
    message = {"role": "assistant", "content": "", "tool_calls": [CALL]}
    document = {"id": "c", "object": "chat.completion", "created": 0, "model": "scripted"}
    document["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
    with ScriptedLLM(WITH_TOOLS) as llm:
        llm.fault(RawReply(json.dumps(document).encode()))
        async with gateway(llm, database_url, tmp_path) as suite:
            answer = await suite.ask(tools=TOOLS, tool_choice=named)

    assert (metacog_field(answer)["outcome"], answer.choices[0].finish_reason) == ("ANSWERED", "stop")


# Usage


@pytest.mark.parametrize("model", ["metacog/system1", "metacog/dialectic", "metacog"])
async def test_usage_comes_once_and_last_and_is_null_before(suite: Suite, model: str) -> None:
    *before, last = documents(await lines(suite, model=model, stream_options=USAGE, metacog={"stage_events": True}))

    assert [chunk["usage"] for chunk in before] == [None] * len(before)
    assert all(len(chunk["choices"]) == 1 for chunk in before)
    assert (last["choices"], last["usage"]["completion_tokens"] > 0) == ([], True)
    totals = last["metacog"]["usage"]
    assert last["usage"]["prompt_tokens"] == totals["prompt_tokens"]
    assert last["usage"]["completion_tokens"] == totals["completion_tokens"]
    assert last["usage"]["total_tokens"] == totals["prompt_tokens"] + totals["completion_tokens"]


async def test_without_being_asked_for_no_chunk_reports_usage(suite: Suite) -> None:
    for model in ("metacog/system1", "metacog/dialectic"):
        assert not any("usage" in chunk for chunk in documents(await lines(suite, model=model)))


async def test_usage_counts_the_assessment_too(suite: Suite) -> None:
    whole = await suite.ask("metacog")
    chunks = await suite.chunks("metacog", stream_options=USAGE)

    for reported, usage in ((metacog_field(whole), whole.usage), (metacog_field(chunks[-1]), chunks[-1].usage)):
        stages = reported["usage"]["stages"]
        assert set(stages) == {"assess", "system1"}
        assert usage is not None
        assert usage.completion_tokens == sum(spent["completion_tokens"] for spent in stages.values())


@pytest.mark.parametrize("shape", [LLAMACPP, MINIMAL], ids=["once a choice", "never"])
async def test_usage_is_right_where_the_backend_reports_it_otherwise(
    database_url: str, tmp_path: Path, shape: Shape
) -> None:
    n = 2 if shape is LLAMACPP else 1
    with ScriptedLLM(shape) as llm:
        llm.reply("one two three", "eins zwei drei")
        async with gateway(llm, database_url, tmp_path) as suite:
            chunks = await suite.chunks("metacog/system1", n=n, temperature=1.0, stream_options=USAGE)

    assert [chunk.usage is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens >= 3 * n
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]].count("stop") == n


# Stopping


@pytest.mark.parametrize("stop", ["END", ["never", "END"]], ids=["text", "list"])
@pytest.mark.parametrize("model", ["metacog/system1", "metacog/dialectic"])
async def test_a_stop_text_ends_the_answer(suite: Suite, scripted: ScriptedLLM, model: str, stop: Any) -> None:  # noqa: ANN401
    answer = "one two EN three END four"
    scripted.answer = cast(system1=answer, synthesis=answer)

    whole = await suite.ask(model, stop=stop)
    streamed = await suite.chunks(model, stop=stop)

    assert whole.choices[0].message.content == text_of(streamed) == "one two EN three "
    assert whole.choices[0].finish_reason == streamed[-1].choices[0].finish_reason == "stop"


async def test_a_stop_text_that_two_tokens_share_is_never_shown(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(synthesis="one two three four")

    streamed = await suite.chunks("metacog/dialectic", stop="two three")

    assert [choice.delta.content for chunk in streamed for choice in chunk.choices if choice.delta.content] == [
        "one", " "
    ]  # fmt: skip


async def test_an_answer_that_stops_at_once_is_empty_and_no_abstention(suite: Suite, scripted: ScriptedLLM) -> None:
    whole = await suite.ask("metacog/dialectic", stop="the")
    streamed = await suite.chunks("metacog/dialectic", stop="the")

    assert whole.choices[0].message.content == text_of(streamed) == ""
    assert metacog_field(whole)["outcome"] == "ANSWERED"
    assert streamed[0].choices[0].delta.role == "assistant"


async def test_a_stop_text_has_no_effect_on_the_stages_before(suite: Suite, scripted: ScriptedLLM) -> None:
    answer = await suite.ask("metacog/dialectic", stop="the")

    assert all("stop" not in body for body in scripted.bodies)
    assert len(metacog_field(answer)["stages"]) == 4


@pytest.mark.parametrize("model", ["metacog/system1", "metacog/dialectic"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_an_answer_that_the_bound_cut_reports_it(
    suite: Suite, scripted: ScriptedLLM, model: str, stream: bool
) -> None:
    scripted.answer = cast(system1="one two three", synthesis="one two three")

    if stream:
        choice: Any = (await suite.chunks(model, max_tokens=2))[-1].choices[0]
    else:
        choice = (await suite.ask(model, max_tokens=2)).choices[0]

    assert choice.finish_reason == "length"


# Chunks


async def test_text_comes_as_it_is_generated(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(system1="one two three four")
    scripted.token_delay_s = 0.2

    stream = await suite.ask("metacog/system1", stream=True)
    seen = aiter(stream)
    first = await anext(seen)
    while not first.choices[0].delta.content:
        first = await anext(seen)

    assert scripted.in_flight == 1
    assert (
        "".join([first.choices[0].delta.content, *[text_of([chunk]) async for chunk in seen]]) == "one two three four"
    )


async def test_all_chunks_of_an_answer_have_one_name(suite: Suite, scripted: ScriptedLLM) -> None:
    plain = await suite.chunks("metacog/system1")
    scripted.fault(*[None] * 5, *[ErrorReply(500, "broken")] * 3)
    fallen = await suite.chunks("metacog/dialectic", metacog={"stage_events": True}, stream_options=USAGE)

    assert metacog_field(fallen[-1])["strategy"] == "system1"
    for chunks in (plain, fallen):
        assert len({(chunk.id, chunk.model) for chunk in chunks}) == 1


async def test_silence_is_bridged_by_comments(
    suite: Suite, scripted: ScriptedLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.router.openai_rest.replies.HEARTBEAT_S", 0.1)
    scripted.answer = cast(system1="one two")
    scripted.token_delay_s = 0.25

    received = await lines(suite)

    assert ": still here" in received
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in documents(received)) == "one two"
    assert received[-1] == "data: [DONE]"


async def test_a_deliberation_begins_with_its_role_and_is_never_silent(
    suite: Suite, scripted: ScriptedLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.router.openai_rest.replies.HEARTBEAT_S", 0.1)
    scripted.answer = cast(thesis="word " * 30)
    scripted.token_delay_s = 0.02  # each of them is relayed to the router, and none to the client

    received = await lines(suite, model="metacog/dialectic")

    role = next(place for place, line in enumerate(received) if line.startswith("data: "))
    assert documents([received[role]])[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert received[role + 1] == ": still here"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["metacog", "metacog/system1", "metacog/dialectic", "scripted"])
async def test_an_answer_is_named_by_its_run_and_by_the_model_that_was_asked_for(
    suite: Suite, model: str, stream: bool
) -> None:
    chunks: list[Any] = await suite.chunks(model) if stream else [await suite.ask(model)]

    run_id = metacog_field(chunks[-1])["run_id"]
    assert {(chunk.id, chunk.model) for chunk in chunks} == {(f"chatcmpl-{run_id}", model)}
    assert metacog_field(chunks[-1])["model"] == "scripted"


async def test_a_stream_begins_even_if_the_first_token_is_long_in_coming(
    suite: Suite, scripted: ScriptedLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.router.openai_rest.replies.HEARTBEAT_S", 0.05)
    scripted.fault(Stall())

    async with httpx.AsyncClient(base_url=suite.router.rest, timeout=30) as client:
        body = {"model": "metacog/system1", "messages": HELLO, "stream": True}
        async with client.stream("POST", "/v1/chat/completions", json=body) as reply:
            first = await anext(reply.aiter_lines())

    assert (reply.status_code, first) == (200, ": still here")
    await scripted.until(lambda llm: llm.disconnects == 1)


# Errors


@pytest.fixture(scope="module")
async def refusing(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    """A plain client of a router that many errors may share; it has no backend."""
    nobody = At(f"http://{NO_SERVER}", "any")
    async with (
        router_at(nobody, database_url, tmp_path_factory.mktemp("refusing")) as router,
        httpx.AsyncClient(base_url=router.rest) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"stream": "yes"}, "stream"),
        ({"logprobs": "yes"}, "logprobs"),
        ({"stop": 7}, "stop"),
        ({"stop": [7]}, "stop"),
        ({"stop": ""}, "stop"),
        ({"n": 0}, "n"),
        ({"n": True}, "n"),
        ({"seed": 1.5}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"max_completion_tokens": "many"}, "max_completion_tokens"),
        ({"messages": [{"content": "?"}]}, "messages.0"),
        ({"messages": [{"role": "", "content": "?"}]}, "messages.0"),
        ({"messages": [{"role": "user", "content": "?"}, {"role": "king", "content": "?"}]}, "messages.1.role"),
        ({"model": None}, "model"),
        ({"model": "gpt-9"}, "model"),
        ({"metacog": 7}, "metacog"),
        ({"metacog": {"stage_max_tokens": 0}}, "metacog.stage_max_tokens"),
        ({"metacog": {"colour": "red"}}, "metacog.colour"),
    ],
)
async def test_an_error_names_the_field(refusing: httpx.AsyncClient, body: Any, param: str) -> None:  # noqa: ANN401
    sent = {"model": "metacog/system1", "messages": HELLO, **body}

    reply = await refusing.post("/v1/chat/completions", json=sent)

    error = reply.json()["error"]
    assert (reply.status_code, error["param"]) == (404 if body.get("model") else 400, param)


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (400, "temperature must be non-negative", openai.BadRequestError),
        (404, "The model `scripted` does not exist.", openai.NotFoundError),
        (429, "busy", openai.RateLimitError),
        (500, "broken", openai.InternalServerError),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_an_error_after_the_run_began_names_the_run(
    suite: Suite, scripted: ScriptedLLM, status: int, text: str, kind: type[openai.APIStatusError], stream: bool
) -> None:
    scripted.fault(*[ErrorReply(status, text, {"retry-after": "60"} if status == 429 else {})] * 4)

    with pytest.raises(kind) as raised:
        await suite.ask("metacog/system1", stream=stream)

    run_id = raised.value.response.headers["x-metacog-run-id"]
    await suite.router.journal.close()
    assert (await suite.runs.get(run_id, key_name="")).error_reason


async def test_what_a_backend_cannot_see_is_the_requests_fault_and_no_outage(
    suite: Suite, scripted: ScriptedLLM
) -> None:
    seen: Any = [{"role": "user", "content": [IMAGE]}]
    scripted.fault(*[ErrorReply(500, "image input is not supported - hint: you may need to provide the mmproj")] * 10)

    for _ in range(10):
        with pytest.raises(openai.BadRequestError):
            await suite.ask("metacog/system1", messages=seen)
    answer = await suite.ask("metacog/system1")

    assert answer.choices[0].message.content == "the system1"


async def test_an_error_in_the_middle_of_a_stream_is_raised_by_the_client(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(system1="one two three")
    scripted.fault(Cut(3))
    chunks: list[ChatCompletionChunk] = []

    async def read() -> None:
        async for chunk in await suite.ask("metacog/system1", stream=True):
            chunks.append(chunk)

    with pytest.raises(openai.APIError) as raised:
        await read()

    assert (raised.value.code, text_of(chunks)) == ("backend_unavailable", "one two")


async def test_a_model_that_does_not_exist_is_not_found(suite: Suite) -> None:
    with pytest.raises(openai.NotFoundError) as raised:
        await suite.client.models.retrieve("gpt-9")

    assert (raised.value.code, raised.value.param) == ("model_not_found", "model")


async def test_the_client_comes_back_by_itself_when_the_backend_was_full(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.fault(*[ErrorReply(429, "busy")] * 4)

    began = asyncio.get_running_loop().time()
    again = suite.client.with_options(max_retries=1)
    answer = await again.chat.completions.create(model="metacog/system1", messages=HELLO)

    assert answer.choices[0].message.content == "the system1"
    assert asyncio.get_running_loop().time() - began >= 1.0
