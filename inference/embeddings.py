"""This module is the client of an embeddings server."""

import asyncio
import base64
import random
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import orjson
from prometheus_client import Counter, Histogram

from chassis.serving.auth import bearer
from chassis.telemetry import SECONDS, is_sending, past_span, trace_headers
from inference.accounting.reports import OK, outcome
from inference.config import BreakerSettings
from inference.errors import EncoderUnavailable, InvalidReply
from inference.http.breaker import Breaker
from inference.http.error_replies import error_of, retry_after_s
from inference.http.http_transport import HttpTransport
from inference.http.transport import HttpReply, Transport, TransportFailure
from inference.json_fields import objects_of, parse_object
from kernel.values import value

Vectors = np.ndarray[tuple[int, int], np.dtype[np.float32]]

# Statuses of a server that may answer the same request later.
BUSY = frozenset({429, 502, 503, 504})

# What reading a reply of another form than expected may raise.
_UNEXPECTED_FORM = (ValueError, LookupError, TypeError, AttributeError)


def read_vectors(body: bytes, count: int) -> Vectors | None:
    """Return the vectors in the order of their texts, given as lists of numbers or as base64 of 32-bit floats.

    Returns:
        `count` rows of one length, all finite; None when the body holds anything else.
    """
    try:
        data = sorted(orjson.loads(body)["data"], key=lambda each: int(each["index"]))
        vectors = np.array([_vector(each["embedding"]) for each in data], dtype=np.float32)
    except _UNEXPECTED_FORM:
        return None
    if vectors.ndim != 2 or len(vectors) != count or not vectors.size or not np.isfinite(vectors).all():
        return None
    checked: Vectors = vectors
    return checked


def _vector(given: Any) -> Any:  # noqa: ANN401 - a list of numbers, or its base64
    return np.frombuffer(base64.b64decode(given), dtype="<f4") if isinstance(given, str) else given


def read_models(body: bytes) -> Sequence[str]:
    """Return the names of the models that a server lists; none when the body holds anything else."""
    try:
        return [str(model["id"]) for model in orjson.loads(body)["data"]]
    except _UNEXPECTED_FORM:
        return []


def error_summary(body: bytes) -> str:
    """Return the message of an error reply, on one line of at most 200 characters."""
    try:
        message = str(orjson.loads(body)["error"]["message"])
    except _UNEXPECTED_FORM:
        message = body.decode(errors="replace")
    return " ".join(message.split())[:200]


EMBEDDED = Counter("metacog_embedded_texts_total", "Texts that the encoder turned into vectors.")
EMBEDDING_SECONDS = Histogram("metacog_embedding_seconds", "Time of one request to the encoder [s].", buckets=SECONDS)

OPERATION = "embeddings"
RETRIES = 3
FIRST_PAUSE_S = 0.05
CONNECT_S = 2.0
IDLE_S = 4.0  # below the time after which servers close an idle connection
SILENT_S = 10.0  # without an answer for so long, the encoder has failed; less may be a caller's own limit
MAX_BATCHES = 2  # batches under way, so that the encoder never waits for the next one


@value
class Encoder:
    """An encoder turns texts into vectors; those of different encoders cannot be compared.

    Attributes:
        name: Name of the model.
        dimension: Length of its vectors [count, >= 1].
    """

    name: str
    dimension: int


@value
class Embedded:
    """An embedded batch holds the vectors of some texts.

    Attributes:
        encoder: The encoder of the vectors.
        vectors: One row a text, in their order.
    """

    encoder: Encoder
    vectors: Vectors


