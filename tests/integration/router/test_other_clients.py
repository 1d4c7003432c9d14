"""Clients that know OpenAI only, as they come from the registry: LangChain's `ChatOpenAI`."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai
import pytest
from pydantic import BaseModel, SecretStr

from tests.support.apis import Running
from tests.support.gateway import gateway
from tests.support.models.scripted_llm import ErrorReply, ScriptedChoice, ScriptedLLM, Shape
from tests.support.stack import TROUBLED, cast, router_at

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI

# A server that, unlike the scripted vLLM, was started with a tool parser.
WITH_TOOLS = Shape("tools", checks=False)
CALL: Any = {"id": "call_7", "type": "function", "function": {"name": "multiply", "arguments": '{"a": 6, "b": 7}'}}


class Verdict(BaseModel):
    """Whether it is so."""

    is_so: bool
    why: str


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


def chat_openai(router: Running, model: str = "metacog", **more: Any) -> "ChatOpenAI":  # noqa: ANN401
    """The client, as its users make it."""
    from langchain_openai import ChatOpenAI  # here, for it takes seconds to load

    return ChatOpenAI(
        model=model, base_url=f"{router.rest}/v1", api_key=SecretStr("none"), **{"max_retries": 0, **more}
    )


@pytest.fixture
async def router(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[Running]:
    scripted.answer = cast()
    async with gateway(scripted, database_url, tmp_path) as suite:
        yield suite.router


@pytest.fixture
async def with_tools(database_url: str, tmp_path: Path) -> AsyncIterator[tuple[Running, ScriptedLLM]]:
    """A router on a server that takes tools."""
    with ScriptedLLM(WITH_TOOLS) as llm:
        async with router_at(llm, database_url, tmp_path) as router:
            yield router, llm


async def test_a_chain_gets_its_answer(router: Running) -> None:
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate

    chain = ChatPromptTemplate.from_messages([("system", "Be brief."), ("user", "{it}?")]) | chat_openai(router)

    answer = await chain.ainvoke({"it": "Is it so"})

    assert await (chain | StrOutputParser()).ainvoke({"it": "Is it so"}) == "the system1"
    usage = answer.usage_metadata
    assert usage is not None
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert answer.response_metadata["finish_reason"] == "stop"


async def test_a_blocking_client_gets_its_answer(router: Running) -> None:
    answer = await asyncio.to_thread(chat_openai(router, "metacog/system1").invoke, "Is it so?")

    assert answer.content == "the system1"


@pytest.mark.parametrize("model", ["metacog/system1", "metacog/dialectic"])
async def test_a_stream_is_read_word_by_word_and_with_its_usage(
    router: Running, scripted: ScriptedLLM, model: str
) -> None:
    scripted.answer = cast(TROUBLED, system1="one two three", synthesis="one two three")

    chunks = [chunk async for chunk in chat_openai(router, model, stream_usage=True).astream("Is it so?")]

    assert [chunk.text for chunk in chunks if chunk.text] == ["one", " two", " three"]
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["output_tokens"] >= 3
    assert whole.response_metadata["finish_reason"] == "stop"


async def test_stage_events_do_not_disturb_a_stream(router: Running, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(TROUBLED, synthesis="one two three")
    client = chat_openai(router, "metacog/dialectic", extra_body={"metacog": {"stage_events": True}})

    chunks = [chunk async for chunk in client.astream("Is it so?")]

    assert "".join(chunk.text for chunk in chunks) == "one two three"


async def test_a_batch_is_answered_in_order(router: Running, scripted: ScriptedLLM) -> None:
    scripted.answer = lambda body: [body["messages"][-1]["content"].upper()]

    answers = await chat_openai(router, "metacog/system1").abatch([f"question {number}" for number in range(8)])

    assert [answer.text for answer in answers] == [f"QUESTION {number}" for number in range(8)]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_tools_are_called_and_their_results_read(with_tools: tuple[Running, ScriptedLLM], stream: bool) -> None:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.tools import tool

    router, llm = with_tools
    llm.reply(ScriptedChoice(tool_calls=[CALL]), "It is 42.")
    client = chat_openai(router, streaming=stream).bind_tools([tool(multiply)])

    asked = await client.ainvoke("What is six times seven?")
    assert isinstance(asked, AIMessage)
    [call] = asked.tool_calls
    result = ToolMessage(str(multiply(**call["args"])), tool_call_id=call["id"])
    answer = await client.ainvoke([HumanMessage("What is six times seven?"), asked, result])

    assert (call["name"], call["args"], call["id"]) == ("multiply", {"a": 6, "b": 7}, "call_7")
    assert answer.text == "It is 42."
    assert llm.bodies[0]["tools"][0]["function"]["name"] == "multiply"
    sent = llm.bodies[1]["messages"]
    assert (sent[1]["tool_calls"][0]["id"], sent[2]["tool_call_id"], sent[2]["content"]) == ("call_7", "call_7", "42")


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
async def test_a_structured_answer_is_parsed(with_tools: tuple[Running, ScriptedLLM], method: Any) -> None:  # noqa: ANN401
    router, llm = with_tools
    label = '{"is_so": true, "why": "it is"}'
    call = {"id": "call_7", "type": "function", "function": {"name": "Verdict", "arguments": label}}
    llm.reply(ScriptedChoice(tool_calls=[call]) if method == "function_calling" else label)

    answer = await chat_openai(router).with_structured_output(Verdict, method=method).ainvoke("Is it so?")

    assert answer == Verdict(is_so=True, why="it is")


async def test_its_own_parameters_reach_the_backend(router: Running, scripted: ScriptedLLM) -> None:
    client = chat_openai(
        router, "metacog/system1", temperature=0.2, max_tokens=9, seed=4, stop=["END"], top_p=0.9, n=1, logprobs=True
    )

    answer = await client.ainvoke("Is it so?")

    sent = scripted.bodies[0]
    assert (sent["temperature"], sent["seed"], sent["stop"], sent["top_p"]) == (0.2, 4, ["END"], 0.9)
    assert sent.get("max_tokens") == 9 or sent.get("max_completion_tokens") == 9
    assert answer.response_metadata["logprobs"]["content"][0]["token"] == "the"


async def test_errors_are_the_errors_that_it_knows(router: Running, scripted: ScriptedLLM) -> None:
    with pytest.raises(openai.NotFoundError):
        await chat_openai(router, "gpt-9").ainvoke("Is it so?")
    with pytest.raises(openai.BadRequestError):
        await chat_openai(router, "metacog/dialectic", n=2, extra_body={"metacog": {"fallback": False}}).ainvoke(
            "Is it?"
        )
    scripted.fault(*[ErrorReply(429, "busy")] * 4)
    with pytest.raises(openai.RateLimitError):
        await chat_openai(router, "metacog/system1").ainvoke("Is it so?")


async def test_a_prompt_that_is_too_long_has_an_error_of_its_own(router: Running) -> None:
    from langchain_core.exceptions import ContextOverflowError

    with pytest.raises(ContextOverflowError):
        await chat_openai(router, "metacog/system1").ainvoke("word " * 3000)
