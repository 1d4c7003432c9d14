"""A background worker that ends begins again, one that hangs is found, and no request waits for it for ever."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Protocol

import httpx
import numpy as np
import pytest
from prometheus_client import REGISTRY

from chassis.worker import BackgroundWorker, WorkerFailing, round_within
from chassis.worker.retention import Retention
from encoder.app import build_app
from encoder.batcher import Batcher
from encoder.errors import EncodingFailed
from encoder.model import Encoded
from encoder.settings import Settings
from services.delegation.service.experience.recording import ExperienceRecorder
from services.delegation.service.recalibration import Recalibrator
from services.router.service.assessment.kinds import KindsInForce
from services.router.service.calibration.recalibration import Calibrator
from services.router.service.feedback.outbox import Outbox, OutboxBacklog
from tests.support.stack import until

WITHIN_S = 30.0


class Part(Protocol):
    """A part of a service with a background worker."""

    def start(self) -> None: ...

    async def check(self) -> None: ...

    async def close(self) -> None: ...


class Panic(BaseException):
    """What a library in another language raises when it breaks: no `Exception`."""


def restarts(worker: str) -> float:
    return REGISTRY.get_sample_value("metacog_worker_failures_total", {"worker": worker}) or 0.0


async def problem_of(part: Any) -> str:  # noqa: ANN401
    try:
        await part.check()
    except WorkerFailing as error:
        return error.message
    return ""


async def is_ok(part: Any) -> bool:  # noqa: ANN401
    return not await problem_of(part)


class Model:
    """A model that a test lets break or hang."""

    name, dimension, max_tokens = "breakable", 1, 256

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.go, self.began = threading.Event(), threading.Event()
        self.go.set()

    def encode(self, texts: list[str]) -> Encoded:
        """Return one number for each text."""
        self.began.set()
        assert self.go.wait(WITHIN_S)
        if self.error is not None:
            raise self.error
        return Encoded(np.ones((len(texts), 1), dtype=np.float32), [1] * len(texts))


async def test_a_worker_that_a_panic_ends_begins_again() -> None:
    errors, is_idle = [Panic("thread panicked")], asyncio.Event()

    async def work(stop: asyncio.Event) -> None:
        if errors:
            raise errors.pop()
        is_idle.set()
        await stop.wait()

    worker = BackgroundWorker("panicking", work, first_pause_s=0.0)
    before = restarts("panicking")
    worker.start()
    async with asyncio.timeout(WITHIN_S):
        await is_idle.wait()
    await worker.close()

    assert restarts("panicking") == before + 1


@asynccontextmanager
async def batching(within_s: float) -> AsyncIterator[tuple[Batcher, Model]]:
    """Run a batcher on a model that a test lets break or hang."""
    model = Model()
    with ThreadPoolExecutor(1) as thread:
        batcher = Batcher(model.encode, thread, max_batch=4, max_waiting=100, within_s=within_s)
        batcher.start()
        try:
            yield batcher, model
        finally:
            model.go.set()
            await batcher.close()


async def test_the_batches_of_the_encoder_go_on_after_their_task_was_ended() -> None:
    async with batching(within_s=WITHIN_S) as (encoding, model), asyncio.timeout(WITHIN_S):
        model.go.clear()
        under_way = asyncio.create_task(encoding.encode(["one"]))
        assert await asyncio.to_thread(model.began.wait, WITHIN_S)
        waiting = asyncio.create_task(encoding.encode(["two"]))
        await asyncio.sleep(0)  # it waits now
        (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "encoder batches"]
        before = restarts("encoder batches")
        task.cancel()
        for request in (under_way, waiting):
            with pytest.raises(EncodingFailed, match="CancelledError"):
                await request
        problem = await problem_of(encoding)
        model.go.set()
        await until(lambda: is_ok(encoding))
        answer = await encoding.encode(["three"])

    assert problem.startswith("the worker encoder batches failed 1 times in a row, last with CancelledError")
    assert restarts("encoder batches") == before + 1
    assert answer.tokens == [1]


async def test_a_batch_that_hangs_is_an_error_at_once_for_whoever_comes_and_is_over_when_it_ends() -> None:
    async with batching(within_s=0.2) as (encoding, model), asyncio.timeout(WITHIN_S):
        model.go.clear()
        with pytest.raises(EncodingFailed, match=r"a round took longer than 0\.2 s, and probably hangs"):
            await encoding.encode(["one"])
        with pytest.raises(EncodingFailed, match="probably hangs"):
            await encoding.encode(["two"])
        problem = await problem_of(encoding)
        model.go.set()
        await until(lambda: is_ok(encoding))

    assert "RoundTooLong" in problem


async def test_an_encoder_whose_model_panics_says_so_and_recovers() -> None:
    model = Model()
    app = build_app(Settings(), name=model.name, load=lambda: model, on_failure=lambda: None)
    asked = {"model": model.name, "input": "text"}
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://encoder") as http,
        asyncio.timeout(WITHIN_S),
    ):

        async def is_ready() -> bool:
            return (await http.get("/readyz")).status_code == 200

        await until(is_ready)
        model.error = Panic("index out of bounds")
        failed = await http.post("/v1/embeddings", json=asked)
        ready = await http.get("/readyz")
        model.error = None
        await until(is_ready)
        answered = await http.post("/v1/embeddings", json=asked)

    assert (failed.status_code, failed.headers["Retry-After"]) == (503, "1")
    assert "Panic" in failed.json()["error"]["message"]
    assert (ready.status_code, "Panic" in ready.json()["problem"]) == (503, True)
    assert answered.status_code == 200


async def test_a_model_that_cannot_be_loaded_ends_the_encoder_whatever_the_error() -> None:
    has_failed = asyncio.Event()

    def load() -> Any:  # noqa: ANN401
        raise Panic("no such tensor")

    app = build_app(Settings(), name="none", load=load, on_failure=has_failed.set)
    async with app.router.lifespan_context(app), asyncio.timeout(WITHIN_S):
        await has_failed.wait()


class Hanging:
    """A store that never answers."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        async def never(*_: object, **__: object) -> None:
            await asyncio.Event().wait()

        return never


