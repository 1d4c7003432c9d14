"""The login page, for a console that requires a key."""

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response

from chassis.errors import Unauthenticated
from console.errors import notice
from console.guard import COOKIE
from console.sessions import Sessions
from console.site import Site, drawn, form


def add_paths(app: FastAPI, site: Site, sessions: Sessions | None) -> None:
    """Add login and logout to `app`; without logins, they lead to the first page."""

    @app.get("/login")
    async def login_page(then: str = "/") -> Response:
        if sessions is None:
            return RedirectResponse("/", status_code=303)
        return _login_page(then)

    @app.post("/login")
    async def log_in(request: Request) -> Response:
        fields = await form(request)
        then = own_path(fields.get("then", "/"))
        if sessions is None:
            return RedirectResponse("/", status_code=303)
        try:
            name = sessions.log_in(fields.get("key", ""))
        except Unauthenticated as error:
            return _login_page(then, error)
        sent = RedirectResponse(then, status_code=303)
        sent.set_cookie(
            COOKIE,
            name,
            max_age=int(site.settings.session_hours * 3600),
            httponly=True,
            samesite="strict",
            secure=site.settings.secure_cookie,
        )
        return sent

    @app.post("/logout")
    async def log_out(request: Request) -> Response:
        if sessions is not None:
            sessions.log_out(request.cookies.get(COOKIE, ""))
        sent = RedirectResponse("/login" if sessions else "/", status_code=303)
        sent.delete_cookie(COOKIE)
        return sent


def own_path(then: str) -> str:
    r"""Return `then` if it is a path of this console, else the first page.

    Example:
        >>> [own_path(then) for then in ("/runs?x=1", "//evil.example", "https://evil.example", "/\\evil.example")]
        ['/runs?x=1', '/', '/', '/']
    """
    ours = then.startswith("/") and not then.startswith(("//", "/\\")) and "\n" not in then and "\r" not in then
    return then if ours else "/"


def _login_page(then: str, error: Unauthenticated | None = None) -> Response:
    shown = drawn(
        "login.html",
        path="/login",
        then=own_path(then),
        notice=notice(error) if error else None,
        has_login=False,
        session=None,
    )
    return Response(shown, status_code=401 if error else 200, media_type="text/html")
