import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from chassis.errors import PeerUnavailable
from console.errors import NotLive, TooManyLive
from console.live_runs import Event, LiveRuns


async def two() -> AsyncGenerator[Event, None]:
    yield "first", None
    yield "second", None


async def never() -> AsyncGenerator[Event, None]:
    yield "first", None
    await asyncio.Event().wait()


async def failing() -> AsyncGenerator[Event, None]:
    yield "first", None
    raise PeerUnavailable("away")


def lives(most: int = 4, unwatched_s: float = 60.0) -> LiveRuns:
    return LiveRuns(most=most, unwatched_s=unwatched_s)


async def names(live: Any) -> list[str]:  # noqa: ANN401
    while not live.is_over:
        await live.after(len(live.events))
    return [name for name, _ in live.events]


async def test_a_later_watcher_receives_all_events() -> None:
    kept = lives()
    live = kept.begin(two, owner="me", about={})

    assert await names(live) == ["first", "second"]
    assert kept.find(live.id, owner="me") is live


async def test_only_the_owner_may_follow_a_run() -> None:
    kept = lives()
    live = kept.begin(two, owner="me", about={})

    with pytest.raises(NotLive):
        kept.find(live.id, owner="you")
    with pytest.raises(NotLive):
        kept.find("no such", owner="me")


async def test_an_error_is_the_last_event() -> None:
    assert await names(lives().begin(failing, owner="", about={})) == ["first", "failed"]


async def test_a_stop_ends_the_work() -> None:
    live = lives().begin(never, owner="", about={})
    await live.after(0)

    live.stop()

    assert await names(live) == ["first", "stopped"]


async def test_a_run_without_watchers_is_stopped_unless_one_returns() -> None:
    kept = lives(unwatched_s=0.05)
    left, kept_on = (kept.begin(never, owner="", about={}) for _ in range(2))
    kept_on.add_watcher()

    assert await names(left) == ["first", "stopped"]
    assert not kept_on.is_over
    await kept.close()


async def test_runs_over_the_limit_raise_an_error_and_ended_runs_are_dropped() -> None:
    kept = lives(most=2)
    running = kept.begin(never, owner="", about={})
    ended = kept.begin(two, owner="", about={})
    await names(ended)

    kept.begin(never, owner="", about={})

    with pytest.raises(NotLive):
        kept.find(ended.id, owner="")
    with pytest.raises(TooManyLive):
        kept.begin(two, owner="", about={})
    assert not running.is_over
    await kept.close()
