"""Which connection makes room for a new one, where all places are taken."""

import asyncio
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import Response
from uvicorn.server import ServerState

from chassis.serving.connections import BoundedProtocol, http_config
from chassis.settings import HttpSettings, read
from kernel.errors import MetacogError


class Wire(asyncio.Transport):
    """A transport whose client has not read some bytes yet."""

    def __init__(self, unread: int) -> None:
        super().__init__()
        self.unread, self.written, self.is_closed = unread, b"", False

    def get_write_buffer_size(self) -> int:
        return self.unread

    def write(self, data: Any) -> None:  # noqa: ANN401 - as the base has it
        self.written += bytes(data)

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed


class OneServer:
    """A server with one place."""

    def __init__(self) -> None:
        limits = read(HttpSettings).model_copy(update={"http_max_connections": 1})
        self.config = http_config(FastAPI(), limits, error_response=self.error)
        self.config.load()
        self.state = ServerState()

    def error(self, error: MetacogError, path: str) -> Response:
        return Response(error.message, status_code=error.code.http)

    def connected(self, wire: Wire) -> BoundedProtocol:
        protocol: Any = self.config.http_protocol_class
        line: BoundedProtocol = protocol(config=self.config, server_state=self.state, app_state={})
        line.connection_made(wire)
        return line

    def idle(self, wire: Wire) -> None:
        """A connection whose reply was written."""
        line = self.connected(wire)
        line.timeout_keep_alive_task = asyncio.get_running_loop().call_later(120, line.timeout_keep_alive_handler)


@pytest.mark.parametrize(("unread", "is_closed"), [(0, True), (1, False)])
async def test_an_idle_connection_makes_room_unless_its_client_has_not_read_its_reply(
    unread: int, is_closed: bool
) -> None:
    server, first, newcomer = OneServer(), Wire(unread), Wire(0)

    server.idle(first)
    server.connected(newcomer)

    assert first.is_closed is is_closed
    assert (b"503" in newcomer.written) is not is_closed
