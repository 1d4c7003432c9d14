"""Live runs are running questions and uploads, which several pages may follow."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message

from chassis.log import logger
from console.errors import NotLive, TooManyLive
from kernel.errors import InternalError, MetacogError

# An event has its name and its message: the error, if the run failed; None, if it was stopped.
Event = tuple[str, Message | MetacogError | None]
Source = Callable[[], AsyncGenerator[Event, None]]

FAILED, STOPPED = "failed", "stopped"

_log = logger(__name__)


@dataclass
class LiveRun:
    """A live run is one running question or upload.

    Attributes:
        id: Its random identifier.
        owner: Key of the user who may follow it.
        about: Its description, for the page.
        events: Events so far; an error is the last one, named `failed`, a stop is named `stopped`.
        is_over: Whether it has ended.
        watchers: Pages that follow it [count].
    """

    id: str
    owner: str
    about: Mapping[str, Any]
    events: list[Event] = field(default_factory=list)
    is_over: bool = False
    watchers: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _task: "asyncio.Task[None] | None" = None
    _leaving: asyncio.TimerHandle | None = None

    async def after(self, place: int) -> None:
        """Wait until there are more than `place` events, or the run has ended."""
        while len(self.events) <= place and not self.is_over:
            await self._news.wait()

    def add(self, name: str, data: Message | MetacogError | None) -> None:
        """Add an event."""
        self.events.append((name, data))
        self._wake()

    def end(self) -> None:
        """Mark the run as ended."""
        self.is_over = True
        self._wake()

    def stop(self) -> None:
        """Stop the work; the events so far remain."""
        if self._task is not None and not self.is_over:
            self._task.cancel()

    def start(self, work: "asyncio.Task[None]") -> None:
        """Record the task of the work."""
        self._task = work

    def add_watcher(self) -> None:
        """Record that a page follows the run."""
        self.watchers += 1
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None

    def remove_watcher(self, stop_after_s: float) -> None:
        """Record that a page does not follow the run any more; without watchers the work stops after a while."""
        self.watchers -= 1
        if self.watchers == 0 and not self.is_over:
            self._leaving = asyncio.get_running_loop().call_later(stop_after_s, self.stop)

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class LiveRuns:
    """The live runs, and those that ended recently.

    Args:
        most: Maximum number; if all of them are running, a further one raises an error.
        unwatched_s: Time after which a run without watchers is stopped [s].
    """

    def __init__(self, *, most: int, unwatched_s: float) -> None:
        self._most = most
        self.unwatched_s = unwatched_s
        self._lives: dict[str, LiveRun] = {}

    def begin(self, source: Source, *, owner: str, about: Mapping[str, Any]) -> LiveRun:
        """Start a live run with the events of `source`.

        Raises:
            TooManyLive: The maximum number of runs is running.
        """
        self._make_room()
        live = LiveRun(id=secrets.token_urlsafe(16), owner=owner, about=about)
        self._lives[live.id] = live
        live.add_watcher()
        live.start(asyncio.create_task(_work(live, source)))
        live.remove_watcher(self.unwatched_s)
        return live

    def find(self, name: str, *, owner: str) -> LiveRun:
        """Return the live run `name`.

        Raises:
            NotLive: There is no such run that `owner` may follow.
        """
        live = self._lives.get(name)
        if live is None or not secrets.compare_digest(live.owner.encode(), owner.encode()):
            raise NotLive("This question is not live any more. If it was answered, it is among the runs.")
        return live

    async def close(self) -> None:
        """Stop all live runs."""
        for live in self._lives.values():
            live.stop()
        await asyncio.sleep(0)

    def _make_room(self) -> None:
        ended = [name for name, live in self._lives.items() if live.is_over]
        for name in ended[: max(0, len(self._lives) - self._most + 1)]:
            del self._lives[name]
        if len(self._lives) >= self._most:
            raise TooManyLive(f"{self._most} questions are running, which is the limit.")


async def _work(live: LiveRun, source: Source) -> None:
    try:
        async with aclosing(source()) as events:
            async for name, data in events:
                live.add(name, data)
    except asyncio.CancelledError:
        live.add(STOPPED, None)
    except MetacogError as error:
        live.add(FAILED, error)
    except Exception as bug:  # noqa: BLE001 - the edge of the program: the page shows the error
        _log.error("an unexpected error ended a live run", exc_info=bug)
        live.add(FAILED, InternalError())
    finally:
        live.end()
