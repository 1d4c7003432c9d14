"""The page `/docs` of every service, without a network."""

import re
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import Browser, Route

from configuration.services import SERVICES
from tests.browser.conftest import Stack
from tests.support.browser import tab_of


async def _only_this_machine(route: Route) -> None:
    """Pass a request on to this machine; stop one to another host."""
    if urlsplit(route.request.url).hostname == "127.0.0.1":
        await route.continue_()
    else:
        await route.abort()


@pytest.mark.parametrize("service", SERVICES)
async def test_docs_lists_every_operation_without_a_network(browser: Browser, stack: Stack, service: str) -> None:
    base = stack.rest[service]
    async with httpx.AsyncClient(base_url=base) as client:
        paths = (await client.get("/openapi.json")).json()["paths"]
        source = (await client.get("/docs")).text
    operations = sorted(f"{method.upper()} {path}" for path, methods in paths.items() for method in methods)

    async with tab_of(browser, base) as tab:
        await tab.page.context.route("**/*", _only_this_machine)
        await tab.go("/docs")
        await tab.page.locator(".opblock").nth(len(operations) - 1).wait_for()
        shown = await tab.texts(".opblock-summary-method, .opblock-summary-path")
        await tab.page.locator(".opblock-summary-control").first.click()
        await tab.page.locator(".opblock-body .responses-wrapper").first.wait_for()

    pairs = zip(shown[::2], shown[1::2], strict=True)
    assert sorted(f"{method} {path.replace(chr(0x200B), '')}" for method, path in pairs) == operations
    assert (tab.errors, tab.outside) == ([], [])
    assert re.findall(r"https?://|//[a-z]", source) == []


async def test_a_file_of_docs_may_be_cached_for_good_and_the_page_may_not(stack: Stack) -> None:
    async with httpx.AsyncClient(base_url=stack.rest["router"]) as client:
        page = await client.get("/docs")
        files = re.findall(r"(?:src|href)=\"(docs/[^\"]+)\"", page.text)
        replies = [await client.get(f"/{file}") for file in files]

    assert page.headers["cache-control"] == "no-cache"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert len(files) == 3
    assert {reply.status_code for reply in replies} == {200}
    assert {reply.headers["cache-control"] for reply in replies} == {"public, max-age=31536000, immutable"}
