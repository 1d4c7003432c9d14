"""Backends to test the client against: scripted ones in the shapes of real servers, and a real llama.cpp."""

import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from chassis.inference.client import Backend
from chassis.inference.config import BackendConfig
from chassis.inference.link import Headers
from chassis.inference.timing import Timing
from tests.integration.inference.support import MakeBackend, Noted, Served
from tests.support.scripted_llm import LLAMACPP, MINIMAL, VLLM, ScriptedLLM

ROOT = Path(__file__).parents[3]
MODEL_FILE = ROOT / ".metacog/models/smollm2-135m-instruct.q4_1.gguf"
START_S = 60.0


@pytest.fixture(scope="session")
def model_file() -> Path:
    if not MODEL_FILE.exists():
        pytest.fail(f"{MODEL_FILE} is missing; `make up` fetches it")
    return MODEL_FILE


@pytest.fixture(scope="session")
def llm_url(model_file: Path) -> Iterator[str]:
    """A real llama.cpp with 4 slots of 2,048 tokens, serving `smollm2`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {"model": model_file, "alias": "smollm2", "port": port, "parallel": 4, "ctx": 8192, "threads": 1}
    words = [word for name, option in options.items() for word in (f"--{name}", str(option))]
    server = subprocess.Popen([sys.executable, "-m", "embedded.llm", *words], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        wait_for_health(server, f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(10)


def wait_for_health(server: "subprocess.Popen[bytes]", url: str) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and server.poll() is None:
        try:
            with urlopen(f"{url}/health"):
                return
        except URLError:
            time.sleep(0.1)
    pytest.fail(f"llama.cpp did not start at {url}; is the extra `embedded` installed, and libgomp1?")


@pytest.fixture(params=["vllm", "llamacpp", "real"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    """Each kind of server in turn; one test body holds for all."""
    if request.param == "real":
        yield Served(request.getfixturevalue("llm_url"), "smollm2")
        return
    with ScriptedLLM(VLLM if request.param == "vllm" else LLAMACPP) as llm:
        yield Served(llm.url, llm.model, llm)


@pytest.fixture
def llm() -> Iterator[ScriptedLLM]:
    """A scripted vLLM."""
    with ScriptedLLM(VLLM) as scripted:
        yield scripted


@pytest.fixture
def llamacpp() -> Iterator[ScriptedLLM]:
    """A scripted llama.cpp."""
    with ScriptedLLM(LLAMACPP) as scripted:
        yield scripted


@pytest.fixture
def minimal() -> Iterator[ScriptedLLM]:
    """A scripted backend that ignores `n`, log-probabilities and schemas, and reports no usage."""
    with ScriptedLLM(MINIMAL) as scripted:
        yield scripted


@pytest.fixture
def noted() -> Noted:
    return Noted()


@pytest.fixture
async def backend_of(noted: Noted) -> AsyncIterator[MakeBackend]:
    """Makes the client of a server, and closes it afterwards."""
    async with AsyncExitStack() as stack:

        def make(
            at: Served | ScriptedLLM,
            *,
            timing: Timing | None = None,
            headers: Headers = dict,
            **config: Any,  # noqa: ANN401
        ) -> Backend:
            settings = BackendConfig(**{"name": "here", "base_url": at.url, "model": at.model, **config})
            backend = Backend(settings, timing=timing, observer=noted, headers=headers)
            stack.push_async_callback(backend.aclose)
            return backend

        yield make
