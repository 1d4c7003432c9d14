"""Runs: found, opened, replayed, compared, judged."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from fastapi import FastAPI, Request
from fastapi.responses import Response

from console import replay
from console.comparison import comparison
from console.errors import Unusable
from console.formatting import question
from console.guard import session_of
from console.live_runs import Event
from console.live_streams import RunView
from console.run_events import pictured
from console.run_view import Picture
from console.service_client import segment
from console.site import Site, form, fragment, page, part

PAGE_SIZE = 25
FILTERS = ("system", "strategy", "outcome", "degraded", "judged", "since", "until")
SPEEDS = (1, 4, 16)
# A replay never pauses longer than this [s].
LONGEST_PAUSE_S = 5.0


def add_paths(app: FastAPI, site: Site) -> None:
    """Put the pages on `app`."""
    _add_list(app, site)
    _add_comparison(app, site)
    _add_run(app, site)


def _add_list(app: FastAPI, site: Site) -> None:
    @app.get("/runs")
    async def runs(request: Request) -> Response:
        chosen = {name: request.query_params.get(name, "").strip() for name in FILTERS}
        asked = {**chosen, "page_size": PAGE_SIZE, "page_token": request.query_params.get("page_token", "")}
        found = await part(site.router.get("/v1/runs", key=session_of(request).key, **asked))
        return page(request, "runs/list.html", found=found, chosen=chosen)


def _add_comparison(app: FastAPI, site: Site) -> None:
    @app.get("/runs/compare")
    async def compare(request: Request) -> Response:
        names = request.query_params.getlist("run")
        if len(names) != 2:
            raise Unusable(f"Tick two runs to compare them; {len(names)} {'is' if len(names) == 1 else 'are'} ticked.")
        key = session_of(request).key
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(part(_run(site, name, key))) for name in names]
        sides = [task.result() for task in asked]
        told = [side.told for side in sides if side.told is not None]
        rows = comparison(*told) if len(told) == 2 else []
        return page(request, "runs/compare.html", sides=sides, rows=rows, pictures=[_picture(run) for run in told])


def _add_run(app: FastAPI, site: Site) -> None:
    @app.get("/runs/{run_id}")
    async def run_page(request: Request, run_id: str) -> Response:
        run = await _run(site, run_id, session_of(request).key)
        return page(request, "runs/run.html", run=run, picture=_picture(run), speeds=SPEEDS, is_live=False)

    @app.post("/runs/{run_id}/replay")
    async def replayed(request: Request, run_id: str) -> Response:
        key, speed = session_of(request).key, (await form(request)).get("speed", "")
        if not speed.isdecimal() or int(speed) not in SPEEDS:
            raise Unusable(f"The speed has to be one of {', '.join(map(str, SPEEDS))}.")
        run = await _run(site, run_id, key)
        about = {"question": question(run), "kind": "replay"}
        live = site.lives.begin(partial(_again, run, int(speed)), owner=key, about=about)
        view = RunView(about["question"], stop_at=f"/live/{live.id}/stop")
        return fragment("ask/live.html", live=live, events=f"/live/{live.id}", **view.shown)

    @app.post("/runs/{run_id}/feedback")
    async def feedback(request: Request, run_id: str) -> Response:
        correct = _verdict(await form(request))
        told = await site.router.post("/v1/feedback", _feedback(run_id, correct), key=session_of(request).key)
        labels = [{"score": 1.0 if correct else 0.0}]
        return fragment("runs/feedback.html", labels=labels, told=_learned(told), run={"run_id": run_id})


async def _run(site: Site, run_id: str, key: str) -> Mapping[str, Any]:
    told: Mapping[str, Any] = (await site.router.get(f"/v1/runs/{segment(run_id)}", key=key))["run"]
    return told


def _picture(run: Mapping[str, Any]) -> Picture:
    return pictured(((each.name, each.data) for each in replay.events(run)), question(run))


async def _again(run: Mapping[str, Any], speed: int) -> AsyncGenerator[Event, None]:
    """The events of `run` in their own time, `speed` times as fast."""
    for each in replay.events(run):
        await asyncio.sleep(min(LONGEST_PAUSE_S, each.after_ms / 1000 / speed))
        yield each.name, each.data


def _verdict(fields: Mapping[str, str]) -> bool:
    if fields.get("correct") not in ("true", "false"):
        raise Unusable("Say whether the answer is right or wrong.")
    return fields["correct"] == "true"


def _feedback(run_id: str, correct: bool) -> Mapping[str, Any]:
    """The verdict; pressing the same button twice is one verdict, for it bears the same name."""
    name = uuid5(NAMESPACE_URL, f"metacog:console:{run_id}:{correct}")
    return {"feedback_id": f"console-{name}", "run_id": run_id, "correct": correct}


def _learned(told: Mapping[str, Any]) -> str:
    """What a verdict does, in words."""
    effects = [
        ("calibrates", "the confidence is calibrated with it"),
        ("becomes_experience", "the answer becomes experience"),
        ("delegation_tasks", "the profile of who answered learns"),
    ]
    done = [text for name, text in effects if told.get(name)]
    if not told.get("teaches"):
        return "It is kept; this key may not teach."
    return f"It is kept: {', '.join(done)}." if done else "It is kept."
