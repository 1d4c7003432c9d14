"""The events of a run become one reply or a stream; an error of a run that had begun names it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from fastapi.responses import Response

from chassis.serving import edge
from chassis.serving.named_errors import named_error
from chassis.serving.rest import Json, Shape, problem
from chassis.serving.sse import HEARTBEAT, HEARTBEAT_S, ClosingStream, in_batches
from kernel.errors import MetacogError
from services.router.service.answering.values import PassedThrough, RunFinished, RunStarted
from services.router.service.gateway.chat_reply import error_body
from services.router.service.gateway.chat_stream import DONE, data
from services.router.service.runs.values import Run

RUN_ID = edge.RUN_ID.decode()

Events = AsyncGenerator[Any, None]
Chunks = AsyncGenerator[bytes, None]
Batches = AsyncGenerator[Sequence[bytes], None]
Document = Mapping[str, Any]


def _error_chunk(error: MetacogError) -> bytes:
    return data(error_body(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFormat:
    """A stream has this format.

    Attributes:
        write: Returns the pieces of the stream of a run, by its name, from its events.
        error: Returns the piece that reports an error after the first piece.
        end: What the stream ends with, also after an error.
        shape: The shape of an error before the first piece.
        headers: Further headers of the stream.
    """

    write: Callable[[str, Events], Chunks]
    error: Callable[[MetacogError], bytes] = _error_chunk
    end: bytes = DONE
    shape: Shape = error_body
    headers: Mapping[str, str] = field(default_factory=dict)


async def whole_reply(
    events: Events,
    write: Callable[[Run, Document | None], Document],
    shape: Shape,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Response:
    """Return a run as one reply.

    Args:
        events: What happens in the run.
        write: Returns the reply of the run, given the document that a model server replied, if one did.
        shape: The shape of an error.
        headers: Further headers of the reply.
    """
    document: Document | None = None
    run: Run | None = None
    started = await anext(events)
    try:
        async with aclosing(events) as items:
            async for event in items:
                if isinstance(event, PassedThrough):
                    document = event.document
                elif isinstance(event, RunFinished):
                    run = event.run
    except Exception as error:  # noqa: BLE001 - the edge: what is no MetacogError is a bug, logged and named
        return _error_response(error, started, shape)
    assert run is not None
    return Json(write(run, document), headers={RUN_ID: run.run_id, **headers})


async def streamed_reply(events: Events, form: StreamFormat) -> Response:
    """Return a run as a stream; an error before its first piece is an ordinary error response, a later one is inside.

    The stream begins, with a heartbeat, when its first piece takes long.
    """
    started = await anext(events)
    batches = in_batches(form.write(started.run_id, events), HEARTBEAT_S)
    try:
        first = await anext(batches, ())
    except asyncio.CancelledError:
        with suppress(RuntimeError):  # the writer reads them, and closes them itself
            await events.aclose()
        raise
    except Exception as error:  # noqa: BLE001 - the edge: what is no MetacogError is a bug, logged and named
        return _error_response(error, started, form.shape)
    headers = {RUN_ID: started.run_id, "cache-control": "no-store", **form.headers}
    stream = completed_stream(_resumed(first, batches), error_piece=form.error, end=form.end)
    return ClosingStream(stream, batches.aclose, headers=headers)


async def completed_stream(
    batches: Batches, *, error_piece: Callable[[MetacogError], bytes] = _error_chunk, end: bytes = DONE
) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of a stream, those of a batch together, and its end mark.

    An empty batch is a heartbeat; a late error becomes a piece of its own.
    """
    try:
        async with aclosing(batches):
            async for batch in batches:
                yield b"".join(batch) or HEARTBEAT
    except Exception as error:  # noqa: BLE001 - the edge: the status is sent, so the error goes into the stream
        yield error_piece(named_error(error))
    if end:
        yield end


async def _resumed(first: Sequence[bytes], batches: Batches) -> Batches:
    """Yield all batches, with the one that was read already."""
    async with aclosing(batches):
        yield first
        async for batch in batches:
            yield batch


def _error_response(error: Exception, started: RunStarted, shape: Shape) -> Response:
    """Return the error of a run that had started."""
    reply = problem(named_error(error), shape)
    reply.headers[RUN_ID] = started.run_id
    return reply
