"""Votes on replies in the client's own format, by the stock `openai` client: tools, JSON, images, several replies."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.support.gateway import HELLO, Suite, gateway, metacog_field, text_of
from tests.support.models.llm_replies import ScriptedChoice, Shape
from tests.support.models.scripted_llm import ErrorReply, ScriptedLLM
from tests.support.stack import cast

WITH_TOOLS = Shape("tools", checks=False)
IMAGE: Any = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
    for name in ("weather", "time")
]
PERSON: Any = {
    "type": "json_schema",
    "json_schema": {
        "name": "person",
        "schema": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "year": {"type": "integer"}, "city": {"type": "string"}},
            "required": ["name", "year", "city"],
        },
    },
}


def call(arguments: str, *, name: str = "weather", number: int = 1) -> ScriptedChoice:
    """A reply that calls one tool."""
    function = {"name": name, "arguments": arguments}
    return ScriptedChoice(tool_calls=[{"id": f"call_{number}", "type": "function", "function": function}])


@pytest.fixture
async def tools(database_url: str, tmp_path: Path) -> AsyncIterator[tuple[Suite, ScriptedLLM]]:
    with ScriptedLLM(WITH_TOOLS) as llm:
        async with gateway(llm, database_url, tmp_path) as suite:
            yield suite, llm


async def recorded(suite: Suite, answer: Any) -> Any:  # noqa: ANN401
    """The account of the vote that gave an answer."""
    async with httpx.AsyncClient(base_url=suite.router.rest) as client:
        reply = await client.get(f"/v1/runs/{metacog_field(answer)['run_id']}")
    return reply.json()["run"]["deliberation"]


async def test_the_call_that_two_replies_make_wins_and_keeps_its_id(tools: tuple[Suite, ScriptedLLM]) -> None:
    suite, llm = tools
    llm.reply(
        call('{"city": "Rome"}', number=1), call('{"city": "Oslo"}', number=2), call('{ "city":"Oslo" }', number=3)
    )

    answer = await suite.ask("metacog-vote", tools=TOOLS)

    choice = answer.choices[0]
    assert [(one.id, one.function.arguments) for one in choice.message.tool_calls] == [("call_2", '{"city": "Oslo"}')]
    assert choice.finish_reason == "tool_calls"
    field = metacog_field(answer)
    assert (field["strategy"], field["reason"], field["confidence"]) == ("vote", "requested", None)
    account = await recorded(suite, answer)
    assert [(group["answer"], group["votes"]) for group in account["groups"]] == [
        ('weather({"city":"Oslo"})', [1, 2]),
        ('weather({"city":"Rome"})', [0]),
    ]
    assert (account["outcome"], account["stop_reason"]) == ("DECIDED", "AGREED")
    assert all(body["tools"] == TOOLS for body in llm.bodies)
    assert len(llm.bodies) == 3


async def test_a_streamed_call_is_put_together_by_the_client(tools: tuple[Suite, ScriptedLLM]) -> None:
    suite, llm = tools
    llm.reply(call('{"city": "Oslo"}'), call('{"city": "Oslo"}'))

    async with suite.client.chat.completions.stream(model="metacog-vote", messages=HELLO, tools=TOOLS) as stream:
        answer = await stream.get_final_completion()

    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert [(one.id, one.function.name, one.function.arguments) for one in calls] == [
        ("call_1", "weather", '{"city": "Oslo"}')
    ]
    assert answer.choices[0].finish_reason == "tool_calls"
    assert len(llm.bodies) == 2


async def test_parallel_calls_survive_in_the_models_order(tools: tuple[Suite, ScriptedLLM]) -> None:
    suite, llm = tools
    oslo = call('{"city": "Oslo"}', number=1).tool_calls
    rome = call('{"city": "Rome"}', number=2).tool_calls
    llm.reply(ScriptedChoice(tool_calls=[*rome, *oslo]), ScriptedChoice(tool_calls=[*oslo, *rome]))

    answer = await suite.ask("metacog-vote", tools=TOOLS)

    assert [one.id for one in answer.choices[0].message.tool_calls] == ["call_2", "call_1"]
    assert (await recorded(suite, answer))["outcome"] == "DECIDED"


@pytest.mark.parametrize(
    ("invalid", "reason"),
    [
        (call('{"city": "Oslo"'), "arguments of weather: it is no JSON"),
        (call('{"town": "Oslo"}'), "lacks city"),
        (call('{"city": 7}'), "city is not of type string"),
        (call('{"city": "Oslo"}', name="delete_all"), "it calls 'delete_all', which the request does not offer"),
    ],
    ids=["no JSON", "missing", "type", "unknown tool"],
)
async def test_a_call_that_cannot_be_made_is_no_vote(
    tools: tuple[Suite, ScriptedLLM], invalid: ScriptedChoice, reason: str
) -> None:
    suite, llm = tools
    llm.reply(invalid, invalid, call('{"city": "Rome"}', number=7), invalid, invalid)

    answer = await suite.ask("metacog-vote", tools=TOOLS)

    assert answer.choices[0].message.tool_calls[0].id == "call_7"
    account = await recorded(suite, answer)
    assert (account["invalid"], account["outcome"]) == (4, "UNDECIDED")
    assert reason in account["votes"][0]["invalid_reason"]


async def test_to_write_is_a_vote_against_calling(tools: tuple[Suite, ScriptedLLM]) -> None:
    suite, llm = tools
    llm.reply(call('{"city": "Rome"}'), "It rains in Rome, as the last report said.", "Rain. That is what I know.")

    answer = await suite.ask("metacog-vote", tools=TOOLS)

    assert answer.choices[0].message.content == "It rains in Rome, as the last report said."
    assert not answer.choices[0].message.tool_calls


async def test_of_json_that_is_undecided_the_one_with_most_majority_fields_wins(
    tools: tuple[Suite, ScriptedLLM],
) -> None:
    suite, llm = tools
    written = [
        '{"name": "Ada", "year": 1816, "city": "Rome"}',
        '{"name": "Bea", "year": 1815, "city": "Bonn"}',
        '{"name": "Ada",  "year": 1815, "city": "Rome"}',
    ]
    llm.reply(*written)

    answer = await suite.ask("metacog-vote", response_format=PERSON, metacog={"vote": {"most": 3}})

    assert answer.choices[0].message.content == written[2]
    account = await recorded(suite, answer)
    assert (account["outcome"], account["groups"][0]["votes"]) == ("UNDECIDED", [2])
    assert all(body["response_format"] == PERSON for body in llm.bodies)


async def test_json_that_does_not_follow_its_schema_is_no_vote(tools: tuple[Suite, ScriptedLLM]) -> None:
    suite, llm = tools
    llm.reply("{}", '{"name": "Ada", "year": "?", "city": "Rome"}', *['{"name": "A", "year": 1, "city": "B"}'] * 2)

    answer = await suite.ask("metacog-vote", response_format=PERSON)

    assert answer.choices[0].message.content == '{"name": "A", "year": 1, "city": "B"}'
    assert (await recorded(suite, answer))["invalid"] == 2


async def test_an_image_goes_to_every_vote(tools: tuple[Suite, ScriptedLLM]) -> None:
    suite, llm = tools
    seen: Any = [{"role": "user", "content": [{"type": "text", "text": "How many birds are there?"}, IMAGE]}]
    llm.reply("It is 3.", "It is 4.", "3")

    answer = await suite.ask("metacog-vote", messages=seen)

    assert answer.choices[0].message.content == "It is 3."
    assert [body["messages"] for body in llm.bodies] == [seen] * 3


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_several_replies_are_the_first_valid_votes_the_winner_first(
    tools: tuple[Suite, ScriptedLLM], stream: bool
) -> None:
    suite, llm = tools
    llm.reply("It is 7.", "It is 5.", "It is 5.")
    question: Any = [{"role": "user", "content": "What is 2 + 3?"}]

    if stream:
        chunks = await suite.chunks("metacog-vote", messages=question, n=3)
        texts = [
            "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices if c.index == index)
            for index in range(3)
        ]
    else:
        answer = await suite.ask("metacog-vote", messages=question, n=3)
        texts = [choice.message.content for choice in answer.choices]

    assert texts == ["It is 5.", "It is 7.", "It is 5."]
    assert all("n" not in body for body in llm.bodies)


async def test_numbers_are_compared_with_their_units(tools: tuple[Suite, ScriptedLLM]) -> None:
    suite, llm = tools
    llm.reply("10 miles", "10 km", "10000 m")
    question: Any = [{"role": "user", "content": [{"type": "text", "text": "How far is it? Give a number."}, IMAGE]}]

    answer = await suite.ask("metacog-vote", messages=question)

    assert answer.choices[0].message.content == "10 km"
    assert [group["votes"] for group in (await recorded(suite, answer))["groups"]] == [[1, 2], [0]]


@pytest.mark.parametrize("required", [[1], [[]], "city"])
async def test_a_schema_that_is_none_breaks_no_vote(tools: tuple[Suite, ScriptedLLM], required: object) -> None:
    suite, llm = tools
    llm.reply(*[call('{"city": "Oslo"}')] * 2)
    odd: Any = [{"type": "function", "function": {"name": "weather", "parameters": {"required": required}}}]

    answer = await suite.ask("metacog-vote", tools=odd)

    assert answer.choices[0].message.tool_calls[0].function.name == "weather"


async def test_a_schema_that_would_take_long_to_read_is_no_vote(tools: tuple[Suite, ScriptedLLM]) -> None:
    suite, llm = tools
    schema = {"type": "array", "items": {"anyOf": [*[{"const": -1}] * 20_000, {"const": 1}]}}
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "ones", "schema": schema}}
    llm.reply(*[str([1] * 50)] * 5)

    answer = await suite.ask("metacog-vote", response_format=wanted)

    account = await recorded(suite, answer)
    assert account["outcome"] == "ABSTAINED"
    assert account["votes"][0]["invalid_reason"] == "it is too long to be read by a schema of this size"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_system_1_after_votes_that_failed_gives_all_that_was_asked_for(
    tools: tuple[Suite, ScriptedLLM], stream: bool
) -> None:
    suite, llm = tools
    llm.reply("One.", "Two.", "Three.")
    llm.fault(*[ErrorReply(500, "away")] * 2)  # the draft, and the vote in its place

    if stream:
        chunks = await suite.chunks("metacog-vote", n=3)
        indexes = {choice.index for chunk in chunks for choice in chunk.choices}
    else:
        whole = await suite.ask("metacog-vote", n=3)
        indexes = {choice.index for choice in whole.choices}

    assert indexes == {0, 1, 2}


async def test_a_call_that_was_drafted_is_streamed_where_system_1_gives_it(tools: tuple[Suite, ScriptedLLM]) -> None:
    suite, llm = tools
    llm.reply(call('{"city": "Oslo"}'))
    envelope = {"max_generations": 1}

    async with suite.client.chat.completions.stream(
        model="metacog-vote", messages=HELLO, tools=TOOLS, extra_body={"metacog": {"envelope": envelope}}
    ) as stream:
        answer = await stream.get_final_completion()

    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].function.arguments == '{"city": "Oslo"}'
    assert answer.choices[0].finish_reason == "tool_calls"


async def test_equal_requests_are_not_sent_twice(tools: tuple[Suite, ScriptedLLM]) -> None:
    suite, llm = tools
    llm.reply(*[call('{"city": "Oslo"}')] * 2)

    await suite.ask("metacog-vote", tools=TOOLS, temperature=0, seed=5)

    first, second = llm.bodies
    assert (first["temperature"], first["seed"]) == (0, 5)
    assert second["temperature"] == pytest.approx(0.7)
    assert second["seed"] != 5


async def test_a_source_that_fails_is_left_out_and_named(tools: tuple[Suite, ScriptedLLM]) -> None:
    suite, llm = tools
    llm.reply(call('{"city": "Oslo"}'))
    llm.fault(None, ErrorReply(400, "no more today"))

    answer = await suite.ask("metacog-vote", tools=TOOLS)

    assert answer.choices[0].message.tool_calls[0].id == "call_1"
    account = await recorded(suite, answer)
    assert (account["stop_reason"], account["outcome"]) == ("NO_SOURCE", "UNDECIDED")
    assert "no more today" in metacog_field(answer)["degraded_reasons"][0]


async def test_where_nobody_replies_the_error_is_the_models(tools: tuple[Suite, ScriptedLLM]) -> None:
    suite, llm = tools
    llm.fault(*[ErrorReply(400, "no more today")] * 3)

    with pytest.raises(openai.BadRequestError, match="no more today"):
        await suite.ask("metacog-vote", tools=TOOLS, metacog={"fallback": False})


@pytest.mark.parametrize(
    ("metacog", "field"),
    [
        ({"vote": {"tests": "assert True"}}, "metacog.vote.tests"),
        ({"vote": {"sources": [{"agent": "ada"}]}}, "metacog.vote.sources"),
        ({"vote": {"sources": [{"mode": "PROGRAM"}]}}, "metacog.vote.sources"),
        ({"promise": {"error_at_most": 0.1}}, "metacog.promise"),
    ],
)
async def test_an_option_that_whole_replies_cannot_follow_is_named(
    tools: tuple[Suite, ScriptedLLM], metacog: dict[str, Any], field: str
) -> None:
    suite, llm = tools

    with pytest.raises(openai.BadRequestError) as raised:
        await suite.ask("metacog-vote", tools=TOOLS, metacog=metacog)

    assert raised.value.param == field
    assert not llm.bodies


@pytest.mark.parametrize(
    ("more", "field", "reason"),
    [({"tools": TOOLS}, "tools", "tools"), ({"n": 2}, "n", "format"), ({"logprobs": True}, "logprobs", "format")],
)
async def test_what_a_strategy_cannot_do_is_system_1_or_an_error_as_fallback_says(
    tools: tuple[Suite, ScriptedLLM], more: dict[str, Any], field: str, reason: str
) -> None:
    suite, llm = tools
    llm.reply("Hello.")

    raw = await suite.client.chat.completions.with_raw_response.create(
        model="metacog-dialectic", messages=HELLO, **more
    )
    with pytest.raises(openai.BadRequestError) as raised:
        await suite.ask("metacog-dialectic", metacog={"fallback": False}, **more)

    assert raw.headers["x-metacog-reason"] == reason
    assert (metacog_field(raw.parse())["strategy"], metacog_field(raw.parse())["reason"]) == ("system1", reason)
    assert raised.value.param == field


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_deliberation_ends_in_the_format_that_is_asked_for(
    tools: tuple[Suite, ScriptedLLM], stream: bool
) -> None:
    suite, llm = tools
    deliberated = cast()
    written = '{"name": "Ada", "year": 1815, "city": "London"}'
    llm.answer = lambda body: [written] if body.get("response_format") == PERSON else deliberated(body)

    if stream:
        text = text_of(await suite.chunks("metacog-dialectic", response_format=PERSON))
    else:
        answer = await suite.ask("metacog-dialectic", response_format=PERSON)
        text = answer.choices[0].message.content
        assert metacog_field(answer)["strategy"] == "dialectic"
        assert not metacog_field(answer)["degraded"]

    assert text == written
    *_, last = llm.bodies
    assert last["response_format"] == PERSON
    assert last["messages"][:-1] == HELLO
    assert len([body for body in llm.bodies if body.get("response_format") == PERSON]) == 1


async def test_a_reply_that_is_not_in_the_format_says_so(tools: tuple[Suite, ScriptedLLM]) -> None:
    suite, llm = tools
    deliberated = cast()
    llm.answer = lambda body: ["Ada."] if body.get("response_format") == PERSON else deliberated(body)

    field = metacog_field(await suite.ask("metacog-dialectic", response_format=PERSON))

    assert any(reason.startswith("NOT_IN_FORMAT: it is no JSON") for reason in field["degraded_reasons"])


async def test_the_state_says_why_the_probability_is_unknown(tools: tuple[Suite, ScriptedLLM]) -> None:
    suite, llm = tools
    llm.reply(call('{"city": "Rome"}'), *[call('{"city": "Oslo"}')] * 2)

    state = metacog_field(await suite.ask("metacog-vote", tools=TOOLS))["state"]

    assert state["correctness"] is None
    assert "tools, JSON or images" in str(state)
    assert state["conflict"] == pytest.approx(1 / 3)
