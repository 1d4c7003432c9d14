"""System 1 passes a client's own request through: what it says is kept, what it costs is count_tokens."""

import json

import pytest

from inference.errors import InvalidCall
from inference.values import PassedCall, Place, StreamEvent
from kernel.envelope import BudgetExhausted
from tests.integration.inference.support import HELLO, MakeBackend, Noted, call_of, read_forwarded, spend_of
from tests.support.models.scripted_llm import ScriptedLLM

BODY = {"model": "metacog/system1", "messages": HELLO, "max_tokens": 6, "user": "me", "metadata": {"a": 1}}


async def test_the_request_keeps_its_fields_but_for_the_model(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    await backend_of(llm).forward(BODY, spend_of(), "system1")

    assert llm.bodies == [{**BODY, "model": "scripted"}]


async def test_the_reply_is_the_backends_own(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.reply("one two")
    spend = spend_of()

    reply = await backend_of(llm).forward(BODY, spend, "system1")

    assert json.loads(reply.body) == reply.document
    assert reply.document["choices"][0]["message"]["content"] == "one two"  # type: ignore[index]
    assert reply.usage == spend.ledger.usage().stages["system1"]
    assert (reply.usage.completion_tokens, reply.usage.prompt_tokens, reply.usage.http_calls) == (2, 2, 1)


async def test_all_samples_of_it_are_reserved_and_counted(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.reply("one two", "one", "one two three")
    spend = spend_of(tokens=18)

    reply = await backend_of(llm).forward({**BODY, "n": 3, "temperature": 1.0, "logprobs": True}, spend, "system1")

    assert reply.usage.generations == 3
    assert spend.ledger.tokens_left == 18 - 6


async def test_samples_that_usage_leaves_out_are_estimated(llamacpp: ScriptedLLM, backend_of: MakeBackend) -> None:
    llamacpp.reply("x" * 20, "y" * 20)

    reply = await backend_of(llamacpp).forward({**BODY, "n": 2, "temperature": 1.0}, spend_of(), "system1")

    assert reply.usage.completion_tokens == 10
    assert reply.usage.estimated


async def test_a_request_without_a_limit_gets_the_default(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    body = {"messages": HELLO}

    await backend_of(llm, default_max_tokens=100).forward(body, spend_of(), "system1")
    await backend_of(llm, default_max_tokens=5000).forward(body, spend_of(), "system1")

    assert [body["max_tokens"] for body in llm.bodies] == [100, 1024]


async def test_the_envelope_shortens_it_in_the_field_it_uses(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    reply = await backend_of(llm).forward(
        {"messages": HELLO, "max_completion_tokens": 50}, spend_of(tokens=20), "system1"
    )

    assert llm.bodies[0]["max_completion_tokens"] == 20
    assert "max_tokens" not in llm.bodies[0]
    assert reply.cut


@pytest.mark.parametrize(("tokens", "cut"), [(11, True), (12, False)])
@pytest.mark.parametrize("limited", [True, False])
async def test_a_cut_by_the_envelope_is_reported_and_nothing_else_is_one(
    llm: ScriptedLLM, backend_of: MakeBackend, tokens: int, cut: bool, limited: bool
) -> None:
    backend = backend_of(llm, default_max_tokens=6)
    body = {"messages": HELLO, "n": 2, "temperature": 1.0, **({"max_tokens": 6} if limited else {})}
    call = call_of(max_tokens=6, samples=2, temperature=1.0)

    reply = await backend.forward(body, spend_of(tokens=tokens), "system1")
    async with await backend.forward_stream(body, spend_of(tokens=tokens), "system1") as stream:
        started = stream.cut
    completion = await backend.complete(call, spend_of(tokens=tokens))

    assert (reply.cut, started, completion.cut) == (cut, cut, cut)
    assert {sent["max_tokens"] for sent in llm.bodies} == {5 if cut else 6}


async def test_of_two_limits_the_newer_one_holds(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    body = {"messages": HELLO, "max_completion_tokens": 5, "max_tokens": 500}

    await backend_of(llm).forward(body, spend_of(), "system1")

    assert (llm.bodies[0]["max_completion_tokens"], "max_tokens" in llm.bodies[0]) == (5, False)


@pytest.mark.parametrize("field", ["n_predict", "n_cmpl", "best_of"])
async def test_a_servers_own_field_does_not_lead_out_of_the_envelope(
    llm: ScriptedLLM, backend_of: MakeBackend, field: str
) -> None:
    with pytest.raises(InvalidCall, match=field):
        await backend_of(llm).forward({**BODY, field: 5000}, spend_of(), "system1")

    assert llm.requests == []


async def test_an_empty_envelope_sends_nothing(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    spend = spend_of(generations=1)

    with pytest.raises(BudgetExhausted):
        await backend_of(llm).forward_stream({**BODY, "n": 2}, spend, "system1")

    assert llm.requests == []


async def test_events_are_passed_on_byte_for_byte(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.reply("one two")

    events = await read_forwarded(backend_of(llm).forward_stream(BODY, spend_of(), "system1"))

    chunks = [json.loads(event.raw.removeprefix(b"data: ")) for event in events[:-1]]
    assert [chunk["choices"][0]["delta"].get("content") for chunk in chunks] == ["", "one", " two", None]
    assert events[-1] == StreamEvent(raw=b"data: [DONE]\n\n", done=True)
    assert [event.document is not None for event in events] == [False, False, False, True, False]


async def test_usage_is_left_out_unless_the_client_requested_it(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    backend = backend_of(llm)

    without = await read_forwarded(backend.forward_stream(BODY, spend_of(), "system1"))
    asked = await read_forwarded(
        backend.forward_stream({**BODY, "stream_options": {"include_usage": True}}, spend_of(), "system1")
    )

    assert not any(b'"usage"' in event.raw for event in without)
    assert sum(b'"usage"' in event.raw for event in asked) == 1
    assert [body["stream_options"] for body in llm.bodies] == [{"include_usage": True}] * 2


async def test_usage_is_known_when_the_last_event_comes(llamacpp: ScriptedLLM, backend_of: MakeBackend) -> None:
    llamacpp.reply("one two", "one two three")
    spend = spend_of()

    async with await backend_of(llamacpp).forward_stream({**BODY, "n": 2}, spend, "system1") as stream:
        (usage,) = [stream.usage async for event in stream if event.done]

    assert (usage.completion_tokens, usage.generations, usage.estimated) == (5, 2, False)
    assert spend.ledger.usage().stages["system1"] == usage


async def test_without_usage_from_the_backend_the_pieces_are_counted(
    minimal: ScriptedLLM, backend_of: MakeBackend
) -> None:
    minimal.reply("one two three")
    spend = spend_of()

    await read_forwarded(backend_of(minimal).forward_stream(BODY, spend, "system1"))

    assert spend.ledger.usage().estimated
    assert spend.ledger.usage().completion_tokens == 3


@pytest.mark.parametrize(("path", "operation"), [("/completions", "text_completion"), ("/embeddings", "embeddings")])
async def test_a_request_that_is_passed_on_is_reported_by_its_operation(
    llm: ScriptedLLM, backend_of: MakeBackend, noted: Noted, path: str, operation: str
) -> None:
    texts = {"prompt": "a"} if path == "/completions" else {"input": "a"}
    call = PassedCall(place=Place(path=path), body=texts, samples=int(path == "/completions"), characters=1)

    await backend_of(llm).pass_on(call, spend_of(), "completion")

    assert [end.operation for end in noted.ends] == [operation]
