"""The pages of the recorded runs: list, run, replay, comparison and feedback."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from fastapi import FastAPI, Request
from fastapi.responses import Response
from metacog.router.v1.feedback_pb2 import (
    LABEL_ORIGIN_SAMPLED,
    LABEL_ORIGIN_VOLUNTEERED,
    LabelOrigin,
    SubmitFeedbackResponse,
)
from metacog.router.v1.router_pb2 import GetRunResponse, ListRunsResponse, Run, RunFeedback

from chassis.serving.wire import word
from console import replay
from console.comparison import comparison
from console.errors import InvalidInput
from console.formatting import question
from console.guard import session_of
from console.live_runs import Event
from console.live_streams import RunView
from console.replies.service_client import segment
from console.run_events import pictured
from console.run_view import Picture
from console.site import Site, form, fragment, page, part

PAGE_SIZE = 25
FILTERS = ("system", "strategy", "outcome", "degraded", "judged", "sampled", "since", "until")
SPEEDS = (1, 4, 16)
# A replay never pauses longer than this [s].
LONGEST_PAUSE_S = 5.0


def add_paths(app: FastAPI, site: Site) -> None:
    """Add the pages to `app`."""
    _add_list(app, site)
    _add_comparison(app, site)
    _add_run(app, site)


def _add_list(app: FastAPI, site: Site) -> None:
    @app.get("/runs")
    async def runs(request: Request) -> Response:
        chosen = {name: request.query_params.get(name, "").strip() for name in FILTERS}
        asked = {**chosen, "page_size": PAGE_SIZE, "page_token": request.query_params.get("page_token", "")}
        found = await part(site.router.get("/v1/runs", ListRunsResponse, key=session_of(request).key, **asked))
        return page(request, "runs/list.html", found=found, chosen=chosen)


def _add_comparison(app: FastAPI, site: Site) -> None:
    @app.get("/runs/compare")
    async def compare(request: Request) -> Response:
        names = request.query_params.getlist("run")
        if len(names) != 2:
            raise InvalidInput(
                f"Select two runs to compare them; {len(names)} {'is' if len(names) == 1 else 'are'} selected."
            )
        key = session_of(request).key
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(part(_run(site, name, key))) for name in names]
        sides = [task.result() for task in asked]
        found = [side.content for side in sides if side.content is not None]
        rows = comparison(*found) if len(found) == 2 else []
        return page(request, "runs/compare.html", sides=sides, rows=rows, pictures=[_picture(run) for run in found])


def _add_run(app: FastAPI, site: Site) -> None:
    @app.get("/runs/{run_id}")
    async def run_page(request: Request, run_id: str) -> Response:
        record = await site.router.get_record(_path(run_id), GetRunResponse, key=session_of(request).key)
        run = record.message.run
        return page(
            request,
            "runs/run.html",
            run=run,
            picture=_picture(run),
            record=record.text,
            speeds=SPEEDS,
            is_live=False,
        )

    @app.post("/runs/{run_id}/replay")
    async def replayed(request: Request, run_id: str) -> Response:
        key, speed = session_of(request).key, (await form(request)).get("speed", "")
        if speed not in map(str, SPEEDS):
            raise InvalidInput(f"The speed must be one of {', '.join(map(str, SPEEDS))}.")
        run = await _run(site, run_id, key)
        about = {"question": question(run), "kind": "replay"}
        live = site.lives.begin(partial(_replayed_events, run, int(speed)), owner=key, about=about)
        view = RunView(about["question"], stop_at=f"/live/{live.id}/stop")
        return fragment("ask/live.html", live=live, events=f"/live/{live.id}", **view.shown)

    @app.post("/runs/{run_id}/feedback")
    async def feedback(request: Request, run_id: str) -> Response:
        fields = await form(request)
        label = RunFeedback(score=1.0 if _label(fields) else 0.0, origin=_origin(fields))
        key = session_of(request).key
        reply = await site.router.post("/v1/feedback", _feedback(run_id, label), SubmitFeedbackResponse, key=key)
        return fragment("runs/feedback.html", labels=[label], effects=_effects(reply), run=Run(run_id=run_id))


async def _run(site: Site, run_id: str, key: str) -> Run:
    return (await site.router.get(_path(run_id), GetRunResponse, key=key)).run


def _path(run_id: str) -> str:
    return f"/v1/runs/{segment(run_id)}"


def _picture(run: Run) -> Picture:
    return pictured(((each.name, each.data) for each in replay.events(run)), question(run))


async def _replayed_events(run: Run, speed: int) -> AsyncGenerator[Event, None]:
    """Yield the events of `run` in their original time, `speed` times as fast."""
    for each in replay.events(run):
        await asyncio.sleep(min(LONGEST_PAUSE_S, each.after_ms / 1000 / speed))
        yield each.name, each.data


def _label(fields: Mapping[str, str]) -> bool:
    if fields.get("correct") not in ("true", "false"):
        raise InvalidInput("Choose whether the answer is right or wrong.")
    return fields["correct"] == "true"


def _origin(fields: Mapping[str, str]) -> LabelOrigin.ValueType:
    return LABEL_ORIGIN_SAMPLED if fields.get("sampled") == "true" else LABEL_ORIGIN_VOLUNTEERED


def _feedback(run_id: str, label: RunFeedback) -> Mapping[str, Any]:
    """Return the feedback; pressing the same button twice sends the same identifier, which counts once."""
    correct = label.score == 1.0
    name = uuid5(NAMESPACE_URL, f"metacog:console:{run_id}:{correct}")
    origin = word(LabelOrigin, label.origin)
    return {"feedback_id": f"console-{name}", "run_id": run_id, "correct": correct, "origin": origin}


def _effects(reply: SubmitFeedbackResponse) -> str:
    """Describe the effects of feedback."""
    effects = [
        (reply.calibrates, "it calibrates the confidence"),
        (reply.becomes_experience, "the answer becomes experience"),
        (reply.delegation_tasks, "the profile of the agent learns from it"),
    ]
    done = [text for happened, text in effects if happened]
    if not reply.teaches:
        return "The feedback is stored; this key has no permission to teach."
    return f"The feedback is stored: {', '.join(done)}." if done else "The feedback is stored."
