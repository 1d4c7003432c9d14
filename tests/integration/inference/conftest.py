"""Backends to test the client against: scripted ones in the shapes of real servers, and a real llama.cpp."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from inference.backend_client import Backend
from inference.config import BackendConfig, Endpoint
from inference.http.backend_connection import Headers
from inference.http.timing import Timing
from tests.integration.inference.support import MakeBackend, Noted, Served
from tests.support.models.llama import llama
from tests.support.models.scripted_llm import LLAMACPP, MINIMAL, VLLM, ScriptedLLM


@pytest.fixture(scope="session")
def llm_url(model_file: Path) -> Iterator[str]:
    """A real llama.cpp with 4 slots of 2,048 tokens: tests ask for more samples than that."""
    with llama(model_file, parallel=4, context_tokens=8192) as url:
        yield url


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
            settings = BackendConfig(
                **{"name": "here", "endpoints": [Endpoint(url=at.url)], "model": at.model, **config}
            )
            backend = Backend(settings, timing=timing, observer=noted, headers=headers)
            stack.push_async_callback(backend.aclose)
            return backend

        yield make
