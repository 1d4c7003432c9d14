"""A real llama.cpp for tests."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.support.stack import ROOT, free_port

WITHIN_S = 60.0


@dataclass(frozen=True)
class Llama:
    """A llama.cpp that runs."""

    url: str
    pid: int


@contextmanager
def llama(model_file: Path, *, parallel: int, context_tokens: int) -> Iterator[str]:
    """URL of a llama.cpp that serves the model as `smollm2`, with `parallel` slots that share the context."""
    with llama_server(model_file, parallel=parallel, context_tokens=context_tokens) as server:
        yield server.url


@contextmanager
def llama_server(
    model_file: Path, *, parallel: int, context_tokens: int, alias: str = "smollm2", port: int = 0
) -> Iterator[Llama]:
    """A llama.cpp that serves the model under a name, at a port that is given or free; it may be killed meanwhile."""
    port = port or free_port()
    options = {
        "model": model_file,
        "alias": alias,
        "port": port,
        "parallel": parallel,
        "ctx": context_tokens,
        "threads": 1,
    }
    words = [word for name, option in options.items() for word in (f"--{name}", str(option))]
    command = [sys.executable, "-m", "embedded.llm", *words]
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            _await(server, f"http://127.0.0.1:{port}")
            yield Llama(url=f"http://127.0.0.1:{port}", pid=server.pid)
        finally:
            server.terminate()
            server.wait(10)


def _await(server: "subprocess.Popen[bytes]", url: str) -> None:
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until and server.poll() is None:
        try:
            with urlopen(f"{url}/health"):
                return
        except URLError:
            time.sleep(0.1)
    pytest.fail(f"llama.cpp did not start at {url}; is the extra `embedded` installed, and libgomp1?")
