"""Web pages of other sites, which a browser on this machine lets near a suite without keys."""

import asyncio
import sys
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
import yaml
from openai import AsyncOpenAI

from tests.support.console import console_at
from tests.support.hostile.raw_http import connection
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER, ROOT, Process, cast, environment, process

ALONE: dict[str, object] = {
    "METACOG_INFERENCE_MODEL": "any",
    "METACOG_INFERENCE_URL": f"http://{NO_SERVER}/v1",
    "METACOG_DATABASE_URL": f"postgresql+psycopg://me@{NO_SERVER}/metacog",
}
CHAT = b'{"model": "metacog/system1", "messages": [{"role": "user", "content": "Is it so?"}]}'
JSON_HEADER = {"content_type": "application/json"}


@pytest.fixture
async def router(scripted: ScriptedLLM, tmp_path: Path) -> AsyncIterator[Process]:
    """A router without keys, as `make up` starts it."""
    scripted.answer = cast()
    more = {"METACOG_INFERENCE_URL": f"{scripted.url}/v1", "METACOG_INFERENCE_MODEL": "", "METACOG_HOME": tmp_path}
    async with process("router", **{**ALONE, **more}) as running:
        yield running


async def asked(base: str, method: str, path: str, content: bytes = b"", **headers: str) -> httpx.Response:
    """The reply to one request."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    async with httpx.AsyncClient(base_url=base) as client:
        return await client.request(method, path, content=content or None, headers=named)


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/models", "/readyz", "/docs", "/metrics"])
async def test_a_name_that_was_bound_to_this_machine_reads_nothing(router: Process, path: str) -> None:
    reply = await asked(router.rest, "GET", path, host="evil.example:8080")

    error = reply.json()
    assert reply.status_code == 421
    assert (error.get("reason") or error["error"]["code"].upper()) == "HOST_NOT_ALLOWED"
    assert "METACOG_ALLOWED_HOSTS" in (error.get("detail") or error["error"]["message"])


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "127.0.0.2:1", "[::1]:8080", "LOCALHOST"])
async def test_names_of_loopback_are_answered(router: Process, host: str) -> None:
    assert (await asked(router.rest, "GET", "/v1/models", host=host)).status_code == 200


async def test_a_program_that_names_no_host_is_answered(router: Process) -> None:
    async with connection(router.rest) as line:
        await line.send(b"GET /healthz HTTP/1.0\r\n\r\n")
        reply = await line.reply()

    assert reply.status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:3000"},
        {"sec_fetch_site": "cross-site"},
    ],
)
async def test_a_page_of_another_site_posts_nothing(
    router: Process, scripted: ScriptedLLM, headers: dict[str, str]
) -> None:
    reply = await asked(router.rest, "POST", "/v1/chat/completions", CHAT, content_type="application/json", **headers)
    own = await asked(
        router.rest, "POST", "/v1/answers", b'{"question": "?"}', content_type="application/json", **headers
    )

    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "origin_not_allowed")
    assert (own.status_code, own.json()["reason"]) == (403, "ORIGIN_NOT_ALLOWED")
    assert scripted.bodies == []


@pytest.mark.parametrize(
    "sent", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
)
async def test_what_a_browser_sends_without_asking_first_is_no_request(
    router: Process, scripted: ScriptedLLM, sent: str
) -> None:
    headers = {"content_type": sent} if sent else {}

    chat = await asked(router.rest, "POST", "/v1/chat/completions", CHAT, **headers)
    own = await asked(router.rest, "POST", "/v1/answers", b'{"question": "?"}', **headers)

    assert (chat.status_code, chat.json()["error"]["code"]) == (415, "unsupported_media_type")
    assert (own.status_code, own.json()["reason"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert "-H 'Content-Type: application/json'" in own.json()["detail"]
    assert scripted.bodies == []


async def test_the_usual_clients_are_answered(router: Process) -> None:
    async with AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none", max_retries=0) as client:
        by_sdk = await client.chat.completions.create(
            model="metacog/system1", messages=[{"role": "user", "content": "Is it so?"}]
        )
    header = ("-H", "Content-Type: application/json; charset=utf-8")
    by_curl = await run("curl", "-s", f"{router.rest}/v1/chat/completions", *header, "-d", CHAT.decode())
    without = await run("curl", "-s", f"{router.rest}/v1/chat/completions", "-d", CHAT.decode())
    by_cli = await run(sys.executable, "-m", "cli", "ask", "Is it so?", "--router", router.rest)

    assert by_sdk.choices[0].message.content == "the system1"
    assert "the system1" in by_curl
    assert "-H 'Content-Type: application/json'" in without
    assert "the system1" in by_cli


async def run(*command: str) -> str:
    """What a program writes."""
    child = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=environment(), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    written, _ = await child.communicate()
    return written.decode()


async def test_a_page_of_the_service_itself_is_answered(router: Process) -> None:
    reply = await asked(
        router.rest,
        "POST",
        "/v1/chat/completions",
        CHAT,
        origin=router.rest,
        sec_fetch_site="same-origin",
        **JSON_HEADER,
    )

    assert reply.status_code == 200


async def test_names_can_be_allowed() -> None:
    async with process("assigner", **ALONE, METACOG_ALLOWED_HOSTS="metacog.example.org, other.example") as assigner:
        statuses = [
            (await asked(assigner.rest, "GET", "/healthz", host=host)).status_code
            for host in ("metacog.example.org", "other.example:80", "evil.example")
        ]

    assert statuses == [200, 200, 421]


async def test_with_keys_the_key_decides_and_any_host_may_be_named(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    keys.write_text(yaml.safe_dump({"keys": [{"name": "ann", "sha256": sha256(b"secret").hexdigest()}]}))
    async with process("delegation", **ALONE, METACOG_KEYS_FILE=keys) as service:
        known = await asked(service.rest, "GET", "/metrics", host="delegation:8083", authorization="Bearer secret")
        unknown = await asked(service.rest, "GET", "/metrics", host="delegation:8083")
        text = await asked(
            service.rest, "POST", "/v1/tasks", b"{}", authorization="Bearer secret", content_type="text/plain"
        )

    assert [known.status_code, unknown.status_code, text.status_code] == [200, 401, 415]


async def test_the_console_checks_the_host_with_keys_too(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    keys.write_text(yaml.safe_dump({"keys": [{"name": "ann", "sha256": sha256(b"secret").hexdigest()}]}))
    settings = {
        "METACOG_KEYS_FILE": keys,
        "METACOG_CONSOLE_LOGIN": "always",
        "METACOG_ALLOWED_HOSTS": "console.example.org",
    }
    async with console_at(f"http://{NO_SERVER}", f"http://{NO_SERVER}", **settings) as console:
        statuses = [
            (await asked(console.url, "GET", "/login", host=host)).status_code
            for host in ("console.example.org", "localhost", "evil.example")
        ]

    assert statuses == [200, 200, 421]
