"""This module reads server-sent events from a byte stream that the network cuts anywhere.

Source: the WHATWG HTML standard, section "Server-sent events". Ours differs in two points: an event keeps its bytes, so
that it can be passed on unchanged, and one that the end of the stream cut off before its blank line still counts.
"""

import re
from collections.abc import Iterator

from kernel.values import value

DONE = b"[DONE]"
MAX_EVENT_BYTES = 16 * 2**20

_LINE_END = rb"(?:\r\n|\n|\r(?!\n))"
_EVENT_END = re.compile(_LINE_END + _LINE_END)


class EventTooLong(Exception):
    """An event is longer than `MAX_EVENT_BYTES`: it is not an event stream."""


@value
class ServerSentEvent:
    """An event keeps its bytes beside its data.

    Attributes:
        raw: Its bytes, with the blank line that ends it.
        data: Its data, lines joined; None for a comment (a heartbeat) or a blank.
        name: Its type, `message` where it has none.
    """

    raw: bytes
    data: bytes | None
    name: str = "message"


class EventParser:
    """A parser holds the bytes of the event that is not complete yet."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that `chunk` completes.

        Raises:
            EventTooLong: When more than `MAX_EVENT_BYTES` arrive without an end.
        """
        text = self._rest + chunk
        start = 0
        for end in _EVENT_END.finditer(text):
            yield parse_event(text[start : end.end()])
            start = end.end()
        self._rest = text[start:]
        if len(self._rest) > MAX_EVENT_BYTES:
            raise EventTooLong(f"more than {MAX_EVENT_BYTES} bytes without the end of an event")

    def finish(self) -> Iterator[ServerSentEvent]:
        """Yield the event that the end of the stream cut off, if its data is there."""
        rest, self._rest = self._rest, b""
        if rest.strip():
            yield parse_event(rest.rstrip(b"\r\n") + b"\n\n")


def parse_event(raw: bytes) -> ServerSentEvent:
    r"""Return the event in `raw`, such as a `StreamEvent` has; a space after `data:` is optional.

    Example:
        >>> parse_event(b'data:{"a":1}\n\n').data
        b'{"a":1}'
        >>> parse_event(b'data: {"a":\r\ndata: 1}\r\n\r\n').data
        b'{"a":\n1}'
        >>> parse_event(b': heartbeat\n\n').data is None
        True
    """
    lines: list[bytes] = []
    name = "message"
    for line in raw.splitlines():
        field, _, text = line.partition(b":")
        text = text.removeprefix(b" ")
        if field == b"data":
            lines.append(text)
        elif field == b"event":
            name = text.decode(errors="replace")
    return ServerSentEvent(raw=raw, data=b"\n".join(lines) if lines else None, name=name)
