"""`metacog ask`, `route`, `assign` and `batch` against a real router and assigner over a scripted model."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cli.terminal.exits import INTERRUPTED, OK
from tests.support.gateway import Suite, gateway
from tests.support.models.scripted_llm import ScriptedLLM, Stall
from tests.support.stack import LONG, ROOT, TROUBLED, cast, environment, process


@pytest.fixture
async def suite(scripted: ScriptedLLM, own_database_url: str, tmp_path: Path) -> AsyncIterator[Suite]:
    scripted.answer = cast(rated=TROUBLED, system1="It is 7 times 13.", note="Ask a mathematician.")
    async with gateway(scripted, own_database_url, tmp_path) as running:
        yield running


async def begun(suite: Suite, *words: object) -> asyncio.subprocess.Process:
    """The command, started."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli", *map(str, words), "--router", suite.router.rest),
        cwd=ROOT,
        env=environment(COLUMNS=160),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def metacog(suite: Suite, *words: object) -> tuple[int, str, str]:
    """The command's status, output and notes."""
    process = await begun(suite, *words)
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_an_answer_has_a_line_that_summarizes_its_run(suite: Suite) -> None:
    status, out, err = await metacog(suite, "ask", "Is 91 prime?", "--strategy", "system1")

    assert (status, out) == (OK, "It is 7 times 13.\n")
    assert "SYSTEM ONE · system1 · confidence 0.55 (answers, prior)" in err


async def test_everything_behind_an_answer_is_drawn(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(rated=TROUBLED, system1=LONG, note="Ask a mathematician.")
    status, out, _ = await metacog(suite, "ask", "Why is 91 no prime?", "--explain")

    # As the routing's own tests have it: (0.30 * 0.7 + 0.25 * 0.8 + 0.25 * 0.8) / 0.8 = 0.7625.
    places = [
        out.index(words)
        for words in (
            "SYSTEM TWO  dialectic: the activation decides",
            "activation 0.762 reaches the threshold 0.45",
            "total fitness",
            "thesis: expert",
            "the thesis",
            "antithesis: critic",
            "resolution: evaluator",
            "synthesis: synthesizer",
            "note: generalist",
            "Ask a mathematician.",
            "state after each stage",
            "answered by",
        )
    ]
    assert (status, places) == (OK, sorted(places))
    assert (out.count("Ask a mathematician."), out.count("the synthesis")) == (1, 1)


async def test_a_run_is_explained_afterwards_as_it_was_live(suite: Suite) -> None:
    _, asked, _ = await metacog(suite, "ask", "Is 91 prime?", "--json")
    run = json.loads(asked)

    status, out, _ = await metacog(suite, "runs", "show", run["run_id"], "--explain")

    assert (status, run["strategy"]) == (OK, "dialectic")
    assert "total fitness" in out
    assert "thesis by expert" in out
    assert f"answer: {run['answer']}" in out


async def test_interrupting_the_command_ends_the_work_of_the_model(suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.fault(Stall())
    asking = await begun(suite, "ask", "Is 91 prime?", "--strategy", "system1")
    await scripted.until(lambda llm: llm.in_flight == 1)

    asking.send_signal(signal.SIGINT)
    await asking.communicate()
    await scripted.until(lambda llm: llm.in_flight == 0)

    assert (asking.returncode, scripted.disconnects) == (INTERRUPTED, 1)


async def test_a_batch_that_is_killed_continues_where_it_stopped(
    suite: Suite, scripted: ScriptedLLM, tmp_path: Path
) -> None:
    asked, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    body = {"model": "metacog/system1", "messages": [{"role": "user", "content": "Hi"}]}
    line = {"method": "POST", "url": "/v1/chat/completions", "body": body}
    asked.write_text("".join(json.dumps({"custom_id": str(n), **line}) + "\n" for n in range(6)))
    scripted.fault(None, None, None, Stall())
    killed = await begun(suite, "batch", asked, out, "--concurrency", 1)
    await scripted.until(lambda llm: len(llm.requests) == 4)

    killed.kill()
    await killed.communicate()
    status, _, err = await metacog(suite, "batch", asked, out, "--concurrency", 1)

    answers = [json.loads(each) for each in out.read_text().splitlines()]
    assert (status, "continuing: 3 of 6 are answered already" in err) == (OK, True)
    assert [each["custom_id"] for each in answers] == [str(n) for n in range(6)]
    assert {each["response"]["body"]["choices"][0]["message"]["content"] for each in answers} == {"It is 7 times 13."}
    assert all(each["response"]["request_id"] for each in answers)
    assert len(scripted.requests) == 4 + 3


async def test_route_and_ask_measure_a_question_by_the_same_assessor(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = lambda body: ['{"r": [30, 20, 10]}' if "response_format" in body else "It is 7 times 13."]
    inference = {
        "METACOG_INFERENCE_URL": f"{scripted.url}/v1",
        "METACOG_DATABASE_URL": database_url,
        "METACOG_ROUTER_SPOOL_DIR": tmp_path,
    }
    async with process("router", **inference) as router:
        asked = [await asked_of(router.rest, command) for command in ("route", "ask")]

    routed, answered = asked[0], asked[1]["route"]
    assert routed["assessor"] == answered["assessor"] == "answers"
    assert (routed["msv"], routed["activation"]) == (answered["msv"], answered["activation"])
    assert (routed["system"], routed["strategy"]) == (answered["system"], answered["strategy"])


async def asked_of(router: str, command: str) -> dict[str, Any]:
    """What `metacog route` or `metacog ask` returns for one question, as JSON."""
    asking = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli", command, "Is 91 prime?", "--seed", "1", "--json", "--router", router),
        cwd=ROOT,
        env=environment(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asking.communicate()
    assert asking.returncode == OK
    found: dict[str, Any] = json.loads(out)
    return found
