"""What a call sends, what comes back, and what the envelope makes of it."""

import pytest

from inference.config import Endpoint
from inference.errors import InvalidCall, UnparsableOutput
from inference.features import Features
from inference.values import WorkKind
from kernel.envelope import BudgetExhausted
from tests.integration.inference.support import CALL, MakeBackend, Noted, call_of, read_stream, spend_of
from tests.support.models.scripted_llm import ErrorReply, ScriptedChoice, ScriptedLLM

RATING = {
    "type": "object",
    "properties": {"confidence": {"type": "number", "minimum": 0.0, "maximum": 1.0}, "why": {"type": "string"}},
    "required": ["confidence"],
}


async def test_only_what_the_call_states_is_sent(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    await backend_of(llm).complete(CALL, spend_of())

    assert llm.bodies == [{"model": "scripted", "messages": list(CALL.messages), "max_tokens": 8, "temperature": 0.0}]


async def test_reasoning_is_switched_off_as_the_backend_wants_it(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    extra = {"chat_template_kwargs": {"language": "en"}, "top_k": 5}

    await backend_of(llm).complete(call_of(thinking=False, extra=extra), spend_of())
    await backend_of(llm, thinking_off={"reasoning_effort": "none"}).complete(call_of(thinking=False), spend_of())

    assert llm.bodies[0]["chat_template_kwargs"] == {"enable_thinking": False, "language": "en"}
    assert llm.bodies[0]["top_k"] == 5
    assert llm.bodies[1]["reasoning_effort"] == "none"


async def test_priority_is_sent_for_the_work_that_has_one(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    backend = backend_of(llm, priorities={WorkKind.ASSESS: -1})

    await backend.complete(call_of(work=WorkKind.ASSESS), spend_of())
    await backend.complete(call_of(work=WorkKind.STAGE), spend_of())

    assert [body.get("priority") for body in llm.bodies] == [-1, None]


async def test_key_and_trace_travel_as_headers(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    backend = backend_of(
        llm, endpoints=[Endpoint(url=llm.url, api_key="sesame")], headers=lambda: {"traceparent": "00-1-2-01"}
    )

    await backend.complete(CALL, spend_of())

    assert llm.requests[0].headers["Authorization"] == "Bearer sesame"
    assert llm.requests[0].headers["traceparent"] == "00-1-2-01"
    assert "sesame" not in repr(backend.config)


@pytest.mark.parametrize(
    "choice", [ScriptedChoice("Four.", reasoning="2 and 2 is 4"), "<think>2 and 2 is 4</think>\n\nFour."]
)
async def test_reasoning_is_kept_apart_from_the_answer(
    llm: ScriptedLLM, backend_of: MakeBackend, choice: str | ScriptedChoice
) -> None:
    llm.reply(choice, choice)
    backend = backend_of(llm)

    whole = (await backend.complete(call_of(max_tokens=50), spend_of())).samples[0]
    async with await backend.stream(call_of(max_tokens=50), spend_of()) as stream:
        deltas = [delta async for delta in stream]

    assert (whole.reasoning, whole.text) == ("2 and 2 is 4", "Four.")
    assert "".join(delta.text for delta in deltas) == "Four."
    assert "".join(delta.reasoning for delta in deltas) == "2 and 2 is 4"
    assert stream.completion.samples[0] == whole


async def test_samples_of_several_requests_are_all_different_and_repeatable(
    llamacpp: ScriptedLLM, backend_of: MakeBackend
) -> None:
    call = call_of(samples=9, temperature=1.0, seed=3)

    first = await backend_of(llamacpp).complete(call, spend_of())
    again = await backend_of(llamacpp).complete(call, spend_of())

    texts = [sample.text for sample in first.samples]
    assert len(set(texts)) == 9
    assert texts == [sample.text for sample in again.samples]
    assert texts[:4] == ["sample 3", "sample 4", "sample 5", "sample 6"]


async def test_a_backend_that_ignores_n_gets_a_request_for_the_rest_and_is_remembered(
    minimal: ScriptedLLM, backend_of: MakeBackend
) -> None:
    backend = backend_of(minimal)
    call = call_of(samples=5, temperature=1.0, seed=1)

    first, again = await backend.complete(call, spend_of()), await backend.complete(call, spend_of())

    assert len({sample.text for sample in first.samples}) == 5
    assert [s.text for s in first.samples] == [s.text for s in again.samples]
    assert [body.get("n", 1) for body in minimal.bodies] == [5] + [1] * 9
    assert backend.features.samples_per_call == 1


async def test_a_backend_that_ignores_logprobs_is_remembered(minimal: ScriptedLLM, backend_of: MakeBackend) -> None:
    backend = backend_of(minimal)

    completion = await backend.complete(call_of(logprobs=True), spend_of())
    await backend.complete(call_of(logprobs=True), spend_of())

    assert completion.samples[0].logprobs is None
    assert backend.features.logprobs is False
    assert ["logprobs" in body for body in minimal.bodies] == [True, False]


async def test_tokens_that_the_backend_does_not_count_are_estimated_and_marked_so(
    minimal: ScriptedLLM, backend_of: MakeBackend
) -> None:
    minimal.reply("x" * 16)

    completion = await backend_of(minimal).complete(call_of(), spend_of())

    assert completion.usage.estimated
    assert completion.usage.completion_tokens == 4
    assert completion.usage.prompt_tokens == 3


async def test_a_feature_that_is_rejected_is_not_requested_again(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.fault(ErrorReply(400, "logprobs are not supported with this model"))
    backend = backend_of(llm)

    completion = await backend.complete(call_of(logprobs=True), spend_of())

    assert completion.samples[0].logprobs is None
    assert completion.usage.http_calls == 2
    assert backend.features == Features(logprobs=False)


async def test_logprobs_requested_to_count_tokens_are_not_handed_on(
    llamacpp: ScriptedLLM, backend_of: MakeBackend
) -> None:
    backend = backend_of(llamacpp)

    completion = await backend.complete(call_of(samples=2, temperature=1.0), spend_of())

    assert llamacpp.bodies[0]["logprobs"] is True
    assert completion.samples[0].logprobs is None
    assert backend.features.usage_totals is False


async def test_logprobs_are_no_longer_needed_once_usage_is_known_to_be_right(
    llm: ScriptedLLM, backend_of: MakeBackend
) -> None:
    backend = backend_of(llm)
    for _ in range(2):
        await backend.complete(call_of(samples=2, temperature=1.0), spend_of())

    assert ["logprobs" in body for body in llm.bodies] == [True, False]


async def test_too_few_tokens_left_shorten_the_samples_and_it_is_stated(
    llm: ScriptedLLM, backend_of: MakeBackend
) -> None:
    spend = spend_of(tokens=15)

    completion = await backend_of(llm).complete(call_of(samples=3, temperature=1.0, floor_tokens=5), spend)

    assert llm.bodies[0]["max_tokens"] == 5
    assert completion.cut


async def test_fewer_tokens_than_the_floor_send_nothing(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    spend = spend_of(tokens=14)

    with pytest.raises(BudgetExhausted):
        await backend_of(llm).complete(call_of(samples=3, temperature=1.0, floor_tokens=5), spend)

    assert llm.requests == []
    assert spend.ledger.tokens_left == 14


async def test_too_few_generations_left_send_nothing(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    with pytest.raises(BudgetExhausted):
        await backend_of(llm).complete(call_of(samples=3, temperature=1.0), spend_of(generations=2))

    assert llm.requests == []


async def test_usage_goes_to_the_stage_and_what_is_left_is_given_back(
    llm: ScriptedLLM, backend_of: MakeBackend
) -> None:
    llm.reply("one two three")
    spend = spend_of(tokens=100)

    await backend_of(llm).complete(call_of(stage="critique"), spend)

    assert spend.ledger.usage().stages["critique"].completion_tokens == 3
    assert spend.ledger.usage().stages["critique"].prompt_tokens == 2
    assert spend.ledger.tokens_left == 97


async def test_a_schema_is_sent_and_its_document_read(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.reply('{"confidence": 87, "why": "sure"}')
    backend = backend_of(llm)

    answer = await backend.complete_json(call_of(schema=RATING), lambda content: content, spend_of())

    assert answer.values == ({"confidence": 1.0, "why": "sure"},)
    assert answer.clamped == ("0.confidence",)
    assert llm.bodies[0]["response_format"]["json_schema"]["schema"] == RATING
    assert backend.features.schema is True


async def test_samples_that_cannot_be_read_are_left_out_with_the_reason(
    llm: ScriptedLLM, backend_of: MakeBackend
) -> None:
    llm.reply('{"confidence": 0.5}', '{"why": "no number"}')

    answer = await backend_of(llm).complete_json(
        call_of(schema=RATING, samples=2, temperature=1.0), lambda content: content, spend_of()
    )

    assert answer.values == ({"confidence": 0.5},)
    assert [rejected.message for rejected in answer.rejected] == [
        "the model's output does not follow its schema: the document lacks confidence"
    ]


async def test_a_missing_number_is_an_error_and_no_zero(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.reply('{"why": "no number"}')

    with pytest.raises(UnparsableOutput, match="lacks confidence"):
        await backend_of(llm).complete_json(call_of(schema=RATING), lambda content: content, spend_of())


async def test_a_backend_that_ignores_schemas_is_asked_in_words(minimal: ScriptedLLM, backend_of: MakeBackend) -> None:
    minimal.reply("Quite sure.", 'Sure:\n```json\n{"confidence": 0.8}\n```', '{"confidence": 0.7}')
    backend, spend = backend_of(minimal), spend_of()

    first = await backend.complete_json(call_of(schema=RATING), lambda content: content, spend)
    second = await backend.complete_json(call_of(schema=RATING), lambda content: content, spend)

    assert (first.values, second.values) == (({"confidence": 0.8},), ({"confidence": 0.7},))
    assert "Answer with one JSON object only" in minimal.bodies[1]["messages"][-1]["content"]
    assert "response_format" not in minimal.bodies[2]
    assert spend.ledger.usage().generations == 3


async def test_a_document_that_the_caller_cannot_use_is_unparsable(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    def parse(content: object) -> object:
        raise ValueError(f"{content} is no rating")

    with pytest.raises(UnparsableOutput, match="is no rating"):
        await backend_of(llm).complete_json(call_of(schema=RATING), parse, spend_of())


async def test_a_stream_of_several_samples_is_rejected(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    with pytest.raises(InvalidCall, match="samples"):
        await backend_of(llm).stream(call_of(samples=2, temperature=1.0), spend_of())


async def test_a_completion_before_the_stream_has_ended_is_a_mistake(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    async with await backend_of(llm).stream(call_of(), spend_of()) as stream:
        with pytest.raises(RuntimeError, match="read to its end"):
            _ = stream.completion


async def test_a_streamed_sample_has_its_logprobs(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.reply("one two")

    stream = await read_stream(backend_of(llm).stream(call_of(logprobs=True), spend_of()))

    sample = stream.completion.samples[0]
    assert sample.logprobs is not None
    assert [token.token for token in sample.logprobs] == ["one", " two"]


async def test_models_are_requested_once(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    backend = backend_of(llm)
    for _ in range(3):
        await backend.complete(CALL, spend_of())

    assert llm.listings == 1


async def test_a_backend_that_lists_no_models_is_believed(minimal: ScriptedLLM, backend_of: MakeBackend) -> None:
    backend = backend_of(minimal, model="whatever")

    assert (await backend.complete(CALL, spend_of())).samples
    assert await backend.models() == ()


async def test_every_call_that_ends_is_observed(llm: ScriptedLLM, backend_of: MakeBackend, noted: Noted) -> None:
    llm.reply("one two", "one two three")
    backend = backend_of(llm)
    await backend.complete(call_of(stage="thesis"), spend_of())
    await read_stream(backend.stream(call_of(stage="synthesis", work=WorkKind.SYSTEM_ONE), spend_of()))

    assert [(end.stage, end.work, end.outcome, end.usage.completion_tokens) for end in noted.ends] == [
        ("thesis", WorkKind.STAGE, "OK", 2),
        ("synthesis", WorkKind.SYSTEM_ONE, "OK", 3),
    ]
    assert [end.usage.http_calls for end in noted.ends] == [1, 1]
