"""The real encoder as a process: `with encoder() as url:`; it can be killed and started again on the same port."""

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from tests.support.stack import ROOT, environment, free_port

READY_WITHIN_S = 120.0


class EncoderProcess:
    """`python -m encoder` with the packaged model.

    Args:
        settings: Further environment variables.

    Attributes:
        url: Its base URL, with /v1.
    """

    def __init__(self, **settings: object) -> None:
        self._settings = settings
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> Self:
        """Start it, and wait until its model is loaded."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "encoder"],
            cwd=ROOT,
            env=environment(METACOG_ENCODER_PORT=self._port, **self._settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + READY_WITHIN_S
        while not self._is_ready():
            assert self._process.poll() is None, "the encoder has ended"
            assert time.monotonic() < until, "the encoder is not ready"
            time.sleep(0.05)
        return self

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/readyz", timeout=5) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False


@contextmanager
def encoder(**settings: object) -> Iterator[str]:
    """URL of an encoder that runs meanwhile."""
    process = EncoderProcess(**settings).start()
    try:
        yield process.url
    finally:
        process.kill()
