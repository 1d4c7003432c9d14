"""The page: a question goes to the router, and its run comes back explained."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from fastapi.templating import Jinja2Templates

from chassis.health import Health
from chassis.rest import Json, until_disconnect
from kernel.errors import MetacogError

Ask = Callable[[str, str], Awaitable[Mapping[str, Any]]]

STRATEGIES = ("", "system1", "dialectic")

_templates = Jinja2Templates(Path(__file__).parent / "templates")


def build_app(*, ask: Ask, health: Health) -> FastAPI:
    """The console.

    Args:
        ask: Has the router answer a question by a strategy, and returns the run as plain data.
        health: Whether the router can be reached.
    """
    app = FastAPI(title="metacog console", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/healthz")
    async def healthz() -> Response:
        return Json({"status": "alive"})

    @app.get("/readyz")
    async def readyz() -> Response:
        report = await health.report()
        return Json(report, status_code=200 if report.ready else 503)

    @app.get("/", response_class=HTMLResponse)
    async def page(request: Request, question: str = "", strategy: str = "") -> Response:
        """The page; with a question, its answer and how it came about."""
        shown: dict[str, Any] = {"question": question, "strategy": strategy, "strategies": STRATEGIES}
        try:
            if question.strip():
                shown["run"] = await until_disconnect(request, ask(question, strategy))
        except MetacogError as refusal:
            shown["refusal"] = refusal
        return _templates.TemplateResponse(request, "ask.html", shown)

    return app
