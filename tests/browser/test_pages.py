"""The pages of runs, agents, calibration and knowledge."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.browser.conftest import Stack
from tests.support.browser import Tab, written
from tests.support.console import ANSWERS

PRIME = "Is 91 a prime number?"
PAGES = {"runs": "/runs", "agents": "/agents", "calibration": "/calibration", "knowledge": "/knowledge"}


async def asked(stack: Stack, question: str, **more: Any) -> str:  # noqa: ANN401
    """Have the router answer, without the console; the run's name."""
    async with httpx.AsyncClient(base_url=stack.router.rest, timeout=60) as client:
        reply = await client.post("/v1/answers", json={"question": question, **more})
        name: str = reply.json()["run"]["run_id"]
        assert (await client.get(f"/v1/runs/{name}")).status_code == 200  # which waits until it is recorded
    return name


@pytest.mark.usefixtures("mind")
async def test_runs_are_filtered_and_opened(tab: Tab, stack: Stack) -> None:
    thought = await asked(stack, "A question for four stages", strategy="dialectic")
    await asked(stack, "A question for one call", strategy="system1")

    await tab.go("/runs")
    await tab.page.select_option("select[name=strategy]", "dialectic")
    await tab.page.click(".filters button")
    await tab.page.wait_for_url("**/runs?*strategy=dialectic*")
    listed = await tab.texts(".runs tbody th")
    await tab.shoot("runs-light")
    await tab.page.locator(f'a[href="/runs/{thought}"]').click()
    await tab.page.locator(".question", has_text="four stages").wait_for()
    await tab.shoot("run-light")

    assert any("A question for four stages" in row for row in listed)
    assert not any("A question for one call" in row for row in listed)
    assert await tab.text(".chain li:last-child .text") == ANSWERS["synthesis"]
    assert await tab.text(".note .text") == ANSWERS["note"]


@pytest.mark.usefixtures("mind")
async def test_a_run_is_replayed_to_the_same_picture(tab: Tab, stack: Stack) -> None:
    await tab.go(f"/runs/{await asked(stack, PRIME, strategy='dialectic')}")
    recorded = await tab.text(".chain"), await tab.text(".answer-text"), await tab.texts(".evolution .line-name")

    await tab.page.select_option("select[name=speed]", "16")
    await tab.page.get_by_role("button", name="Replay").click()
    await tab.page.locator("[data-live] .answer .facts").wait_for()

    replayed = await tab.text(".chain"), await tab.text(".answer-text"), await tab.texts(".evolution .line-name")
    assert replayed == recorded


@pytest.mark.usefixtures("mind")
async def test_two_runs_are_compared_and_one_is_not(tab: Tab, stack: Stack) -> None:
    first, second = await asked(stack, PRIME, strategy="dialectic"), await asked(stack, PRIME, strategy="system1")

    await tab.go("/runs")
    for name in (first, second):
        await tab.page.check(f'input[value="{name}"]')
    await tab.page.get_by_role("button", name="Compare").click()
    await tab.page.locator("table.compare").wait_for()
    rows = dict(zip(await tab.texts(".compare tbody th"), await tab.texts(".compare tbody tr"), strict=True))
    await tab.shoot("compare-light")

    assert rows["system"] in ("system System 1 System 2", "system System 2 System 1")
    assert "unknown" not in rows["confidence"]
    await tab.go(f"/runs/compare?run={first}")
    assert "Select two runs" in await tab.text(".notice")
    tab.errors.clear()  # the browser itself complains of the status 400


@pytest.mark.usefixtures("mind")
async def test_agents_are_unknown_until_the_first_label(tab: Tab, stack: Stack) -> None:
    run = await asked(stack, "What is 4 times 10?", strategy="delegation", answer_type="NUMBER")
    await tab.go("/agents")
    before = await tab.page.locator(".shade-none").count()

    await tab.go(f"/runs/{run}")
    await tab.page.get_by_role("button", name="The answer is right").click()
    effects = await tab.text("#feedback p")
    cells = tab.page.locator("td:has(small:text('n 1'))")
    while not await cells.count():
        await tab.go("/agents")
    await tab.shoot("agents-light")

    assert "the profile of the agent learns from it" in effects
    assert before == 15
    assert (await cells.first.inner_text()).startswith("0.55")  # 0.5 + 0.1 (1 - 0.5)
    assert await tab.page.locator(".shade-none").count() == 14
    tasks, first, handed_over, voted = [int(fact.split()[0]) for fact in (await tab.texts(".facts dd"))[:4]]
    assert tasks == first + handed_over + voted >= 1
    assert "unknown" in await tab.text(".plain-table tbody tr")
    assert "No change was detected" in await tab.text("section:has(#drift-title)")


