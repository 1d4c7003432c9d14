"""The console: pages for a person, over the services' public faces."""

from collections.abc import Sequence

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from chassis.log import logger
from chassis.serving.health import Health
from chassis.serving.rest import Json
from console.errors import Notice, notice
from console.guard import Guard
from console.pages import agents, ask, calibration, knowledge, login, runs
from console.sessions import Sessions
from console.site import STATIC, Site, fragment, page
from kernel.errors import Bug, MetacogError

_log = logger(__name__)


class Console(FastAPI):
    """FastAPI behind the console's guard."""

    guard: Guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self.guard(scope, receive, send)

    async def inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request that the guard let in."""
        await super().__call__(scope, receive, send)


def build_app(
    site: Site, *, health: Health, sessions: Sessions | None = None, key: str = "", names: Sequence[str] = ()
) -> Console:
    """The console.

    Args:
        site: Services, settings, and what is under way.
        health: Whether the router can be reached.
        sessions: The logins; None where nobody has to log in.
        key: API key that the services are asked with where nobody logs in.
        names: Names, beside those of loopback, that the console may be asked for under.
    """
    app = Console(title="metacog console", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.site = site
    app.guard = Guard(app.inside, sessions=sessions, key=key, names=names)
    app.add_exception_handler(MetacogError, _refuse)
    app.add_exception_handler(HTTPException, _refuse_http)
    app.add_exception_handler(Exception, _refuse_bug)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")

    @app.get("/healthz")
    async def healthz() -> Response:
        return Json({"status": "alive"})

    @app.get("/readyz")
    async def readyz() -> Response:
        report = await health.report()
        return Json(report, status_code=200 if report.ready else 503)

    for pages in (ask, runs, agents, calibration, knowledge):
        pages.add_paths(app, site)
    login.add_paths(app, site, sessions)
    return app


def _told(request: Request, told: Notice, status: int) -> Response:
    """A notice: for htmx a part of the page, with a status that it draws; else a page."""
    if "hx-request" in request.headers:
        return fragment("parts/notice_only.html", notice=told)
    return page(request, "notice.html", status=status, notice=told, heading="That did not work")


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, MetacogError)
    return _told(request, notice(error), error.code.http)


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    missing = error.status_code == 404
    title = "There is no such page" if missing else "This cannot be done here"
    told = Notice(title=title, detail=f"{request.method} {request.url.path}", advice="Go to one of the pages above.")
    return _told(request, told, error.status_code)


async def _refuse_bug(request: Request, error: Exception) -> Response:
    _log.error("a bug reached the edge", path=request.url.path, exc_info=error)
    return _told(request, notice(Bug()), 500)
