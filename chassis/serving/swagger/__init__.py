"""The page `/docs` shows the operations of a service by Swagger UI, whose files the service serves itself."""

from hashlib import sha256
from html import escape
from pathlib import Path
from string import Template

from fastapi import FastAPI
from fastapi.responses import FileResponse, HTMLResponse, Response

FOLDER = Path(__file__).parent
BUNDLE = "swagger-ui-bundle-5.35.0.js"
STYLES = "swagger-ui-5.35.0.css"
# Files of this host only. Swagger UI sets styles of elements, and its styles contain their images.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {"content-security-policy": POLICY, "cache-control": "no-cache", "x-content-type-options": "nosniff"}
# The name of a file changes with its content.
FILE_HEADERS = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}


def add_docs(app: FastAPI) -> None:
    """Serve `/docs`, and below it the files that the page loads.

    Args:
        app: The application, whose own `/docs` is turned off; its OpenAPI document is at `/openapi.json`.
    """
    start = FOLDER / "start.js"
    files = {
        BUNDLE: FOLDER / "vendor" / BUNDLE,
        STYLES: FOLDER / "vendor" / STYLES,
        f"start-{sha256(start.read_bytes()).hexdigest()[:12]}.js": start,
    }
    bundle, styles, started = (f"docs/{name}" for name in files)
    template = Template((FOLDER / "page.html").read_text())
    page = template.substitute(title=escape(app.title), bundle=bundle, styles=styles, start=started)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(page, headers=PAGE_HEADERS)

    for name, file in files.items():
        _serve(app, f"/docs/{name}", file)


def _serve(app: FastAPI, path: str, file: Path) -> None:
    @app.get(path, include_in_schema=False)
    async def asset() -> Response:
        return FileResponse(file, headers=FILE_HEADERS)
