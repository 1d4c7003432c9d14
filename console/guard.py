"""The guard is the outermost layer of the console: it checks the host name, the origin and the login of a request."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlsplit

from fastapi import Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chassis.serving.origins import AllowedHosts
from console.sessions import Session, Sessions

COOKIE = "metacog_console"
SAFE = frozenset({"GET", "HEAD"})
OPEN_PATHS = ("/login", "/healthz", "/readyz")
OPEN_FOLDER = "/static/"

# No inline script or style, no foreign content, no embedding in a frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with `no-referrer` the origin of a form would be null
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """A guard accepts or rejects requests.

    A request must use an accepted host name, which prevents DNS rebinding; one that changes something must come from a
    page of the console; and a login must exist where one is required.

    Args:
        app: Application behind the guard.
        sessions: The logins; None if no login is required.
        key: API key for the services if no login is required.
        names: Accepted host names, in addition to those of loopback and the address that a connection came to.
    """

    def __init__(self, app: ASGIApp, *, sessions: Sessions | None, key: str, names: Sequence[str]) -> None:
        self._app = app
        self._sessions = sessions
        self._anonymous = Session(key=key, holder="", until=float("inf"))
        self._hosts = AllowedHosts(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        rejection = self._rejection(request)
        answer = self._app if rejection is None else rejection
        await answer(scope, receive, _with_headers(send, is_static=scope["path"].startswith(OPEN_FOLDER)))

    def _rejection(self, request: Request) -> Response | None:
        if not self._hosts.has(request.headers.get("host", ""), request.scope):
            message = (
                "This is not a host name of the console. Use its address, or set METACOG_ALLOWED_HOSTS or "
                "METACOG_CONSOLE_ALLOWED_HOSTS."
            )
            return PlainTextResponse(message, status_code=421)
        if request.method not in SAFE and not is_own_page(request):
            return PlainTextResponse("This request does not come from a page of the console.", status_code=403)
        session = self._session(request)
        if session is None and not _is_open(request.url.path):
            return _to_login(request)
        request.scope["console.session"] = session or self._anonymous
        return None

    def _session(self, request: Request) -> Session | None:
        if self._sessions is None:
            return self._anonymous
        return self._sessions.find(request.cookies.get(COOKIE, ""))


def is_own_page(request: Request) -> bool:
    """Return whether a request comes from a page of the same origin, by its headers."""
    origin = request.headers.get("origin")
    if origin is not None:
        return bool(origin) and urlsplit(origin).netloc == request.headers.get("host")
    return request.headers.get("sec-fetch-site") == "same-origin"


def session_of(request: Request) -> Session:
    """Return the login of a request."""
    session: Session = request.scope["console.session"]
    return session


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDER)


def _to_login(request: Request) -> Response:
    """Redirect to the login page, which leads back to the requested page."""
    if "hx-request" in request.headers:
        return Response(status_code=200, headers={"hx-redirect": "/login"})
    requested = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if request.method in SAFE and "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(f"/login?then={quote(requested, safe='')}", status_code=303)
    return PlainTextResponse("Log in first.", status_code=401)


def _with_headers(send: Send, *, is_static: bool) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            headers.setdefault("cache-control", "public, max-age=3600" if is_static else "no-store")
        await send(message)

    return sending
