"""The outermost layer of the console: who may ask, under which name, from which page, and what a page may do."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlsplit

from fastapi import Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console.sessions import Session, Sessions

COOKIE = "metacog_console"
SAFE = frozenset({"GET", "HEAD"})
OPEN_PATHS = ("/login", "/healthz", "/readyz")
OPEN_FOLDER = "/static/"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

# No inline script or style, nothing from elsewhere, no frame around us.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with none at all a form's origin would be told as null
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """Lets requests in.

    A request has to name the console by a name of its own, which a page that rebinds its name to this machine does not;
    one that changes something has to come from a page of the console; and where a login is needed, there has to be one.

    Args:
        app: What is guarded.
        sessions: The logins; None where nobody has to log in.
        key: API key that the services are asked with where nobody logs in.
        names: Names that the console may be asked for under; empty for any, which takes a login.
    """

    def __init__(self, app: ASGIApp, *, sessions: Sessions | None, key: str, names: Sequence[str]) -> None:
        self._app = app
        self._sessions = sessions
        self._nobody = Session(key=key, holder="", until=float("inf"))
        self._names = frozenset(names) | LOOPBACK_NAMES if names or sessions is None else frozenset()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refusal = self._refusal(request)
        answer = self._app if refusal is None else refusal
        await answer(scope, receive, _with_headers(send, is_static=scope["path"].startswith(OPEN_FOLDER)))

    def _refusal(self, request: Request) -> Response | None:
        if self._names and _name(request.headers.get("host", "")) not in self._names:
            said = "This console does not go by that name. Use its own address, or set METACOG_CONSOLE_ALLOWED_HOSTS."
            return PlainTextResponse(said, status_code=421)
        if request.method not in SAFE and not is_own_page(request):
            return PlainTextResponse("This request does not come from a page of the console.", status_code=403)
        session = self._session(request)
        if session is None and not _is_open(request.url.path):
            return _to_login(request)
        request.scope["console.session"] = session or self._nobody
        return None

    def _session(self, request: Request) -> Session | None:
        if self._sessions is None:
            return self._nobody
        return self._sessions.find(request.cookies.get(COOKIE, ""))


def is_own_page(request: Request) -> bool:
    """Whether a request comes from a page of the same origin, as its browser says."""
    origin = request.headers.get("origin")
    if origin is not None:
        return bool(origin) and urlsplit(origin).netloc == request.headers.get("host")
    return request.headers.get("sec-fetch-site") == "same-origin"


def session_of(request: Request) -> Session:
    """The login that a request came in with."""
    session: Session = request.scope["console.session"]
    return session


def _name(host: str) -> str:
    """Name in a `Host` header.

    Example:
        >>> [_name(host) for host in ("localhost:8090", "[::1]:8090", "Evil.example")]
        ['localhost', '::1', 'evil.example']
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDER)


def _to_login(request: Request) -> Response:
    """The way to the login, and back again to where a page was asked for."""
    if "hx-request" in request.headers:
        return Response(status_code=200, headers={"hx-redirect": "/login"})
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if request.method in SAFE and "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(f"/login?then={quote(asked, safe='')}", status_code=303)
    return PlainTextResponse("Log in first.", status_code=401)


def _with_headers(send: Send, *, is_static: bool) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            headers.setdefault("cache-control", "public, max-age=3600" if is_static else "no-store")
        await send(message)

    return sending
