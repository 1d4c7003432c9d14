"""An open stream is a streamed reply whose status was 200."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

from inference.errors import BackendUnavailable, InvalidReply
from inference.http import event_parser
from inference.http.error_replies import error_message, request_error
from inference.http.timing import DeadlineScope
from inference.http.transport import LostMidReply, MalformedReply, TransportFailure
from inference.json_fields import parse_object
from inference.spend import Spend

# After `[DONE]` only the end of the body can come; reading it lets the connection be used again.
END_WAIT_S = 0.05


class OpenStream:
    """An open stream yields the events of one reply; it holds a slot and a connection until it is closed.

    Args:
        backend: Name for messages.
        chunks: The body.
        parser: Cuts it into events.
        spend: Whose deadline bounds each read.
        resources: What is released on closing.
    """

    def __init__(
        self,
        backend: str,
        chunks: AsyncIterator[bytes],
        parser: event_parser.EventParser,
        spend: Spend,
        resources: AsyncExitStack,
    ) -> None:
        self._backend = backend
        self._chunks = chunks
        self._parser = parser
        self._spend = spend
        self._resources = resources

    async def events(self) -> AsyncIterator[event_parser.ServerSentEvent]:
        """Yield the events up to `[DONE]` or the end of the body.

        Raises:
            BackendUnavailable: When the connection breaks, or the backend reports a failure of its own.
            InvalidReply: When what comes is no body of HTTP, or longer than is read.
            RequestRejected, InvalidCall, PromptTooLong: When it finds, this late, the request to be wrong.
            DeadlineExceeded: When the request's time is over.
        """
        while (chunk := await self._next()) is not None:
            for event in self._parse(chunk):
                if event.data == event_parser.DONE:
                    await self._read_to_end()
                    yield event
                    return
                self._check(event)
                yield event
        for event in self._parser.finish():
            self._check(event)
            yield event

    async def aclose(self) -> None:
        """Release the slot, and the connection or abort it."""
        await self._resources.aclose()

    async def _next(self) -> bytes | None:
        try:
            async with DeadlineScope(self._spend, self._backend):
                return await anext(self._chunks, None)
        except LostMidReply as failure:
            raise self.interrupted(str(failure)) from failure
        except MalformedReply as failure:
            raise self._invalid(str(failure)) from failure

    def _parse(self, chunk: bytes) -> list[event_parser.ServerSentEvent]:
        try:
            return list(self._parser.feed(chunk))
        except event_parser.EventTooLong as invalid:
            raise self._invalid(str(invalid)) from invalid

    async def _read_to_end(self) -> None:
        with suppress(TimeoutError, TransportFailure):
            async with asyncio.timeout(END_WAIT_S):
                while await anext(self._chunks, None) is not None:
                    pass

    def _check(self, event: event_parser.ServerSentEvent) -> None:
        """Raise if `event` reports an error: vLLM sends those that come late as data, others by the event's name."""
        if event.data is None or not (event.name == "error" or event.data.startswith(b'{"error"')):
            return
        error = parse_object(event.data).get("error")
        status = error.get("code") if isinstance(error, dict) else None
        if isinstance(status, int) and 400 <= status < 500:
            raise request_error(self._backend, status, event.data)
        raise self.interrupted(error_message(event.data))

    def _invalid(self, problem: str) -> InvalidReply:
        return InvalidReply(f"backend {self._backend} sent an invalid stream: {problem}", backend=self._backend)

    def interrupted(self, reason: str) -> BackendUnavailable:
        """Return the error for a stream that did not end well."""
        return BackendUnavailable(
            f"backend {self._backend} broke off in the middle of its stream: {reason}", backend=self._backend
        )