@pytest.mark.usefixtures("mind")
async def test_calibration_shows_the_labelled_answers_and_the_activations_with_the_threshold(
    tab: Tab, stack: Stack
) -> None:
    await asked(stack, PRIME, msv={"correctness": 0.3, "conflict": 0.8, "importance": 0.8})  # activation 0.7625
    run = await asked(stack, "Is 57 a prime number?", strategy="dialectic")
    async with httpx.AsyncClient(base_url=stack.router.rest) as client:
        label = {"feedback_id": "calibration-page", "run_id": run, "correct": True}
        assert (await client.post("/v1/feedback", json=label)).status_code == 200

    await tab.go("/calibration")
    await tab.shoot("calibration-light")

    assert "threshold 0.45" in await tab.text(".histogram svg")
    assert await tab.page.locator(".histogram rect.over[height]:not([height='0.0'])").count() >= 1
    diagram = tab.page.locator(".reliability", has_text="dialectic").first
    assert await diagram.locator(".mark").count() >= 2
    assert "ECE" in await diagram.locator("figcaption").first.inner_text()
    assert "it needs 100 labelled answers" in " ".join((await diagram.inner_text()).split())


async def test_a_document_is_added_with_progress_found_by_meaning_and_deleted(tab: Tab, tmp_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {n} speaks of trains and their timetables." for n in range(40))
    file = written(tmp_path, "fjord.md", f"The fjord is two hundred metres deep.\n\n{text}".encode())

    await tab.go("/knowledge")
    await tab.page.set_input_files("input[type=file]", file)
    await tab.page.locator("#uploads", has_text="fjord.md is added").wait_for()
    await tab.page.locator("#documents li", has_text="fjord.md").wait_for()
    await tab.page.fill("#query", "What is the depth of the water?")
    await tab.page.click(".search button")
    hit = await tab.text(".hits li")
    await tab.shoot("knowledge-light")
    tab.page.on("dialog", lambda dialog: dialog.accept())
    await tab.page.get_by_role("button", name="Delete fjord.md").click()
    await tab.page.locator("#documents", has_text="Deleted fjord.md").wait_for()

    assert "two hundred metres deep" in hit
    await tab.go("/knowledge")
    assert await tab.page.locator("#documents li", has_text="fjord.md").count() == 0


async def test_files_that_are_not_text_and_empty_searches_show_a_message(tab: Tab, tmp_path: Path) -> None:
    await tab.go("/knowledge")
    for name, content, complaint in (
        ("scan.pdf", b"%PDF \xff\xfe", "scan.pdf is not UTF-8 text"),
        ("empty.txt", b"", "empty.txt is empty"),
    ):
        await tab.page.set_input_files("input[type=file]", written(tmp_path, name, content))
        await tab.page.locator("#uploads .notice", has_text=complaint).wait_for()
    await tab.page.set_input_files("input[type=file]", written(tmp_path, "large.txt", b"a" * (4 * 2**20 + 1)))
    await tab.page.locator("#toast", has_text="large.txt is larger than 4.0 MiB").wait_for()

    await tab.page.click(".search button")

    await tab.page.locator("#hits .notice", has_text="Enter a text to search for.").wait_for()


async def test_on_a_phone_no_cell_of_a_run_covers_its_neighbour(phone: Tab, stack: Stack) -> None:
    await asked(stack, "What is 4 times 10?", strategy="delegation", answer_type="NUMBER")

    await phone.go("/runs?strategy=delegation")

    fits = "cells => cells.map(cell => [cell.dataset.label, cell.scrollWidth <= cell.clientWidth])"
    cells = await phone.page.locator(".runs tbody tr").first.locator("td[data-label]").evaluate_all(fits)
    assert len(cells) == 7
    assert [label for label, fitting in cells if not fitting] == []


@pytest.mark.parametrize("name", PAGES)
async def test_every_page_fits_a_phone_in_the_dark(name: str, phone: Tab) -> None:
    await phone.go(PAGES[name])
    await phone.shoot(f"{name}-phone-dark")

    assert await phone.width_over() <= 0
    assert await phone.text("h1") == name.capitalize()
