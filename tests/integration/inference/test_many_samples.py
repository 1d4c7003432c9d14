"""A forwarded request for several samples gets them all, however many a backend draws at a time."""

import json

import pytest

from inference.config import Retries
from inference.errors import BackendUnavailable, InvalidCall
from inference.features import Features
from tests.integration.inference.support import HELLO, MakeBackend, Served, read_forwarded, spend_of
from tests.support.models.scripted_llm import Body, ErrorReply, RawReply, ScriptedLLM

BODY = {"messages": HELLO, "max_tokens": 6, "temperature": 1.0, "seed": 3, "user": "me"}


def texts(document: object) -> list[str]:
    return [choice["message"]["content"] for choice in choices(document)]


def choices(document: object) -> list[Body]:
    assert isinstance(document, dict)
    found: list[Body] = document["choices"]
    return found


async def test_samples_over_the_limit_come_in_further_requests(llamacpp: ScriptedLLM, backend_of: MakeBackend) -> None:
    spend, backend = spend_of(generations=6), backend_of(llamacpp)

    reply = await backend.forward({**BODY, "n": 6}, spend, "system1")
    again = await backend.forward({**BODY, "n": 6}, spend_of(), "system1")

    assert [choice["index"] for choice in choices(reply.document)] == list(range(6))
    assert len(set(texts(reply.document))) == 6
    assert texts(again.document) == texts(reply.document)
    assert json.loads(reply.body) == reply.document
    assert [body["n"] for body in llamacpp.bodies] == [6, 4, 2, 4, 2]
    assert all(body["user"] == "me" for body in llamacpp.bodies)
    assert (reply.usage.generations, reply.usage.http_calls) == (6, 3)
    assert spend.ledger.usage().stages["system1"] == reply.usage


async def test_a_backend_that_ignores_n_gets_a_request_for_the_rest(
    minimal: ScriptedLLM, backend_of: MakeBackend
) -> None:
    backend = backend_of(minimal)

    reply = await backend.forward({**BODY, "n": 3}, spend_of(generations=3), "system1")

    assert len(set(texts(reply.document))) == 3
    assert [body.get("n") for body in minimal.bodies] == [3, None, None]
    assert backend.features.samples_per_call == 1


async def test_a_configured_limit_is_kept_and_usage_added_up(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.reply("one", "one two", "one two three")
    backend = backend_of(llm, features=Features(samples_per_call=2))

    reply = await backend.forward({**BODY, "n": 3}, spend_of(generations=3), "system1")

    assert reply.document["usage"] == {"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10}
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (4, 6)
    assert [body.get("n") for body in llm.bodies] == [2, None]


async def test_equal_samples_are_drawn_once_and_count_once(served: Served, backend_of: MakeBackend) -> None:
    spend = spend_of(generations=1)

    reply = await backend_of(served).forward({**BODY, "n": 5, "temperature": 0}, spend, "system1")

    assert len(texts(reply.document)) == 5
    assert len(set(texts(reply.document))) == 1
    assert [choice["index"] for choice in choices(reply.document)] == list(range(5))
    assert spend.ledger.usage().generations == reply.usage.generations == 1


async def test_a_real_server_gives_more_samples_than_it_has_slots(served: Served, backend_of: MakeBackend) -> None:
    reply = await backend_of(served).forward({**BODY, "n": 6}, spend_of(generations=6), "system1")

    assert [choice["index"] for choice in choices(reply.document)] == list(range(6))
    assert reply.usage.generations == 6


async def test_samples_that_cannot_be_had_are_a_failure(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.fault(None, ErrorReply(500, "broken"))
    backend, spend = backend_of(llm, features=Features(samples_per_call=2), retries=Retries(count=0)), spend_of()

    with pytest.raises(BackendUnavailable, match="broken"):
        await backend.forward({**BODY, "n": 4}, spend, "system1")

    assert spend.ledger.usage().generations == 2
    assert spend.ledger.usage().unknown_generations == 2


@pytest.mark.parametrize("n", [{}, {"n": 1}, {"n": 2}])
async def test_what_one_request_draws_stays_byte_for_byte(
    llm: ScriptedLLM, backend_of: MakeBackend, n: dict[str, int]
) -> None:
    choice = b'{"index": 0,  "message":{"content":"a\\u00e4"}, "finish_reason":"stop"}'
    said = b' {"x":1.0, "choices": [' + b" , ".join([choice] * n.get("n", 1)) + b"]}\n"
    llm.fault(RawReply(said))

    reply = await backend_of(llm).forward({**BODY, **n}, spend_of(), "system1")

    assert reply.body == said
    assert llm.bodies == [{**BODY, **n, "model": "scripted"}]


async def test_a_stream_of_too_many_is_rejected_by_name(llamacpp: ScriptedLLM, backend_of: MakeBackend) -> None:
    backend, spend = backend_of(llamacpp), spend_of()

    for _ in range(2):
        with pytest.raises(InvalidCall, match="draws 4 in one stream, not 5") as raised:
            await backend.forward_stream({**BODY, "n": 5}, spend, "system1")
        assert raised.value.field == "n"

    assert len(llamacpp.requests) == 1
    assert spend.ledger.generations_left == 100
    assert await read_forwarded(backend.forward_stream({**BODY, "n": 4}, spend, "system1"))


async def test_a_stream_that_brings_fewer_than_requested_ends_in_an_error(
    minimal: ScriptedLLM, backend_of: MakeBackend
) -> None:
    backend, spend = backend_of(minimal), spend_of()

    for _ in range(2):
        with pytest.raises(InvalidCall, match="draws 1 in one stream, not 2"):
            await read_forwarded(backend.forward_stream({**BODY, "n": 2}, spend, "system1"))

    assert len(minimal.requests) == 1
    assert spend.ledger.usage().generations == 1


async def test_more_samples_than_any_backend_serves_are_rejected(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    with pytest.raises(InvalidCall, match="n: 129 must be"):
        await backend_of(llm).forward({**BODY, "n": 129, "temperature": 0}, spend_of(), "system1")
