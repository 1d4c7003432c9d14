"""What clients of model servers look for outside `/v1`: a page at `/`, `/health` and `/version`."""

import tomllib
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import httpx

from chassis.serving.auth import ApiKey, Keyring
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROOT, router_at, until

RING = Keyring([ApiKey(name="ann", sha256=sha256(b"secret").hexdigest())])


class Links(HTMLParser):
    """The addresses that a page names."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag refers to."""
        self.found += [text or "" for name, text in attrs if name in ("href", "src")]


async def test_the_page_at_the_root_links_to_what_there_is_and_loads_nothing(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    async with (
        router_at(scripted, database_url, tmp_path) as router,
        httpx.AsyncClient(base_url=router.rest) as client,
    ):
        page = await client.get("/")
        links = [link for link in Links(page.text).found if not link.startswith("data:")]
        statuses = [(await client.get(f"/{link}")).status_code for link in links]

    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert links == ["docs", "v1/models", "health"]
    assert statuses == [200, 200, 200]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert scripted.url not in page.text


async def test_root_health_and_version_need_no_key_and_other_paths_do(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    async with (
        router_at(scripted, database_url, tmp_path, keyring=RING) as router,
        httpx.AsyncClient(base_url=router.rest) as client,
    ):
        replies = {path: await client.get(path) for path in ("/", "/health", "/version", "/docs", "/v1/models")}

    statuses = {path: reply.status_code for path, reply in replies.items()}
    assert statuses == {"/": 200, "/health": 200, "/version": 200, "/docs": 401, "/v1/models": 401}
    assert replies["/health"].json() == {"ready": True}
    assert replies["/version"].json() == {"version": version}


async def test_health_is_503_while_the_model_server_is_not_ready(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    async with (
        router_at(scripted, database_url, tmp_path) as router,
        httpx.AsyncClient(base_url=router.rest) as client,
    ):
        scripted.ready = False

        async def is_unready() -> bool:
            return (await client.get("/health")).status_code == 503

        await until(is_unready)
        reply = await client.get("/health")

    assert (reply.status_code, reply.json()) == (503, {"ready": False})
