"""This module serves what clients of model servers look for outside `/v1`: a page at `/`, `/health` and `/version`."""

from html import escape
from string import Template

from fastapi.responses import HTMLResponse, Response

from chassis.serving.health import Health
from chassis.serving.rest import Application, Json

# They need no key and show nothing of the deployment.
PATHS = frozenset({"/", "/health", "/version"})
PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff",
}
PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<link rel="icon" href="data:,">
</head>
<body>
<h1>$title $version</h1>
<p>An OpenAI-compatible layer in front of model servers. It decides how hard to think about each request, and reports
how sure it is. Give a client this address with <code>/v1</code> as its base URL.</p>
<ul>
<li><a href="docs">/docs</a>: the operations</li>
<li><a href="v1/models">/v1/models</a>: the models and strategies</li>
<li><a href="health">/health</a>: whether it is ready</li>
</ul>
<p>Where API keys are configured, the first two need one.</p>
</body>
</html>
""")


def add_paths(app: Application, health: Health) -> None:
    """Put the page, `/health` and `/version` on `app`."""
    app.edge.open_paths |= PATHS
    page = PAGE.substitute(title=escape(app.title), version=escape(app.version))

    @app.get("/", include_in_schema=False)
    async def root() -> Response:
        return HTMLResponse(page, headers=PAGE_HEADERS)

    @app.get("/health", include_in_schema=False)
    async def is_ready() -> Response:
        """Return readiness as `/readyz`, without the state of the parts."""
        ready = (await health.report()).ready
        return Json({"ready": ready}, status_code=200 if ready else 503)

    @app.get("/version", include_in_schema=False)
    async def version() -> Response:
        return Json({"version": app.version})
