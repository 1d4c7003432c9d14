"""Numbers as no browser writes them, in what the console reads as a number: an odd digit, or far too many of them."""

import httpx
import pytest

from tests.support.console import console_at
from tests.support.hostile.raw_http import connection
from tests.support.stack import NO_SERVER

# A digit that `int` does not read, digits that are none of ASCII's, more digits than `int` reads, and no number at all.
ODD = {"superscript": b"\xb2", "arabic": "\u0663".encode(), "long": b"9" * 5_000, "word": b"last", "negative": b"-1"}


@pytest.mark.parametrize("last", ODD.values(), ids=ODD.keys())
async def test_an_odd_number_of_the_last_event_is_read_as_none(last: bytes) -> None:
    async with console_at(f"http://{NO_SERVER}", f"http://{NO_SERVER}") as console:
        async with httpx.AsyncClient(base_url=console.url, headers={"origin": console.url}) as client:
            asked = await client.post("/ask", data={"question": "Why?"}, headers={"hx-request": "true"})
        name = asked.headers["hx-push-url"].partition("=")[2]
        async with connection(console.url) as line:
            head = f"GET /live/{name} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nlast-event-id: ".encode()
            await line.send(head + last + b"\r\n\r\n")
            reply = await line.reply()

    assert reply.status == 200
    assert b"id: 1\n" in reply.raw  # every event, from the first one on
    assert b"event: done" in reply.raw


@pytest.mark.parametrize("speed", ["\u00b2", "9" * 5_000], ids=["superscript", "long"])
async def test_an_odd_speed_of_a_replay_gets_a_page_that_lists_the_speeds(speed: str) -> None:
    async with (
        console_at(f"http://{NO_SERVER}", f"http://{NO_SERVER}") as console,
        httpx.AsyncClient(base_url=console.url, headers={"origin": console.url}) as client,
    ):
        reply = await client.post("/runs/any/replay", data={"speed": speed}, headers={"hx-request": "true"})

    assert "The speed must be one of" in reply.text
