"""This module builds the HTTP API of the encoder."""

import asyncio
import hashlib
import hmac
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import orjson
from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from chassis.errors import EXACT_STATUSES
from chassis.worker import WorkerFailing
from encoder.batcher import Batcher
from encoder.errors import BadRequest, EncoderError, StillLoading, TooLarge, Unauthenticated
from encoder.model import Encoder
from encoder.settings import Settings
from encoder.wire import check_dimensions, embeddings_reply, models_reply, parse_request
from kernel.errors import MetacogError

Load = Callable[[], Encoder]


class Engine:
    """The engine holds the model and its batcher, once they are loaded.

    Args:
        name: Name of the model.
        settings: Limits of the batches.
        on_failure: Called when the model cannot be loaded.
    """

    def __init__(self, name: str, settings: Settings, on_failure: Callable[[], None]) -> None:
        self.name = name
        self._settings = settings
        self._on_failure = on_failure
        self._encoder: Encoder | None = None
        self._batcher: Batcher | None = None

    async def check(self) -> None:
        """Return if the model is loaded and its batches are encoded.

        Raises:
            StillLoading: The model is not loaded yet.
            WorkerFailing: The model fails.
        """
        await self.batcher.check()

    @property
    def encoder(self) -> Encoder:
        """Return the loaded model.

        Raises:
            StillLoading: The model is not loaded yet.
        """
        if self._encoder is None:
            raise StillLoading(f"The model {self.name} is being loaded; try again in a moment")
        return self._encoder

    @property
    def batcher(self) -> Batcher:
        """Return the batcher of the loaded model.

        Raises:
            StillLoading: The model is not loaded yet.
        """
        if self._batcher is None:
            raise StillLoading(f"The model {self.name} is being loaded; try again in a moment")
        return self._batcher

    async def run(self, load: Load) -> None:
        """Load the model on a thread, then encode batches on it until cancelled."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="encoder")
        try:
            self._encoder = await asyncio.get_running_loop().run_in_executor(thread, load)
            self._batcher = Batcher(
                self._encoder.encode,
                thread,
                max_batch=self._settings.max_batch,
                max_waiting=self._settings.max_waiting,
            )
            self._batcher.start()
            _print(f"ready: {self.name} is loaded")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - it is the process's one task: without it, it serves nothing
            _print(f"the model {self.name} cannot be loaded: {error}")
            self._on_failure()
        finally:
            thread.shutdown(wait=False, cancel_futures=True)  # a batch, or a model half loaded, is of no use any more
            if self._batcher is not None:
                await self._batcher.close()


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def build_app(settings: Settings, *, name: str, load: Load, on_failure: Callable[[], None]) -> FastAPI:
    """Return the encoder's application.

    Args:
        settings: Limits and keys.
        name: Name of the model.
        load: Loads it; called once, on the worker thread, after the port is open.
        on_failure: Called when that fails.
    """
    engine = Engine(name, settings, on_failure)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(engine.run(load))
        yield
        task.cancel()
        await asyncio.wait({task})

    app = FastAPI(title="metacog encoder", summary="Sentence vectors, in OpenAI's shapes.", lifespan=lifespan)
    app.add_exception_handler(EncoderError, _reply_with_error)
    app.add_exception_handler(HTTPException, _reply_unknown)
    _add_probes(app, engine)
    _add_openai(app, engine, settings)
    return app


def _add_probes(app: FastAPI, engine: Engine) -> None:
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Return 200 while the process lives."""
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        """Return 200 when the model is loaded and works, else 503 with the reason."""
        try:
            await engine.check()
        except StillLoading:
            return JSONResponse({"status": "loading"}, 503, headers={"Retry-After": "1"})
        except WorkerFailing as failing:
            return JSONResponse({"status": "failing", "problem": failing.message}, 503, headers={"Retry-After": "1"})
        return JSONResponse({"status": "ready"})


def _add_openai(app: FastAPI, engine: Engine, settings: Settings) -> None:
    keyed = [Depends(partial(check_key, settings.key_digests))]

    @app.get("/v1/models", dependencies=keyed)
    async def models() -> dict[str, Any]:
        """List the one model, with the dimension of its vectors and the tokens it reads of a text."""
        encoder = engine.encoder
        return models_reply(encoder.name, encoder.dimension, encoder.max_tokens)

    @app.post("/v1/embeddings", dependencies=keyed)
    async def embeddings(request: Request) -> Response:
        """Return the vectors of texts.

        `input` is a string or a list of strings; `encoding_format` is `float` (default) or `base64`. A text longer
        than the model reads is cut, as sentence-transformers does; `usage` counts the tokens that were read.
        """
        fields = parse_request(await read_body(request, settings.max_body_bytes), engine.name, settings)
        check_dimensions(fields.dimensions, engine.encoder.dimension)
        encoded = await engine.batcher.encode(fields.texts)
        body = embeddings_reply(encoded, engine.name, as_base64=fields.as_base64)
        return Response(body, media_type="application/json")


def check_key(digests: tuple[str, ...], request: Request) -> None:
    """Check that a request has one of the keys, where any are configured.

    Raises:
        Unauthenticated: The bearer key is missing or unknown.
    """
    if not digests:
        return
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    digest = hashlib.sha256(key.strip().encode()).hexdigest()
    known = [hmac.compare_digest(digest, each) for each in digests]
    if scheme.lower() != "bearer" or not any(known):
        raise Unauthenticated("A valid key is needed: Authorization: Bearer <key>")


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request.

    Raises:
        TooLarge: It has more than `most` bytes; the rest is not read.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise TooLarge(f"The body is over {most} bytes; send fewer texts at once")
    if not body:
        raise BadRequest("The body is empty; it must be a JSON object with the fields model and input")
    return bytes(body)


def error_response(error: MetacogError, _: str) -> Response:
    """Return the answer that carries an error of a connection, in OpenAI's shape."""
    status = EXACT_STATUSES.get(error.reason, error.code.http)
    kind = "invalid_request_error" if status < 500 else "server_error"
    body = {"error": {"message": error.message, "type": kind, "param": None, "code": error.reason.lower()}}
    wait = error.metadata.get("retry_after_s")
    return JSONResponse(body, status, headers={} if wait is None else {"Retry-After": wait})


async def _reply_with_error(_: Request, error: Exception) -> Response:
    """Return the answer that carries an error."""
    assert isinstance(error, EncoderError)
    return JSONResponse(error.as_openai(), error.status, headers=error.headers)


async def _reply_unknown(_: Request, error: Exception) -> Response:
    """Return the answer for an unknown path or method, in the same shape."""
    assert isinstance(error, HTTPException)
    body = BadRequest(str(error.detail)).as_openai()
    return Response(orjson.dumps(body), error.status_code, media_type="application/json")