class Embeddings:
    """The client calls one embeddings server, over one pool of connections.

    Args:
        url: Base URL, with its /v1.
        model: Name of the model; empty: the first that the server lists.
        key: Bearer key; empty for none.
        batch: Texts in one request [count, >= 1].
        max_in_flight: Requests under way at once; further ones wait [count, >= 1].
        transport: HTTP; our own unless given.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str = "",
        key: str = "",
        batch: int = 32,
        max_in_flight: int = 64,
        transport: Transport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._configured_model = model
        self._headers = {"content-type": "application/json", **bearer(key)}
        self._batch = batch
        self._slots = asyncio.Semaphore(max_in_flight)
        self._transport = transport or HttpTransport(connect_timeout_s=CONNECT_S, idle_timeout_s=IDLE_S)
        self._known: Encoder | None = None
        self._listed_model = ""
        self._breaker = Breaker("encoder", BreakerSettings(), time.monotonic, address=self.url)

    async def name(self) -> str:
        """Return the name of the model, which is looked up where it is not configured.

        Raises:
            EncoderUnavailable: When the encoder cannot be reached, or reports an error.
        """
        return await self._model()

    async def encoder(self, *, timeout_s: float) -> Encoder:
        """Return the encoder in use; it is looked up once, and again when a reply comes from another.

        Raises:
            EncoderUnavailable: When it cannot be reached, does not answer in time, or reports an error.
        """
        if self._known is None:
            return (await self.embed(["dimension"], timeout_s=timeout_s)).encoder
        return self._known

    async def embed(self, texts: Sequence[str], *, timeout_s: float) -> Embedded:
        """Return the vectors of `texts`, which must not be empty.

        Args:
            texts: The texts; what an encoder does not read of a long one is not in its vector.
            timeout_s: Time that all of it may take, repetitions and waiting included [s].

        Raises:
            EncoderUnavailable: When the encoder cannot be reached, does not answer in time, or reports an error.
        """
        until = asyncio.get_running_loop().time() + timeout_s
        with self._traced(len(texts)):
            try:
                async with asyncio.timeout_at(until):
                    parts = [await self._embedded(part, until) for part in self._parts(texts)]
            except TimeoutError as error:
                message = f"the encoder at {self.url} did not answer within {timeout_s:.3g} s"
                raise EncoderUnavailable(message, url=self.url) from error
            return Embedded(encoder=_one_encoder(parts), vectors=np.concatenate([part.vectors for part in parts]))

    async def forward(self, body: Mapping[str, object], *, timeout_s: float) -> Mapping[str, object]:
        """Pass on a request for embeddings as its caller wrote it, but for the name of the model; return the reply.

        Args:
            body: The request.
            timeout_s: Time that it may take, repetitions and waiting included [s].

        Raises:
            CircuitOpen: While the encoder has failed too often.
            EncoderUnavailable: When it cannot be reached, does not answer in time, or reports an error of its own.
            InvalidReply: When it replies no JSON object, or an empty one.
            InferenceError: When it finds the request wrong, or is overloaded.
        """
        until = asyncio.get_running_loop().time() + timeout_s
        with self._breaker.admit() as permit, self._traced(_texts_in(body)):
            try:
                async with asyncio.timeout_at(until):
                    model = await self._model()
                    reply = await self._post(orjson.dumps({**body, "model": model}), until)
                if reply.status >= 500 or reply.status in (401, 403):
                    raise self._status_error(reply)
            except EncoderUnavailable:
                permit.record_failure()
                raise
            except TimeoutError as error:
                if timeout_s >= SILENT_S:
                    permit.record_failure()
                message = f"the encoder at {self.url} did not answer within {timeout_s:.3g} s"
                raise EncoderUnavailable(message, url=self.url) from error
            permit.record_success()
            if reply.status == 404 and not self._configured_model:
                self._listed_model = ""
            if reply.status != 200:
                raise error_of("encoder", model, reply)
            return self._document(reply)

    def _document(self, reply: HttpReply) -> Mapping[str, object]:
        document = parse_object(reply.body)
        if not document:
            raise InvalidReply(f"the encoder at {self.url} replied something else than a JSON object", url=self.url)
        EMBEDDED.inc(len(objects_of(document.get("data"))))
        return document

    async def batches(self, texts: Sequence[str], *, timeout_s: float) -> AsyncGenerator[Embedded, None]:
        """Return the vectors of `texts`, a batch at a time and in order; closing the generator stops the work.

        Args:
            texts: The texts.
            timeout_s: Time that one batch may take [s].

        Raises:
            EncoderUnavailable: When the encoder cannot be reached, does not answer in time, or reports an error.
        """
        under_way: deque[asyncio.Task[Embedded]] = deque()
        try:
            for part in self._parts(texts):
                under_way.append(asyncio.create_task(self.embed(part, timeout_s=timeout_s)))
                if len(under_way) == MAX_BATCHES:
                    yield await under_way.popleft()
            while under_way:
                yield await under_way.popleft()
        finally:
            for task in under_way:
                task.cancel()
            if under_way:
                await asyncio.wait(under_way)

    async def check(self) -> None:
        """Return if the encoder answers.

        Raises:
            EncoderUnavailable: When it does not.
        """
        await self._model_names()

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    def _parts(self, texts: Sequence[str]) -> Sequence[Sequence[str]]:
        return [texts[at : at + self._batch] for at in range(0, len(texts), self._batch)]

    async def _embedded(self, texts: Sequence[str], until: float) -> Embedded:
        """Return the vectors of one batch, by a model that is looked up again if the server no longer has it."""
        model = await self._model()
        reply = await self._post(_batch_body(model, texts), until)
        if reply.status == 404 and not self._configured_model:
            self._listed_model = ""
            model = await self._model()
            reply = await self._post(_batch_body(model, texts), until)
        if reply.status != 200:
            raise self._status_error(reply)
        vectors = read_vectors(reply.body, len(texts))
        if vectors is None:
            raise EncoderUnavailable(f"the encoder at {self.url} answered with something else than vectors")
        EMBEDDED.inc(len(texts))
        self._known = Encoder(name=model, dimension=vectors.shape[1])
        return Embedded(encoder=self._known, vectors=vectors)

    async def _model(self) -> str:
        if not self._configured_model and not self._listed_model:
            self._listed_model = (await self._model_names())[0]
        return self._configured_model or self._listed_model

    async def _model_names(self) -> Sequence[str]:
        try:
            reply = await self._transport.get(f"{self.url}/models", self._with_trace())
        except TransportFailure as failure:
            raise self._unreachable(failure) from failure
        if reply.status != 200:
            raise self._status_error(reply)
        names = read_models(reply.body)
        if not names:
            raise EncoderUnavailable(f"{self.url}/models names no model; set METACOG_ENCODER_MODEL", url=self.url)
        return names

    async def _post(self, body: bytes, until: float) -> HttpReply:
        """Return the reply to one request; a lost or rejected one is sent again while time is left."""
        async with self._slots:
            for attempt in range(RETRIES):
                pause_s = random.uniform(0, FIRST_PAUSE_S * 2**attempt)
                try:
                    reply = await self._send(body)
                    pause_s += retry_after_s(reply) or 0.0
                except TransportFailure as failure:
                    if asyncio.get_running_loop().time() + pause_s >= until:
                        raise self._unreachable(failure) from failure
                else:
                    if reply.status not in BUSY or asyncio.get_running_loop().time() + pause_s >= until:
                        return reply
                await asyncio.sleep(pause_s)
            try:
                return await self._send(body)
            except TransportFailure as failure:
                raise self._unreachable(failure) from failure

    async def _send(self, body: bytes) -> HttpReply:
        with EMBEDDING_SECONDS.time():
            async with self._transport.stream(f"{self.url}/embeddings", self._with_trace(), body) as reply:
                whole = b"".join([chunk async for chunk in reply.chunks])
        return HttpReply(status=reply.status, headers=reply.headers, body=whole)

    @contextmanager
    def _traced(self, texts: int) -> Iterator[None]:
        """Add a span of the current trace around one call, whatever it needs, where traces are sent."""
        began, failed = time.monotonic(), None
        try:
            yield
        except BaseException as error:
            failed = error
            raise
        finally:
            if is_sending():
                self._add_span(time.monotonic() - began, texts, outcome(failed))

    def _add_span(self, seconds: float, texts: int, ended: str) -> None:
        model = self._configured_model or self._listed_model
        attributes: dict[str, str | int] = {
            "gen_ai.operation.name": OPERATION,
            "gen_ai.provider.name": "openai",  # whose protocol it speaks
            "metacog.backend": "encoder",
            "metacog.texts": texts,
            **({"gen_ai.request.model": model} if model else {}),
        }
        past_span(f"{OPERATION} {model}".strip(), seconds, attributes, "" if ended == OK else ended)

    def _with_trace(self) -> Mapping[str, str]:
        return {**self._headers, **trace_headers()}

    def _unreachable(self, failure: TransportFailure) -> EncoderUnavailable:
        return EncoderUnavailable(f"the encoder at {self.url} cannot be reached: {failure}", url=self.url)

    def _status_error(self, reply: HttpReply) -> EncoderUnavailable:
        hint = "; set METACOG_ENCODER_API_KEY" if reply.status in (401, 403) else ""
        message = f"the encoder at {self.url} answered {reply.status}: {error_summary(reply.body)}{hint}"
        return EncoderUnavailable(message, url=self.url, status=str(reply.status))


def _batch_body(model: str, texts: Sequence[str]) -> bytes:
    return orjson.dumps({"model": model, "input": list(texts), "encoding_format": "base64"})


def _texts_in(body: Mapping[str, object]) -> int:
    """Return the texts of a request, which may also be numbers of tokens [count]."""
    given = body.get("input")
    return len(given) if isinstance(given, list) and not all(isinstance(one, int) for one in given) else 1


def _one_encoder(parts: Sequence[Embedded]) -> Encoder:
    encoders = {(part.encoder.name, part.encoder.dimension) for part in parts}
    if len(encoders) != 1:
        raise EncoderUnavailable("the encoder changed while texts were being embedded; try again")
    return parts[0].encoder
