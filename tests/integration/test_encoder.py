"""The encoder with its real model, through the stock OpenAI client."""

import asyncio
import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import openai
import pytest

from chassis.worker import WorkerFailing
from encoder.app import build_app
from encoder.batcher import Batcher
from encoder.errors import EncodingFailed, Overloaded
from encoder.model import Encoded
from encoder.settings import Settings

pytestmark = pytest.mark.timeout(120)

MODEL = "all-MiniLM-L6-v2"
KEY = "a key for this test"


@dataclass
class Running:
    base: str
    process: "subprocess.Popen[bytes]"
    healthy_after_s: float


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return int(error.code)
    except OSError:
        return 0


def eventually(true: Callable[[], object], within_s: float = 60.0) -> None:
    until = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def encoder(log: Path, **settings: str) -> Iterator[Running]:
    port = free_port()
    variables = {f"METACOG_ENCODER_{name}": value for name, value in settings.items()}
    began = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "encoder"],
            env=os.environ | variables | {"METACOG_ENCODER_PORT": str(port)},
            stdout=out,
            stderr=out,
        )
    try:
        base = f"http://127.0.0.1:{port}"
        eventually(lambda: status_of(f"{base}/healthz") == 200 or process.poll() is not None)
        yield Running(base, process, time.monotonic() - began)
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("encoder") / "log"
    limits = {"MAX_INPUTS": "64", "MAX_CHARACTERS": "20000", "MAX_BODY_BYTES": "100000"}
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    with encoder(log, API_KEYS_SHA256=digest, **limits) as one:
        assert status_of(f"{one.base}/readyz") == 503, "the port answers before the model is there"
        eventually(lambda: status_of(f"{one.base}/readyz") == 200)
        yield one


@pytest.fixture
def client(running: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{running.base}/v1", api_key=KEY, max_retries=0) as client:
        yield client


def vectors(client: openai.OpenAI, *texts: str) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    reply = client.embeddings.create(model=MODEL, input=list(texts))
    return np.array([each.embedding for each in reply.data])


def test_the_nearer_meaning_has_the_nearer_vector(client: openai.OpenAI) -> None:
    cat, kitten, revenue = vectors(client, "a cat", "a kitten", "quarterly revenue")

    assert cat @ kitten > 0.6 > 0.3 > cat @ revenue
    assert np.linalg.norm(cat) == pytest.approx(1.0, abs=1e-5)


def test_floats_and_base64_are_equal(client: openai.OpenAI) -> None:
    plain = client.embeddings.create(model=MODEL, input="one text", encoding_format="float")
    packed = client.embeddings.create(model=MODEL, input="one text")  # the client asks for base64 by default

    assert plain.data[0].embedding == pytest.approx(packed.data[0].embedding, abs=1e-6)
    assert len(packed.data[0].embedding) == 384


def test_tokens_are_counted_with_their_markers(client: openai.OpenAI) -> None:
    reply = client.embeddings.create(model=MODEL, input=["cat", "a cat"])

    assert reply.usage.prompt_tokens == 3 + 4  # [CLS] cat [SEP], [CLS] a cat [SEP]


def test_a_text_over_the_model_s_length_is_cut(client: openai.OpenAI) -> None:
    reply = client.embeddings.create(model=MODEL, input="word " * 1000)

    assert reply.usage.prompt_tokens == 256
    assert vectors(client, "word " * 1000) == pytest.approx(vectors(client, "word " * 2000), abs=1e-6)


def test_the_order_and_the_batch_do_not_change_a_vector(client: openai.OpenAI) -> None:
    texts = [f"sentence number {number} " + "and on " * (number % 7) for number in range(50)]

    together = vectors(client, *texts)

    assert together[37] == pytest.approx(vectors(client, texts[37])[0], abs=1e-5)


def test_the_model_list_has_the_dimension(client: openai.OpenAI) -> None:
    model = client.models.list().data[0]

    assert model.id == MODEL
    assert model.model_dump()["dimension"] == 384


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([1, 2, 3], "token ids are not taken"),
        ([[1, 2], [3]], "token ids are not taken"),
        ("", "is empty"),
        ([], "not empty"),
        (["fine", ""], r"input\[1\] is empty"),
        (["x"] * 65, "at most 64"),
        ("x" * 20_001, "at most 20000"),
        ({"text": "x"}, "a string or a list of strings"),
    ],
)
def test_an_input_that_is_no_text_or_too_much_is_a_clear_400(client: openai.OpenAI, given: object, says: str) -> None:
    with pytest.raises(openai.BadRequestError, match=says) as caught:
        client.embeddings.create(model=MODEL, input=given)  # type: ignore[arg-type]  # that is the point

    assert caught.value.param == "input"
    assert caught.value.type == "invalid_request_error"


