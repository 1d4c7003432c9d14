"""Ask: a question goes to the router, and is watched being thought through."""

from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response

from console.errors import EmptyQuestion, Unusable, notice
from console.formatting import ANSWER_TYPES, STRATEGIES
from console.guard import session_of
from console.live_runs import Event, Live
from console.live_streams import RunView, stream
from console.site import Site, form, fragment, page
from kernel.errors import MetacogError

# Numbers of the form: field, name on the page, whether parts of one are allowed.
_COUNTS = {
    "max_tokens": "Answer, tokens",
    "stage_max_tokens": "Stage, tokens",
    "max_generated_tokens": "All, tokens",
    "max_generations": "Generations",
    "seed": "Seed",
}


def add_paths(app: FastAPI, site: Site) -> None:
    """Put the page, and what it follows, on `app`."""

    @app.get("/")
    async def ask_page(request: Request, question: str = "", strategy: str = "", live: str = "") -> Response:
        shown: dict[str, Any] = {"question": question, "strategy": strategy, "live": None, "notice": None}
        if live:
            try:
                shown |= _followed(site.lives.find(live, owner=session_of(request).key))
            except MetacogError as refusal:
                shown["notice"] = notice(refusal)
        return page(request, "ask/page.html", **shown)

    @app.post("/ask")
    async def ask(request: Request) -> Response:
        body, key = asked(await form(request)), session_of(request).key
        about = {"question": body["query"], "kind": "run"}
        live = site.lives.begin(partial(_answering, site, body, key), owner=key, about=about)
        shown = fragment("ask/live.html", **_followed(live))
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


def asked(fields: Mapping[str, str]) -> dict[str, Any]:
    """The request that a filled-in form makes.

    Raises:
        EmptyQuestion: Without a question.
        Unusable: For a number that is none, or an unknown strategy or answer type.

    Example:
        >>> asked({"question": " Why? ", "strategy": "arbiter", "seed": "7", "timeout_s": "1.5", "fallback": "yes"})
        {'query': 'Why?', 'fallback': True, 'strategy': 'arbiter', 'seed': 7, 'envelope': {'timeout_ms': 1500}}
        >>> asked({"question": "Why?", "max_cost": "0.02"})
        {'query': 'Why?', 'fallback': False, 'envelope': {'max_cost': 0.02}}
    """
    question = fields.get("question", "").strip()
    if not question:
        raise EmptyQuestion
    body: dict[str, Any] = {"question": question, "fallback": fields.get("fallback") == "yes"}
    for name, known in (("strategy", STRATEGIES), ("answer_type", ANSWER_TYPES)):
        chosen = fields.get(name, "")
        if chosen not in known:
            raise Unusable(f"{name.replace('_', ' ')} {chosen!r} is not one of {', '.join(filter(None, known))}")
        body |= {name: chosen} if chosen else {}
    numbers = {name: _whole(fields[name], title) for name, title in _COUNTS.items() if fields.get(name, "").strip()}
    envelope: dict[str, float] = {
        name: numbers.pop(name) for name in ("max_generations", "max_generated_tokens") if name in numbers
    }
    if seconds := fields.get("timeout_s", "").strip():
        envelope["timeout_ms"] = round(1000 * _number(seconds, "Time, seconds", float))
    if cost := fields.get("max_cost", "").strip():
        envelope["max_cost"] = _number(cost, "Cost", float)
    return {**body, **numbers, **({"envelope": envelope} if envelope else {})}


def _whole(text: str, what: str) -> int:
    return int(_number(text, what, int))


def _number(text: str, what: str, kind: Callable[[str], float]) -> float:
    try:
        number = kind(text.strip())
    except ValueError:
        raise Unusable(f"{what}: {text.strip()[:40]!r} is not a number. Leave it empty for the default.") from None
    if not 0 <= number < 2**31 or (number == 0 and what != "Seed"):
        raise Unusable(f"{what}: {text.strip()} is out of range. It has to be above 0.")
    return number


async def _answering(site: Site, body: Mapping[str, Any], key: str) -> AsyncGenerator[Event, None]:
    timeout_s = site.settings.answer_timeout_s
    async for event in site.router.stream("/v1/answers", body, key=key, timeout_s=timeout_s):
        yield event


def _followed(live: Live) -> dict[str, Any]:
    """What the page needs to follow `live`: an empty picture, which the events fill."""
    view = RunView(live.about["question"], stop_at=f"/live/{live.id}/stop")
    return {"live": live, "question": live.about["question"], "events": f"/live/{live.id}", **view.shown}
