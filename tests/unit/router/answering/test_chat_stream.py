"""The chunks of a streamed chat completion, from the events of its run."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import pytest

from chassis.serving.sse import HEARTBEAT, in_batches
from kernel.envelope import Envelope
from kernel.outcomes import Outcome
from services.router.openai_rest.replies import completed_stream
from services.router.service.answering.values import AnswerToken, PassedThrough, RelayedEvent, RunFinished
from services.router.service.gateway.chat_request import ChatRequest, parsed_request
from services.router.service.gateway.chat_stream import DONE, Writer
from services.router.service.runs.values import FellBack, Run

FELL = FellBack(from_strategy="dialectic", to_strategy="system1", reason="PEER_UNAVAILABLE", message="gone")
AGAIN = RelayedEvent(name="stage_started", data={"stage": "SYNTHESIS", "attempt": 2})


def finished(answer: str) -> RunFinished:
    run = Run(
        run_id="r",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        messages=(),
        messages_digest="",
        envelope=Envelope(),
        answer=answer,
        outcome=Outcome.ANSWERED,
        finish_reason="stop",
    )
    return RunFinished(run=run)


def passed(content: str, **more: object) -> PassedThrough:
    chunk = {"id": "theirs", "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}], **more}
    return PassedThrough(raw=b"data: " + json.dumps(chunk).encode() + b"\n\n")


def ended() -> PassedThrough:
    chunk: Mapping[str, Any] = {"id": "theirs", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return PassedThrough(raw=b"data: ...", document=chunk)


async def events(*items: object) -> AsyncGenerator[object, None]:
    for item in items:
        yield item


async def batches(*pieces: Sequence[bytes]) -> AsyncGenerator[Sequence[bytes], None]:
    for piece in pieces:
        yield piece


def chat_of(**body: object) -> ChatRequest:
    given = {"model": "metacog", "messages": [{"role": "user", "content": "?"}], "stream": True, **body}
    return parsed_request(given, {})


async def written(*items: object, **body: object) -> list[bytes]:
    pieces = in_batches(Writer("r", chat_of(**body)).chunks(events(*items)), 60.0)
    return [chunk async for chunk in completed_stream(pieces)]


async def chunks(*items: object, **body: object) -> list[dict[str, Any]]:
    *parts, done = b"".join(await written(*items, **body)).split(b"\n\n")[:-1]
    assert done + b"\n\n" == DONE
    return [json.loads(chunk.removeprefix(b"data: ")) for chunk in parts]


def text(sent: list[dict[str, Any]]) -> str:
    return "".join(choice["delta"].get("content", "") for chunk in sent for choice in chunk["choices"])


async def test_the_backends_bytes_pass_as_they_came_but_for_their_name() -> None:
    raw = b'data: {"id":"theirs",  "choices":[{"delta":{"content":"a"}}],"model":"m"}\r\n\r\n'

    sent = await written(PassedThrough(raw=raw), ended(), finished("a"))

    assert sent[0] == raw.replace(b'"theirs"', b'"chatcmpl-r"').replace(b'"m"', b'"metacog"')


async def test_the_text_of_a_strategy_that_failed_is_set_off_from_the_answer() -> None:
    sent = await chunks(AnswerToken(text="It may"), FELL, passed("It is."), ended(), finished("It is."))

    assert text(sent) == "It may\n\nIt is."
    assert {chunk["id"] for chunk in sent} == {"chatcmpl-r"}


async def test_a_stream_has_one_id_and_one_model_whichever_strategy_answers() -> None:
    theirs = {"id": "theirs", "model": "small", "choices": [{"index": 0, "delta": {"content": '"model":"small"'}}]}
    spaced = PassedThrough(raw=b"data: " + json.dumps(theirs).encode() + b"\n\n")
    compact = PassedThrough(raw=b"data: " + json.dumps(theirs, separators=(",", ":")).encode() + b"\n\n")
    last = PassedThrough(raw=b"", document={**theirs, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})

    sent = await chunks(AnswerToken(text="Half"), FELL, spaced, compact, last, finished(""))

    assert {(chunk["id"], chunk["model"]) for chunk in sent} == {("chatcmpl-r", "metacog")}
    assert text(sent).count('"model":"small"') == 2


async def test_a_final_text_that_was_restarted_is_sent_whole() -> None:
    sent = await chunks(AnswerToken(text="It may"), AGAIN, AnswerToken(text="It is."), finished("It is."))

    assert text(sent) == "It may\n\nIt is."


async def test_only_the_new_part_of_the_final_text_is_sent_at_the_end() -> None:
    assert text(await chunks(AnswerToken(text="\n It "), AnswerToken(text="is "), finished("It is so."))) == "It is so."


async def test_the_final_text_of_a_strategy_without_tokens_comes_in_one_piece() -> None:
    sent = await chunks(finished("It is."))

    assert [chunk["choices"][0]["delta"] for chunk in sent] == [{"role": "assistant", "content": "It is."}, {}]


async def test_every_chunk_has_a_usage_and_only_the_last_one_has_figures() -> None:
    quoting = passed('it says "usage" a lot')

    sent = await chunks(quoting, ended(), finished("a"), stream_options={"include_usage": True})

    assert [chunk["usage"] is None for chunk in sent] == [True, True, False]
    assert text(sent) == 'it says "usage" a lot'
    assert (sent[-1]["choices"], sent[-1]["id"]) == ([], "chatcmpl-r")


async def test_silence_is_a_comment() -> None:
    assert [piece async for piece in completed_stream(batches([b"a"], []))] == [b"a", HEARTBEAT, DONE]


async def test_what_came_together_is_written_together() -> None:
    assert [piece async for piece in completed_stream(batches([b"a", b"b"], [b"c"]))] == [b"ab", b"c", DONE]


async def test_what_is_not_forwarded_does_not_put_off_the_heartbeat() -> None:
    async def thinking() -> AsyncGenerator[object, None]:
        while True:
            yield RelayedEvent(name="stage_token", data={"stage": "THESIS", "text": "hm"})
            await asyncio.sleep(0.001)

    pieces = in_batches(Writer("r", chat_of()).chunks(thinking()), 0.05)
    async with aclosing(pieces):
        begun = await anext(pieces)
        while not begun:  # a busy machine may be silent first
            begun = await anext(pieces)
        silent = await anext(pieces)

    assert json.loads(begun[0].removeprefix(b"data: "))["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert silent == []


async def test_the_measurements_of_llama_cpp_are_left_out() -> None:
    measured: Mapping[str, Any] = {
        "id": "theirs", "timings": {"prompt_ms": 3}, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    }  # fmt: skip

    sent = await chunks(passed("a"), PassedThrough(raw=b"data: ...", document=measured), finished("a"))

    assert all("timings" not in chunk for chunk in sent)


async def test_a_failure_after_the_beginning_is_sent_in_openais_shape() -> None:
    async def failing() -> AsyncGenerator[Sequence[bytes], None]:
        yield [b"data: {}"]
        raise ValueError("of no concern to a client")

    *_, error, done = [chunk async for chunk in completed_stream(failing())]

    assert json.loads(error.removeprefix(b"data: "))["error"]["code"] == "internal"
    assert b"concern" not in error
    assert done == DONE


def ids_and_models(pieces: Sequence[bytes]) -> set[tuple[str, str]]:
    chunks = [json.loads(one.removeprefix(b"data: ")) for one in pieces if one.startswith(b"data: ")]
    return {(chunk["id"], chunk["model"]) for chunk in chunks}


def raw_chunk(text: str) -> PassedThrough:
    return PassedThrough(raw=b"data: " + text.encode() + b"\n\n")


@pytest.mark.parametrize(
    "pieces",
    [
        [PassedThrough(raw=b": ping\n\n"), passed("a", model="m"), passed("b", model="m")],
        [passed("a", model="m", id="1"), passed("b", model="m", id="2"), passed("c", model="m", id="3")],
        [passed("a"), passed("b", model="m")],
        [passed("a", model="m", id=""), passed("b", model="m", id=None)],
        [raw_chunk(r'{"id":"1","model":"org\/m","choices":[{"index":0,"delta":{"content":"a"}}]}')],
        [raw_chunk('{"choices":[{"index":0,"delta":{"content":"a"}}],"id":"1","model":"m","timings":{"ms":1}}')],
        [passed("a", provider={"model": "m"}, model="m"), passed("b", provider={"model": "m"}, model="m")],
    ],
    ids=["comment first", "an id for each", "model later", "no id", "escaped", "fields last", "same value inside"],
)
async def test_all_chunks_have_the_id_of_the_run_and_the_model_that_was_asked_for(
    pieces: Sequence[PassedThrough],
) -> None:
    written = [one async for one in Writer("r", chat_of()).chunks(events(*pieces, ended(), finished("abc")))]

    assert ids_and_models(written) == {("chatcmpl-r", "metacog")}
    assert b"timings" not in b"".join(written)


async def test_a_text_that_looks_like_a_name_and_the_id_of_a_tool_call_stay_as_they_are() -> None:
    text = 'He wrote "id": "theirs" and "model": "m".'
    calls = [{"index": 0, "delta": {"tool_calls": [{"id": "theirs", "index": 0}]}, "finish_reason": None}]
    given = [passed(text, model="m"), passed(text, model="m", choices=calls), passed(text, model="m")]

    written = [one async for one in Writer("r", chat_of()).chunks(events(*given))]

    assert ids_and_models(written) == {("chatcmpl-r", "metacog")}
    deltas = [json.loads(one.removeprefix(b"data: "))["choices"][0]["delta"] for one in written]
    assert deltas == [{"content": text}, {"tool_calls": [{"id": "theirs", "index": 0}]}, {"content": text}]