def test_another_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="this server has all-MiniLM-L6-v2") as caught:
        client.embeddings.create(model="text-embedding-3-small", input="x")

    assert caught.value.code == "model_not_found"


def test_another_length_of_vectors_is_rejected(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="384 dimensions"):
        client.embeddings.create(model=MODEL, input="x", dimensions=64)


def test_a_body_over_the_limit_is_rejected(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APIStatusError, match="over 100000 bytes") as caught:
        client.embeddings.create(model=MODEL, input=["x" * 10_000] * 11)

    assert caught.value.status_code == 413


def test_a_wrong_key_is_rejected_and_probes_need_none(running: Running) -> None:
    with openai.OpenAI(base_url=f"{running.base}/v1", api_key="wrong", max_retries=0) as stranger:
        with pytest.raises(openai.AuthenticationError):
            stranger.embeddings.create(model=MODEL, input="x")
        with pytest.raises(openai.AuthenticationError):
            stranger.models.list()

    assert status_of(f"{running.base}/readyz") == 200


def test_many_clients_at_once_each_get_their_own(client: openai.OpenAI) -> None:
    texts = [f"the {number}th of many" for number in range(24)]
    alone = vectors(client, *texts)

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda text: vectors(client, text)[0], texts))

    assert np.array(found) == pytest.approx(alone, abs=1e-5)


