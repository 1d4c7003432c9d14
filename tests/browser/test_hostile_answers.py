"""The text of a model is shown as text: it cannot run, load anything, lead anywhere, or break the page."""

import pytest

from tests.browser.conftest import Stack
from tests.support.browser import Tab
from tests.support.console import ModelReplies

LONG = "x" * 6_000
HOSTILE = (
    "<script>window.stolen = 1</script><img src=x onerror='window.stolen = 2'>"
    "</div></article></section><h1 id=taken>Taken over</h1><style>* { display: none }</style>"
    "<div hx-get='/runs' hx-trigger='load'></div><div hx-swap-oob='innerHTML:#main'>gone</div>"
    "<template hx-swap-oob='true' id='main'></template><svg onload='window.stolen = 3'></svg>"
    "[click](javascript:window.stolen=4) ![p](http://elsewhere.example/p.png) {{ 7 * 7 }} {% raw %}"
    "\ndata: <b>forged</b>\n\nevent: done\ndata: over\n\n&lt;i&gt; \u202e reversed \U0001f600 "
) + LONG

CHANNELS = {
    "system1": ModelReplies(texts={"system1": HOSTILE}),
    "dialectic": ModelReplies(
        texts=dict.fromkeys(("thesis", "antithesis", "resolution", "synthesis", "note"), HOSTILE)
    ),
    "arbiter": ModelReplies(
        solves=[f"<b onclick=alert(1)>{LONG[:200]}</b>", "5"],
        arbitrates=[f"<img src=x onerror=alert(1)>{LONG[:200]}"],
        critique=HOSTILE,
    ),
    "delegation": ModelReplies(
        votes=dict.fromkeys(("Alpha", "Beta", "Gamma"), f"{HOSTILE}\nFinal Answer: <script>alert(1)</script>")
    ),
}


@pytest.mark.parametrize("strategy", CHANNELS)
async def test_a_hostile_answer_is_only_text_live_and_recorded(strategy: str, phone: Tab, stack: Stack) -> None:
    stack.llm.answer = CHANNELS[strategy]
    await phone.ask("Please answer.", strategy)
    await phone.answered()
    live = await signs(phone)
    await phone.shoot(f"hostile-{strategy}-phone-dark")

    href = await phone.page.get_by_role("link", name="Open this run").get_attribute("href")
    await phone.go(href or "")
    recorded = await signs(phone)
    await phone.go("/runs")
    listed = await signs(phone)

    assert live == recorded == listed == HARMLESS
    assert phone.outside == []


async def test_every_character_of_it_is_shown(tab: Tab, stack: Stack) -> None:
    stack.llm.answer = CHANNELS["system1"]

    await tab.ask("Please answer.", "system1")
    await tab.answered()

    shown = await tab.page.locator("#answer-text").text_content()
    assert " ".join((shown or "").split()) == " ".join(HOSTILE.split())


async def test_a_hostile_question_is_only_text_too(tab: Tab, mind: ModelReplies) -> None:
    await tab.ask(HOSTILE[:1500], "system1")
    await tab.answered()
    href = await tab.page.get_by_role("link", name="Open this run").get_attribute("href")
    await tab.go(href or "")

    assert await signs(tab) == HARMLESS


HARMLESS = {"stolen": None, "taken": 0, "injected": 0, "inline": 0, "over": True, "main": 1}


async def signs(tab: Tab) -> dict[str, object]:
    """Signs of an answer that did more than be shown."""
    found: dict[str, object] = await tab.page.evaluate(
        """() => ({
            stolen: window.stolen ?? null,
            taken: document.querySelectorAll('#taken').length,
            injected: document.querySelectorAll('main img, main script, main style, main svg[onload]').length,
            inline: document.querySelectorAll('[onclick], [onerror], [onload], a[href^="javascript"]').length,
            over: document.documentElement.scrollWidth <= window.innerWidth,
            main: document.querySelectorAll('body > main#main').length,
        })"""
    )
    return found
