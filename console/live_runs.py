"""Questions and uploads under way: each is worked on once, and may be watched by several pages, again and again."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from chassis.log import logger
from console.errors import NotLive, TooManyLive
from kernel.errors import Bug, MetacogError

Event = tuple[str, Mapping[str, Any]]
Source = Callable[[], AsyncGenerator[Event, None]]

REFUSED, STOPPED = "refused", "stopped"

_log = logger(__name__)


@dataclass
class Live:
    """Something under way.

    Attributes:
        id: Its name; nobody can guess it.
        owner: Who may watch it.
        about: What it is about, for the page.
        events: What has happened so far; a refusal comes last under the name `refused`, a stop under `stopped`.
        is_over: Whether nothing more will come.
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
        """Wait until there are more than `place` events, or it is over."""
        while len(self.events) <= place and not self.is_over:
            await self._news.wait()

    def tell(self, name: str, data: Mapping[str, Any]) -> None:
        """Add an event."""
        self.events.append((name, data))
        self._wake()

    def end(self) -> None:
        """Say that nothing more will come."""
        self.is_over = True
        self._wake()

    def stop(self) -> None:
        """Stop the work; what has come stays."""
        if self._task is not None and not self.is_over:
            self._task.cancel()

    def start(self, work: "asyncio.Task[None]") -> None:
        """Take note of the work."""
        self._task = work

    def arrive(self) -> None:
        """Somebody watches."""
        self.watchers += 1
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None

    def leave(self, stop_after_s: float) -> None:
        """Somebody has gone; if nobody is left and nobody comes, the work is stopped."""
        self.watchers -= 1
        if self.watchers == 0 and not self.is_over:
            self._leaving = asyncio.get_running_loop().call_later(stop_after_s, self.stop)

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class Lives:
    """Everything under way, and what ended a short while ago.

    Args:
        most: Kept at a time; when all of them are under way, a further one is refused.
        unwatched_s: Time after which something that nobody watches is stopped [s].
    """

    def __init__(self, *, most: int, unwatched_s: float) -> None:
        self._most = most
        self.unwatched_s = unwatched_s
        self._lives: dict[str, Live] = {}

    def begin(self, source: Source, *, owner: str, about: Mapping[str, Any]) -> Live:
        """Start the work that `source` makes events of.

        Raises:
            TooManyLive: When as much is under way as may be.
        """
        self._make_room()
        live = Live(id=secrets.token_urlsafe(16), owner=owner, about=about)
        self._lives[live.id] = live
        live.arrive()
        live.start(asyncio.create_task(_work(live, source)))
        live.leave(self.unwatched_s)
        return live

    def find(self, name: str, *, owner: str) -> Live:
        """What is under way, or ended a short while ago, under `name`.

        Raises:
            NotLive: When there is nothing that `owner` may watch.
        """
        live = self._lives.get(name)
        if live is None or not secrets.compare_digest(live.owner.encode(), owner.encode()):
            raise NotLive("This question is not followed any more. If it was answered, it is among the runs.")
        return live

    async def close(self) -> None:
        """Stop all of it."""
        for live in self._lives.values():
            live.stop()
        await asyncio.sleep(0)

    def _make_room(self) -> None:
        ended = [name for name, live in self._lives.items() if live.is_over]
        for name in ended[: max(0, len(self._lives) - self._most + 1)]:
            del self._lives[name]
        if len(self._lives) >= self._most:
            raise TooManyLive(f"{self._most} questions are being followed, and that is as many as may be.")


async def _work(live: Live, source: Source) -> None:
    try:
        async with aclosing(source()) as events:
            async for name, data in events:
                live.tell(name, data)
    except asyncio.CancelledError:
        live.tell(STOPPED, {})
    except MetacogError as refusal:
        live.tell(REFUSED, {"error": refusal})
    except Exception as bug:  # noqa: BLE001 - the edge: the page has to be told
        _log.error("a bug reached the edge of a live run", exc_info=bug)
        live.tell(REFUSED, {"error": Bug()})
    finally:
        live.end()
