"""The client of the encoder, against a server that answers as it is told."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import numpy as np
import orjson
import pytest
from aiohttp import web
from opentelemetry.trace import StatusCode

from inference import Embeddings, EncoderUnavailable
from inference.errors import InvalidReply
from tests.support.spans import exported_spans, one_span

Answer = Callable[[int, dict[str, object]], web.Response]


def vectors(texts: list[str], *, packed: bool = True, model: str = "tiny") -> web.Response:
    """Two numbers a text: its length, and 1."""
    rows = [np.array([len(text), 1], dtype="<f4") for text in texts]
    data = [
        {"index": place, "embedding": base64.b64encode(row.tobytes()).decode() if packed else row.tolist()}
        for place, row in enumerate(rows)
    ]
    return web.json_response({"object": "list", "model": model, "data": data[::-1]})


def refusal(status: int, said: str = "no", **headers: str) -> web.Response:
    return web.json_response({"error": {"message": said}}, status=status, headers=headers)


@dataclass
class Server:
    """What it was asked, and how it answers."""

    url: str = ""
    models: tuple[str, ...] = ("tiny",)
    asked: list[dict[str, object]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    connections: set[object] = field(default_factory=set)
    in_flight: int = 0
    most_in_flight: int = 0
    gone: int = 0
    answer: Answer = lambda _number, body: vectors(body["input"])  # type: ignore[arg-type]
    hold: asyncio.Event | None = None

    async def list_models(self, _request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": name} for name in self.models]})

    async def embed(self, request: web.Request) -> web.Response:
        body = orjson.loads(await request.read())
        self.asked.append(body)
        self.keys.append(request.headers.get("authorization", ""))
        self.connections.add(request.transport)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.hold is not None:
                await self.hold.wait()
            return self.answer(len(self.asked), body)
        except asyncio.CancelledError:
            self.gone += 1
            raise
        finally:
            self.in_flight -= 1


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    told = Server()
    app = web.Application()
    app.router.add_get("/v1/models", told.list_models)
    app.router.add_post("/v1/embeddings", told.embed)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    told.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield told
    await runner.cleanup()


@pytest.fixture
async def embeddings(server: Server) -> AsyncIterator[Embeddings]:
    made = Embeddings(server.url, key="secret", batch=4)
    yield made
    await made.close()


@pytest.mark.parametrize("packed", [True, False])
async def test_vectors_come_in_the_order_of_their_texts(server: Server, embeddings: Embeddings, packed: bool) -> None:
    server.answer = lambda _, body: vectors(body["input"], packed=packed)  # type: ignore[arg-type]

    embedded = await embeddings.embed(["a", "bb", "ccc", "dddd", "eeeee"], timeout_s=5)

    assert embedded.vectors[:, 0].tolist() == [1, 2, 3, 4, 5]
    assert (embedded.encoder.name, embedded.encoder.dimension) == ("tiny", 2)
    assert [len(body["input"]) for body in server.asked] == [4, 1]  # type: ignore[arg-type]
    assert set(server.keys) == {"Bearer secret"}


async def test_one_connection_serves_many_calls(server: Server, embeddings: Embeddings) -> None:
    for _ in range(10):
        await embeddings.embed(["a"], timeout_s=5)

    assert len(server.connections) == 1


async def test_batches_come_one_by_one_with_the_next_under_way(server: Server, embeddings: Embeddings) -> None:
    server.hold = asyncio.Event()

    async def sizes_of() -> list[int]:
        return [len(part.vectors) async for part in embeddings.batches(["a"] * 10, timeout_s=5)]

    sizes = asyncio.create_task(sizes_of())
    while server.in_flight < 2:  # noqa: ASYNC110 - the server is in this loop
        await asyncio.sleep(0.01)
    server.hold.set()

    assert await sizes == [4, 4, 2]
    assert server.most_in_flight == 2


async def test_what_is_under_way_is_bounded(server: Server) -> None:
    server.hold = asyncio.Event()
    embeddings = Embeddings(server.url, max_in_flight=3)

    calls = [asyncio.create_task(embeddings.embed(["a"], timeout_s=10)) for _ in range(12)]
    while server.in_flight < 3:  # noqa: ASYNC110 - the server is in this loop
        await asyncio.sleep(0.01)
    server.hold.set()
    await asyncio.wait(calls)

    assert server.most_in_flight == 3
    await embeddings.close()


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_a_server_that_is_busy_is_asked_again(server: Server, embeddings: Embeddings, status: int) -> None:
    server.answer = lambda number, body: refusal(status) if number < 3 else vectors(body["input"])  # type: ignore[arg-type]

    await embeddings.embed(["a"], timeout_s=10)

    assert len(server.asked) == 3


async def test_how_often_it_is_asked_again_is_counted(server: Server, embeddings: Embeddings) -> None:
    server.answer = lambda _number, _body: refusal(503, "loading")

    with pytest.raises(EncoderUnavailable, match="answered 503: loading"):
        await embeddings.embed(["a"], timeout_s=10)

    assert len(server.asked) == 4


async def test_a_server_that_asks_for_more_patience_than_there_is_ends_it_at_once(
    server: Server, embeddings: Embeddings
) -> None:
    server.answer = lambda _number, _body: refusal(503, "loading", **{"Retry-After": "60"})

    with pytest.raises(EncoderUnavailable, match="answered 503: loading"):
        await embeddings.embed(["a"], timeout_s=5)

    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "says"), [(400, "answered 400: no"), (401, "set METACOG_ENCODER_API_KEY"), (500, "answered 500: no")]
)
async def test_an_error_is_reported_and_not_repeated(
    server: Server, embeddings: Embeddings, status: int, says: str
) -> None:
    server.answer = lambda _number, _body: refusal(status)

    with pytest.raises(EncoderUnavailable, match=says):
        await embeddings.embed(["a"], timeout_s=5)

    assert len(server.asked) == 1


async def test_another_model_in_its_place_is_found(server: Server, embeddings: Embeddings) -> None:
    server.answer = lambda _, body: vectors(["a"]) if body["model"] in server.models else refusal(404)
    before = await embeddings.embed(["a"], timeout_s=5)

    server.models = ("other",)
    after = await embeddings.embed(["a"], timeout_s=5)

    assert (before.encoder.name, after.encoder.name) == ("tiny", "other")
    assert (await embeddings.encoder(timeout_s=5)).name == "other"


async def test_a_model_that_was_named_is_asked_and_no_other(server: Server) -> None:
    embeddings = Embeddings(server.url, model="mine")

    assert (await embeddings.encoder(timeout_s=5)).name == "mine"
    server.answer = lambda _number, _body: refusal(404, "no such model")
    with pytest.raises(EncoderUnavailable, match="no such model"):
        await embeddings.embed(["a"], timeout_s=5)
    await embeddings.close()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"data": []}',
        b'{"data": [{"index": 0}]}',
        b'{"data": [{"index": 0, "embedding": []}]}',
        b'{"data": [{"index": 0, "embedding": ["a"]}]}',
        b'{"data": [{"index": 0, "embedding": "!"}]}',
        b'{"data": [{"index": 0, "embedding": "AADAfw=="}]}',
        b'{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}',
    ],
)
async def test_what_are_no_vectors_is_reported(server: Server, embeddings: Embeddings, body: bytes) -> None:
    server.answer = lambda _number, _body: web.Response(body=body)

    with pytest.raises(EncoderUnavailable, match="something else than vectors"):
        await embeddings.embed(["a"], timeout_s=5)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"<html>"])
async def test_a_passed_reply_that_is_no_object_is_an_error(
    server: Server, embeddings: Embeddings, body: bytes
) -> None:
    server.answer = lambda _number, _body: web.Response(body=body)

    with pytest.raises(InvalidReply, match="something else than a JSON object"):
        await embeddings.forward({"input": "a"}, timeout_s=5)


async def test_a_server_that_states_nothing_is_waited_for_until_the_deadline(
    server: Server, embeddings: Embeddings
) -> None:
    server.hold = asyncio.Event()

    with pytest.raises(EncoderUnavailable, match=r"did not answer within 0\.2 s"):
        await embeddings.embed(["a"], timeout_s=0.2)


async def test_a_caller_who_leaves_closes_the_connection(server: Server, embeddings: Embeddings) -> None:
    server.hold = asyncio.Event()
    call = asyncio.create_task(embeddings.embed(["a"], timeout_s=30))
    while not server.in_flight:  # noqa: ASYNC110 - the server is in this loop
        await asyncio.sleep(0.01)

    call.cancel()
    while not server.gone:  # noqa: ASYNC110 - the server is in this loop
        await asyncio.sleep(0.01)

    assert call.cancelled() or call.cancelling()


async def test_a_call_is_one_span_that_counts_its_texts_and_holds_none_of_them(
    server: Server, embeddings: Embeddings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with exported_spans(monkeypatch) as exported:
        await embeddings.embed(["a", "bb", "ccc", "dddd", "eeeee"], timeout_s=5)
        embedded = one_span(exported, "embeddings tiny")
        exported.clear()
        server.answer = lambda _number, _body: vectors(["abc"])
        await embeddings.forward({"input": [1, 2, 3], "model": "metacog"}, timeout_s=5)
        forwarded = one_span(exported, "embeddings tiny")

    assert dict(embedded.attributes or {}) == {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "tiny",
        "metacog.backend": "encoder",
        "metacog.texts": 5,
    }
    assert (forwarded.attributes or {})["metacog.texts"] == 1


@pytest.mark.parametrize(("model", "name"), [("", "embeddings"), ("tiny", "embeddings tiny")])
async def test_the_span_of_a_call_that_failed_says_why(monkeypatch: pytest.MonkeyPatch, model: str, name: str) -> None:
    embeddings = Embeddings("http://127.0.0.1:1/v1", model=model)

    with exported_spans(monkeypatch) as exported:
        with pytest.raises(EncoderUnavailable):
            await embeddings.embed(["a"], timeout_s=5)
        failed = one_span(exported, name)
    await embeddings.close()

    assert failed.status.status_code is StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == "ENCODER_UNAVAILABLE"


async def test_a_server_that_is_not_there_is_reported_with_its_address() -> None:
    embeddings = Embeddings("http://127.0.0.1:1/v1")

    for asking in (embeddings.embed(["a"], timeout_s=5), embeddings.check()):
        with pytest.raises(EncoderUnavailable, match=r"the encoder at http://127\.0\.0\.1:1/v1 cannot be reached"):
            await asking
    await embeddings.close()


async def test_it_is_healthy_while_it_lists_a_model(server: Server, embeddings: Embeddings) -> None:
    await embeddings.check()
    server.models = ()

    with pytest.raises(EncoderUnavailable, match="names no model"):
        await embeddings.check()
