"""The messages of the console for unreachable services, wrong keys and missing logins."""

from hashlib import sha256
from pathlib import Path

import pytest
from playwright.async_api import Browser

from chassis.serving.auth import ApiKey, Keyring
from tests.support.browser import tab_of
from tests.support.console import ModelReplies, console_at
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER, router_at

ANN = "ann-has-a-key"
KEYRING = Keyring([ApiKey(name="ann", sha256=sha256(ANN.encode()).hexdigest())])
AWAY = f"http://{NO_SERVER}"


async def test_an_unreachable_router_shows_a_message_with_advice(browser: Browser) -> None:
    async with console_at(AWAY, AWAY) as console, tab_of(browser, console.url) as tab:
        await tab.ask("Is anybody there?")
        await tab.page.locator("#run .notice").wait_for()
        await tab.shoot("trouble-light")

        assert "The router at http://127.0.0.1:1 cannot be reached" in await tab.text("#run .notice")
        assert "make up" in await tab.text("#run .notice")
        assert await tab.text("[role=status]") == "The run failed."
        for path in ("/runs", "/agents", "/calibration", "/knowledge"):
            await tab.go(path)
            assert "A service is not reachable" in await tab.text(".notice")
        assert tab.errors == []


async def test_an_unknown_key_shows_a_message(
    browser: Browser, scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    async with (
        router_at(scripted, database_url, tmp_path, keyring=KEYRING) as router,
        console_at(router.rest, AWAY, METACOG_PEER_KEY="nobody's") as console,
        tab_of(browser, console.url) as tab,
    ):
        await tab.ask("May I?")

        assert "The key is not accepted" in await tab.text("#run .notice")


async def test_beyond_loopback_one_logs_in_and_asks_with_ones_own_key(
    browser: Browser, scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.yaml"
    keys.write_text(f"keys:\n  - {{name: ann, sha256: {sha256(ANN.encode()).hexdigest()}}}\n")
    scripted.answer = ModelReplies()
    settings = {"METACOG_CONSOLE_HOST": "0.0.0.0", "METACOG_KEYS_FILE": keys}
    async with (
        router_at(scripted, database_url, tmp_path, keyring=KEYRING) as router,
        console_at(router.rest, AWAY, **settings) as console,
        tab_of(browser, console.url) as tab,
    ):
        await tab.go("/runs")
        await tab.page.fill("#key", "not-a-key")
        await tab.page.keyboard.press("Enter")
        await tab.page.locator(".notice", has_text="This key is unknown.").wait_for()
        await tab.shoot("login-light")
        await tab.page.fill("#key", ANN)
        await tab.page.keyboard.press("Enter")
        await tab.page.wait_for_url("**/runs")
        await tab.ask("Who am I?", "system1")
        await tab.answered()
        href = await tab.page.get_by_role("link", name="Open this run").get_attribute("href")
        await tab.go(href or "")

        assert "key ann" in await tab.text(".run-head")
        stored = await tab.page.evaluate("[document.cookie, JSON.stringify(localStorage), document.body.innerHTML]")
        assert not any(ANN in kept for kept in stored)
        await tab.page.get_by_role("button", name="Log out").click()
        await tab.page.wait_for_url("**/login")
        await tab.go("/runs")
        assert tab.page.url.endswith("/login?then=%2Fruns")
    assert scripted.requests


@pytest.mark.parametrize("setting", [{"METACOG_CONSOLE_HOST": "0.0.0.0"}, {"METACOG_CONSOLE_LOGIN": "always"}])
async def test_without_keys_the_console_does_not_start_where_a_login_is_needed(setting: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match="METACOG_KEYS_FILE"):
        async with console_at(AWAY, AWAY, **setting):
            pass
