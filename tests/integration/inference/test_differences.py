"""One body for each difference that was measured between servers: through the client they are alike."""

import re

import pytest

from inference.errors import InvalidCall, ModelNotFound, PromptTooLong, RequestRejected
from inference.values import ModelInfo
from tests.integration.inference.support import MakeBackend, Served, call_of, spend_of

RATING = {
    "type": "object",
    "properties": {"confidence": {"type": "number", "minimum": 0.0, "maximum": 1.0}},
    "required": ["confidence"],
}


async def test_several_samples_come_from_one_request(served: Served, backend_of: MakeBackend) -> None:
    spend = spend_of()

    completion = await backend_of(served).complete(call_of(samples=3, temperature=1.0), spend)

    assert len(completion.samples) == 3
    assert completion.usage.http_calls == 1
    assert completion.usage.generations == 3
    assert completion.shortfall is None


async def test_more_samples_than_one_request_may_have_come_all_the_same(
    served: Served, backend_of: MakeBackend
) -> None:
    backend = backend_of(served)
    slots = None if served.script and served.script.shape.name == "vllm" else 4

    completion = await backend.complete(call_of(samples=10, temperature=1.0), spend_of())

    assert len(completion.samples) == 10
    assert completion.usage.generations == 10
    assert backend.features.samples_per_call == slots


async def test_tokens_are_counted_over_all_samples_whatever_usage_says(served: Served, backend_of: MakeBackend) -> None:
    if served.script:
        served.script.reply("one", "one two", "one two three")
    spend = spend_of()

    completion = await backend_of(served).complete(call_of(samples=3, temperature=1.0), spend)

    each = [sample.tokens for sample in completion.samples]
    assert completion.usage.completion_tokens == sum(each) > max(each) > 0
    assert spend.ledger.usage().completion_tokens == sum(each)
    assert not completion.usage.estimated
    assert not served.script or each == [1, 2, 3]


async def test_greedy_samples_are_drawn_once_and_count_once(served: Served, backend_of: MakeBackend) -> None:
    spend = spend_of()

    completion = await backend_of(served).complete(call_of(samples=4, temperature=0.0), spend)

    assert len(completion.samples) == 4
    assert len(set(completion.samples)) == 1
    assert spend.ledger.usage().generations == 1


async def test_logprobs_come_with_the_alternatives_requested(served: Served, backend_of: MakeBackend) -> None:
    call = call_of(logprobs=True, top_logprobs=5)

    sample = (await backend_of(served).complete(call, spend_of())).samples[0]

    assert sample.logprobs is not None
    assert {len(token.top) for token in sample.logprobs} == {5}
    assert all(token.logprob <= 0.0 for token in sample.logprobs)


async def test_logprobs_come_without_alternatives_too(served: Served, backend_of: MakeBackend) -> None:
    sample = (await backend_of(served).complete(call_of(logprobs=True), spend_of())).samples[0]

    assert sample.logprobs is not None
    assert len(sample.logprobs) == sample.tokens
    assert {token.top for token in sample.logprobs} == {()}


async def test_numbers_lie_within_the_bounds_of_their_schema(served: Served, backend_of: MakeBackend) -> None:
    call = call_of(schema=RATING, max_tokens=64)

    answer = await backend_of(served).complete_json(call, lambda content: content, spend_of())

    (rating,) = answer.values
    assert isinstance(rating, dict)
    assert 0.0 <= rating["confidence"] <= 1.0


async def test_a_schema_that_is_none_is_rejected_by_name(served: Served, backend_of: MakeBackend) -> None:
    with pytest.raises(RequestRejected, match="nonsense"):
        await backend_of(served).complete(call_of(schema={"type": "nonsense"}), spend_of())


async def test_a_stream_adds_up_to_its_completion(served: Served, backend_of: MakeBackend) -> None:
    spend = spend_of()

    async with await backend_of(served).stream(call_of(), spend) as stream:
        deltas = [delta async for delta in stream]

    sample = stream.completion.samples[0]
    assert "".join(delta.text for delta in deltas) == sample.text != ""
    assert deltas[-1].finish_reason == sample.finish_reason
    assert spend.ledger.usage().completion_tokens == sample.tokens > 0
    assert not stream.completion.usage.estimated


