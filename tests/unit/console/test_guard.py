"""Who gets in: under which name, from which page, with which login."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256

import aiohttp
import httpx
import pytest

from chassis.serving.auth import ApiKey, Keyring
from chassis.serving.health import Health
from console.app import build_app
from console.guard import COOKIE
from console.live_runs import LiveRuns
from console.replies.service_client import ServiceClient
from console.sessions import Sessions
from console.settings import Settings
from console.site import Site

NOBODY = "http://127.0.0.1:1"
OURS = "http://127.0.0.1:8090"
KEYRING = Keyring([ApiKey(name="ann", sha256=sha256(b"a-key").hexdigest())])


@asynccontextmanager
async def visitor(
    sessions: Sessions | None = None, *, names: tuple[str, ...] = (), base: str = OURS
) -> AsyncIterator[httpx.AsyncClient]:
    """A browser-like client of a console whose services are all unreachable."""
    async with aiohttp.ClientSession() as http:
        router, delegation = ServiceClient("router", NOBODY, http), ServiceClient("delegation service", NOBODY, http)
        lives = LiveRuns(most=4, unwatched_s=60)
        site = Site(
            router=router,
            delegation=delegation,
            lives=lives,
            settings=Settings.model_validate({}),
            has_login=sessions is not None,
        )
        app = build_app(site, health=Health({"router": router.check}), sessions=sessions, names=names)
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url=base, headers={"accept": "text/html"}) as client:
            yield client


def logins() -> Sessions:
    return Sessions(KEYRING, lasting_s=60)


@pytest.mark.parametrize("base", [OURS, "http://localhost:8090", "http://[::1]:8090"])
async def test_loopback_names_are_accepted(base: str) -> None:
    async with visitor(base=base) as client:
        assert (await client.get("/")).status_code == 200


async def test_a_foreign_name_that_resolves_to_this_machine_is_rejected() -> None:
    async with visitor(base="http://rebound.example:8090") as client:
        for path in ("/", "/healthz", "/static/css/base.css"):
            assert (await client.get(path)).status_code == 421


async def test_names_can_be_allowed() -> None:
    async with visitor(names=("console.example.org",), base="https://console.example.org") as client:
        assert (await client.get("/")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {},
    ],
)
async def test_only_our_own_pages_may_change_anything(headers: dict[str, str]) -> None:
    async with visitor() as client:
        reply = await client.post("/ask", content="question=hello", headers=headers)

    assert reply.status_code == 403


@pytest.mark.parametrize("headers", [{"origin": OURS}, {"sec-fetch-site": "same-origin"}])
async def test_our_own_pages_may(headers: dict[str, str]) -> None:
    async with visitor() as client:
        reply = await client.post("/ask", content="question=", headers={**headers, "hx-request": "true"})

    assert (reply.status_code, "Type a question first." in reply.text) == (200, True)


async def test_every_answer_forbids_inline_scripts_frames_and_other_origins() -> None:
    async with visitor() as client:
        for path in ("/", "/healthz", "/no-such-page", "/static/js/main.js", "/runs"):
            headers = (await client.get(path)).headers
            policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
            assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
            assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
            assert headers["x-content-type-options"] == "nosniff"


async def test_no_page_has_anything_inline_or_from_elsewhere() -> None:
    async with visitor() as client:
        for path in ("/", "/runs", "/agents", "/calibration", "/knowledge", "/no-such-page"):
            page = (await client.get(path)).text
            for forbidden in (
                "<style",
                " style=",
                "<script>",
                " onclick",
                " onload",
                "http://",
                "https://",
                "javascript:",
            ):
                assert forbidden not in page.replace(f"{NOBODY}", ""), (path, forbidden)


async def test_without_a_login_every_page_leads_to_the_login() -> None:
    async with visitor(logins()) as client:
        page = await client.get("/runs?strategy=arbiter")
        part = await client.get("/knowledge/documents", headers={"hx-request": "true"})
        stream = await client.get("/live/x", headers={"accept": "text/event-stream"})

    assert (page.status_code, page.headers["location"]) == (303, "/login?then=%2Fruns%3Fstrategy%3Darbiter")
    assert part.headers["hx-redirect"] == "/login"
    assert stream.status_code == 401


async def test_a_wrong_key_shows_a_message_and_a_right_one_leads_back() -> None:
    async with visitor(logins()) as client:
        own = {"origin": OURS}
        wrong = await client.post("/login", content="key=b-key", headers=own)
        right = await client.post("/login", content="key=a-key&then=%2Fruns", headers=own)
        page = await client.get("/")

    assert (wrong.status_code, "This key is unknown." in wrong.text) == (401, True)
    assert (right.status_code, right.headers["location"]) == (303, "/runs")
    cookie = right.headers["set-cookie"]
    assert "a-key" not in cookie
    assert all(flag in cookie for flag in ("HttpOnly", "SameSite=strict"))
    assert (page.status_code, "ann" in page.text, "a-key" in page.text) == (200, True, False)


async def test_a_login_leads_nowhere_else() -> None:
    async with visitor(logins()) as client:
        sent = await client.post("/login", content="key=a-key&then=%2F%2Fevil.example", headers={"origin": OURS})

    assert sent.headers["location"] == "/"


async def test_after_logging_out_the_cookie_is_invalid() -> None:
    async with visitor(logins()) as client:
        await client.post("/login", content="key=a-key", headers={"origin": OURS})
        name = client.cookies[COOKIE]
        await client.post("/logout", headers={"origin": OURS})
        client.cookies.set(COOKIE, name)

        assert (await client.get("/")).status_code == 303


async def test_a_login_ends_by_itself() -> None:
    clock = [0.0]
    sessions = Sessions(KEYRING, lasting_s=60, now=lambda: clock[0])
    name = sessions.log_in("a-key")

    clock[0] = 61.0

    assert sessions.find(name) is None


@pytest.mark.parametrize("path", ["/runs", "/agents", "/calibration", "/knowledge"])
async def test_the_error_for_an_unreachable_service_is_a_complete_page(path: str) -> None:
    async with visitor() as client:
        reply = await client.get(path)

    assert reply.status_code == 200
    assert "A service is not reachable" in reply.text
    assert "make up" in reply.text


async def test_an_unknown_run_a_missing_page_and_a_comparison_of_one_run_show_a_message() -> None:
    async with visitor() as client:
        missing = await client.get("/no-such-page")
        one = await client.get("/runs/compare?run=x")
        gone = await client.get("/live/unknown", headers={"hx-request": "true"})

    assert (missing.status_code, "There is no such page" in missing.text) == (404, True)
    assert (one.status_code, "Select two runs" in one.text) == (400, True)
    assert "not live any more" in gone.text
