"""The ask page: questions, live runs and feedback."""

import asyncio
from pathlib import Path

from playwright.async_api import Browser

from tests.browser.conftest import Stack
from tests.support.apis import RestApi
from tests.support.arbiter import arbiter_at
from tests.support.assigner import assigner_at
from tests.support.browser import PHONE, Tab, tab_of
from tests.support.console import ANSWERS, ModelReplies, console_at
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import CALM, NO_SERVER, ROUTER, router_at, until

PRIME = "Is 91 a prime number?"
PHASES = ["assess", "route", "assign", "thesis", "antithesis", "resolution", "synthesis", "note"]


async def phases(tab: Tab) -> dict[str, str]:
    """Return the status of each phase."""
    return {phase: status for phase, status in (text.split(" : ") for text in await tab.texts(".phase"))}


async def test_a_single_pass_answer_has_the_share_of_right_ones_as_its_confidence(tab: Tab) -> None:
    await tab.ask("Why is the sky blue?", "system1")
    await tab.answered()

    confidence = (await tab.texts(".answer .facts div"))[0]
    assert confidence.startswith("Confidence 0.")
    assert "how often System 1 is right" in confidence
    assert "no assessor ran" in await tab.text(".decision .headline")
    assert await tab.page.locator(".gauge").count() == 0


async def test_an_easy_question_is_answered_at_once(tab: Tab, mind: ModelReplies) -> None:
    mind.rated = CALM

    await tab.ask("Why is the sky blue?")
    answer = await tab.answered()
    await tab.shoot("ask-system1-light")

    assert answer == ANSWERS["system1"]
    assert (await tab.text(".decision .headline")).startswith("System 1")
    assert [fact.split()[0] for fact in await tab.texts(".answer .facts div")] == [
        "Confidence",
        "Cost",
        "Time",
        "System",
    ]
    assert await phases(tab) == {"assess": "done", "route": "done", "answer": "done"}
    assert await tab.page.locator(".stage").count() == 0


async def test_a_decision_shows_its_rule_its_kind_and_the_labels_that_are_missing_on_a_phone_too(
    tab: Tab, stack: Stack, mind: ModelReplies
) -> None:
    mind.rated = CALM
    rest = RestApi(stack.router.rest, ROUTER)

    async def is_classified() -> bool:
        return bool((await rest.ask("Route", question="What is 17 times 24?"))["kind"])

    await until(is_classified)
    await tab.ask("What is 17 times 24?")
    await tab.answered()
    await tab.shoot("ask-rule-light")

    assert [line.replace("\n", " ") for line in await tab.texts(".decision .rule dd")] == [
        "the activation",
        "math computation",
        "not yet: 0 of 20 labels",
    ]
    await tab.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    await tab.page.emulate_media(color_scheme="dark")
    await tab.shoot("ask-rule-phone-dark")
    assert await tab.width_over() <= 0


