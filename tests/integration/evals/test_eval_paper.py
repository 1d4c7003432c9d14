"""All tables of a paper by one command, on real services over a scripted model: estimated, interrupted, continued."""

import asyncio
import json
import os
import re
import signal
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from docs.generating.evaluation.all_works import published_works
from docs.generating.evaluation.works import FOLDER, put, stale
from evals.horizon.files import write_report as write_horizon
from evals.paper.report import Made, spent
from evals.publishing.files import report_files
from evals.records import Record, read_records
from evals.suite import Addresses
from tests.integration.evals.test_eval_suite import running_suite, says
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROOT, Body

DIMENSIONS = (
    "logical_reasoning", "knowledge_retrieval", "code_generation", "math_computation", "commonsense_inference",
)  # fmt: skip
LEVELS = ("easy", "medium", "hard")
INTERRUPTED = 130


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with one small set for each cell of the benchmark."""
    folder = tmp_path / "questions"
    folder.mkdir()
    for place, dimension in enumerate(DIMENSIONS):
        lines = [
            {"id": f"{dimension}-{n}", "dataset": dimension, "dimension": dimension, "difficulty": LEVELS[n % 3],
             "answer_type": "number", "question": f"What is {n} + {n}?", "answer": str(2 * n)}
            for n in range(1 + 3 * place, 4 + 3 * place)
        ]  # fmt: skip
        (folder / f"{dimension}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


class Gate:
    """A model that stops after some calls until it is let on."""

    def __init__(self, calls: int) -> None:
        self._left = calls
        self.is_open = threading.Event()
        self.reached = threading.Event()

    def __call__(self, body: Body) -> Sequence[str]:
        """Answer, or wait."""
        self._left -= 1
        if self._left < 0 and not self.is_open.is_set():
            self.reached.set()
            self.is_open.wait(60)
        return says(body)


@pytest.fixture
async def suite(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[Addresses]:
    scripted.answer = says
    async with running_suite(scripted, database_url, tmp_path) as addresses:
        yield addresses


class Typed:
    """The command, typed again and again."""

    def __init__(self, suite: Addresses, out: Path) -> None:
        self.out = out
        self._addresses = [
            f"--{name}={getattr(suite, name)}" for name in ("router", "assigner", "arbiter", "delegation")
        ]

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        """Start the command."""
        typed = [sys.executable, "-m", "cli", "eval", "paper", *words, *self._addresses, "--out", str(self.out)]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'gen'}", "COLUMNS": "300"}
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(*typed, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe)

    async def done(self, *words: str) -> tuple[int, str]:
        """Run it to its end; returns its status and all that it prints."""
        process = await self.start(*words)
        printed, noted = await process.communicate()
        return process.returncode or 0, printed.decode() + noted.decode()


def answered(records: Sequence[Record]) -> list[tuple[str, str]]:
    return [(one["item"], one.get("arm") or one["asked"]) for one in records if one["kind"] == "reply"]


def estimated(page: str, name: str) -> tuple[int, int]:
    """Requests and generations that the estimate has for an evaluation."""
    [cells] = re.findall(rf"\| {re.escape(name)} \| [^|]+ \| [^|]+ \| ([\d,]+) \| ([\d,]+) \|", page)
    requests, generations = (int(number.replace(",", "")) for number in cells)
    return requests, generations


@pytest.mark.timeout(600)
async def test_the_tables_of_mc_mas_are_made_whole_by_a_command_that_was_interrupted(
    suite: Addresses, scripted: ScriptedLLM, data: Path, tmp_path: Path
) -> None:
    typed = Typed(suite, tmp_path / "out")
    words = ["mc-mas", "--model", "scripted", "--precision", "4-bit", "--data", str(data), "--items", "2",
             "--sets", "math_computation", "--seeds", "1", "--solver-samples", "2", "--arbitration-samples", "3",
             "--max-tokens", "64", "--tokens-per-second", "1000", "--concurrency", "1"]  # fmt: skip
    folder = tmp_path / "out" / "scripted_4-bit" / "mc-mas"
    calls = len(scripted.bodies)
    status, foretold = await typed.done(*words, "--estimate-only")
    assert (status, len(scripted.bodies)) == (0, calls)

    # One call for the name of the model, six of each item; it is stopped in the second item.
    scripted.answer = gate = Gate(9)
    process = await typed.start(*words)
    assert await asyncio.to_thread(gate.reached.wait, 120)
    process.send_signal(signal.SIGINT)
    _, noted = await process.communicate()
    before = (folder / "records.jsonl").read_bytes()
    gate.is_open.set()
    scripted.answer = says
    # Another model's run was stopped before its first answer.
    begun = tmp_path / "out" / "begun" / "mc-mas"
    begun.mkdir(parents=True)
    (begun / "records.jsonl").write_bytes(before.partition(b"\n")[0] + b"\n")
    status, printed = await typed.done(*words)

    assert process.returncode == INTERRUPTED, noted.decode()
    assert "the same command continues from there" in noted.decode()
    assert status == 0, printed
    records = read_records(folder / "records.jsonl")
    assert (folder / "records.jsonl").read_bytes().startswith(before)
    # One arbitration, one self-consistency and four replays of each item, none asked twice.
    assert len(answered(records)) == len(set(answered(records))) == 12
    assert not [one for one in records if "error" in one]
    # 2 (2 * 2 + 2 + 3) generations of each item, of two items.
    assert estimated(foretold, "mc-mas") == (12, 36)
    assert spent([Made(folder="", part="", records=records, typed="")])["generations"] == 36
    assert "| mc-mas | 2 x 1 | 0 % |" in foretold
    # 36 texts of 64 tokens at 1,000 a second.
    assert "a gain of 56.6 points or more would show" in foretold
    assert re.search(r"\| mc-mas \| 2 x 1 \| [1-9]\d? % \|", printed), printed
    page = (tmp_path / "out" / "report.md").read_text()
    assert re.search(r"\| scripted \| 4-bit \| math_computation \(2\) \|", page)
    assert "Left out, since they have no answer yet: `begun/mc-mas`." in page
    assert "| [mc-mas](scripted_4-bit/mc-mas/report.md) | 2 |" in page
    # What is published makes the same report, by `make evaluation-pages`.
    file = tmp_path / "out" / "published" / "mc-mas_scripted_4-bit.jsonl.gz"
    assert report_files(read_records(file))["report.md"] == (folder / "report.md").read_text()
    papers = tmp_path / "root" / FOLDER / "papers"
    papers.mkdir(parents=True)
    (papers / file.name).write_bytes(file.read_bytes())
    [work] = published_works(tmp_path / "root")
    put(tmp_path / "root", work, work.make(tmp_path / "root"))
    assert (papers / "mc-mas_scripted_4-bit" / "report.md").read_text() == (folder / "report.md").read_text()
    assert sorted(each.suffix for each in (papers / "mc-mas_scripted_4-bit").iterdir()) == [".md", *[".svg"] * 4]
    assert stale(tmp_path / "root", [work]) == []


@pytest.mark.timeout(600)
async def test_another_model_than_the_suite_uses_is_an_error_that_says_how_to_serve_it(
    suite: Addresses, data: Path, tmp_path: Path
) -> None:
    typed = Typed(suite, tmp_path / "out")

    status, printed = await typed.done(
        "mc-mas", "--model", "mistral-7b", "--data", str(data), "--sets", "math_computation", "--tokens-per-second", "9"
    )

    assert status == 2
    assert "the suite uses the model scripted, not mistral-7b" in printed
    assert "vllm serve mistral-7b" in printed
    assert not (tmp_path / "out").exists()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("paper", ["msv", "delegation"])
async def test_the_tables_of_the_other_papers_are_made_whole(
    suite: Addresses, data: Path, tmp_path: Path, paper: str
) -> None:
    typed = Typed(suite, tmp_path / "out")
    sets = [] if paper == "delegation" else ["--sets", "knowledge_retrieval"]

    # The speed of the server is measured, by answers at a time.
    status, printed = await typed.done(
        paper,
        "--model",
        "scripted",
        "--data",
        str(data),
        *sets,
        "--items",
        "1",
        "--max-tokens",
        "48",
        "--concurrency",
        "2",
    )

    assert status == 0, printed
    names = ["routing", "dialectic", "default-routing"] if paper == "msv" else ["delegation"]
    # The service that learns is asked one task at a time, and measured so.
    assert f"measured, {1 if paper == 'delegation' else 2} at a time" in printed
    page = (tmp_path / "out" / "report.md").read_text()
    for name in names:
        folder = tmp_path / "out" / "scripted" / name
        records = read_records(folder / "records.jsonl")
        requests, generations = estimated(printed, name)
        taken = spent([Made(folder="", part="", records=records, typed="")])["generations"]
        assert not [one for one in records if "error" in one]
        # An estimate of the most is no less than what was taken, and no multiple of it.
        assert len(answered(records)) <= requests
        assert 0.25 * generations <= taken <= generations, (name, taken, generations)
        assert f"[{name}](scripted/{name}/report.md)" in page
        report = report_files(read_records(tmp_path / "out" / "published" / f"{name}_scripted.jsonl.gz"))["report.md"]
        assert report == (folder / "report.md").read_text()
        assert "power: " in report
    if paper == "delegation":
        # The 20 tasks of a benchmark with one task in each cell, and the service's own rules beside the paper's.
        assert len((tmp_path / "out" / "tasks.jsonl").read_text().splitlines()) == 20
        assert "| the service's default | " in report


@pytest.mark.timeout(600)
async def test_deliberation_at_each_step_follows_what_the_step_before_has_left(
    suite: Addresses, scripted: ScriptedLLM, tmp_path: Path
) -> None:
    from typer.testing import CliRunner

    from cli.__main__ import app

    out = tmp_path / "horizon"
    scripted.answer = turned
    words = ["eval", "horizon", "--lengths", "2,3", "--items", "2", "--strategy", "vote", "--router", suite.router,
             "--arbiter", suite.arbiter, "--out", str(out)]  # fmt: skip

    ended = await asyncio.to_thread(CliRunner().invoke, app, words)

    assert ended.exit_code == 0, (ended.output, ended.exception)
    records = read_records(out / "records.jsonl")
    assert not [one for one in records if "error" in one]
    # At once, and by three ways at each of 2 or 3 steps.
    assert len(answered(records)) == 2 * (1 + 3 * 2) + 2 * (1 + 3 * 3)
    report = write_horizon(records, tmp_path)
    # The model does every step right, and cannot do several at once.
    for way in ("system1", "vote", "self-consistency"):
        assert re.search(rf"\| 3 \| {way} \| 2 \| 1\.00 \[", report), report
    assert re.search(r"\| all \| at-once \| 4 \| 0\.00 \[", report)


def turned(body: Body) -> Sequence[str]:
    """Do one step right; several at once are too many."""
    prompt = str(body["messages"][-1]["content"])
    shown, step = re.search(r"It shows (\d+)\.", prompt), re.search(r"Do this: ([^.]+)\.", prompt)
    if shown is None or step is None:
        return ["Final Answer: 10000"] * (body.get("n") or 1)
    digits, numbers = [int(digit) for digit in shown[1]], [int(each) for each in re.findall(r"\d", step[1])]
    if step[1].startswith("Turn every"):
        digits = [(digit + numbers[0]) % 10 for digit in digits]
    elif step[1].startswith("Turn"):
        digits[numbers[0] - 1] = (digits[numbers[0] - 1] + numbers[1]) % 10
    elif step[1].startswith("Swap"):
        one, other = (number - 1 for number in numbers)
        digits[one], digits[other] = digits[other], digits[one]
    else:
        digits.reverse()
    return [f"Final Answer: {''.join(map(str, digits))}"] * (body.get("n") or 1)
