"""The OpenAI API of the router, by the stock `openai` client."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from kernel.prices import Price
from kernel.votes.prior import SHIPPED_PRIOR
from tests.support.gateway import HELLO, Suite, gateway, metacog_field, text_of
from tests.support.models.scripted_llm import ErrorReply, ScriptedChoice, ScriptedLLM, Shape, Stall
from tests.support.stack import LONG, TROUBLED, At, cast, router_at, stage_of

TOOLS: Any = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]
# A server that, unlike the scripted vLLM, was started with a tool parser.
WITH_TOOLS = Shape("tools", checks=False)


@pytest.fixture
async def suite(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[Suite]:
    scripted.answer = cast()
    async with gateway(scripted, database_url, tmp_path, aliases={"gpt-4o-mini": "metacog"}) as suite:
        yield suite


# System 1


async def test_the_named_system_one_is_one_single_pass_call(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(system1="Hello.")

    answer = await suite.ask("metacog/system1")

    assert (answer.choices[0].message.content, answer.model, answer.object) == (
        "Hello.",
        "metacog/system1",
        "chat.completion",
    )
    assert len(scripted.bodies) == 1


async def test_blocking_clients_are_answered_too(suite: Suite) -> None:
    with suite.sync as client:
        whole = await asyncio.to_thread(client.chat.completions.create, model="metacog/system1", messages=HELLO)
        stream = await asyncio.to_thread(
            lambda: list(client.chat.completions.create(model="metacog/system1", messages=HELLO, stream=True))
        )

    assert whole.choices[0].message.content == "the system1"
    assert text_of(stream) == "the system1"


async def test_system_one_keeps_what_only_the_backend_understands(suite: Suite, scripted: ScriptedLLM) -> None:
    await suite.ask(
        "metacog/system1", user="me", stop=["\n"], logit_bias={"7": 1}, extra_body={"top_k": 5, "min_p": 0.1}
    )

    sent = scripted.bodies[0]
    assert (sent["model"], sent["user"], sent["stop"], sent["logit_bias"]) == ("scripted", "me", ["\n"], {"7": 1})
    assert (sent["top_k"], sent["min_p"], sent["messages"]) == (5, 0.1, HELLO)
    assert "metacog" not in sent


async def test_tool_calls_and_their_names_survive(database_url: str, tmp_path: Path) -> None:
    call = {"id": "call_7", "type": "function", "function": {"name": "look_up", "arguments": '{"q":"x"}'}}
    turns: Any = [
        *HELLO,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_7", "content": "42"},
    ]
    with ScriptedLLM(WITH_TOOLS) as llm:
        llm.reply(ScriptedChoice(tool_calls=[call]))
        async with (
            router_at(llm, database_url, tmp_path) as router,
            AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none") as client,
        ):
            answer = await client.chat.completions.create(model="metacog", messages=turns, tools=TOOLS)

    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.tool_calls is not None
    assert answer.choices[0].message.tool_calls[0].model_dump() == call
    assert (llm.bodies[0]["messages"], llm.bodies[0]["tools"]) == (turns, TOOLS)
    assert metacog_field(answer)["outcome"] == "ANSWERED"
    assert (metacog_field(answer)["confidence"], metacog_field(answer)["confidence_source"]) == (
        SHIPPED_PRIOR.share_right,
        "answers",
    )


async def test_a_photo_of_many_mebibytes_reaches_the_backend(suite: Suite, scripted: ScriptedLLM) -> None:
    photo = "data:image/png;base64," + "A" * (20 << 20)
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": photo}}]

    answer = await suite.ask("metacog/system1", messages=[{"role": "user", "content": parts}])

    assert answer.choices[0].message.content == "the system1"
    assert scripted.bodies[0]["messages"][0]["content"][1]["image_url"]["url"] == photo


async def test_several_choices_come_from_one_call(suite: Suite, scripted: ScriptedLLM) -> None:
    answer = await suite.ask("metacog/system1", n=3, temperature=1.0)

    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert (len(scripted.bodies), metacog_field(answer)["usage"]["generations"]) == (1, 3)


async def test_several_choices_are_streamed_apart(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = None
    scripted.reply("one two", "eins zwei")

    chunks = await suite.chunks("metacog/system1", n=2, temperature=1.0)

    texts = ["", ""]
    for choice in (choice for chunk in chunks for choice in chunk.choices):
        texts[choice.index] += choice.delta.content or ""
    assert texts == ["one two", "eins zwei"]


async def test_a_stop_word_ends_the_text(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(system1="one two END three")

    answer = await suite.ask("metacog/system1", stop=["END"])

    assert answer.choices[0].message.content == "one two "


async def test_log_probabilities_are_passed_on(suite: Suite) -> None:
    answer = await suite.ask("metacog/system1", logprobs=True, top_logprobs=2)

    entries = answer.choices[0].logprobs.content
    assert [(entry.token, entry.logprob, len(entry.top_logprobs)) for entry in entries] == [
        ("the", -0.5, 2),
        (" system1", -0.5, 2),
    ]


async def test_the_bound_on_an_answer_holds(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(system1="one two three four")

    answer = await suite.ask("metacog/system1", max_tokens=2)
    await suite.ask("metacog/system1", max_completion_tokens=3)

    assert "max_tokens" not in scripted.bodies[1]
    assert scripted.bodies[1]["max_completion_tokens"] == 3
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("one two", "length")


async def test_the_answer_names_its_run(suite: Suite) -> None:
    raw = await suite.client.chat.completions.with_raw_response.create(model="metacog/system1", messages=HELLO)

    answer = raw.parse()
    assert raw.headers["x-metacog-run-id"] == metacog_field(answer)["run_id"]
    assert metacog_field(answer)["system"] == "SYSTEM_ONE"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (2, 2, 4)


async def test_only_the_last_chunk_of_a_stream_has_its_explanation(suite: Suite) -> None:
    chunks = await suite.chunks("metacog/system1")

    assert [bool(metacog_field(chunk)) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert text_of(chunks) == "the system1"
    assert metacog_field(chunks[-1])["confidence"] == SHIPPED_PRIOR.share_right
    assert all(len(chunk.choices) == 1 for chunk in chunks)
    assert (chunks[-1].choices[0].finish_reason, chunks[-1].usage) == ("stop", None)


async def test_usage_comes_with_the_stream_that_asks_for_it(suite: Suite) -> None:
    chunks = await suite.chunks("metacog/system1", stream_options={"include_usage": True})

    last = chunks[-1]
    assert (last.choices, bool(metacog_field(last))) == ([], True)
    assert last.usage is not None
    assert (last.usage.prompt_tokens, last.usage.completion_tokens, last.usage.total_tokens) == (2, 2, 4)


async def test_a_stream_names_its_run_before_it_ends(suite: Suite) -> None:
    raw = await suite.client.chat.completions.with_raw_response.create(
        model="metacog/system1", messages=HELLO, stream=True
    )

    chunks = [chunk async for chunk in raw.parse()]
    assert raw.headers["content-type"].startswith("text/event-stream")
    assert raw.headers["x-metacog-run-id"] == metacog_field(chunks[-1])["run_id"]


# The router decides


async def test_a_calm_rating_is_answered_by_system_one(suite: Suite, scripted: ScriptedLLM) -> None:
    answer = await suite.ask()

    assert [stage_of(body) for body in scripted.bodies] == ["assess", "system1"]
    field = metacog_field(answer)
    assert (field["system"], field["strategy"], field["reason"]) == ("SYSTEM_ONE", "system1", "activation")
    assert field["activation"]["value"] == pytest.approx((0.30 * 0.1 + 0.25 * 0.05 + 0.25 * 0.1) / 0.8)
    assert field["msv"]["experience"] is None
    assert (field["confidence"], field["confidence_source"]) == (0.9, "verbalized")
    assert (field["confidence_raw"], field["calibration_version"]) == (0.9, ""), "nothing is calibrated yet"
    assert (field["assessor"], field["config_version"]) == ("verbalized", "paper")
    assert (field["policy_row"], field["cached_from"]) == ("", "")


async def test_a_troubled_rating_is_deliberated_in_four_stages(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(TROUBLED, system1=LONG)

    answer = await suite.ask()

    field = metacog_field(answer)
    assert answer.choices[0].message.content == "the synthesis"
    assert (field["system"], field["strategy"], field["outcome"]) == ("SYSTEM_TWO", "dialectic", "ANSWERED")
    assert [stage["stage"] for stage in field["stages"]] == ["THESIS", "ANTITHESIS", "RESOLUTION", "SYNTHESIS"]
    assert field["note"] == "the note"
    assert field["degraded"] is False


async def test_the_usage_of_a_deliberation_is_the_sum_of_its_stages(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(TROUBLED, system1=LONG)

    answer = await suite.ask()

    field = metacog_field(answer)["usage"]
    assert set(field["stages"]) == {
        "assess", "system1", "self_assessment", "thesis", "antithesis", "resolution", "synthesis", "note", "measure"
    }  # fmt: skip
    for figure in ("generations", "http_calls", "prompt_tokens", "completion_tokens"):
        assert field[figure] == sum(spent[figure] for spent in field["stages"].values())
    assert field["generations"] == len(scripted.bodies)
    assert answer.usage.completion_tokens == field["completion_tokens"]


async def test_the_final_text_of_a_deliberation_is_streamed(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(TROUBLED, synthesis="All in all, yes.")

    chunks = await suite.chunks()

    assert text_of(chunks) == "All in all, yes."
    assert len([chunk for chunk in chunks if chunk.choices[0].delta.content]) == 4
    assert [bool(metacog_field(chunk)) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert {chunk.id for chunk in chunks} == {f"chatcmpl-{metacog_field(chunks[-1])['run_id']}"}


async def test_stage_events_are_chunks_with_an_empty_delta_for_those_who_ask(
    suite: Suite, scripted: ScriptedLLM
) -> None:
    scripted.answer = cast(TROUBLED)

    chunks = await suite.chunks(metacog={"stage_events": True})

    events = [metacog_field(chunk)["event"] for chunk in chunks if "event" in metacog_field(chunk)]
    assert events[0] == "routed"
    assert [name for name in events if name == "stage_started"] == ["stage_started"] * 5
    assert events.index("roles_assigned") < events.index("stage_started")
    for chunk in chunks:
        assert len(chunk.choices) == 1
        if "event" in metacog_field(chunk):
            assert chunk.choices[0].delta.model_dump(exclude_none=True) == {}
    assert text_of(chunks) == "the synthesis"


async def test_the_usage_of_a_deliberation_comes_with_its_last_chunk(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(TROUBLED)

    chunks = await suite.chunks(stream_options={"include_usage": True})

    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == metacog_field(chunks[-1])["usage"]["completion_tokens"]
    assert chunks[-2].choices[0].finish_reason == "stop"


async def test_the_note_is_appended_for_those_who_ask(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(TROUBLED)

    whole = await suite.ask(metacog={"note": True})
    streamed = await suite.chunks(metacog={"note": True})

    assert whole.choices[0].message.content == "the synthesis\n\nNote: the note"
    assert text_of(streamed) == "the synthesis\n\nNote: the note"


async def test_the_bound_on_tokens_is_the_final_texts(suite: Suite, scripted: ScriptedLLM) -> None:
    await suite.ask("metacog/dialectic", max_tokens=7, metacog={"stage_max_tokens": 30})

    allowed = {stage_of(body): body["max_tokens"] for body in scripted.bodies}
    assert (allowed["thesis"], allowed["resolution"], allowed["synthesis"]) == (30, 30, 7)


async def test_a_whole_conversation_is_assessed(suite: Suite, scripted: ScriptedLLM) -> None:
    turns = [*HELLO, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Why?"}]

    await suite.ask(messages=turns)

    assert "user: Say hello.\n\nassistant: Hello.\n\nuser: Why?" in scripted.bodies[0]["messages"][0]["content"]


async def test_a_ready_state_spares_the_assessment(suite: Suite, scripted: ScriptedLLM) -> None:
    answer = await suite.ask(metacog={"msv": {"correctness": 0.92, "conflict": 0.12}})

    assert [stage_of(body) for body in scripted.bodies] == ["system1"]
    assert metacog_field(answer)["activation"]["unknown"] == ["importance", "experience"]


async def test_a_rating_that_cannot_be_read_is_unknown_and_never_zero(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast("I would rather not say.")

    field = metacog_field(await suite.ask())

    assert (field["reason"], field["system"], field["activation"]["value"]) == ("undetermined", "SYSTEM_TWO", None)
    assert field["msv"]["correctness"] is None
    assert "UNPARSABLE_OUTPUT" in field["msv"]["unknown_reasons"]["correctness"]


async def test_what_only_a_single_pass_call_can_do_goes_to_system_one(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(TROUBLED)

    answer = await suite.ask("metacog", n=2, temperature=1.0)

    assert (metacog_field(answer)["strategy"], len(answer.choices)) == ("system1", 2)


async def test_an_alias_stands_for_its_model(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(TROUBLED)

    answer = await suite.ask("gpt-4o-mini")

    assert (answer.model, metacog_field(answer)["strategy"]) == ("gpt-4o-mini", "dialectic")


async def test_the_models_are_listed(suite: Suite) -> None:
    listed = [model.id async for model in suite.client.models.list()]
    one = await suite.client.models.retrieve("metacog/dialectic")

    strategies = ["system1", "vote", "cascade", "dialectic", "arbiter", "delegation"]
    own = ["metacog", *(f"metacog/{name}" for name in strategies), *(f"metacog-{name}" for name in strategies)]
    assert listed == [*own, "gpt-4o-mini", "scripted"]
    assert one.id == "metacog/dialectic"


async def test_a_listed_model_has_its_price_or_none_where_it_is_unknown(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    with ScriptedLLM(model="free") as other:
        prices = {"scripted": Price(prompt=1.0, completion=2.0)}
        models = {"free": other}
        async with gateway(
            scripted, database_url, tmp_path, prices=prices, models=models, aliases={"mine": "scripted"}
        ) as suite:
            about = {each.id: (each.model_extra or {})["metacog"] async for each in suite.client.models.list()}

    assert about["scripted"] == {"kind": "model", "price": {"prompt": 1.0, "completion": 2.0}}
    assert about["free"] == {"kind": "model", "price": None}
    assert (about["mine"], about["metacog/vote"]) == ({"kind": "alias", "model": "scripted"}, {"kind": "strategy"})


async def test_an_answer_without_text_is_an_abstention_and_reports_it(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(system1=" ")

    answer = await suite.ask("metacog/system1")

    assert (metacog_field(answer)["outcome"], answer.choices[0].finish_reason) == ("ABSTAINED", "stop")


# Falling back


@pytest.mark.parametrize("strategy", ["arbiter", "delegation"])
async def test_a_strategy_that_is_away_falls_back_and_reports_it(suite: Suite, strategy: str) -> None:
    answer = await suite.ask(f"metacog/{strategy}")

    field = metacog_field(answer)
    assert (field["strategy"], field["degraded"]) == ("dialectic", True)
    assert field["degraded_reasons"][0].startswith(f"{strategy}: PEER_UNAVAILABLE: ")
    assert answer.choices[0].message.content == "the synthesis"


async def test_without_the_assigner_system_one_answers_and_reports_it(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast(TROUBLED, system1=LONG)
    async with (
        router_at(scripted, database_url, tmp_path) as router,
        AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none") as client,
    ):
        suite = Suite(router, router.runs, client)
        whole = await suite.ask()
        stream = await suite.chunks(metacog={"stage_events": True})

    assert whole.choices[0].message.content == text_of(stream) == LONG
    for answer in (whole, stream[-1]):
        assert (metacog_field(answer)["system"], metacog_field(answer)["strategy"]) == ("SYSTEM_TWO", "system1")
        assert metacog_field(answer)["degraded_reasons"][0].startswith(
            "dialectic: PEER_UNAVAILABLE: assigner at 127.0.0.1:1"
        )
    assert [metacog_field(chunk)["event"] for chunk in stream if "event" in metacog_field(chunk)] == [
        "routed",
        "fell_back",
    ]


async def test_a_caller_may_have_the_error_instead(suite: Suite) -> None:
    with pytest.raises(openai.InternalServerError) as raised:
        await suite.ask("metacog/arbiter", metacog={"fallback": False})

    assert raised.value.status_code == 503
    assert raised.value.code == "peer_unavailable"


async def test_of_everything_failing_the_last_error_remains(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.fault(ErrorReply(500, "broken"))

    with pytest.raises(openai.InternalServerError) as raised:
        await suite.ask("metacog/system1")

    assert (raised.value.status_code, raised.value.code, raised.value.type) == (
        503,
        "backend_unavailable",
        "server_error",
    )


async def test_a_backend_that_is_full_contains_when_to_retry(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.fault(ErrorReply(429, "busy", {"retry-after": "90"}))

    with pytest.raises(openai.RateLimitError) as raised:
        await suite.ask("metacog/system1")

    assert (raised.value.code, raised.value.response.headers["retry-after"]) == ("backend_overloaded", "90")


# Refusals

NO_FALLBACK: Any = {"model": "metacog/dialectic", "metacog": {"fallback": False}}


@pytest.fixture(scope="module")
async def gate(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    """A plain client of a router that many errors may share."""
    with ScriptedLLM() as llm:
        async with (
            router_at(llm, database_url, tmp_path_factory.mktemp("gate")) as router,
            httpx.AsyncClient(base_url=router.rest) as client,
        ):
            yield client


@pytest.mark.parametrize(
    ("body", "status", "kind", "param", "code"),
    [
        ({"model": "gpt-9"}, 404, "invalid_request_error", None, "model_not_found"),
        ({"model": ""}, 400, "invalid_request_error", "model", "malformed_request"),
        ({"messages": []}, 400, "invalid_request_error", "messages", "malformed_request"),
        ({"messages": "hello"}, 400, "invalid_request_error", "messages", "malformed_request"),
        ({"messages": [{"role": "user", "content": 7}]}, 400, "invalid_request_error", "messages.0.content", None),
        ({**NO_FALLBACK, "n": 2}, 400, "invalid_request_error", "n", "malformed_request"),
        ({**NO_FALLBACK, "logprobs": True}, 400, "invalid_request_error", "logprobs", None),
        ({"temperature": "hot"}, 400, "invalid_request_error", "temperature", "malformed_request"),
        ({"temperature": 3}, 400, "invalid_request_error", "temperature", None),
        ({"model": "metacog/dialectic", "top_p": 5}, 400, "invalid_request_error", "top_p", None),
        ({"model": "metacog", "top_p": 0}, 400, "invalid_request_error", "top_p", "invalid_sampling"),
        ({"model": "metacog/system1", "top_p": 0}, 400, "invalid_request_error", "top_p", "invalid_sampling"),
        ({"model": "metacog", "best_of": 2}, 400, "invalid_request_error", "best_of", "invalid_sampling"),
        ({"model": "metacog/arbiter", "presence_penalty": -3}, 400, "invalid_request_error", "presence_penalty", None),
        ({"model": "metacog", "frequency_penalty": "x"}, 400, "invalid_request_error", "frequency_penalty", None),
        ({"max_tokens": 1.5}, 400, "invalid_request_error", "max_tokens", "malformed_request"),
        ({"max_tokens": -1}, 400, "invalid_request_error", "max_tokens", None),
        ({"model": "metacog/dialectic", "max_tokens": -1}, 400, "invalid_request_error", "max_tokens", None),
        ({"stream_options": "all"}, 400, "invalid_request_error", "stream_options", "malformed_request"),
        ({"response_format": "json"}, 400, "invalid_request_error", "response_format", "malformed_request"),
        ({"metacog": {"colour": "red"}}, 400, "invalid_request_error", None, "malformed_request"),
        ({"metacog": {"msv": {"conflict": 2}}}, 400, "invalid_request_error", None, "msv_out_of_range"),
        ({"metacog": {"stage_max_tokens": 0}}, 400, "invalid_request_error", None, "malformed_request"),
        (
            {"metacog": {"envelope": {"max_generations": 0}}},
            400,
            "invalid_request_error",
            "metacog.envelope.max_generations",
            None,
        ),
        ({"seed": 2**70}, 400, "invalid_request_error", "seed", None),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_wrong_request_is_rejected_in_openais_shape(
    gate: httpx.AsyncClient,
    body: dict[str, Any],
    status: int,
    kind: str,
    param: str | None,
    code: str | None,
    stream: bool,
) -> None:
    sent = {"model": "metacog/system1", "messages": HELLO, "stream": stream, **body}

    reply = await gate.post("/v1/chat/completions", json=sent)

    error = reply.json()["error"]
    assert (reply.status_code, error["type"]) == (status, kind)
    assert reply.headers["content-type"] == "application/json"
    assert param in (None, error["param"])
    assert code in (None, error["code"])
    assert error["message"]


async def test_a_body_that_is_no_json_is_rejected_in_openais_shape(gate: httpx.AsyncClient) -> None:
    headers = {"content-type": "application/json"}
    reply = await gate.post("/v1/chat/completions", content=b"{model", headers=headers)

    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "malformed_request")


# Clients that go away, and clients that come back


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_client_that_hangs_up_stops_the_generation(suite: Suite, scripted: ScriptedLLM, stream: bool) -> None:
    scripted.fault(Stall())

    asking = asyncio.create_task(suite.chunks("metacog/system1") if stream else suite.ask("metacog/system1"))
    await scripted.until(lambda llm: len(llm.bodies) == 1)
    asking.cancel()

    await scripted.until(lambda llm: llm.disconnects == 1)
    await asyncio.wait({asking})


async def test_a_client_that_hangs_up_in_the_middle_stops_the_generation(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(system1="word " * 500)
    scripted.token_delay_s = 0.02

    stream = await suite.ask("metacog/system1", stream=True)
    await anext(aiter(stream))
    await stream.close()

    await scripted.until(lambda llm: llm.disconnects == 1)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_client_that_hangs_up_stops_a_deliberation_too(
    suite: Suite, scripted: ScriptedLLM, stream: bool
) -> None:
    scripted.answer = cast(TROUBLED)
    scripted.fault(*[None] * 5, Stall())  # five self-assessments, then the thesis

    asking = asyncio.create_task(suite.chunks("metacog/dialectic") if stream else suite.ask("metacog/dialectic"))
    await scripted.until(lambda llm: len(llm.bodies) == 6)
    asking.cancel()

    await scripted.until(lambda llm: llm.disconnects == 1)
    await asyncio.wait({asking})


@pytest.mark.parametrize("strategy", ["system1", "dialectic"])
async def test_repeating_a_request_repeats_the_answer_without_a_model(
    suite: Suite, scripted: ScriptedLLM, strategy: str, tmp_path: Path
) -> None:
    name = f"repeat-{tmp_path.name}"
    first = await suite.ask(f"metacog/{strategy}", metacog={"request_id": name})
    spent = len(scripted.bodies)

    again = await suite.ask(f"metacog/{strategy}", metacog={"request_id": name})
    streamed = await suite.chunks(f"metacog/{strategy}", metacog={"request_id": name})

    assert len(scripted.bodies) == spent
    assert again.choices[0].message.content == first.choices[0].message.content == text_of(streamed)
    assert metacog_field(again)["run_id"] == metacog_field(streamed[-1])["run_id"] == metacog_field(first)["run_id"]


async def test_requests_made_at_once_under_one_name_are_answered_by_one_call(
    suite: Suite, scripted: ScriptedLLM, tmp_path: Path
) -> None:
    async with asyncio.TaskGroup() as group:
        asking = [
            group.create_task(suite.ask("metacog/system1", metacog={"request_id": tmp_path.name})) for _ in range(5)
        ]

    assert len({metacog_field(task.result())["run_id"] for task in asking}) == 1
    assert len(scripted.bodies) == 1


async def test_the_name_of_a_request_is_not_for_another_one(suite: Suite, tmp_path: Path) -> None:
    await suite.ask("metacog/system1", metacog={"request_id": tmp_path.name})

    other: Any = [{"role": "user", "content": "Something else."}]
    with pytest.raises(openai.ConflictError) as raised:
        await suite.ask("metacog/system1", messages=other, metacog={"request_id": tmp_path.name})

    assert raised.value.code == "request_id_reused"


async def test_a_request_that_failed_may_be_repeated_with_its_request_id(
    suite: Suite, scripted: ScriptedLLM, tmp_path: Path
) -> None:
    scripted.fault(ErrorReply(500, "broken"))
    with pytest.raises(openai.InternalServerError):
        await suite.ask("metacog/system1", metacog={"request_id": tmp_path.name})

    answer = await suite.ask("metacog/system1", metacog={"request_id": tmp_path.name})

    assert answer.choices[0].message.content == "the system1"


# A real model


async def test_a_real_model_answers_by_system_one(llm_url: str, database_url: str, tmp_path: Path) -> None:
    llm = At(llm_url, "smollm2")
    async with (
        router_at(llm, database_url, tmp_path) as router,
        AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none") as client,
    ):
        suite = Suite(router, router.runs, client)
        answer = await suite.ask("metacog/system1", max_tokens=16)
        assessed = await suite.ask("metacog", max_tokens=16, metacog={"stage_max_tokens": 16, "assessor": "probe"})

    assert answer.choices[0].message.content
    assert (metacog_field(answer)["model"], metacog_field(answer)["outcome"]) == ("smollm2", "ANSWERED")
    assert metacog_field(answer)["usage"]["stages"]["system1"]["completion_tokens"] <= 16
    assert metacog_field(assessed)["msv"]["correctness"] is not None
    assert 0 <= metacog_field(assessed)["activation"]["value"] <= 1
