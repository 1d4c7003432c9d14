"""The transport against servers that answer byte for byte as a test says, some of them badly."""

import asyncio
import gc
import socket
import ssl
import struct
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from inference.http import http_transport as http1
from inference.http.http_transport import HttpTransport, address_of
from inference.http.transport import LostBeforeReply, LostMidReply, MalformedReply, NotSent, TransportFailure

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass
class Server:
    """What a server has seen."""

    url: str = ""
    connections: int = 0
    closed: int = 0
    requests: list[bytes] = field(default_factory=list)


@asynccontextmanager
async def answering(
    *replies: bytes, hang_up: bool = False, stall: bool = False, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    """A server that sends the next of `replies` for each request, the last one again and again.

    Args:
        replies: What it sends.
        hang_up: Whether it closes the connection after each.
        stall: Whether it then says nothing more, without closing.
        tls: Its certificate.
    """
    server, left = Server(), list(replies)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                body = await reader.readexactly(int(length[0].split(b":")[1])) if length else b""
                server.requests.append(head + body)
                writer.write(left.pop(0) if len(left) > 1 else left[0])
                await writer.drain()
                if hang_up:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            server.closed += 1
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as listening:
        port = listening.sockets[0].getsockname()[1]
        server.url = f"{'https' if tls else 'http'}://{'localhost' if tls else '127.0.0.1'}:{port}"
        yield server
        listening.close()


@asynccontextmanager
async def transport(*, idle_timeout_s: float = 4.0) -> AsyncIterator[HttpTransport]:
    """A transport, closed in the end."""
    made = HttpTransport(connect_timeout_s=2.0, idle_timeout_s=idle_timeout_s)
    try:
        yield made
    finally:
        await made.aclose()


async def posted(client: HttpTransport, url: str, body: bytes = b"{}") -> bytes:
    """The body of a reply."""
    async with client.stream(url, {"content-type": "application/json"}, body) as reply:
        return await reply.read()


async def until(holds: Callable[[], bool]) -> None:
    """Wait until `holds`."""
    while not holds():  # noqa: ASYNC110 - what it waits for is on the other side of a socket
        await asyncio.sleep(0.005)


async def test_a_request_goes_out_as_it_was_given() -> None:
    async with answering(OK) as server, transport() as client:
        assert await posted(client, f"{server.url}/v1/chat?x=ü y", b'{"a": 1}') == b"ok"

        head, _, body = server.requests[0].partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        assert lines[0] == b"POST /v1/chat?x=%C3%BC%20y HTTP/1.1"
        assert {b"content-length: 8", b"content-type: application/json", b"accept-encoding: identity"} <= set(lines)
        assert f"host: {server.url.removeprefix('http://')}".encode() in lines
        assert body == b'{"a": 1}'


async def test_a_user_in_the_url_is_presented() -> None:
    async with answering(OK) as server, transport() as client:
        await posted(client, server.url.replace("http://", "http://ann:a%40b@"))

        assert b"authorization: Basic YW5uOmFAYg==" in server.requests[0]
        assert b"ann" not in server.requests[0].split(b"host: ")[1].split(b"\r\n")[0]


@pytest.mark.parametrize(
    "reply",
    [
        OK,
        CHUNKED + b"1\r\no\r\n1;x=y\r\nk\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\nx: y\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok",
    ],
    ids=["length", "chunked", "interim", "kept"],
)
async def test_one_connection_serves_one_request_after_another(reply: bytes) -> None:
    async with answering(reply) as server, transport() as client:
        assert [await posted(client, server.url) for _ in range(3)] == [b"ok"] * 3

        assert server.connections == 1


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"more",
    ],
    ids=["told", "old", "more than asked for"],
)
async def test_a_connection_that_cannot_go_on_is_not_used_again(reply: bytes) -> None:
    async with answering(reply) as server, transport() as client:
        assert [await posted(client, server.url) for _ in range(2)] == [b"ok"] * 2

        assert server.connections == 2


async def test_a_body_of_untold_length_ends_with_its_connection() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n\r\nto the end", hang_up=True) as server, transport() as client:
        assert await posted(client, server.url) == b"to the end"


async def test_an_empty_reply_has_no_body() -> None:
    async with answering(b"HTTP/1.1 204 No Content\r\n\r\n") as server, transport() as client:
        assert [await posted(client, server.url) for _ in range(2)] == [b"", b""]
        assert server.connections == 1


async def test_status_and_headers_are_there_before_the_body() -> None:
    busy = b"HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with answering(busy) as server, transport() as client, client.stream(server.url, {}, b"{}") as reply:
        assert (reply.status, reply.headers["retry-after"]) == (503, "3")


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 200"])
async def test_a_connection_that_ends_before_a_reply_is_lost(reply: bytes) -> None:
    async with answering(reply, hang_up=True) as server, transport() as client:
        with pytest.raises(LostBeforeReply):
            await posted(client, server.url)


