"""A promise in the console: a withheld answer says why and can be labelled, and a page shows what is kept."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.support.apis import Body
from tests.support.arbiter import arbiter_at, sample_text
from tests.support.browser import PHONE, Tab, tab_of
from tests.support.console import console_at
from tests.support.labels import copy_promise_labels
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER, RunningRouter, router_at, until

QUESTION = "What is 2 + 2?"


def says_four(body: Body) -> list[str]:
    """The answer of a model, direct or with its reasoning."""
    return [sample_text("4") if "Final Answer" in str(body["messages"][-1]["content"]) else "It is 4."]


@dataclass(frozen=True)
class Promised:
    """A console before a router that draws every run to be labelled."""

    browser: Browser
    url: str
    database_url: str
    router: RunningRouter


@pytest.fixture
async def promised(
    browser: Browser, scripted: ScriptedLLM, own_database_url: str, tmp_path: Path
) -> AsyncIterator[Promised]:
    """Start it."""
    scripted.answer = says_four
    async with AsyncExitStack() as stack:
        arbiter = await stack.enter_async_context(arbiter_at(scripted, programs=False))
        router = await stack.enter_async_context(
            router_at(
                scripted,
                own_database_url,
                tmp_path,
                others={"arbiter": arbiter.grpc},
                label_share=1.0,
                calibration_refresh_s=0.1,
            )
        )
        console = await stack.enter_async_context(console_at(router.rest, f"http://{NO_SERVER}"))
        yield Promised(browser, console.url, own_database_url, router)


async def ask_with_promise(tab: Tab) -> None:
    """Ask the question under a promise of one error in ten."""
    await tab.go("/")
    await tab.page.fill("#question", QUESTION)
    await tab.page.click("details.options summary")
    await tab.page.fill("#ask input[name=error_at_most]", "0.1")
    await tab.page.click("button.primary")
    await tab.page.locator(".answer .facts").wait_for()


async def test_a_withheld_answer_is_labelled_and_then_kept_by_the_labels(promised: Promised) -> None:
    async with tab_of(promised.browser, promised.url) as tab:
        await ask_with_promise(tab)
        withheld = await tab.text(".answer")
        await tab.shoot("promise-withheld-light")
        assert await promised.router.journal.flush(10)
        await tab.go("/runs?sampled=true&judged=false")
        listed = await tab.text("table.runs")
        await tab.page.click("table.runs th a")
        await tab.page.click("button[name=correct][value=true]")
        await tab.page.wait_for_selector("#feedback p")
        labelled = await tab.text("#feedback")
        run = await promised.router.runs.get(tab.page.url.rpartition("/")[2])
        copy_promise_labels(promised.database_url, run.messages_digest, 60)
        promised.router.calibrator.on_feedback()

        async def has_read() -> bool:
            return len(promised.router.calibrator.promises.read("")) == 60

        await until(has_read)
        await ask_with_promise(tab)
        given = await tab.text(".answer")
        await tab.go("/calibration?error_at_most=0.1")
        section = await tab.text("section:has(#promises-title)")
        await tab.shoot("calibration-promises-light")
        assert (tab.errors, tab.outside) == ([], [])

    assert "labels do not prove that it keeps the promise" in withheld
    assert "answer withheld, not yet: 0 of 50 labels" in withheld
    assert "to be labelled" in listed
    assert "right (sampled)" in labelled
    assert "proved by 60 labels of votes that stopped as soon as enough agreed" in given
    assert "2 to 0 votes" in section
    assert "Next test at" in section

    async with tab_of(promised.browser, promised.url, size=PHONE, dark=True) as phone:
        await phone.go("/calibration?error_at_most=0.1")
        await phone.shoot("calibration-promises-phone-dark")
        assert await phone.width_over() <= 0


async def test_before_any_label_the_page_says_what_labels_it_takes(promised: Promised) -> None:
    async with tab_of(promised.browser, promised.url) as tab:
        await tab.go("/calibration")
        section = await tab.text("section:has(#promises-title)")
        assert (tab.errors, tab.outside) == ([], [])

    assert "No label can prove a promise yet." in section
