"""What goes wrong between client and backend has a name, is repeated only where that is safe, and is booked."""

import asyncio
import socket
import time

import pytest

from inference.config import Retries
from inference.errors import (
    BackendOverloaded,
    BackendUnauthorized,
    BackendUnavailable,
    DeadlineExceeded,
    InferenceError,
    InvalidReply,
    ModelNotFound,
    RequestRejected,
    UnparsableOutput,
)
from inference.features import Features
from tests.integration.inference.support import (
    HELLO,
    MakeBackend,
    Noted,
    Patience,
    Served,
    call_of,
    read_forwarded,
    read_stream,
    spend_of,
)
from tests.support.models.scripted_llm import Cut, ErrorReply, Hangup, Late, RawReply, ScriptedLLM, Stall


def nobody() -> Served:
    """A port at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return Served(f"http://127.0.0.1:{free.getsockname()[1]}", "scripted")


async def test_a_backend_that_is_not_there_is_tried_again_and_then_unavailable(backend_of: MakeBackend) -> None:
    patience, spend = Patience(), spend_of()
    backend = backend_of(nobody(), timing=patience.timing, retries=Retries(count=3, base_s=0.1, cap_s=0.3))

    with pytest.raises(BackendUnavailable, match="cannot be reached"):
        await backend.complete(call_of(), spend)

    assert patience.slept == pytest.approx((0.05, 0.1, 0.15))
    assert spend.ledger.usage().http_calls == 0
    assert spend.ledger.tokens_left == 10_000


async def test_a_connection_that_dies_before_a_reply_is_tried_again_and_paid_for_each_time(
    llm: ScriptedLLM, backend_of: MakeBackend
) -> None:
    llm.fault(Hangup(), Hangup())
    llm.reply("Hello")
    spend = spend_of()

    completion = await backend_of(llm, timing=Patience().timing).complete(call_of(), spend)

    assert completion.samples[0].text == "Hello"
    assert spend.ledger.usage().http_calls == 3
    assert spend.ledger.usage().generations == 1
    assert spend.ledger.usage().unknown_generations == 2
    assert spend.ledger.usage().unknown_tokens == 16
    assert spend.ledger.generations_left == 100 - 3


@pytest.mark.parametrize("way", ["complete", "stream", "forward", "forward_stream"])
async def test_what_may_have_been_generated_is_not_requested_again_beyond_the_envelope(
    llm: ScriptedLLM, backend_of: MakeBackend, way: str
) -> None:
    backend, spend = backend_of(llm, timing=Patience().timing), spend_of(generations=1)
    await backend.complete(call_of(), spend_of())
    llm.fault(*[Hangup()] * 4)
    forwarded = ({"messages": HELLO, "max_tokens": 8}, spend, "system1")
    asked = forwarded if way.startswith("forward") else (call_of(), spend)

    with pytest.raises(BackendUnavailable, match="without a reply"):
        await getattr(backend, way)(*asked)

    assert len(llm.requests) == 2
    assert (spend.ledger.usage().unknown_generations, spend.ledger.usage().unknown_tokens) == (1, 8)
    assert spend.ledger.generations_left == 0


async def test_a_repetition_goes_as_far_as_the_tokens_do(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.fault(*[Hangup()] * 4)
    spend = spend_of(tokens=20)

    with pytest.raises(BackendUnavailable, match="without a reply"):
        await backend_of(llm, timing=Patience().timing).complete(call_of(), spend)

    assert len(llm.requests) == 2
    assert spend.ledger.tokens_left == 20 - 16


@pytest.mark.parametrize("status", [429, 503])
async def test_what_was_turned_away_is_repeated_free_of_charge(
    llm: ScriptedLLM, backend_of: MakeBackend, status: int
) -> None:
    llm.fault(ErrorReply(status, "busy"), ErrorReply(status, "busy"))
    spend = spend_of(generations=1)

    completion = await backend_of(llm, timing=Patience().timing).complete(call_of(), spend)

    assert completion.samples
    assert spend.ledger.usage().unknown_generations == 0


async def test_nothing_is_sent_on_a_connection_that_the_server_has_closed(backend_of: MakeBackend) -> None:
    with ScriptedLLM(keep_alive_s=0.05) as llm:
        backend, spend = backend_of(llm, retries=Retries(count=0)), spend_of(generations=1)
        await backend.complete(call_of(), spend_of())
        time.sleep(0.3)  # noqa: ASYNC251 - the event loop is busy, and does not see the connection close

        completion = await backend.complete(call_of(), spend)

    assert completion.samples
    assert spend.ledger.usage().http_calls == 1
    assert spend.ledger.usage().unknown_generations == 0


async def test_a_connection_that_the_server_closed_while_idle_is_no_error(backend_of: MakeBackend) -> None:
    with ScriptedLLM(keep_alive_s=0.05) as llm:
        backend = backend_of(llm)
        for idle_s in (0.0, 0.04, 0.045, 0.05, 0.055, 0.06, 0.1):
            await asyncio.sleep(idle_s)
            assert (await backend.complete(call_of(), spend_of())).samples


async def test_a_connection_that_dies_each_time_counts_as_spent(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.fault(Hangup(), Hangup())
    spend = spend_of()
    backend = backend_of(llm, timing=Patience().timing, retries=Retries(count=1))

    with pytest.raises(BackendUnavailable, match="without a reply"):
        await backend.complete(call_of(), spend)

    assert spend.ledger.usage().unknown_tokens == 16


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_backend_is_waited_for_as_long_as_it_asks(
    llm: ScriptedLLM, backend_of: MakeBackend, status: int
) -> None:
    llm.fault(ErrorReply(status, "busy", {"retry-after": "7"}))
    patience = Patience()

    await backend_of(llm, timing=patience.timing).complete(call_of(), spend_of())

    assert patience.slept == pytest.approx((7.05,))


async def test_a_wait_beyond_the_deadline_is_not_begun(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.fault(ErrorReply(429, "busy", {"retry-after": "3600"}))
    spend = spend_of()

    with pytest.raises(BackendOverloaded) as raised:
        await backend_of(llm).complete(call_of(), spend)

    assert raised.value.retry_after_s == 3600.0
    assert spend.ledger.tokens_left == 10_000


@pytest.mark.parametrize(
    ("refuse", "error"),
    [
        (ErrorReply(500, "CUDA error"), BackendUnavailable),
        (ErrorReply(502, "bad gateway"), BackendUnavailable),
        (ErrorReply(401, "no such key"), BackendUnauthorized),
        (ErrorReply(404, "The model `scripted` does not exist."), ModelNotFound),
        (ErrorReply(404, "Not Found"), RequestRejected),
        (ErrorReply(422, "extra fields"), RequestRejected),
        (ErrorReply(302, "elsewhere", {"location": "http://example.com"}), InvalidReply),
    ],
)
async def test_an_error_is_named_and_not_repeated(
    llm: ScriptedLLM, backend_of: MakeBackend, refuse: ErrorReply, error: type[InferenceError]
) -> None:
    llm.fault(refuse)

    with pytest.raises(error):
        await backend_of(llm).complete(call_of(), spend_of())

    assert len(llm.requests) == 1


async def test_a_backend_that_failed_by_itself_may_have_generated(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.fault(ErrorReply(500, "CUDA error"))
    spend = spend_of()

    with pytest.raises(BackendUnavailable):
        await backend_of(llm).complete(call_of(), spend)

    assert spend.ledger.usage().unknown_tokens == 8


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"choices": []}', b"[1]", b""])
async def test_a_reply_that_is_none_is_unparsable(llm: ScriptedLLM, backend_of: MakeBackend, body: bytes) -> None:
    llm.fault(RawReply(body))
    spend = spend_of()

    with pytest.raises(UnparsableOutput):
        await backend_of(llm).complete(call_of(), spend)

    assert spend.ledger.usage().unknown_tokens == 8


async def test_a_deadline_ends_the_call_and_is_not_followed_by_another(
    llm: ScriptedLLM, backend_of: MakeBackend, noted: Noted
) -> None:
    llm.fault(Stall())
    spend = spend_of(timeout_ms=200)

    with pytest.raises(DeadlineExceeded, match="200 ms"):
        await backend_of(llm).complete(call_of(), spend)

    await llm.until(lambda it: it.disconnects == 1)
    assert len(llm.requests) == 1
    assert spend.ledger.usage().unknown_tokens == 8
    assert noted.ends[0].outcome == "DEADLINE_EXCEEDED"


async def test_what_arrived_before_the_deadline_is_kept(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.fault(None, Stall(), None)
    spend = spend_of(timeout_ms=400)

    completion = await backend_of(llm, features=Features(samples_per_call=2)).complete(
        call_of(samples=6, temperature=1.0), spend
    )

    assert len(completion.samples) == 4
    assert isinstance(completion.shortfall, DeadlineExceeded)
    assert spend.ledger.usage().generations == 4
    assert spend.ledger.usage().unknown_generations == 2


async def test_a_stream_that_breaks_off_is_an_error_and_is_not_begun_again(
    llm: ScriptedLLM, backend_of: MakeBackend
) -> None:
    llm.reply("one two three four five six")
    llm.fault(Cut(4))
    spend = spend_of()
    seen: list[str] = []

    with pytest.raises(BackendUnavailable, match="broke off"):
        await read_stream(backend_of(llm).stream(call_of(), spend), seen)

    assert "".join(seen) == "one two three"
    assert len(llm.requests) == 1
    assert spend.ledger.usage().completion_tokens == 3
    assert spend.ledger.usage().estimated


@pytest.mark.parametrize(("code", "error"), [(500, BackendUnavailable), (400, RequestRejected)])
async def test_an_error_in_the_middle_of_a_stream_is_raised(
    llm: ScriptedLLM, backend_of: MakeBackend, code: int, error: type[InferenceError]
) -> None:
    llm.fault(Late(2, code))

    with pytest.raises(error, match="it broke"):
        await read_stream(backend_of(llm).stream(call_of(), spend_of()))


async def test_a_forwarded_stream_that_ends_without_an_end_is_an_error(
    llm: ScriptedLLM, backend_of: MakeBackend
) -> None:
    llm.fault(RawReply(b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'))

    with pytest.raises(BackendUnavailable, match="ended before"):
        await read_forwarded(backend_of(llm).forward_stream({"messages": HELLO}, spend_of(), "system1"))


async def test_a_stream_ends_by_the_deadline(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.reply("word " * 500)
    llm.token_delay_s = 0.02
    spend = spend_of(timeout_ms=300)

    with pytest.raises(DeadlineExceeded):
        await read_stream(backend_of(llm).stream(call_of(max_tokens=500), spend))

    await llm.until(lambda it: it.disconnects == 1)
    assert 0 < spend.ledger.usage().completion_tokens < 30


async def test_a_stream_is_rejected_before_it_begins(llm: ScriptedLLM, backend_of: MakeBackend, noted: Noted) -> None:
    llm.fault(ErrorReply(422, "extra fields"))
    spend = spend_of()

    with pytest.raises(RequestRejected):
        await backend_of(llm).stream(call_of(), spend)

    assert spend.ledger.tokens_left == 10_000
    assert [end.outcome for end in noted.ends] == ["BACKEND_REJECTED"]


async def test_a_server_that_is_loading_is_not_ready(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    llm.ready = False

    with pytest.raises(BackendUnavailable, match="Loading model"):
        await backend_of(llm).probe()


async def test_a_server_with_another_model_is_not_ready(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    with pytest.raises(ModelNotFound, match="does not serve other, but scripted"):
        await backend_of(llm, model="other").probe()
