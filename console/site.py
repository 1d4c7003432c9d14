"""The common parts of the pages: the services, the live runs and the rendering of templates."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import FileSystemLoader, StrictUndefined

from console import formatting
from console.errors import BadFile, FormTooLarge, Notice, notice
from console.guard import session_of
from console.live_runs import LiveRuns
from console.replies.environment import MessageEnvironment
from console.replies.service_client import ServiceClient
from console.settings import Settings
from kernel.errors import MetacogError

T = TypeVar("T")

# A form without a text of any length, such as the login, and its fields.
MAX_FORM_BYTES = 64 * 1024
MAX_FORM_FIELDS = 1000

HERE = Path(__file__).parent
STATIC = HERE / "static"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The console's parts.

    Attributes:
        router: Client of the router.
        delegation: Client of the delegation service.
        lives: The live runs.
        settings: Settings.
        has_login: Whether a login is required.
    """

    router: ServiceClient
    delegation: ServiceClient
    lives: LiveRuns
    settings: Settings
    has_login: bool = False


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """A part of a page: the content that a service returned, or the notice of its error."""

    content: T | None = None
    notice: Notice | None = None


async def part(asked: Awaitable[T]) -> Part[T]:
    """Await the content of a part, or return a notice, so that an error affects one part of a page only."""
    try:
        return Part(content=await asked)
    except MetacogError as error:
        return Part(notice=notice(error))


def _environment() -> MessageEnvironment:
    environment = MessageEnvironment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(formatting.FILTERS)
    environment.globals.update(formatting.GLOBALS)
    return environment


ENVIRONMENT = _environment()


def drawn(template: str, **shown: Any) -> str:  # noqa: ANN401 - templates take anything
    """Render a template, with all values escaped."""
    return ENVIRONMENT.get_template(template).render(**shown)


def page(request: Request, template: str, *, status: int = 200, **shown: Any) -> Response:  # noqa: ANN401
    """Return a page; htmx extracts the part that it needs."""
    site: Site = request.app.state.site
    frame = {"path": request.url.path, "session": session_of(request), "has_login": site.has_login}
    return HTMLResponse(drawn(template, **frame, **shown), status_code=status)


def fragment(template: str, **shown: Any) -> Response:  # noqa: ANN401 - templates take anything
    """Return a part of a page, for htmx."""
    return HTMLResponse(drawn(template, **shown))


async def form(request: Request, *, most_bytes: int = MAX_FORM_BYTES) -> Mapping[str, str]:
    """Return the fields of a form; of several with one name, the last.

    Args:
        request: The request.
        most_bytes: Largest form accepted [bytes]; the rest of a larger one is not read.

    Raises:
        FormTooLarge: The form is larger.
        BadFile: The body is not a form.
    """
    text = bytearray()
    async for chunk in request.stream():
        text += chunk
        if len(text) > most_bytes:
            raise FormTooLarge(f"The form is larger than {most_bytes / 1024:g} KiB. Shorten its texts.")
    try:
        fields = parse_qsl(text.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FORM_FIELDS)
        return dict(fields)
    except ValueError as error:
        raise BadFile(f"The form cannot be read: {error}") from error
