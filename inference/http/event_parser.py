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
LONGEST_END = len(b"\r\n\r\n")


class EventTooLong(Exception):
    """An event is longer than `MAX_EVENT_BYTES`."""


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
    """A parser holds the bytes of the event that is not complete yet; each byte is searched for an end once."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that `chunk` completes.

        Raises:
            EventTooLong: When an event has more than `MAX_EVENT_BYTES`, with its end or without.
        """
        text: bytes | bytearray = chunk
        searched = 0
        if self._rest:
            searched = max(0, len(self._rest) - (LONGEST_END - 1))
            self._rest += chunk
            text = self._rest
        start = 0
        for end in [found.end() for found in _EVENT_END.finditer(text, searched)]:
            _check_length(end - start)
            yield parse_event(bytes(text[start:end]))
            start = end
        _check_length(len(text) - start)
        if text is self._rest:
            del self._rest[:start]
        else:
            self._rest += text[start:]

    def finish(self) -> Iterator[ServerSentEvent]:
        """Yield the event that the end of the stream cut off, if its data is there."""
        rest, self._rest = bytes(self._rest), bytearray()
        if rest.strip():
            yield parse_event(rest.rstrip(b"\r\n") + b"\n\n")


def _check_length(count: int) -> None:
    if count > MAX_EVENT_BYTES:
        raise EventTooLong(f"an event is longer than {MAX_EVENT_BYTES} bytes")


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
