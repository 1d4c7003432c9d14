"""The console in a real browser, before the real services on a real database; only the model is scripted."""

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import Browser

from kernel.arbitration.modes import SolvingStop
from tests.support.arbiter import arbiter_at
from tests.support.assigner import assigner_at
from tests.support.browser import PHONE, Tab, chromium, tab_of
from tests.support.console import Console, ModelReplies, console_at
from tests.support.delegating import delegation_at
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import RunningRouter, router_at


@dataclass(frozen=True)
class Stack:
    """The suite with a console.

    Attributes:
        llm: The model server.
        router: The router.
        console: The console.
        rest: Address of the REST API of each service, by its name.
    """

    llm: ScriptedLLM
    router: RunningRouter
    console: Console
    rest: Mapping[str, str]


@pytest.fixture(scope="session")
async def stack(encoder_url: str, new_database: Callable[[], str]) -> AsyncIterator[Stack]:
    """Run every service on its own database, with a model whose replies come from `ModelReplies`."""
    database = new_database()
    with ScriptedLLM() as llm, tempfile.TemporaryDirectory() as spool:
        async with (
            assigner_at(llm) as assigner,
            arbiter_at(llm, encoder=encoder_url, solving_stop=SolvingStop.NONE) as arbiter,
            delegation_at(llm, database, encoder_url=encoder_url) as delegation,
            router_at(
                llm,
                database,
                Path(spool),
                others={"assigner": assigner.grpc, "arbiter": arbiter.grpc, "delegation": delegation.grpc},
                encoder_url=encoder_url,
            ) as router,
            console_at(router.rest, delegation.rest) as console,
        ):
            services = {"router": router, "assigner": assigner, "arbiter": arbiter, "delegation": delegation}
            rest = {name: service.rest for name, service in services.items()}
            yield Stack(llm=llm, router=router, console=console, rest=rest)


@pytest.fixture
def mind(stack: Stack) -> Iterator[ModelReplies]:
    """Return the replies of the model in this test."""
    mind = ModelReplies()
    stack.llm.answer, stack.llm.token_delay_s = mind, 0.0
    yield mind
    stack.llm.token_delay_s = 0.0


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as running:
        yield running


@pytest.fixture
async def tab(browser: Browser, stack: Stack, mind: ModelReplies) -> AsyncIterator[Tab]:
    """Open a tab; at the end it must have no errors, and no requests to other hosts."""
    async with tab_of(browser, stack.console.url) as opened:
        yield opened
        assert opened.errors == []
        assert opened.outside == []


@pytest.fixture
async def phone(browser: Browser, stack: Stack, mind: ModelReplies) -> AsyncIterator[Tab]:
    """Open a tab with the width of a phone, in dark mode."""
    async with tab_of(browser, stack.console.url, size=PHONE, dark=True) as opened:
        yield opened
        assert opened.errors == []
        assert opened.outside == []
