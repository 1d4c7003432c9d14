"""What a server may send that is no reply, byte for byte: each gives one named error, no hang and no mixed reply.

The table is what test suites of proxies send: ambiguous lengths, wrong chunks, wrong heads, replies without end, and
replies that were not requested. Every row holds for whole and for streamed replies, and after it the next request gets
its own answer over another connection.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass

import pytest

from inference.backend_client import Backend
from inference.config import Retries
from inference.http import event_parser
from kernel.errors import MetacogError
from tests.integration.inference.support import HELLO, MakeBackend, read_forwarded, spend_of
from tests.support.hostile.raw_server import RawServer, chunked, completion, events, http

LENGTH, CHUNKS = "Content-Length", "Transfer-Encoding"
WAYS = ("whole", "streamed")
INVALID, LOST = "BACKEND_REPLY_INVALID", "BACKEND_UNAVAILABLE"
MOST_BYTES = 300_000
ANSWER, NEXT = "first answer", "second answer"


@dataclass(frozen=True)
class Row:
    """A reply, as bytes around a good body, and what it must give.

    Attributes:
        name: What is wrong with it.
        reply: The bytes.
        says: A pattern that the error's message holds.
        reason: The error's reason.
        hangs_up: Whether the connection then ends.
        framed: Whether the reply ends where it says, so that the connection may be used again.
    """

    name: str
    reply: Callable[[bytes], bytes]
    says: str
    reason: str = INVALID
    hangs_up: bool = False
    framed: bool = False


def head(*lines: str, status: str = "HTTP/1.1 200 OK") -> bytes:
    """A head of these lines, which is not checked."""
    return "\r\n".join([status, *lines]).encode("latin-1") + b"\r\n\r\n"


def with_head(*lines: str, status: str = "HTTP/1.1 200 OK") -> Callable[[bytes], bytes]:
    """A good body of the right length after this head; `{n}` in a line is its length."""

    def reply(body: bytes) -> bytes:
        return head(*(line.format(n=len(body)) for line in lines), status=status) + body

    return reply


def in_chunks(*lines: str, status: str = "HTTP/1.1 200 OK") -> Callable[[bytes], bytes]:
    """A good body in chunks after this head."""
    return lambda body: head(*(line.format(n=len(body)) for line in lines), status=status) + chunked(body)


def one_chunk(size: str, end: bytes = b"\r\n0\r\n\r\n") -> Callable[[bytes], bytes]:
    """A good body in one chunk, whose size is written so; `{n:x}` is the right one."""
    return lambda body: head(f"{CHUNKS}: chunked") + size.format(n=len(body)).encode("latin-1") + body + end


FRAMING = [
    Row("length and chunks", in_chunks(f"{LENGTH}: {{n}}", f"{CHUNKS}: chunked"), "no HTTP"),
    Row("chunks and length", in_chunks(f"{CHUNKS}: chunked", f"{LENGTH}: {{n}}"), "no HTTP"),
    Row("two lengths", with_head(f"{LENGTH}: {{n}}", f"{LENGTH}: 3"), "no HTTP"),
    Row("one length twice", with_head(f"{LENGTH}: {{n}}", f"{LENGTH}: {{n}}"), "no HTTP"),
    Row("a list of lengths", with_head(f"{LENGTH}: {{n}}, {{n}}"), "no HTTP"),
    Row("a length with a sign", with_head(f"{LENGTH}: +{{n}}"), "no HTTP"),
    Row("a negative length", with_head(f"{LENGTH}: -1"), "no HTTP"),
    Row("a hexadecimal length", with_head(f"{LENGTH}: 0x{{n:x}}"), "no HTTP"),
    Row("two numbers as length", with_head(f"{LENGTH}: {{n}} {{n}}"), "no HTTP"),
    Row("an empty length", with_head(f"{LENGTH}:"), "no HTTP"),
    Row("a length beyond 64 bits", with_head(f"{LENGTH}: 18446744073709551999"), "no HTTP"),
    Row("a length over the bound", with_head(f"{LENGTH}: 9000000000"), "announces 9000000000 bytes.*300000"),
    Row("an unknown coding", in_chunks(f"{CHUNKS}: xchunked"), "transfer-encoding 'xchunked'", hangs_up=True),
    Row("identity as coding", with_head(f"{CHUNKS}: identity"), "transfer-encoding 'identity'", hangs_up=True),
    Row("a coding after chunks", in_chunks(f"{CHUNKS}: chunked, gzip"), "'chunked, gzip'", hangs_up=True),
    Row("a coding before chunks", in_chunks(f"{CHUNKS}: gzip, chunked"), "'gzip, chunked'"),
    Row("chunks twice", in_chunks(f"{CHUNKS}: chunked", f"{CHUNKS}: chunked"), "'chunked, chunked'"),
    Row("chunks in HTTP/1.0", in_chunks(f"{CHUNKS}: chunked", status="HTTP/1.0 200 OK"), "HTTP/1.0"),
]

CHUNK = [
    Row("a size with 0x", one_chunk("0x{n:x}\r\n"), "no HTTP"),
    Row("a size with a sign", one_chunk("+{n:x}\r\n"), "no HTTP"),
    Row("a negative size", one_chunk("-{n:x}\r\n"), "no HTTP"),
    Row("a size after a blank", one_chunk(" {n:x}\r\n"), "no HTTP"),
    Row("a size before a blank", one_chunk("{n:x} \r\n"), "no HTTP"),
    Row("no size", one_chunk("\r\n"), "no HTTP"),
    Row("a size beyond 64 bits", one_chunk("FFFFFFFFFFFFFFFFF\r\n"), "no HTTP"),
    Row("a size that ends with LF", one_chunk("{n:x}\n"), "no HTTP"),
    Row("a size that ends with CR", one_chunk("{n:x}\r"), "no HTTP"),
    Row("an extension with a line break", one_chunk('{n:x};a="b\r\n"\r\n'), "no HTTP"),
]

HEADS = [
    Row("lines that end with LF", lambda body: http(body).replace(b"\r\n", b"\n"), "no HTTP"),
    Row("lines that end with CR", lambda body: http(body).replace(b"\r\n", b"\r"), "no HTTP"),
    Row("a folded header", with_head("a: b", " c", f"{LENGTH}: {{n}}"), "no HTTP"),
    Row("a folded length", with_head(f"{LENGTH}: {{n}}", "\t0"), "no HTTP"),
    Row("a blank before the first header", with_head(" a: b", f"{LENGTH}: {{n}}"), "no HTTP"),
    Row("a blank before the colon", with_head(f"{LENGTH} : {{n}}"), "no HTTP"),
    Row("a header without colon", with_head("nonsense", f"{LENGTH}: {{n}}"), "no HTTP"),
    Row("a header without name", with_head(": x", f"{LENGTH}: {{n}}"), "no HTTP"),
    Row("a NUL in a header", with_head("a: b\0c", f"{LENGTH}: {{n}}"), "no HTTP"),
    Row("a CR in a header", with_head("a: b\rc", f"{LENGTH}: {{n}}"), "no HTTP"),
    Row("a name that is not ASCII", with_head("\xe4: x", f"{LENGTH}: {{n}}"), "no HTTP"),
    Row("HTTP/0.9", with_head(f"{LENGTH}: {{n}}", status="HTTP/0.9 200 OK"), "HTTP/0.9"),
    Row("HTTP/2.0", with_head(f"{LENGTH}: {{n}}", status="HTTP/2.0 200 OK"), "HTTP/2.0"),
    Row("HTTP/1.10", with_head(f"{LENGTH}: {{n}}", status="HTTP/1.10 200 OK"), "no HTTP"),
    Row("another protocol", with_head(f"{LENGTH}: {{n}}", status="ICY 200 OK"), "no HTTP"),
    Row("a greeting of SSH", lambda _: b"SSH-2.0-OpenSSH_9.2\r\n", "no HTTP"),
    Row("frames of HTTP/2", lambda _: bytes.fromhex("000012040000000000"), "no HTTP"),
    Row("a request", lambda _: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "no HTTP"),
    Row("a status of two digits", with_head(f"{LENGTH}: {{n}}", status="HTTP/1.1 20 OK"), "no HTTP"),
    Row("a status of four digits", with_head(f"{LENGTH}: {{n}}", status="HTTP/1.1 2000 OK"), "no HTTP"),
    Row("status 0", with_head(f"{LENGTH}: {{n}}", status="HTTP/1.1 000 OK"), "status 0"),
    Row("status 99", with_head(f"{LENGTH}: {{n}}", status="HTTP/1.1 099 OK"), "status 99"),
    Row("status 999", with_head(f"{LENGTH}: {{n}}", status="HTTP/1.1 999 OK"), "status 999"),
    Row("another protocol from here on", with_head("Upgrade: x", status="HTTP/1.1 101 Switching"), "status 101"),
    Row("interim replies without end", lambda _: head(status="HTTP/1.1 102 Busy") * 9000, "headers.*65536 bytes"),
    Row("an interim reply with a body", lambda body: http(b"hello", status="100 Go on") + http(body), "no HTTP"),
    Row("too many headers", lambda body: http(body, *(["x: y"] * 300)), "more than 256 headers"),
    Row("a header that is too long", lambda body: http(body, f"x: {'y' * 200_000}"), "headers.*65536 bytes"),
    Row("a header without end", lambda _: b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000, "headers.*65536 bytes"),
    Row("a name without end", lambda _: b"HTTP/1.1 200 OK\r\n" + b"y" * 200_000, "headers.*65536 bytes"),
    Row(
        "a redirect",
        lambda body: http(body, "Location: http://127.0.0.1:1/", status="307 There"),
        "status 307",
        framed=True,
    ),
    Row("no content", lambda _: b"HTTP/1.1 204 No Content\r\n\r\n", "status 204", framed=True),
    Row("a part of the content", lambda body: http(body, status="206 Partial"), "status 206", framed=True),
    Row("a compressed body", lambda body: http(body, "Content-Encoding: gzip"), "compressed.*'gzip'"),
    Row("a body compressed twice", lambda body: http(body, "Content-Encoding: br, gzip"), "compressed.*'br, gzip'"),
]

ENDINGS = [
    Row("nothing", lambda _: b"", "without a reply", LOST, hangs_up=True),
    Row("half a head", lambda body: http(body)[:30], "without a reply", LOST, hangs_up=True),
    Row("an interim reply alone", lambda _: head(status="HTTP/1.1 100 Go on"), "without a reply", LOST, hangs_up=True),
    Row("half a body", lambda body: http(body)[:-9], "broke off", LOST, hangs_up=True),
    Row("half a chunk", lambda body: one_chunk("{n:x}\r\n")(body)[:-9], "broke off", LOST, hangs_up=True),
]

# Here a stream has ended with `[DONE]` before what is wrong.
AFTER_THE_BODY = [
    Row("a chunk that is too long", one_chunk("{n:x}\r\n", b"x\r\n0\r\n\r\n"), "no HTTP"),
    Row("a chunk without its end", one_chunk("{n:x}\r\n", b"0\r\n\r\n"), "no HTTP"),
    Row("a length among the trailers", one_chunk("{n:x}\r\n", b"\r\n0\r\nContent-Length: 9\r\n\r\n"), "no HTTP"),
    Row(
        "too many trailers", one_chunk("{n:x}\r\n", b"\r\n0\r\n" + b"x: y\r\n" * 300 + b"\r\n"), "more than 256 headers"
    ),
    Row("chunks without the last", one_chunk("{n:x}\r\n", b"\r\n"), "broke off", LOST, hangs_up=True),
    Row("trailers without end", one_chunk("{n:x}\r\n", b"\r\n0\r\n"), "broke off", LOST, hangs_up=True),
]

UNUSUAL = {
    "chunks": in_chunks(f"{CHUNKS}: Chunked"),
    "a size with zeros": one_chunk("0000000000{n:x}\r\n"),
    "an extension of a chunk": one_chunk('{n:x};a=b;c="d"\r\n'),
    "a trailer": one_chunk("{n:x}\r\n", b"\r\n0\r\nX: y\r\n\r\n"),
    "a trailer that looks like a header": one_chunk("{n:x}\r\n", b"\r\n0\r\nContent-Encoding: gzip\r\n\r\n"),
    "blanks around a length": with_head(f"{LENGTH}:   {{n}}  "),
    "interim replies": lambda body: head("a: b", status="HTTP/1.1 103 Early Hints") * 3 + http(body),
    "no reason": with_head(f"{LENGTH}: {{n}}", status="HTTP/1.1 200"),
    "a header twice": with_head("x: y", "x: z", f"{LENGTH}: {{n}}"),
    "a value that is not ASCII": with_head("x: \xff\xfe", f"{LENGTH}: {{n}}"),
    "empty lines before it and after it": lambda body: b"\r\n" + http(body) + b"\r\n\r\n",
    "identity as encoding": with_head("Content-Encoding: Identity", f"{LENGTH}: {{n}}"),
}


def good(way: str, text: str) -> bytes:
    """A good body."""
    return events(text) if way == "streamed" else completion(text)


async def asked(backend: Backend, way: str) -> str:
    """The text of an answer."""
    body, spend = {"messages": HELLO, "max_tokens": 8}, spend_of(timeout_ms=30_000)
    if way == "whole":
        whole = await backend.forward(body, spend, "gateway")
        return str(json.loads(whole.body)["choices"][0]["message"]["content"])
    received = await read_forwarded(backend.forward_stream(body, spend, "gateway"))
    data = [event_parser.parse_event(event.raw).data for event in received if not event.done]
    choices = [choice for each in data if each for choice in json.loads(each)["choices"]]
    return "".join(choice["delta"].get("content", "") for choice in choices)


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with RawServer() as listening:
        yield listening


@pytest.fixture
def backend(server: RawServer, backend_of: MakeBackend) -> Backend:
    return backend_of(server, retries=Retries(count=0), max_reply_bytes=MOST_BYTES)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("row", [*FRAMING, *CHUNK, *HEADS, *ENDINGS], ids=lambda row: row.name)
async def test_what_is_no_reply_is_one_named_error_and_the_next_request_gets_its_own_answer(
    server: RawServer, backend: Backend, row: Row, way: str
) -> None:
    server.replies = [row.reply(good(way, ANSWER))]
    server.hangs_up = row.hangs_up

    with pytest.raises(MetacogError, match=row.says) as raised:
        await asked(backend, way)

    assert raised.value.reason == row.reason
    server.replies = [b"", http(good(way, NEXT))]
    assert await asked(backend, way) == NEXT
    assert len({request.connection for request in server.requests}) == (1 if row.framed else 2)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("row", AFTER_THE_BODY, ids=lambda row: row.name)
async def test_what_is_wrong_after_the_body_ends_the_connection_and_spoils_only_an_answer_without_an_end_of_its_own(
    server: RawServer, backend: Backend, row: Row, way: str
) -> None:
    server.replies = [row.reply(good(way, ANSWER))]
    server.hangs_up = row.hangs_up

    if way == "streamed":
        assert await asked(backend, way) == ANSWER
    else:
        with pytest.raises(MetacogError, match=row.says) as raised:
            await asked(backend, way)
        assert raised.value.reason == row.reason

    server.replies = [b"", http(good(way, NEXT))]
    assert await asked(backend, way) == NEXT
    assert len({request.connection for request in server.requests}) == 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", UNUSUAL)
async def test_an_unusual_reply_is_read_and_its_connection_used_again(
    server: RawServer, backend: Backend, name: str, way: str
) -> None:
    server.replies = [UNUSUAL[name](good(way, ANSWER))]

    assert [await asked(backend, way) for _ in range(2)] == [ANSWER] * 2

    assert {request.connection for request in server.requests} == {1}


# -- replies that were not requested ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("surplus", [http(completion("not requested")), http(events("not requested")), b"x", b"\0"])
async def test_what_follows_a_reply_is_never_taken_for_the_next_one(
    server: RawServer, backend: Backend, surplus: bytes, way: str
) -> None:
    server.replies = [http(good(way, ANSWER)) + surplus, http(good(way, NEXT))]

    assert [await asked(backend, way), await asked(backend, way)] == [ANSWER, NEXT]

    assert [request.connection for request in server.requests] == [1, 2]


@pytest.mark.parametrize("way", WAYS)
async def test_two_replies_in_one_are_never_mixed(server: RawServer, backend: Backend, way: str) -> None:
    error = http(b'{"error": {"message": "a second reply"}}', "x: second", status="500 Broken")
    server.replies = [http(good(way, ANSWER)) + error]

    assert await asked(backend, way) == ANSWER


@pytest.mark.parametrize("way", WAYS)
async def test_a_reply_before_a_request_is_never_its_answer(server: RawServer, backend: Backend, way: str) -> None:
    def answer_and_more() -> Iterator[bytes]:
        yield http(good(way, ANSWER))
        # The client has the answer, and its connection is idle: the event loop has not run since this was sent.
        yield http(good(way, "not requested"))

    server.replies = [answer_and_more, http(good(way, NEXT))]

    assert [await asked(backend, way), await asked(backend, way)] == [ANSWER, NEXT]


@pytest.mark.parametrize("way", WAYS)
async def test_a_server_that_speaks_first_is_no_http_server(server: RawServer, backend: Backend, way: str) -> None:
    server.greeting = b"220 mail.example ESMTP\r\n"
    server.replies = [http(good(way, ANSWER))]

    with pytest.raises(MetacogError) as raised:
        await asked(backend, way)

    assert raised.value.reason in (INVALID, LOST)


# -- replies without end ----------------------------------------------------------------------------------------------

MIB = bytes(2**20)
MANY = 600


def endless(first: bytes, piece: bytes) -> Callable[[], Iterable[bytes]]:
    """600 MiB in pieces of 1 MiB, after a beginning."""

    def pieces() -> Iterator[bytes]:
        yield first
        for _ in range(MANY):
            yield piece

    return pieces


ENDLESS = {
    "a body of a stated length": (http(b"")[: -len(b"0\r\n\r\n")] + b"629145600\r\n\r\n", MIB),
    "a body without length": (head(), MIB),
    "a body in large chunks": (head(f"{CHUNKS}: chunked"), b"100000\r\n" + MIB + b"\r\n"),
    "a body in chunks of one byte": (head(f"{CHUNKS}: chunked"), b"1\r\nx\r\n" * 2**17),
    "an extension of a chunk": (head(f"{CHUNKS}: chunked") + b"1;x=", MIB.replace(b"\0", b"x")),
    "an event": (head() + b"data: ", MIB.replace(b"\0", b"x")),
    "comments": (head(), b": comment\n\n" * 2**16),
    "events": (head(), b'data: {"choices": [{"index": 0, "delta": {"content": "x"}}]}\n\n' * 2**14),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n" * 2**17),
    "a header": (b"HTTP/1.1 200 OK\r\nx: ", MIB.replace(b"\0", b"x")),
    "interim replies": (b"", head(status="HTTP/1.1 102 Busy") * 2**15),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ENDLESS)
async def test_a_reply_without_end_is_read_to_its_bound_only(
    server: RawServer, backend: Backend, name: str, way: str
) -> None:
    server.replies = [endless(*ENDLESS[name])]

    with pytest.raises(MetacogError, match=r"invalid (reply|stream): .*\d+ (bytes|headers)") as raised:
        await asked(backend, way)

    assert raised.value.reason == INVALID
    await server.until(lambda it: it.closed == it.connections)
    assert server.sent < 40 * len(MIB)  # what buffers of the network took; it would have sent 600 MiB


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("status", "reason"), [("500 No", LOST), ("429 No", "BACKEND_OVERLOADED"), ("400 No", "BACKEND_REJECTED")]
)
async def test_an_error_without_end_is_named_by_its_status(
    server: RawServer, backend: Backend, status: str, reason: str, way: str
) -> None:
    server.replies = [endless(head(status=f"HTTP/1.1 {status}") + b"out of order ", MIB.replace(b"\0", b"x"))]

    with pytest.raises(MetacogError, match=r"out of order|overloaded") as raised:
        await asked(backend, way)

    assert raised.value.reason == reason
    assert len(raised.value.message) < 1000
    await server.until(lambda it: it.closed == it.connections)
    assert server.sent < 40 * len(MIB)


async def test_a_list_of_models_without_end_is_no_list(server: RawServer, backend: Backend) -> None:
    server.lists = head(f"{LENGTH}: 9000000000") + MIB

    with pytest.raises(MetacogError, match="announces 9000000000 bytes; at most 4194304 are read") as raised:
        await backend.probe()

    assert raised.value.reason == INVALID


@pytest.mark.parametrize("way", WAYS)
async def test_a_compressed_error_is_named_by_its_status(server: RawServer, backend: Backend, way: str) -> None:
    server.replies = [http(b"\x1f\x8b\x08", "Content-Encoding: gzip", status="429 Busy")]

    with pytest.raises(MetacogError) as raised:
        await asked(backend, way)

    assert (raised.value.reason, raised.value.message) == ("BACKEND_OVERLOADED", "backend here is overloaded: ")


# -- bodies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_a_retry_after_that_is_no_number_is_none(server: RawServer, backend: Backend, way: str) -> None:
    for wrong in ("inf", "nan", "1e999", "-5", "soon", "1, 2"):
        server.replies = [http(b"busy", f"Retry-After: {wrong}", status="429 Busy")]

        with pytest.raises(MetacogError) as raised:
            await asked(backend, way)

        assert raised.value.metadata.get("retry_after_s") in (None, "0")


class Searched:
    """A pattern that counts the bytes that it searches."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self._pattern = pattern
        self.count = 0

    def finditer(self, text: bytes, start: int = 0) -> Iterator[re.Match[bytes]]:
        self.count += len(text) - start
        return self._pattern.finditer(text, start)


@pytest.mark.parametrize(("size", "length"), [(1, 2**16), (1024, 2**22), (65_536, 2**22)])
def test_the_work_of_finding_an_events_end_grows_with_its_length_only(
    monkeypatch: pytest.MonkeyPatch, size: int, length: int
) -> None:
    searched = Searched(event_parser._EVENT_END)
    monkeypatch.setattr(event_parser, "_EVENT_END", searched)
    parser, event = event_parser.EventParser(), b"data: " + b"x" * length + b"\n\n"
    pieces = [event[start : start + size] for start in range(0, len(event), size)]

    found = [each for piece in pieces for each in parser.feed(piece)]

    assert [each.raw for each in found] == [event]
    assert searched.count <= len(event) + 3 * len(pieces)
