"""Builds the console's application: its pages, its error pages and its health endpoints."""

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
from console.guard import Guard, session_of
from console.pages import agents, ask, calibration, knowledge, login, runs
from console.sessions import Sessions
from console.site import STATIC, Site, fragment, page
from kernel.errors import InternalError, MetacogError

_log = logger(__name__)


class Console(FastAPI):
    """The application, whose guard checks every request."""

    guard: Guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self.guard(scope, receive, send)

    async def inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request that the guard accepted."""
        await super().__call__(scope, receive, send)


def build_app(
    site: Site, *, health: Health, sessions: Sessions | None = None, key: str = "", names: Sequence[str] = ()
) -> Console:
    """Build the application.

    Args:
        site: Services, settings and live runs.
        health: Readiness checks of the services.
        sessions: The logins; None if no login is required.
        key: API key for the services if no login is required.
        names: Accepted host names, in addition to those of loopback.
    """
    app = Console(title="metacog console", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.site = site
    app.guard = Guard(app.inside, sessions=sessions, key=key, names=names)
    app.add_exception_handler(MetacogError, _error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _bug)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")

    @app.get("/healthz")
    async def healthz() -> Response:
        return Json({"status": "alive"})

    @app.get("/readyz")
    async def readyz(request: Request) -> Response:
        """Return readiness; the state of the services to those who are logged in only, where a login is required."""
        report = await health.report()
        knows_parts = sessions is None or bool(session_of(request).holder)
        return Json(report if knows_parts else report.without_parts(), status_code=200 if report.ready else 503)

    for pages in (ask, runs, agents, calibration, knowledge):
        pages.add_paths(app, site)
    login.add_paths(app, site, sessions)
    return app


def _notice_response(request: Request, shown: Notice, status: int) -> Response:
    """Return a notice: a fragment with status 200 for htmx, else a page."""
    if "hx-request" in request.headers:
        return fragment("parts/notice_only.html", notice=shown)
    return page(request, "notice.html", status=status, notice=shown, heading="That did not work")


async def _error(request: Request, error: Exception) -> Response:
    assert isinstance(error, MetacogError)
    return _notice_response(request, notice(error), error.code.http)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    missing = error.status_code == 404
    title = "There is no such page" if missing else "This cannot be done here"
    shown = Notice(title=title, detail=f"{request.method} {request.url.path}", advice="Go to one of the pages above.")
    return _notice_response(request, shown, error.status_code)


async def _bug(request: Request, error: Exception) -> Response:
    _log.error("an unexpected error occurred", path=request.url.path, exc_info=error)
    return _notice_response(request, notice(InternalError()), 500)
