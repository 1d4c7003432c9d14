"""Bodies that are far larger than a form, posted to the console by whoever reaches its port."""

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
import yaml

from tests.support.console import Console, console_at
from tests.support.hostile.raw_http import connection, peak_mib, resident_mib
from tests.support.stack import NO_SERVER

LARGE = 64 << 20


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    """A console that wants a login."""
    keys = tmp_path / "keys.yaml"
    keys.write_text(yaml.safe_dump({"keys": [{"name": "ann", "sha256": sha256(b"secret").hexdigest()}]}))
    settings = {"METACOG_KEYS_FILE": keys, "METACOG_CONSOLE_LOGIN": "always"}
    async with console_at(f"http://{NO_SERVER}", f"http://{NO_SERVER}", **settings) as running:
        yield running


def start(console: Console, *more: str) -> bytes:
    """The head of a login."""
    lines = ("POST /login HTTP/1.1", "host: localhost", "origin: http://localhost", *more)
    return "\r\n".join([*lines, "content-type: application/x-www-form-urlencoded", "", ""]).encode()


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "chunked"])
async def test_a_large_login_takes_no_memory(console: Console, declared: bool) -> None:
    before = resident_mib(console.process.inner.pid)
    part = b"k" * 65_536 if declared else b"10000\r\n" + b"k" * 65_536 + b"\r\n"
    async with connection(console.url) as line:
        length = f"content-length: {LARGE}" if declared else "transfer-encoding: chunked"
        await line.send(start(console, length, "connection: close"))
        sent = 0
        while sent < LARGE and await line.send(part):
            sent += 65_536
        if not declared:
            await line.send(b"0\r\n\r\n")
        reply = await line.reply()
    peak = peak_mib(console.process.inner.pid)

    assert peak - before < 20
    if reply.raw:  # else the connection was reset while more was on its way
        assert (reply.status, "The form is larger than 64 KiB" in reply.raw.decode()) == (400, True)


async def test_a_form_over_the_limit_gets_a_page_that_says_so(console: Console) -> None:
    async with httpx.AsyncClient(base_url=console.url, headers={"origin": console.url}) as client:
        over = await client.post("/login", data={"key": "k" * 70_000})
        below = await client.post("/login", data={"key": "k" * 60_000})

    assert (over.status_code, "The form is larger than 64 KiB" in over.text) == (400, True)
    assert "<html" in over.text
    assert (below.status_code, "This key is unknown." in below.text) == (401, True)


async def test_a_long_question_of_someone_who_is_logged_in_is_no_large_form(console: Console) -> None:
    async with httpx.AsyncClient(base_url=console.url, headers={"origin": console.url}) as client:
        await client.post("/login", data={"key": "secret"})
        reply = await client.post("/ask", data={"question": "long " * 40_000}, headers={"hx-request": "true"})

    assert reply.status_code == 200
    assert "larger than" not in reply.text
