"""Expressions that take long to compare hold up no other request, and no other API key."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.hostile.expressions import hostile
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROOT, Body, Process, process, rating


def measurement(letter: str) -> dict[str, Any]:
    """A question whose answer is compared with many right ones."""
    given, right = hostile(letter)
    return {"answer_type": "TEXT", "solver_answers": [given], "truth": right[0], "truth_aliases": right[1:]}


ANSWER, (EXPECTED, *ALIASES) = hostile("x")
TASK = {
    "question": "Write the polynomial in another form.",
    "dimension": "math_computation",
    "answer_type": "TEXT",
    "expected": {"answer": EXPECTED, "answer_type": "TEXT", "aliases": ALIASES},
}
GREEDY, MODEST = {"Authorization": "Bearer greedy"}, {"Authorization": "Bearer modest"}


@pytest.fixture(scope="module")
def database(new_database: Callable[[], str]) -> str:
    """A database of these tests alone."""
    return new_database()


@pytest.fixture
def settings(database: str, scripted: ScriptedLLM, tmp_path: Path) -> dict[str, object]:
    keys = [{"name": name, "sha256": sha256(name.encode()).hexdigest()} for name in ("greedy", "modest")]
    (tmp_path / "keys.yaml").write_text(yaml.safe_dump({"keys": keys}))
    return {
        "METACOG_INFERENCE_URL": f"{scripted.url}/v1",
        "METACOG_DATABASE_URL": database,
        "METACOG_HOME": tmp_path,
        "METACOG_KEYS_FILE": tmp_path / "keys.yaml",
        "METACOG_AGENTS_FILE": ROOT / "config" / "agents.delegation.yaml",
    }


def answer(body: Body) -> list[str]:
    """Reply with ratings where a schema is asked for, else with a hostile answer."""
    text = rating(90, 90, 90) if "response_format" in body else f"Final Answer: {ANSWER}"
    return [text] * (body.get("n") or 1)


async def events_of(service: Process, path: str, body: dict[str, Any], first: str) -> AsyncIterator[tuple[str, Any]]:
    """Yield the events of a stream, from the first one called `first`."""
    headers = {**GREEDY, "accept": "text/event-stream"}
    async with (
        httpx.AsyncClient(base_url=service.rest, timeout=120) as client,
        client.stream("POST", path, json=body, headers=headers) as reply,
    ):
        assert reply.status_code == 200, await reply.aread()
        name, has_begun = "", False
        async for line in reply.aiter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                has_begun = has_begun or name == first
                if has_begun:
                    yield name, json.loads(line.removeprefix("data: "))


async def test_a_task_with_a_long_comparison_holds_up_nothing_and_its_label_is_unknown(
    settings: dict[str, object], scripted: ScriptedLLM
) -> None:
    scripted.answer = answer
    async with process("delegation", **settings) as delegation:
        events = events_of(delegation, "/v1/tasks", TASK, first="agent_answered")
        await anext(events)
        rest = asyncio.create_task(collected(events))
        async with httpx.AsyncClient(base_url=delegation.rest, timeout=120) as client:
            alive = await client.get("/healthz")
            is_comparing = not rest.done()
        found = dict(await rest)

    finished = found["task_finished"]
    assert (alive.status_code, is_comparing) == (200, True)
    assert (finished["label"]["correct"], finished["label"]["detail"].split(":")[0]) == (None, "COMPARISON_TIMEOUT")
    assert [reason for reason in finished["degraded_reasons"] if reason.startswith("COMPARISON_TIMEOUT: ")]


async def collected(events: AsyncIterator[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return all that is left of a stream."""
    return [event async for event in events]


async def test_long_comparisons_of_one_key_leave_those_of_another_alone(settings: dict[str, object]) -> None:
    quick = {"answer_type": "NUMBER", "solver_answers": [r"\sqrt{2}/2"], "truth": r"1/\sqrt{2}"}
    async with (
        process("arbiter", **settings) as arbiter,
        httpx.AsyncClient(base_url=arbiter.rest, timeout=300) as client,
        asyncio.TaskGroup() as group,
    ):
        asked = [client.post("/v1/measurements", json=measurement(letter), headers=GREEDY) for letter in "xyztuv"]
        greedy = [group.create_task(each) for each in asked]
        await asyncio.wait(greedy, return_when=asyncio.FIRST_COMPLETED)  # the next one is under way
        modest = await client.post("/v1/measurements", json=quick, headers=MODEST)
        alive = await client.get("/healthz")
        are_waiting = not all(task.done() for task in greedy)

    assert (modest.json()["correct"], alive.status_code, are_waiting) == (True, 200, True)
    replies = [task.result().json() for task in greedy]
    assert [reply["correct"] for reply in replies] == [None] * len(greedy)  # and not false: nothing says so
