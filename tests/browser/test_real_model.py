"""The pages of the console with a real model, whose text is not known in advance."""

import tempfile
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.support.assigner import assigner_at
from tests.support.browser import tab_of
from tests.support.console import console_at
from tests.support.stack import NO_SERVER, At, router_at

pytestmark = pytest.mark.timeout(300)


async def test_a_run_of_a_real_model_is_shown(browser: Browser, llm_url: str, database_url: str) -> None:
    llm = At(llm_url, "smollm2")
    with tempfile.TemporaryDirectory() as spool:
        async with (
            assigner_at(llm) as assigner,
            router_at(llm, database_url, Path(spool), others={"assigner": assigner.grpc}) as router,
            console_at(router.rest, f"http://{NO_SERVER}") as console,
            tab_of(browser, console.url) as tab,
        ):
            await tab.go("/")
            await tab.page.fill("#question", "Is water wet?")
            await tab.page.check('input[name="strategy"][value="dialectic"]', force=True)
            await tab.page.click(".options summary")
            await tab.page.fill("input[name=stage_max_tokens]", "24")
            await tab.page.fill("input[name=max_tokens]", "24")
            await tab.page.fill("input[name=timeout_s]", "240")
            await tab.page.click("button.primary")
            tab.page.set_default_timeout(240_000)
            answer = await tab.answered()
            await tab.shoot("real-model-light")

            assert answer
            assert len(await tab.texts(".chain .stage .text")) == 4
            assert all(await tab.texts(".chain .stage .text"))
            assert (tab.errors, tab.outside) == ([], [])