async def test_a_forwarded_stream_of_two_samples_is_counted_whole(served: Served, backend_of: MakeBackend) -> None:
    if served.script:
        served.script.reply("one two", "one two three")
    spend = spend_of()
    body = {
        "model": "any",
        "messages": call_of().messages,
        "n": 2,
        "max_tokens": 6,
        "logprobs": True,
        "top_logprobs": 1,
    }

    async with await backend_of(served).forward_stream(body, spend, "system1") as stream:
        raw = b"".join([event.raw async for event in stream])

    tokens = raw.count(b'"logprob":') // 2 if served.script is None else 5
    assert {b'"index":0', b'"index":1'} <= set(re.findall(rb'"index":[01]', raw.replace(b": ", b":")))
    assert b'"usage":{' not in raw.replace(b": ", b":")
    assert tokens <= spend.ledger.usage().completion_tokens <= 12
    assert spend.ledger.usage().generations == 2


async def test_a_seed_makes_samples_repeatable(served: Served, backend_of: MakeBackend) -> None:
    backend = backend_of(served)
    call = call_of(samples=6, temperature=1.5, seed=11)

    first, again = await backend.complete(call, spend_of()), await backend.complete(call, spend_of())
    other = await backend.complete(call_of(samples=6, temperature=1.5, seed=12), spend_of())

    assert [s.text for s in first.samples] == [s.text for s in again.samples]
    assert [s.text for s in first.samples] != [s.text for s in other.samples]


async def test_a_sample_ends_before_its_stop_text(served: Served, backend_of: MakeBackend) -> None:
    if served.script:
        served.script.reply("Hello there")

    sample = (await backend_of(served).complete(call_of(stop=("e", "l", "o", "a")), spend_of())).samples[0]

    assert not set("eloa") & set(sample.text)
    assert sample.finish_reason == "stop"


async def test_a_model_that_is_not_served_is_not_found(served: Served, backend_of: MakeBackend) -> None:
    with pytest.raises(ModelNotFound, match=f"does not serve gpt-9, but {served.model}"):
        await backend_of(served, model="gpt-9").complete(call_of(), spend_of())


async def test_more_tokens_than_the_context_has_are_rejected_by_name(served: Served, backend_of: MakeBackend) -> None:
    with pytest.raises(InvalidCall) as raised:
        await backend_of(served).complete(call_of(max_tokens=2048), spend_of())

    assert raised.value.field == "max_tokens"


async def test_a_prompt_over_the_context_is_too_long(served: Served, backend_of: MakeBackend) -> None:
    spend = spend_of()
    long = [{"role": "user", "content": "word " * 2100}]

    with pytest.raises(PromptTooLong) as raised:
        await backend_of(served).complete(call_of(messages=long), spend)

    assert raised.value.metadata["context_tokens"] == "2048"
    assert spend.ledger.tokens_left == 10_000


@pytest.mark.parametrize(
    ("field", "wrong"), [("temperature", -1.0), ("messages", []), ("max_tokens", 0), ("top_p", 7.0), ("n", 0)]
)
async def test_a_forwarded_body_is_checked_before_it_is_sent(
    served: Served, backend_of: MakeBackend, field: str, wrong: object
) -> None:
    body = {"messages": call_of().messages, "max_tokens": 4, field: wrong}

    with pytest.raises(InvalidCall) as raised:
        await backend_of(served).forward(body, spend_of(), "system1")

    assert raised.value.field == field
    assert not served.script or not served.script.requests


async def test_unknown_fields_are_passed_on(served: Served, backend_of: MakeBackend) -> None:
    body = {"messages": call_of().messages, "max_tokens": 4, "guided_choice": ["a"], "zebra": 1}

    reply = await backend_of(served).forward(body, spend_of(), "system1")

    assert reply.document["choices"]
    assert reply.usage.completion_tokens > 0
    assert not served.script or served.script.bodies[0].items() >= {"zebra": 1, "guided_choice": ["a"]}.items()


async def test_models_come_with_their_context(served: Served, backend_of: MakeBackend) -> None:
    (model,) = await backend_of(served).models()

    assert (model.id, model.context_tokens) == (served.model, 2048)
    assert isinstance(model, ModelInfo)


async def test_a_server_that_is_up_is_ready(served: Served, backend_of: MakeBackend) -> None:
    await backend_of(served).probe()