async def test_a_hard_question_shows_its_dialectic_on_a_phone_too(
    browser: Browser, scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = ModelReplies()
    async with (
        assigner_at(scripted) as assigner,  # and no encoder, so that experience is unknown
        router_at(scripted, database_url, tmp_path, others={"assigner": assigner.grpc}) as router,
        console_at(router.rest, f"http://{NO_SERVER}") as console,
        tab_of(browser, console.url) as tab,
    ):
        await tab.ask(PRIME)
        answer = await tab.answered()
        await tab.shoot("ask-dialectic-light")

        assert answer == ANSWERS["synthesis"]
        assert await phases(tab) == dict.fromkeys(PHASES, "done")
        assert (await tab.text(".gauge figcaption")).split() == ["Activation", "0.762", "≥", "threshold", "0.45"]
        assert await tab.texts(".gauge tbody tr") == [
            "correctness as 1 \N{MINUS SIGN} CE 0.30 0.30 0.263",
            "conflict 0.80 0.25 0.250",
            "importance 0.80 0.25 0.250",
            "experience as 1 \N{MINUS SIGN} EM unknown 0.20 left out",
        ]
        assert "EM ?" in " ".join((await tab.text(".radar svg")).split())
        stages = await tab.texts(".chain .stage .text")
        assert stages == [ANSWERS[name] for name in ("thesis", "antithesis", "resolution", "synthesis")]
        assert await tab.text(".note .stage .text") == ANSWERS["note"]
        assert ANSWERS["note"] not in await tab.text(".chain")
        assert await tab.texts(".evolution .line-name") == ["CE 0.92", "CI 0.10"]
        assert "0.92" in await tab.text(".answer .facts")
        await tab.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        await tab.page.emulate_media(color_scheme="dark")
        await tab.shoot("ask-dialectic-phone-dark")
        assert await tab.width_over() <= 0
        assert (tab.errors, tab.outside) == ([], [])


async def test_each_cell_of_the_fitness_matrix_shows_its_terms_by_keyboard_too(tab: Tab) -> None:
    await tab.ask(PRIME, "dialectic")
    await tab.answered()

    assert await tab.page.locator(".heat td.chosen").count() == 5
    assert await tab.texts(".cell-terms tbody:visible tr:first-child") == ["correctness 0.82 0.60 0.820"]
    cell = tab.page.get_by_role("button", name="critic, ben")
    await cell.focus()
    await tab.page.keyboard.press("Enter")

    assert await cell.get_attribute("aria-pressed") == "true"
    assert await tab.texts(".cell-terms tbody:visible tr") == [
        "conflict 0.85 0.60 0.510",
        "incorrectness 0.60 0.40 0.240",
    ]


async def test_the_text_of_a_stage_appears_while_it_is_being_written(tab: Tab, stack: Stack) -> None:
    stack.llm.token_delay_s = 0.5

    await tab.ask(PRIME, "dialectic")
    await tab.page.locator("#text-thesis", has_text="looks prime").wait_for()
    early = await tab.text("#text-thesis")
    await tab.shoot("ask-live-light")
    can_be_stopped = await tab.page.locator("[data-stop]").is_visible()
    stack.llm.token_delay_s = 0.0

    assert await tab.answered() == ANSWERS["synthesis"]
    assert early != ANSWERS["thesis"]
    assert ANSWERS["thesis"].startswith(early)
    assert can_be_stopped


async def test_a_reloaded_page_continues_the_run(tab: Tab, stack: Stack) -> None:
    stack.llm.token_delay_s = 0.5
    await tab.ask(PRIME, "dialectic")
    await tab.page.locator("#text-thesis", has_text="looks").wait_for()
    asked = len(stack.llm.requests)

    await tab.page.reload()
    await tab.page.locator("#text-thesis", has_text="looks prime").wait_for()
    again = len(stack.llm.requests)
    stack.llm.token_delay_s = 0.0
    answer = await tab.answered()

    assert answer == ANSWERS["synthesis"]
    assert again == asked  # the work went on; it was not begun again
    assert await tab.texts(".chain .stage .text") == [
        ANSWERS[name] for name in ("thesis", "antithesis", "resolution", "synthesis")
    ]


async def test_stop_cancels_the_run_and_its_model_calls(tab: Tab, stack: Stack) -> None:
    stack.llm.token_delay_s = 0.2
    gone = stack.llm.disconnects
    await tab.ask(PRIME, "dialectic")
    await tab.page.locator(".stage.active").wait_for()

    await tab.page.click("[data-stop]")
    await tab.page.locator(".quiet-notice", has_text="Stopped").wait_for()
    await stack.llm.until(lambda llm: llm.in_flight == 0)

    assert stack.llm.disconnects > gone


async def test_a_vote_shows_every_source_and_fits_a_phone(
    browser: Browser, scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = ModelReplies(texts={**ANSWERS, "system1": "It is 5."}, solves=("4",))
    async with (
        arbiter_at(scripted, programs=False) as arbiter,
        router_at(scripted, database_url, tmp_path, others={"arbiter": arbiter.grpc}) as router,
        console_at(router.rest, f"http://{NO_SERVER}") as console,
        tab_of(browser, console.url) as tab,
    ):
        await tab.ask("What is 2 + 2?", "vote")
        answer = await tab.answered()
        await tab.shoot("ask-vote-light")

        assert answer.endswith("Final Answer: 4")
        assert "2 of 3 valid votes agree" in await tab.text(".votes .headline")
        rows = [row.rsplit(" ", 1)[0] for row in await tab.texts(".votes tbody tr")]
        assert rows == ["1 scripted draft 5 leads", "2 scripted reasoned 4", "3 scripted reasoned 4 leads"]
        assert "prior" in await tab.text(".answer .facts")
        await tab.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        await tab.page.emulate_media(color_scheme="dark")
        await tab.shoot("ask-vote-phone-dark")
        assert await tab.width_over() <= 0
        assert (tab.errors, tab.outside) == ([], [])


async def test_the_arbitration_shows_both_distributions(tab: Tab) -> None:
    await tab.ask("What is 2 + 2?", "arbiter")
    answer = await tab.answered()
    await tab.shoot("ask-arbiter-light")

    assert answer.endswith("Final Answer: 4")
    assert await tab.texts(".shift tbody tr") == ["4 60 % 80 %", "5 40 % 20 %"]
    facts = dict(fact.rsplit(" ", 1) for fact in (await tab.texts(".arbitration .facts div"))[:3])
    assert facts == {"Solvers' entropy": "0.673", "Arbiter's entropy": "0.500", "Reduction": "0.173"}
    assert await tab.page.locator(".arbitration .sub").count() == 3


async def test_the_delegation_shows_the_assessments_and_the_executor(tab: Tab) -> None:
    await tab.ask("What is 4 times 10?", "delegation")
    answer = await tab.answered()
    await tab.shoot("ask-delegation-light")

    assert answer.endswith("Final Answer: 40")
    headline = await tab.text(".delegation .headline")
    assert "beta" in headline  # whoever is asked first: beta hands it to nobody, the others hand it to beta
    asked = await tab.texts(".asked tbody tr")
    assert any(row.startswith("beta executor ~0.88") for row in asked)


async def test_feedback_is_accepted_once_and_a_different_one_shows_a_message(tab: Tab, stack: Stack) -> None:
    await tab.ask(PRIME, "dialectic")
    await tab.answered()
    run = await tab.page.get_by_role("link", name="Open this run").get_attribute("href")
    async with asyncio.timeout(30):
        other = await tab.page.context.new_page()
        await other.goto(tab.base + (run or ""))
        await other.get_by_role("button", name="The answer is right").click()
        await other.locator("#feedback", has_text="Label: right").wait_for()

    await tab.page.get_by_role("button", name="The answer is wrong").click()

    notice = tab.page.locator("#feedback .notice")
    await notice.wait_for()
    assert "another label already" in await notice.inner_text()


async def test_invalid_input_shows_a_message(tab: Tab) -> None:
    await tab.go("/")
    await tab.page.click("button.primary")
    await tab.page.locator("#run .notice", has_text="Type a question first.").wait_for()

    await tab.page.fill("#question", PRIME)
    await tab.page.click(".options summary")
    await tab.page.fill("input[name=seed]", "seven")
    await tab.page.click("button.primary")

    await tab.page.locator("#run .notice", has_text="'seven' is not a number").wait_for()


async def test_a_question_can_be_asked_with_the_keyboard_alone(tab: Tab, mind: ModelReplies) -> None:
    await tab.go("/")
    await tab.page.keyboard.type("Why is the sky blue?")
    await tab.page.keyboard.press("Tab")
    await tab.page.keyboard.press("ArrowRight")
    chosen = await tab.page.locator("input[name=strategy]:checked").get_attribute("value")
    await tab.page.locator("#question").focus()
    await tab.page.keyboard.press("Control+Enter")

    assert chosen == "system1"
    assert await tab.answered() == ANSWERS["system1"]