@pytest.mark.parametrize(
    "reply", [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", CHUNKED + b"4\r\nhalf\r\n", CHUNKED + b"nonsense"]
)
async def test_a_reply_that_breaks_off_is_reported_after_what_arrived_of_it(reply: bytes) -> None:
    received: list[bytes] = []

    async def take(client: HttpTransport, url: str) -> None:
        async with client.stream(url, {}, b"{}") as broken:
            async for chunk in broken.chunks:
                received.append(chunk)

    async with answering(reply, hang_up=True) as server, transport() as client:
        with pytest.raises(MalformedReply if b"nonsense" in reply else LostMidReply):
            await take(client, server.url)

        assert b"".join(received) == (b"" if b"nonsense" in reply else b"half")


async def test_headers_without_end_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1, "MAX_HEAD", 1000)
    async with (
        answering(b"HTTP/1.1 200 OK\r\n" + b"x: yyyyyyyy\r\n" * 200, stall=True) as server,
        transport() as client,
    ):
        with pytest.raises(MalformedReply, match="longer than 1000 bytes"):
            await posted(client, server.url)


async def test_a_server_that_is_not_there_is_reported_as_not_sent() -> None:
    async with transport() as client:
        with pytest.raises(NotSent):
            await posted(client, "http://127.0.0.1:1/")
        with pytest.raises(NotSent):
            await posted(client, "http://no.such.host.invalid/")


async def test_connections_that_end_before_a_request_leave_nothing_behind() -> None:
    async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")  # before any request
        writer.transport.abort()

    def kept() -> int:
        return sum(isinstance(each, http1.Connection) for each in gc.get_objects())

    before = kept()
    async with await asyncio.start_server(reset, "127.0.0.1", 0) as listening, transport() as client:
        port = listening.sockets[0].getsockname()[1]
        for _ in range(5):
            with pytest.raises(TransportFailure):
                await posted(client, f"http://127.0.0.1:{port}/")
        await until(lambda: not gc.collect() and kept() <= before)


async def test_a_server_that_was_at_work_when_it_reset_the_connection_is_not_asked_twice() -> None:
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        while await reader.readuntil(b"{}"):
            asked += 1
            if asked > 1:
                await asyncio.sleep(3 * http1.RESET_WITHIN_S)  # the fault itself: it works, and then dies
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                return
            writer.write(OK)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening, transport() as client:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
        await posted(client, url)
        with pytest.raises(LostBeforeReply):
            await posted(client, url)

    assert asked == 2


async def test_a_header_cannot_smuggle_another() -> None:
    async with answering(OK) as server, transport() as client:
        with pytest.raises(NotSent, match="line break"):
            await client.get(server.url, {"authorization": "Bearer x\r\nhost: elsewhere"})

        assert not server.requests


async def test_leaving_early_closes_the_connection() -> None:
    async with answering(CHUNKED + b"4\r\nhalf\r\n") as server, transport() as client:
        async with client.stream(server.url, {}, b"{}") as reply:
            assert await anext(reply.chunks) == b"half"

        await until(lambda: server.closed == 1)


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"])
async def test_cancelling_closes_the_connection(reply: bytes) -> None:
    async with answering(reply) as server, transport() as client:
        call = asyncio.create_task(posted(client, server.url))
        await until(lambda: len(server.requests) == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        await until(lambda: server.closed == 1)


async def test_a_connection_that_the_server_closed_while_idle_is_passed_over() -> None:
    async with answering(OK, hang_up=True) as server, transport() as client:
        assert await posted(client, server.url) == b"ok"
        await until(lambda: server.closed == 1)

        assert await posted(client, server.url) == b"ok"
        assert server.connections == 2


async def test_an_idle_connection_is_closed_in_time() -> None:
    async with answering(OK) as server, transport(idle_timeout_s=0.02) as client:
        await asyncio.gather(*[posted(client, server.url) for _ in range(3)])  # noqa: TID251 - none of them fails

        await until(lambda: server.closed == server.connections == 3)


async def test_an_unread_body_is_not_taken_from_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1, "MAX_UNREAD", 1000)
    large = b"x" * 5_000_000
    reply = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(large), large)
    async with answering(reply) as server, transport() as client:
        async with client.stream(server.url, {}, b"{}") as waiting:
            await asyncio.sleep(0.05)
            held = sum(len(chunk) for connection in client._all for chunk in connection._chunks)
            assert held < len(large) / 2
            assert await waiting.read() == large

        assert await posted(client, server.url) == large
        assert server.connections == 1


async def test_closing_ends_what_is_under_way() -> None:
    async with answering(b"") as server, transport() as client:
        call = asyncio.create_task(posted(client, server.url))
        await until(lambda: len(server.requests) == 1)
        await client.aclose()
        with pytest.raises(LostBeforeReply):
            await call


async def test_tls_is_spoken_and_the_certificate_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = [
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
    ]
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["openssl", "req", "-x509", *own, "-keyout", str(key), "-out", str(certificate)]
    await asyncio.to_thread(subprocess.run, made, check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    async with answering(OK, tls=tls) as server:
        async with transport() as stranger:
            with pytest.raises(NotSent, match="CERTIFICATE_VERIFY_FAILED"):
                await posted(stranger, server.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        async with transport() as client:
            assert [await posted(client, server.url) for _ in range(2)] == [b"ok"] * 2


def test_a_url_without_port_takes_its_scheme_s() -> None:
    plain, secure = address_of("http://a/v1"), address_of("https://a/v1")

    assert (plain.port, plain.secure, secure.port, secure.secure) == (80, False, 443, True)