LIMIT_S = 0.05


def of_old_records(store: Any) -> Part:  # noqa: ANN401
    return Retention("runs", store, days=1, batch_within_s=LIMIT_S)


def of_kinds(store: Any) -> Part:  # noqa: ANN401
    return KindsInForce(store, None, round_within_s=LIMIT_S)


def of_messages(store: Any) -> Part:  # noqa: ANN401
    async def backlog(_kinds: object) -> OutboxBacklog:
        return OutboxBacklog(count=0, oldest=None)

    store.backlog = backlog  # readiness asks for it
    return Outbox(store, {}, round_within_s=LIMIT_S)


def of_questions(store: Any) -> Part:  # noqa: ANN401
    return ExperienceRecorder(store, store, batch_within_s=LIMIT_S)


def of_maps(store: Any) -> Part:  # noqa: ANN401
    return Calibrator(store, refresh_s=0.0, pause_s=0.0, round_within_s=LIMIT_S)


def of_agents(store: Any) -> Part:  # noqa: ANN401
    return Recalibrator(store, interval_s=0.0, round_within_s=LIMIT_S)


@pytest.mark.parametrize("build", [of_old_records, of_kinds, of_messages, of_questions, of_maps, of_agents])
async def test_a_round_that_hangs_is_found(build: Callable[[Any], Part]) -> None:
    part = build(Hanging())
    part.start()

    async with asyncio.timeout(WITHIN_S):
        await until(lambda: is_down(part))
    problem = await problem_of(part)
    await part.close()

    assert "RoundTooLong: a round took longer than 0.05 s, and probably hangs" in problem


async def is_down(part: Any) -> bool:  # noqa: ANN401
    return not await is_ok(part)


async def test_a_time_limit_of_the_work_itself_is_no_hung_round() -> None:
    with pytest.raises(TimeoutError):
        async with round_within(WITHIN_S):
            raise TimeoutError
