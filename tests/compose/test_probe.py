"""The health check of a container."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.support.stack import free_port

PROBE = Path(__file__).parents[2] / "docker/probe.py"


class Service(BaseHTTPRequestHandler):
    """Ready under /readyz, and nowhere else."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()


def probed(place: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-I", str(PROBE), place], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip()


def test_what_is_ready_is_healthy(port: int) -> None:
    assert probed(f"{port}/readyz") == (0, "")


def test_what_is_not_ready_is_unhealthy_and_its_status_is_told(port: int) -> None:
    assert probed(f"{port}/other") == (1, "HTTP/1.0 503 Service Unavailable")


def test_what_does_not_listen_is_unhealthy() -> None:
    status, said = probed(f"{free_port()}/readyz")

    assert status == 1
    assert "refused" in said
