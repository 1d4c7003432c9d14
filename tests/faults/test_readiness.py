"""Readiness, which needs no key: what it costs, and what it gives away."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import httpx
import yaml

from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER, ROOT, environment, process

SECRET_URL = f"http://ann:pa55w0rd@{NO_SERVER}/v1"


@asynccontextmanager
async def backend() -> AsyncIterator[tuple[str, list[int]]]:
    """A model server that counts how often it is asked for its models."""
    asked = [0]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked[0] += 1
        body = b'{"object": "list", "data": [{"id": "any", "object": "model"}]}'
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", asked


async def test_a_hundred_callers_cost_hardly_more_than_one() -> None:
    async with backend() as (url, asked):
        settings = {"METACOG_INFERENCE_URL": url, "METACOG_INFERENCE_MODEL": "any"}
        async with process("assigner", **settings) as assigner, httpx.AsyncClient(base_url=assigner.rest) as client:
            first = await client.get("/readyz")
            alone = asked[0]
            replies = [client.get("/readyz") for _ in range(100)]
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(reply) for reply in replies]

    assert {task.result().status_code for task in tasks} == {first.status_code} == {200}
    assert asked[0] - alone <= 10  # once a second; without a bound 100


async def test_the_parts_are_for_holders_of_a_key_where_there_are_keys(scripted: ScriptedLLM, tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    keys.write_text(yaml.safe_dump({"keys": [{"name": "ann", "sha256": sha256(b"secret").hexdigest()}]}))
    settings = {"METACOG_INFERENCE_URL": f"{scripted.url}/v1", "METACOG_KEYS_FILE": keys}
    async with process("assigner", **settings) as assigner, httpx.AsyncClient(base_url=assigner.rest) as client:
        unknown = await client.get("/readyz")
        wrong = await client.get("/readyz", headers={"authorization": "Bearer guess"})
        known = await client.get("/readyz", headers={"authorization": "Bearer secret"})

    assert [unknown.status_code, wrong.status_code, known.status_code] == [200, 200, 200]
    assert unknown.json() == wrong.json() == {"ready": True, "parts": {}}
    assert known.json()["parts"]["inference"] == "ok"


async def test_no_password_is_in_readiness_errors_logs_or_the_doctors_findings(tmp_path: Path) -> None:
    settings = {
        "METACOG_INFERENCE_URL": SECRET_URL,
        "METACOG_INFERENCE_MODEL": "any",
        "METACOG_ENCODER_URL": SECRET_URL,
        "METACOG_DATABASE_URL": f"postgresql+psycopg://ann:pa55w0rd@{NO_SERVER}/metacog",
        "METACOG_HOME": tmp_path,
    }
    async with process("router", **settings) as router:
        async with httpx.AsyncClient(base_url=router.rest, timeout=30) as client:
            ready = await client.get("/readyz")
            answer = await client.post("/v1/answers", json={"question": "Is it so?", "strategy": "system1"})
            chat = {"model": "metacog/system1", "messages": [{"role": "user", "content": "?"}]}
            openai = await client.post("/v1/chat/completions", json=chat)
        doctor = await written("doctor", "--router", router.rest, **settings)
        shown = await written("config", "show", **settings)
        router.terminate()
        await router.until_said("stopped")
    unset = await written_by("-m", "services.router", **{**settings, "METACOG_INFERENCE_MODEL": ""})

    texts = [ready.text, answer.text, openai.text, doctor, shown, unset, *map(str, router.lines)]
    assert NO_SERVER in ready.text
    assert NO_SERVER in doctor
    assert NO_SERVER in unset
    assert not [text for text in texts if re.search("pa55w0rd|ann:", text)]


async def written(*arguments: str, **settings: object) -> str:
    """What a command of `metacog` writes."""
    return await written_by("-m", "cli", *arguments, **settings)


async def written_by(*arguments: str, **settings: object) -> str:
    """What a Python program writes."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        cwd=ROOT,
        env=environment(**settings, COLUMNS=400),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    text, _ = await child.communicate()
    return text.decode()