def test_an_open_address_without_keys_is_rejected() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "encoder"],
        env=os.environ | {"METACOG_ENCODER_HOST": "0.0.0.0"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "METACOG_ENCODER_API_KEYS_SHA256" in done.stdout


def test_a_taken_port_is_rejected_with_its_setting(running: Running) -> None:
    port = running.base.rsplit(":", 1)[1]

    done = subprocess.run(
        [sys.executable, "-m", "encoder"],
        env=os.environ | {"METACOG_ENCODER_PORT": port},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert f"port {port}" in done.stdout
    assert "METACOG_ENCODER_PORT" in done.stdout


def test_a_model_that_cannot_be_loaded_ends_the_process_with_its_reason(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with encoder(log, MODEL_PATH=str(tmp_path / "no-model-here")) as broken:
        assert broken.process.wait(60) == 1

    assert "the model no-model-here cannot be loaded" in log.read_text()


def test_it_ends_on_sigterm_while_the_model_is_still_loading(tmp_path: Path) -> None:
    with encoder(tmp_path / "log") as young:
        young.process.send_signal(signal.SIGTERM)

        young.process.wait(4)


class SlowEncode:
    """Records each batch, and returns none before `go` is set."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.go = threading.Event()
        self.started = threading.Event()

    def __call__(self, texts: list[str]) -> Encoded:
        self.batches.append(texts)
        self.started.set()
        assert self.go.wait(30)
        lengths = [len(text) for text in texts]
        return Encoded(np.array([[length] for length in lengths], dtype=np.float32), lengths)


@asynccontextmanager
async def batching(encode: "SlowEncode | FailingEncode", *, max_batch: int, max_waiting: int) -> AsyncIterator[Batcher]:
    with ThreadPoolExecutor(1) as thread:
        batcher = Batcher(encode, thread, max_batch=max_batch, max_waiting=max_waiting)
        batcher.start()
        try:
            yield batcher
        finally:
            encode.go.set()
            await batcher.close()


async def test_requests_that_arrive_while_a_batch_runs_share_the_next() -> None:
    encode = SlowEncode()
    async with batching(encode, max_batch=8, max_waiting=100) as batcher:
        first = asyncio.create_task(batcher.encode(["1"]))
        await asyncio.to_thread(encode.started.wait, 30)
        later = [asyncio.create_task(batcher.encode(["x" * number])) for number in (2, 3, 4)]
        await asyncio.sleep(0)  # each new task runs until it waits
        encode.go.set()

        answers = [await each for each in [first, *later]]

    assert encode.batches == [["1"], ["xx", "xxx", "xxxx"]]
    assert [answer.tokens for answer in answers] == [[1], [2], [3], [4]]


async def test_a_long_request_takes_turns_with_short_ones() -> None:
    encode = SlowEncode()
    async with batching(encode, max_batch=2, max_waiting=100) as batcher:
        long = asyncio.create_task(batcher.encode(["a", "bb", "ccc", "dddd", "eeeee"]))
        await asyncio.to_thread(encode.started.wait, 30)
        short = asyncio.create_task(batcher.encode(["short"]))
        await asyncio.sleep(0)  # each new task runs until it waits
        encode.go.set()

        answer = await long

    assert (await short).tokens == [5]
    assert ["short" in batch for batch in encode.batches].index(True) <= 2
    assert answer.tokens == [1, 2, 3, 4, 5]
    assert answer.vectors[:, 0].tolist() == [1, 2, 3, 4, 5]


async def test_more_than_may_wait_is_rejected_at_once() -> None:
    encode = SlowEncode()
    async with batching(encode, max_batch=1, max_waiting=3) as batcher:
        running = asyncio.create_task(batcher.encode(["running"]))
        await asyncio.to_thread(encode.started.wait, 30)
        waiting = asyncio.create_task(batcher.encode(["a", "b"]))
        await asyncio.sleep(0)  # each new task runs until it waits

        with pytest.raises(Overloaded) as caught:
            await batcher.encode(["c", "d"])

        encode.go.set()
        await running
        await waiting
    assert caught.value.status == 429
    assert caught.value.headers == {"Retry-After": "1"}


async def test_a_request_whose_client_has_gone_is_not_encoded() -> None:
    encode = SlowEncode()
    async with batching(encode, max_batch=8, max_waiting=100) as batcher:
        running = asyncio.create_task(batcher.encode(["running"]))
        await asyncio.to_thread(encode.started.wait, 30)
        gone = asyncio.create_task(batcher.encode(["gone"]))
        await asyncio.sleep(0)  # each new task runs until it waits
        gone.cancel()
        encode.go.set()
        await running

        await batcher.encode(["later"])

    assert ["gone"] not in encode.batches


class FailingEncode:
    """Fails on every text but those that a test allows, once it may go."""

    name, dimension, max_tokens = "failing", 1, 256

    def __init__(self) -> None:
        self.good: set[str] = set()
        self.go = threading.Event()
        self.started = threading.Event()

    def __call__(self, texts: list[str]) -> Encoded:
        self.started.set()
        assert self.go.wait(30)
        if not self.good.issuperset(texts):
            raise KeyError("a bug of the model")
        return Encoded(np.ones((len(texts), 1), dtype=np.float32), [1] * len(texts))

    encode = __call__


async def test_a_batch_that_fails_fails_every_request_that_waits_and_the_batcher_recovers() -> None:
    encode = FailingEncode()
    async with batching(encode, max_batch=1, max_waiting=100) as batcher, asyncio.timeout(30):
        first = asyncio.create_task(batcher.encode(["one"]))
        await asyncio.to_thread(encode.started.wait, 30)
        later = asyncio.create_task(batcher.encode(["two", "three"]))
        await asyncio.sleep(0)  # each new task runs until it waits
        encode.go.set()

        for request in (first, later):
            with pytest.raises(EncodingFailed, match="KeyError") as failed:
                await request
        assert (failed.value.status, failed.value.headers) == (503, {"Retry-After": "1"})
        with pytest.raises(WorkerFailing, match="the worker encoder batches failed 1 times in a row"):
            await batcher.check()

        encode.good = {"warm", "good"}
        assert (await batcher.encode(["good"])).tokens == [1]
        await batcher.check()


async def test_requests_that_wait_when_the_encoder_stops_get_an_error() -> None:
    encode = SlowEncode()
    async with batching(encode, max_batch=1, max_waiting=100) as batcher, asyncio.timeout(30):
        requests = [asyncio.create_task(batcher.encode([text])) for text in ("one", "two")]
        await asyncio.to_thread(encode.started.wait, 30)
        await batcher.close()

        for request in requests:
            with pytest.raises(EncodingFailed):
                await request


async def test_readiness_names_a_failing_batcher() -> None:
    encoder = FailingEncode()
    encoder.go.set()
    app = build_app(Settings(), name="failing", load=lambda: encoder, on_failure=lambda: None)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://encoder") as http,
    ):
        async with asyncio.timeout(30):
            while (await http.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - over HTTP there is no event
                await asyncio.sleep(0.01)

        failed = await http.post("/v1/embeddings", json={"model": "failing", "input": "text"})
        ready = await http.get("/readyz")

    assert (failed.status_code, failed.json()["error"]["code"]) == (503, "encoding_failed")
    assert (ready.status_code, ready.json()["status"]) == (503, "failing")
    assert "encoder batches" in ready.json()["problem"]
