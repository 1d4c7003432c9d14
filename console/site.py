"""What every page stands on: the services, what is under way, and how a page is drawn."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from console import formatting
from console.errors import BadFile, Notice, notice
from console.guard import session_of
from console.live_runs import Lives
from console.service_client import Face
from console.settings import Settings
from kernel.errors import MetacogError

T = TypeVar("T")

HERE = Path(__file__).parent
STATIC = HERE / "static"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The console's parts.

    Attributes:
        router: The router's REST face.
        delegation: The delegation service's REST face.
        lives: What is under way.
        settings: Settings.
        has_login: Whether one has to log in.
    """

    router: Face
    delegation: Face
    lives: Lives
    settings: Settings
    has_login: bool = False


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """A part of a page: what a service told, or why it did not."""

    told: T | None = None
    notice: Notice | None = None


async def part(asked: Awaitable[T]) -> Part[T]:
    """What `asked` gives, or a notice: one part that cannot be shown leaves the others."""
    try:
        return Part(told=await asked)
    except MetacogError as refusal:
        return Part(notice=notice(refusal))


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(formatting.FILTERS)
    made.globals.update(formatting.GLOBALS)
    return made


ENVIRONMENT = _environment()


def drawn(template: str, **shown: Any) -> str:  # noqa: ANN401 - templates take anything
    """A template as text; everything in it is escaped."""
    return ENVIRONMENT.get_template(template).render(**shown)


def page(request: Request, template: str, *, status: int = 200, **shown: Any) -> Response:  # noqa: ANN401
    """A page; htmx gets the same, for it takes the part that it needs."""
    site: Site = request.app.state.site
    frame = {"path": request.url.path, "session": session_of(request), "has_login": site.has_login}
    return HTMLResponse(drawn(template, **frame, **shown), status_code=status)


def fragment(template: str, **shown: Any) -> Response:  # noqa: ANN401 - templates take anything
    """A part of a page, for htmx."""
    return HTMLResponse(drawn(template, **shown))


async def form(request: Request) -> Mapping[str, str]:
    """Fields of a form; of several with one name, the last.

    Raises:
        BadFile: When the body is not a form.
    """
    try:
        text = (await request.body()).decode()
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict"))
    except ValueError as wrong:
        raise BadFile(f"The form cannot be read: {wrong}") from wrong
