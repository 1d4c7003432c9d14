"""The real parts that tests stand on, each started once and only when a test asks for it."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from chassis import db
from embedded.model import ensure_model
from tests.support.scripted_llm import ScriptedLLM
from tests.support.stack import ROOT, Database, free_port

LLM_WITHIN_S = 60.0


@pytest.fixture(scope="session")
def database_url() -> Iterator[str]:
    """A PostgreSQL of this session alone, with the router's schema."""
    with Database() as database:
        db.migrate("services.router", database.url)
        yield database.url


@pytest.fixture(scope="session")
def model_file() -> Path:
    """The small model, downloaded if it is not there yet."""
    home = Path(os.environ.get("METACOG_HOME") or ROOT / ".metacog")
    return ensure_model(home, _report)


@pytest.fixture(scope="session")
def llm_url(model_file: Path) -> Iterator[str]:
    """A real llama.cpp that serves the small model as `smollm2`."""
    port = free_port()
    options = {"model": model_file, "alias": "smollm2", "port": port, "parallel": 8, "ctx": 16384, "threads": 1}
    words = [word for name, option in options.items() for word in (f"--{name}", str(option))]
    command = [sys.executable, "-m", "embedded.llm", *words]
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            _await_llm(server, f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()
            server.wait()


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _await_llm(server: "subprocess.Popen[bytes]", url: str) -> None:
    until = time.monotonic() + LLM_WITHIN_S
    while time.monotonic() < until and server.poll() is None:
        try:
            with urlopen(f"{url}/health"):
                return
        except URLError:
            time.sleep(0.1)
    pytest.fail(f"llama.cpp did not start at {url}; is the extra `embedded` installed, and libgomp1?")


@pytest.fixture
def scripted() -> Iterator[ScriptedLLM]:
    """A scripted inference server."""
    with ScriptedLLM() as llm:
        yield llm
