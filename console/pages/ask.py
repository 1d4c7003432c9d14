"""The ask page: it sends a question to the router, and follows the run."""

from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from metacog.router.v1.router_pb2 import AnswerResponse

from console.errors import EmptyQuestion, InvalidInput, notice
from console.formatting import ANSWER_TYPES, STRATEGIES
from console.guard import session_of
from console.live_runs import Event, LiveRun
from console.live_streams import RunView, stream
from console.site import Site, form, fragment, page
from kernel.errors import MetacogError

# The whole numbers of the form, with their labels on the page.
_COUNTS = {
    "max_tokens": "Tokens of the answer",
    "stage_max_tokens": "Tokens of a stage",
    "max_generated_tokens": "Tokens in total",
    "max_generations": "Generations",
    "seed": "Seed",
}


# A question of 1 MiB, the router's own limit, as a form spells it: three bytes for each that is not a plain letter.
MAX_QUESTION_BYTES = 3 * 1024 * 1024


def add_paths(app: FastAPI, site: Site) -> None:
    """Add the page, and the streams of live runs, to `app`."""

    @app.get("/")
    async def ask_page(request: Request, question: str = "", strategy: str = "", live: str = "") -> Response:
        shown: dict[str, Any] = {"question": question, "strategy": strategy, "live": None, "notice": None}
        if live:
            try:
                shown |= _live_variables(site.lives.find(live, owner=session_of(request).key))
            except MetacogError as error:
                shown["notice"] = notice(error)
        return page(request, "ask/page.html", **shown)

    @app.post("/ask")
    async def ask(request: Request) -> Response:
        body, key = answer_request(await form(request, most_bytes=MAX_QUESTION_BYTES)), session_of(request).key
        about = {"question": body["question"], "kind": "run"}
        live = site.lives.begin(partial(_answer_events, site, body, key), owner=key, about=about)
        shown = fragment("ask/live.html", **_live_variables(live))
        shown.headers["hx-push-url"] = f"/?live={live.id}"
        return shown

    @app.get("/live/{name}")
    async def events(request: Request, name: str) -> Response:
        live = site.lives.find(name, owner=session_of(request).key)
        view = RunView(live.about["question"], stop_at=f"/live/{name}/stop")
        return stream(request, site.lives, live, view)

    @app.post("/live/{name}/stop")
    async def stop(request: Request, name: str) -> Response:
        site.lives.find(name, owner=session_of(request).key).stop()
        return Response(status_code=204)


def answer_request(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the request of a form.

    Raises:
        EmptyQuestion: The question is empty.
        Unusable: A number is invalid, or the strategy or answer type is unknown.

    Example:
        >>> answer_request({"question": " Why? ", "strategy": "arbiter", "seed": "7", "timeout_s": "1.5"})
        {'question': 'Why?', 'fallback': False, 'strategy': 'arbiter', 'seed': 7, 'envelope': {'timeout_ms': 1500}}
        >>> answer_request({"question": "Why?", "max_cost": "0.02", "fallback": "yes"})
        {'question': 'Why?', 'fallback': True, 'envelope': {'max_cost': 0.02}}
    """
    question = fields.get("question", "").strip()
    if not question:
        raise EmptyQuestion
    body: dict[str, Any] = {"question": question, "fallback": fields.get("fallback") == "yes"}
    for name, known in (("strategy", STRATEGIES), ("answer_type", ANSWER_TYPES)):
        chosen = fields.get(name, "")
        if chosen not in known:
            raise InvalidInput(f"{name.replace('_', ' ')} {chosen!r} is not one of {', '.join(filter(None, known))}")
        body |= {name: chosen} if chosen else {}
    numbers = {name: _whole(fields[name], title) for name, title in _COUNTS.items() if fields.get(name, "").strip()}
    envelope: dict[str, float] = {
        name: numbers.pop(name) for name in ("max_generations", "max_generated_tokens") if name in numbers
    }
    if seconds := fields.get("timeout_s", "").strip():
        envelope["timeout_ms"] = round(1000 * _number(seconds, "Time limit, seconds", float))
    if promised := fields.get("error_at_most", "").strip():
        body["promise"] = {"error_at_most": _number(promised, "Errors at most", float)}
    if cost := fields.get("max_cost", "").strip():
        envelope["max_cost"] = _number(cost, "Cost", float)
    return {**body, **numbers, **({"envelope": envelope} if envelope else {})}


def _whole(text: str, what: str) -> int:
    return int(_number(text, what, int))


def _number(text: str, what: str, kind: Callable[[str], float]) -> float:
    try:
        number = kind(text.strip())
    except ValueError:
        raise InvalidInput(f"{what}: {text.strip()[:40]!r} is not a number. Leave it empty for the default.") from None
    if not 0 <= number < 2**31 or (number == 0 and what != "Seed"):
        raise InvalidInput(f"{what}: {text.strip()} is out of range. It must be above 0.")
    return number


async def _answer_events(site: Site, body: Mapping[str, Any], key: str) -> AsyncGenerator[Event, None]:
    timeout_s = site.settings.answer_timeout_s
    async for event in site.router.stream("/v1/answers", body, AnswerResponse, key=key, timeout_s=timeout_s):
        yield event


def _live_variables(live: LiveRun) -> dict[str, Any]:
    """Return the template variables for a live run: an empty picture, which the events fill."""
    view = RunView(live.about["question"], stop_at=f"/live/{live.id}/stop")
    return {"live": live, "question": live.about["question"], "events": f"/live/{live.id}", **view.shown}
