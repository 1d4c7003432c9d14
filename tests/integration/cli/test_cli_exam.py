"""`metacog exam`, as a person types it, on a real router and a real delegation service with scripted models."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli.terminal.exits import FORBIDDEN, OK, PARTIAL, UNREACHABLE, USAGE
from kernel.prices import Price
from tests.support.apis import RestApi
from tests.support.delegating import Delegation, delegation_at, renamed_agents
from tests.support.models.scripted_llm import Body, ErrorReply, ScriptedLLM
from tests.support.stack import NO_SERVER, ROOT, ROUTER, RunningRouter, router_at

MATH, LOGIC = "math_computation", "logical_reasoning"
PRICES = {"scripted": Price(prompt=1.0, completion=2.0)}


@dataclass(frozen=True)
class Exam:
    """Runs the command in a folder, on the services of a test."""

    folder: Path
    urls: Sequence[str]

    def words(self, *words: object) -> list[str]:
        """Return the command line of an exam of the file of tasks."""
        tasks = () if "--hub" in words else ("--tasks", self.folder / "tasks.jsonl")
        return [sys.executable, "-m", "cli", "exam", *map(str, (*tasks, *self.urls, *words))]

    async def __call__(self, *words: object) -> "subprocess.CompletedProcess[str]":
        """Run the command without a confirmation."""
        return await asyncio.to_thread(self.run, "--yes", *words)

    async def unconfirmed(self, *words: object) -> "subprocess.CompletedProcess[str]":
        """Run the command as it is."""
        return await asyncio.to_thread(self.run, *words)

    def run(self, *words: object) -> "subprocess.CompletedProcess[str]":
        """Run the command."""
        return subprocess.run(
            self.words(*words),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the command."""
        own = {name: text for name, text in os.environ.items() if not name.startswith("METACOG_")}
        return {**own, "PYTHONPATH": f"{ROOT}:{ROOT / 'gen'}", "COLUMNS": "200", "NO_COLOR": "1"}

    @property
    def journal(self) -> Path:
        """Return the path of the journal."""
        return self.folder / "exam.journal.jsonl"

    def entries(self, kind: str) -> list[dict[str, Any]]:
        """Return the entries of a kind in the journal."""
        text = self.journal.read_text() if self.journal.exists() else ""
        complete = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [entry[kind] for entry in map(json.loads, complete) if kind in entry]

    def write(self, lines: Sequence[dict[str, Any] | str]) -> None:
        """Write the file of tasks."""
        spelled = (line if isinstance(line, str) else json.dumps(line) for line in lines)
        (self.folder / "tasks.jsonl").write_text("".join(f"{line}\n" for line in spelled))


def sums(count: int, kind: str = MATH) -> list[dict[str, Any]]:
    """Return tasks with the answers 1, 2, 3, ..."""
    return [
        {
            "id": f"{kind}-{number}",
            "kind": kind,
            "question": f"What is {number} + 0?",
            "answer": f"{number}",
            "answer_type": "NUMBER",
        }
        for number in range(1, count + 1)
    ]


def adding(wrong_from: int) -> Any:  # noqa: ANN401
    """Return a model that adds 0 rightly to the numbers below `wrong_from`."""

    def answer(body: Body) -> list[str]:
        number = int(str(body["messages"][-1]["content"]).partition("What is ")[2].partition(" ")[0])
        return [f"Final Answer: {number if number < wrong_from else 0}"] * (body.get("n") or 1)

    return answer


def asked(llm: ScriptedLLM) -> list[str]:
    """Return the questions that a model was asked."""
    return [str(body["messages"][-1]["content"]).strip().partition("?")[0] for body in llm.bodies]


@pytest.fixture
def strong() -> Iterator[ScriptedLLM]:
    """A second model."""
    with ScriptedLLM(model="strong") as llm:
        llm.answer = adding(wrong_from=100)
        yield llm


@asynccontextmanager
async def examined(
    llm: ScriptedLLM, strong: ScriptedLLM, database: str, folder: Path
) -> AsyncIterator[tuple[Exam, RunningRouter]]:
    """Run a router with two models."""
    models = {"strong": strong}
    async with router_at(llm, database, folder / "spool", models=models, prices=PRICES) as router:
        yield Exam(folder, ("--router", router.rest)), router


