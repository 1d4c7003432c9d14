r"""HTTP as a hostile client writes it: bytes of one's own choice over a connection of one's own.

async with connection(url) as line:
    await line.send(b"GET / HTTP/1.1\r\n")
    reply = await line.reply()                     # until the server closes the connection
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

CHUNK = bytes(65_536)


@dataclass(frozen=True)
class Reply:
    """What a server sent before it closed the connection."""

    raw: bytes

    @property
    def status(self) -> int:
        """Return the status; 0 without an answer."""
        return int(self.raw.split(b" ", 2)[1]) if self.raw.startswith(b"HTTP/") else 0

    @property
    def head(self) -> str:
        """Return the status line and headers."""
        return self.raw.partition(b"\r\n\r\n")[0].decode("latin-1").lower()

    @property
    def body(self) -> Any:  # noqa: ANN401 - JSON
        """Return the JSON in the body."""
        return json.loads(self.raw.partition(b"\r\n\r\n")[2])


@dataclass(frozen=True)
class Line:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> bool:
        """Send bytes; return whether the server still takes any."""
        try:
            self.writer.write(data)
            await self.writer.drain()
        except ConnectionError:
            return False
        return not self.reader.at_eof()

    async def reply(self) -> Reply:
        """Return what the server sends until it closes the connection."""
        received = b""
        with suppress(ConnectionError):
            while part := await self.reader.read(65_536):
                received += part
        return Reply(received)

    async def answer(self) -> Reply:
        """Return one answer of a connection that stays open; it must have a content-length."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return Reply(head + await self.reader.readexactly(length))


@asynccontextmanager
async def connection(url: str) -> AsyncIterator[Line]:
    """Open a connection to the server at `url`."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        yield Line(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def resident_mib(pid: int) -> float:
    """Return the memory of a process that is in use now [MiB]."""
    return _memory_mib(pid, "VmRSS")


def peak_mib(pid: int) -> float:
    """Return the most memory that a process has had in use [MiB]."""
    return _memory_mib(pid, "VmHWM")


def _memory_mib(pid: int, field: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024
