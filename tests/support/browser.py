"""A real headless Chromium, with pages that record their errors."""

import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright

from tests.support.stack import ROOT

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# No sandbox of its own, for CI runs as root; nothing that would go out to the network.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
)
# The text of an element; SVG has no rendered text.
TEXT = "each => each.innerText ?? each.textContent"
DESKTOP, PHONE = (1180, 820), (390, 844)
WITHIN_MS = 30_000
# The screenshots remain after the tests, for inspection.
SCREENSHOTS = ROOT / ".metacog" / "screenshots"


def program() -> str:
    """Path of the installed Chromium; `make test` installs one where it can."""
    own = os.environ.get("METACOG_TEST_BROWSER")
    found = own or next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    assert found, f"none of {', '.join(PROGRAMS)} is installed; `make test` describes how to install one"
    return found


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Start a browser."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program(), headless=True, args=list(ARGUMENTS))
        yield browser
        await browser.close()


@dataclass
class Tab:
    """One page, with its errors.

    Attributes:
        page: The page.
        base: Address of the console.
        errors: Messages of its console and errors of its scripts.
        outside: Requested addresses of other hosts.
    """

    page: Page
    base: str
    errors: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    async def go(self, path: str) -> None:
        """Open a path of the console."""
        await self.page.goto(self.base + path, wait_until="load")

    async def ask(self, question: str, strategy: str = "") -> None:
        """Ask a question, and do not wait for its answer."""
        await self.go("/")
        await self.page.fill("#question", question)
        await self.page.check(f'input[name="strategy"][value="{strategy}"]', force=True)
        await self.page.click("button.primary")

    async def answered(self) -> str:
        """Wait until the run has ended, and return its answer."""
        await self.page.locator(".answer .facts").wait_for()
        return (await self.page.locator("#answer-text").inner_text()).strip()

    async def text(self, selector: str) -> str:
        """Return the text of the first element of a selector, after waiting for it."""
        text: str = await self.page.locator(selector).first.evaluate(TEXT)
        return text.strip()

    async def texts(self, selector: str) -> Sequence[str]:
        """Return the texts of all elements of a selector."""
        texts: list[str] = await self.page.locator(selector).evaluate_all(f"all => all.map({TEXT})")
        return [" ".join(text.split()) for text in texts]

    async def width_over(self) -> int:
        """Return by how much the page is wider than its window [px]."""
        over: int = await self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        return over

    async def shoot(self, name: str) -> None:
        """Store a screenshot of the whole page."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    def record(self) -> None:
        """Record the errors, and the requests to other hosts."""
        self.page.on("console", self._record_message)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._record_request)

    def _record_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text}")

    def _record_request(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.base).netloc and not request.url.startswith("data:"):
            self.outside.append(request.url)


@asynccontextmanager
async def tab_of(
    browser: Browser, base: str, *, size: tuple[int, int] = DESKTOP, dark: bool = False
) -> AsyncIterator[Tab]:
    """Open a tab with its own cookies and storage."""
    width, height = size
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(WITHIN_MS)
    tab = Tab(page=await context.new_page(), base=base)
    tab.record()
    yield tab
    await context.close()


def written(folder: Path, name: str, content: bytes) -> str:
    """Path of a file with `content`, to be chosen in a page."""
    file = folder / name
    file.write_bytes(content)
    return str(file)
