"""A cascade in the console: a run says whether the stronger model was called, the calibration page what it cost."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import Browser

from kernel.prices import Price
from tests.support.apis import Body
from tests.support.arbiter import arbiter_at, sample_text
from tests.support.browser import Tab, tab_of
from tests.support.console import console_at
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER, router_at

QUESTION = "What is 2 + 2?"
PRICES = {name: Price(prompt=price, completion=price) for name, price in (("scripted", 1), ("other", 2), ("strong", 9))}


class Says:
    """A model gives one answer, direct or with its reasoning."""

    def __init__(self, answer: str) -> None:
        self._answer = answer

    def __call__(self, body: Body) -> list[str]:
        """Return the text of the one choice."""
        has_form = "Final Answer" in str(body["messages"][-1]["content"])
        return [sample_text(self._answer) if has_form else f"It is {self._answer}."]


@dataclass(frozen=True)
class Cascade:
    """A console before a router with a cascade, and the small model on which it depends whether two agree."""

    tab: Tab
    other: ScriptedLLM
    strong: ScriptedLLM


@pytest.fixture
async def cascade(
    browser: Browser, scripted: ScriptedLLM, own_database_url: str, tmp_path: Path
) -> AsyncIterator[Cascade]:
    """Two small models, of which one says 4, and a stronger one."""
    scripted.answer = Says("4")
    with ScriptedLLM(model="other") as other, ScriptedLLM(model="strong") as strong:
        strong.answer = Says("6")
        models = {"other": other, "strong": strong}
        async with AsyncExitStack() as stack:
            arbiter = await stack.enter_async_context(
                arbiter_at(scripted, programs=False, others=models, prices=PRICES)
            )
            router = await stack.enter_async_context(
                router_at(
                    scripted, own_database_url, tmp_path, others={"arbiter": arbiter.grpc}, models=models, prices=PRICES
                )
            )
            console = await stack.enter_async_context(console_at(router.rest, f"http://{NO_SERVER}"))
            yield Cascade(await stack.enter_async_context(tab_of(browser, console.url)), other, strong)


async def test_a_cascade_shows_whether_the_stronger_model_was_called_and_what_it_cost(cascade: Cascade) -> None:
    tab = cascade.tab
    cascade.other.answer = Says("4")
    await tab.ask(QUESTION, "cascade")
    await tab.answered()
    decided = await tab.text(".votes")

    cascade.other.answer = Says("5")
    await tab.ask(QUESTION, "cascade")
    answer = await tab.answered()
    escalated = await tab.text(".votes")
    phases = await tab.texts(".phase")
    await tab.shoot("ask-cascade-light")
    await tab.go("/calibration")
    row = await tab.text("#cascades-title + table tbody tr")

    assert "The stronger model strong was not called: the votes decided." in decided
    assert "the stronger model strong gave the answer" in escalated
    assert (answer, len(cascade.strong.requests)) == ("It is 6.", 1)
    assert phases[-1] == "escalate : done"
    assert row.split()[:3] == ["strong", "2", "50"]
    assert (tab.errors, tab.outside) == ([], [])
