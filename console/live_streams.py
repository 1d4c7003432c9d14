"""What is under way as server-sent events: pieces of the page, drawn anew as they change."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Protocol

from fastapi import Request
from fastapi.responses import StreamingResponse

from console.live_runs import Live, Lives
from console.run_events import apply
from console.run_view import ANSWER, ANSWER_TEXT, PANELS, STAGES, Change, Picture
from console.site import drawn

# Tokens that come closer together are shown together [s].
TOGETHER_S = 0.04
HEARTBEAT_S = 15.0
DONE = b"event: done\ndata: over\n\n"

Events = Iterable[tuple[str, Mapping[str, Any]]]


class View(Protocol):
    """What somebody watches, and how it is drawn."""

    def take(self, events: Events) -> str:
        """Take in events, and draw what they change; empty for nothing."""


class RunView:
    """A run under way: only what changes is drawn.

    Args:
        question: What was asked.
        stop_at: Where it can be stopped; empty for nowhere.
    """

    def __init__(self, question: str, *, stop_at: str = "") -> None:
        self._picture = Picture(question=question)
        self._stop_at = stop_at

    @property
    def shown(self) -> dict[str, Any]:
        """What the panels are drawn from."""
        return {"picture": self._picture, "is_live": True, "stop_at": self._stop_at}

    def take(self, events: Events) -> str:
        """Take in events, and draw the panels that they change."""
        change = Change()
        for name, data in events:
            change.add(apply(self._picture, name, data))
        panels, text = _needed(change)
        if not panels and not text:
            return ""
        return drawn("live/changes.html", panels=panels, text=text, **self.shown)


def _needed(change: Change) -> tuple[list[str], dict[str, str]]:
    """Panels to draw, and text for the places that none of them holds."""
    outer = [panel for panel in PANELS if panel in change.panels]
    inner = [] if STAGES in outer else sorted(panel for panel in change.panels if panel not in PANELS)
    held = {_holder(place, whole_chain=STAGES in outer) for place in change.text} & {*outer, *inner}
    text = {
        place: said for place, said in change.text.items() if _holder(place, whole_chain=STAGES in outer) not in held
    }
    return [*outer, *inner], text


def _holder(place: str, *, whole_chain: bool) -> str:
    """Panel that holds the place where a text grows."""
    if place == ANSWER_TEXT:
        return ANSWER
    return STAGES if whole_chain else place.replace("text-", "stage-", 1)


def stream(request: Request, lives: Lives, live: Live, view: View) -> StreamingResponse:
    """`live` as server-sent events, from where the browser has got to."""
    seen = _last_seen(request, len(live.events))
    view.take(live.events[:seen])
    return StreamingResponse(
        _frames(lives, live, view, seen), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
    )


async def _frames(lives: Lives, live: Live, view: View, seen: int) -> AsyncIterator[bytes]:
    """One frame for whatever came since the last one."""
    live.arrive()
    try:
        while True:
            if not await _news(live, seen):
                yield b": still here\n\n"
                continue
            over, reached = live.is_over, len(live.events)
            if text := view.take(live.events[seen:reached]):
                yield frame(text, reached)
            seen = reached
            if over:
                yield DONE
                return
            await asyncio.sleep(TOGETHER_S)
    finally:
        live.leave(lives.unwatched_s)


async def _news(live: Live, seen: int) -> bool:
    """Wait for more; False where a heartbeat is due before."""
    try:
        async with asyncio.timeout(HEARTBEAT_S):
            await live.after(seen)
    except TimeoutError:
        return False
    return True


def frame(text: str, number: int) -> bytes:
    r"""One server-sent event with `text` in it.

    Example:
        >>> frame("a\nb", 3)
        b'id: 3\ndata: a\ndata: b\n\n'
    """
    lines = "".join(f"data: {line}\n" for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    return f"id: {number}\n{lines}\n".encode()


def _last_seen(request: Request, most: int) -> int:
    """Events that the browser has drawn already, as it says when it connects again."""
    said = request.headers.get("last-event-id", "")
    return min(int(said), most) if said.isdigit() else 0
