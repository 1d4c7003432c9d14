"""Streams live runs as server-sent events, which contain the changed parts of the page."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, Protocol

from fastapi import Request
from fastapi.responses import StreamingResponse

from console.live_runs import Event, LiveRun, LiveRuns
from console.run_events import apply
from console.run_view import ANSWER, ANSWER_TEXT, PANELS, STAGES, Change, Picture
from console.site import drawn

# Tokens within this time are sent together [s].
TOGETHER_S = 0.04
HEARTBEAT_S = 15.0
# Digits in the number of an event [count].
MOST_DIGITS = 18
DONE = b"event: done\ndata: over\n\n"

Events = Iterable[Event]


class View(Protocol):
    """A view renders the events of a live run."""

    def take(self, events: Events) -> str:
        """Apply events, and render the changes; empty for none."""


class RunView:
    """A view of a run that renders only the changed panels.

    Args:
        question: The question.
        stop_at: Path that stops the run; empty for none.
    """

    def __init__(self, question: str, *, stop_at: str = "") -> None:
        self._picture = Picture(question=question)
        self._stop_at = stop_at

    @property
    def shown(self) -> dict[str, Any]:
        """The variables of the panels' templates."""
        return {"picture": self._picture, "is_live": True, "stop_at": self._stop_at}

    def take(self, events: Events) -> str:
        """Apply events, and render the panels that they change."""
        change = Change()
        for name, data in events:
            change.add(apply(self._picture, name, data))
        panels, text = _needed(change)
        if not panels and not text:
            return ""
        return drawn("live/changes.html", panels=panels, text=text, **self.shown)


def _needed(change: Change) -> tuple[list[str], dict[str, str]]:
    """Return the panels to render, and the text for the places outside of them."""
    outer = [panel for panel in PANELS if panel in change.panels]
    inner = [] if STAGES in outer else sorted(panel for panel in change.panels if panel not in PANELS)
    held = {_holder(place, whole_chain=STAGES in outer) for place in change.text} & {*outer, *inner}
    text = {
        place: added for place, added in change.text.items() if _holder(place, whole_chain=STAGES in outer) not in held
    }
    return [*outer, *inner], text


def _holder(place: str, *, whole_chain: bool) -> str:
    """Return the panel that contains a growing text."""
    if place == ANSWER_TEXT:
        return ANSWER
    return STAGES if whole_chain else place.replace("text-", "stage-", 1)


def stream(request: Request, lives: LiveRuns, live: LiveRun, view: View) -> StreamingResponse:
    """Stream `live` as server-sent events, from the browser's last event on."""
    seen = _last_seen(request, len(live.events))
    view.take(live.events[:seen])
    return StreamingResponse(
        _frames(lives, live, view, seen), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
    )


async def _frames(lives: LiveRuns, live: LiveRun, view: View, seen: int) -> AsyncIterator[bytes]:
    """Yield one frame for the events since the last one."""
    live.add_watcher()
    try:
        while True:
            if not await _news(live, seen):
                yield b": heartbeat\n\n"
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
        live.remove_watcher(lives.unwatched_s)


async def _news(live: LiveRun, seen: int) -> bool:
    """Wait for an event; return False if a heartbeat is due first."""
    try:
        async with asyncio.timeout(HEARTBEAT_S):
            await live.after(seen)
    except TimeoutError:
        return False
    return True


def frame(text: str, number: int) -> bytes:
    r"""Format one server-sent event with `text`.

    Example:
        >>> frame("a\nb", 3)
        b'id: 3\ndata: a\ndata: b\n\n'
    """
    lines = "".join(f"data: {line}\n" for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    return f"id: {number}\n{lines}\n".encode()


def _last_seen(request: Request, most: int) -> int:
    """Return the number of events that the browser received before it reconnected; 0 for what is no number of ours.

    `int` raises for some characters that are digits, and for thousands of digits.
    """
    last = request.headers.get("last-event-id", "")
    return min(int(last), most) if last.isascii() and last.isdigit() and len(last) <= MOST_DIGITS else 0
