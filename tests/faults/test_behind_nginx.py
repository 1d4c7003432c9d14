"""A stream through nginx that waits 30 s for a byte survives two minutes in which the model says nothing."""

import asyncio
import os
import re
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from services.router.openai_rest import replies
from tests.faults.conftest import Report
from tests.support.gateway import gateway
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROOT, TROUBLED, Body, cast, free_port, stage_of

pytestmark = pytest.mark.hard
READ_TIMEOUT_S = 30
SILENT_S = 125
ASKED: Body = {
    "model": "metacog/dialectic",
    "messages": [{"role": "user", "content": "Why do people greet one another?"}],
    "stream": True,
    "metacog": {"envelope": {"timeout_ms": 900_000}},
}


def program() -> str:
    """Path of nginx; `make test-hard` unpacks one where it can."""
    home = Path(os.environ.get("METACOG_HOME") or ROOT / ".metacog")
    found = os.environ.get("METACOG_TEST_NGINX") or shutil.which("nginx") or shutil.which(home / "nginx/usr/sbin/nginx")
    assert found, "there is no nginx; `make test-hard` describes how to install one"
    return str(found)


def configuration(router: str, port: int, folder: Path) -> str:
    """The configuration of the deployment, for REST alone and without TLS, waiting 30 s for a byte."""
    text = (ROOT / "docker/tls/nginx.conf").read_text()
    rest = text[: text.index("    server {\n        listen 8444")] + "}\n"
    rest = re.sub(r"^ *(ssl_|resolver ).*$", "", rest, flags=re.MULTILINE)
    changes = {
        "listen 8443 ssl;": f"listen 127.0.0.1:{port};",
        "http://router:8080": router,
        "proxy_read_timeout 600s": f"proxy_read_timeout {READ_TIMEOUT_S}s",
        "/tmp/": f"{folder}/",
        "/dev/stderr": f"{folder}/error.log",
    }
    for before, after in changes.items():
        assert before in rest, before
        rest = rest.replace(before, after)
    return f"daemon off;\n{rest}"


@asynccontextmanager
async def nginx(router: str, folder: Path) -> AsyncIterator[str]:
    """URL of an nginx before a router."""
    port, file = free_port(), folder / "nginx.conf"
    file.write_text(configuration(router, port, folder))
    command = [program(), "-p", str(folder), "-c", str(file)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: ASYNC220 - it begins at once
    try:
        url = f"http://127.0.0.1:{port}"
        until = time.monotonic() + 20
        while True:
            assert process.poll() is None, (folder / "error.log").read_text()
            try:
                async with httpx.AsyncClient(base_url=url) as client:
                    (await client.get("/healthz")).raise_for_status()
                break
            except httpx.HTTPError:
                assert time.monotonic() < until, "nginx does not answer"
                await asyncio.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(10)


async def received(url: str) -> list[tuple[float, bytes]]:
    """What arrives of the stream, each piece with the time since the request [s]."""
    pieces: list[tuple[float, bytes]] = []
    async with httpx.AsyncClient(base_url=url, timeout=httpx.Timeout(600)) as client:
        began = time.monotonic()
        async with client.stream("POST", "/v1/chat/completions", json=ASKED) as reply:
            reply.raise_for_status()
            async for piece in reply.aiter_raw():
                pieces.append((time.monotonic() - began, piece))
    return pieces


def stalling(scripted: ScriptedLLM, seconds: float) -> None:
    """Have the model say nothing for so long before its thesis."""
    answer = cast(TROUBLED)

    def stalled(body: Body) -> list[str]:
        if stage_of(body) == "thesis":
            time.sleep(seconds)
        return list(answer(body))

    scripted.answer = stalled


@pytest.mark.timeout(600)
async def test_a_stream_behind_a_proxy_survives_two_silent_minutes(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, fault: Report
) -> None:
    stalling(scripted, SILENT_S)
    async with (
        gateway(scripted, database_url, tmp_path) as suite,
        nginx(suite.router.rest, tmp_path) as url,
    ):
        pieces = await received(url)

    times, whole = [at for at, _ in pieces], b"".join(piece for _, piece in pieces)
    silent = [piece for at, piece in pieces if 1 < at < SILENT_S]
    gaps = [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]
    assert times[-1] >= SILENT_S
    assert max(gaps) < READ_TIMEOUT_S, gaps
    assert len(silent) >= SILENT_S // READ_TIMEOUT_S
    assert all(piece.startswith(b":") for piece in silent[:-1]), silent
    assert b"synthesis" in whole
    assert whole.rstrip().endswith(b"data: [DONE]")
    fault(
        f"nginx that waits {READ_TIMEOUT_S} s for a byte, a model silent for {SILENT_S} s",
        f"the stream, with {len(silent)} heartbeats meanwhile",
        "everything",
        f"none is needed; the longest gap was {max(gaps):.0f} s",
    )


@pytest.mark.timeout(300)
async def test_without_heartbeats_the_same_proxy_ends_the_stream(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "HEARTBEAT_S", 3600.0)
    stalling(scripted, READ_TIMEOUT_S + 15)
    async with (
        gateway(scripted, database_url, tmp_path) as suite,
        nginx(suite.router.rest, tmp_path) as url,
    ):
        began = time.monotonic()
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            await received(url)
        ended_s = time.monotonic() - began
        await asyncio.sleep(max(0.0, READ_TIMEOUT_S + 16 - ended_s))  # the model's thread is free again

    assert READ_TIMEOUT_S - 1 <= ended_s < READ_TIMEOUT_S + 15
