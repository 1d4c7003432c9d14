"""The HTTP face of the encoder."""

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

from encoder.batcher import Batcher
from encoder.errors import BadRequest, Refusal, StillLoading, TooLarge, Unauthenticated
from encoder.model import Encoder
from encoder.settings import Settings
from encoder.wire import check_dimensions, embeddings_reply, models_reply, parse_request

Load = Callable[[], Encoder]


class Engine:
    """The model and its batches, from the moment they are there.

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

    @property
    def is_ready(self) -> bool:
        """Whether the model is loaded."""
        return self._batcher is not None

    @property
    def encoder(self) -> Encoder:
        """The loaded model.

        Raises:
            StillLoading: It is not there yet.
        """
        if self._encoder is None:
            raise StillLoading(f"The model {self.name} is being loaded; try again in a moment")
        return self._encoder

    @property
    def batcher(self) -> Batcher:
        """The batches of the loaded model.

        Raises:
            StillLoading: It is not there yet.
        """
        if self._batcher is None:
            raise StillLoading(f"The model {self.name} is being loaded; try again in a moment")
        return self._batcher

    async def run(self, load: Load) -> None:
        """Load the model on the worker thread, then encode batches on it until cancelled."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="encoder")
        try:
            self._encoder = await asyncio.get_running_loop().run_in_executor(thread, load)
            self._batcher = Batcher(
                self._encoder.encode,
                thread,
                max_batch=self._settings.max_batch,
                max_waiting=self._settings.max_waiting,
            )
            _say(f"ready: {self.name} is loaded")
            await self._batcher.run()
        except (ImportError, OSError, ValueError, RuntimeError) as error:
            _say(f"the model {self.name} cannot be loaded: {error}")
            self._on_failure()
        finally:
            thread.shutdown(wait=False, cancel_futures=True)  # nobody waits for a batch, or for a model half loaded


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def build_app(settings: Settings, *, name: str, load: Load, on_failure: Callable[[], None]) -> FastAPI:
    """The encoder's application.

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

    app = FastAPI(title="metacog encoder", summary="Sentence vectors, in OpenAI's shapes.", lifespan=lifespan)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(HTTPException, _unknown)
    _add_probes(app, engine)
    _add_openai(app, engine, settings)
    return app


def _add_probes(app: FastAPI, engine: Engine) -> None:
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process lives."""
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        """200 when the model is loaded, 503 before."""
        if engine.is_ready:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "loading"}, 503, headers={"Retry-After": "1"})


def _add_openai(app: FastAPI, engine: Engine, settings: Settings) -> None:
    keyed = [Depends(partial(check_key, settings.key_digests))]

    @app.get("/v1/models", dependencies=keyed)
    async def models() -> dict[str, Any]:
        """The one model, with the dimension of its vectors and the tokens it reads of a text."""
        encoder = engine.encoder
        return models_reply(encoder.name, encoder.dimension, encoder.max_tokens)

    @app.post("/v1/embeddings", dependencies=keyed)
    async def embeddings(request: Request) -> Response:
        """Vectors of texts.

        `input` is a string or a list of strings; `encoding_format` is `float` (default) or `base64`. A text longer
        than the model reads is cut, as sentence-transformers does; `usage` counts the tokens that were read.
        """
        asked = parse_request(await read_body(request, settings.max_body_bytes), engine.name, settings)
        check_dimensions(asked.dimensions, engine.encoder.dimension)
        encoded = await engine.batcher.encode(asked.texts)
        body = embeddings_reply(encoded, engine.name, as_base64=asked.as_base64)
        return Response(body, media_type="application/json")


def check_key(digests: tuple[str, ...], request: Request) -> None:
    """Refuse a request without one of the keys, where any are configured.

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
    """Body of a request.

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


async def _refused(_: Request, refusal: Exception) -> Response:
    """Answer of a refusal."""
    assert isinstance(refusal, Refusal)
    return JSONResponse(refusal.as_openai(), refusal.status, headers=refusal.headers)


async def _unknown(_: Request, error: Exception) -> Response:
    """Answer for an unknown path or method, in the same shape."""
    assert isinstance(error, HTTPException)
    refusal = BadRequest(str(error.detail))
    return Response(orjson.dumps(refusal.as_openai()), error.status_code, media_type="application/json")