async def labels_of(router: RunningRouter, answers: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the labels of the runs that answered, by run."""
    api = RestApi(router.rest, ROUTER)
    return {each["record"]: (await api.ask("GetRun", run_id=each["record"]))["run"]["feedback"] for each in answers}


async def test_all_models_answer_and_their_runs_are_labelled_as_an_exam(
    scripted: ScriptedLLM, strong: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = adding(wrong_from=3)
    async with examined(scripted, strong, database_url, tmp_path) as (exam, router):
        exam.write(sums(4))

        done = await exam("--json")

        answers = exam.entries("answer")
        labels = await labels_of(router, answers)
    reported = json.loads(done.stdout)
    assert (done.returncode, reported["tasks"], reported["too_few"]) == (OK, {MATH: 4}, {MATH: 4})
    shares = {row["arm"]: (row["right"], row["judged"], row["share_right"]) for row in reported["results"]}
    assert shares == {"model:scripted": (2, 4, 0.5), "model:strong": (4, 4, 1.0)}
    assert [row["low"] for row in reported["results"]] == pytest.approx([0.150, 0.510], abs=0.001)  # Wilson's
    assert sorted(asked(scripted)) == [f"What is {number} + 0" for number in range(1, 5)]
    assert all(len(each) == 1 and (each[0]["origin"], each[0]["teaches"]) == ("EXAM", True) for each in labels.values())
    assert sorted(each[0]["score"] for each in labels.values()) == [0.0, 0.0, *[1.0] * 6]
    assert reported["labels"]["model:strong"] == {"sent": 4, "teach": 4, "not_learned": {}}


async def test_the_estimate_has_the_cost_of_models_with_a_price_and_names_the_others(
    scripted: ScriptedLLM, strong: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    async with examined(scripted, strong, database_url, tmp_path) as (exam, _):
        exam.write(sums(5))

        rejected = await exam.unconfirmed("--max-tokens", 100, "--arms", "models,strategy:arbiter")

    assert (rejected.returncode, scripted.bodies, exam.journal.exists()) == (USAGE, [], False)
    assert "--yes starts the exam" in rejected.stderr
    lines = {line.split()[0]: line.split() for line in rejected.stderr.splitlines() if ":" in line.split(" ")[0]}
    # five answers of at most 100 tokens at 2 per million, and the tokens that are read
    cost = float(lines["model:scripted"][5])
    assert lines["model:scripted"][1:3] + lines["model:scripted"][4:5] == ["5", "5", "500"]
    assert cost == pytest.approx(0.001 + int(lines["model:scripted"][3]) * 1e-6)
    assert lines["model:strong"][5] == "unknown"
    assert lines["strategy:arbiter"][2:6] == ["unknown"] * 4
    assert "unknown for model:strong, strategy:arbiter" in rejected.stderr
    assert "not in these sums: strategy:arbiter" in rejected.stderr


async def test_an_exam_that_is_killed_continues_and_asks_nothing_twice(
    scripted: ScriptedLLM, strong: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = adding(wrong_from=100)
    async with examined(scripted, strong, database_url, tmp_path) as (exam, router):
        exam.write(sums(30))
        words = ("--arms", "model:scripted", "--concurrency", 1)
        scripted.token_delay_s = 0.02
        killed = subprocess.Popen(
            exam.words("--yes", *words), cwd=tmp_path, env=exam.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while len(exam.entries("answer")) < 5:  # noqa: ASYNC110 - the journal grows in another process
            await asyncio.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
        await asyncio.to_thread(killed.wait)
        scripted.token_delay_s = 0.0
        before = len(exam.entries("answer"))

        done = await exam(*words, "--json")
        again = await exam(*words, "--json")
        labels = await labels_of(router, exam.entries("answer"))

    assert 5 <= before < 30
    assert "continuing exam-" in done.stderr
    assert (done.returncode, again.returncode) == (OK, OK)
    # the one that was under way is the same request again, which the router answers once
    assert len(set(asked(scripted))) == 30
    assert len(scripted.bodies) <= 31
    assert json.loads(done.stdout)["results"] == json.loads(again.stdout)["results"]
    assert json.loads(again.stdout)["estimate"]["total"]["questions"] == 0
    assert [len(each) for each in labels.values()] == [1] * 30
