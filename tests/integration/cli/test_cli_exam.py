"""`metacog exam`, as a person types it, on a real router and a real delegation service with scripted models."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from chassis.serving.auth import ApiKey, Keyring
from cli.terminal.exits import FORBIDDEN, INTERRUPTED, OK, PARTIAL, UNREACHABLE, USAGE
from kernel.prices import Price
from tests.support.apis import RestApi
from tests.support.arbiter import arbiter_at
from tests.support.delegating import Delegation, ScriptedAgents, delegation_at, renamed_agents
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


@pytest.fixture(scope="module")
def database_url(new_database: Callable[[], str]) -> str:
    """A database of these tests alone: they label answers, from which every router on it would learn."""
    return new_database()


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
    shares = {row["arm"]: (row["right"], row["marked"], row["share_right"]) for row in reported["results"]}
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


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, INTERRUPTED)])
async def test_an_exam_that_is_killed_continues_and_asks_nothing_twice(
    scripted: ScriptedLLM, strong: ScriptedLLM, database_url: str, tmp_path: Path, sent: signal.Signals, status: int
) -> None:
    scripted.answer = adding(wrong_from=100)
    async with examined(scripted, strong, database_url, tmp_path) as (exam, router):
        exam.write(sums(30))
        words = ("--arms", "model:scripted", "--concurrency", 1)
        scripted.token_delay_s = 0.02
        killed = await asyncio.create_subprocess_exec(
            *exam.words("--yes", *words),
            cwd=tmp_path,
            env=exam.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while len(exam.entries("answer")) < 5:  # noqa: ASYNC110 - the journal grows in another process
            await asyncio.sleep(0.01)
        killed.send_signal(sent)
        ended = await killed.wait()
        scripted.token_delay_s = 0.0
        before = len(exam.entries("answer"))

        done = await exam(*words, "--json")
        again = await exam(*words, "--json")
        labels = await labels_of(router, exam.entries("answer"))

    assert (ended, 5 <= before < 30) == (status, True)
    assert "continuing exam-" in done.stderr
    assert (done.returncode, again.returncode) == (OK, OK)
    # the one that was under way is the same request again, which the router answers once
    assert len(set(asked(scripted))) == 30
    assert len(scripted.bodies) <= 31
    assert json.loads(done.stdout)["results"] == json.loads(again.stdout)["results"]
    assert json.loads(again.stdout)["estimate"]["total"]["questions"] == 0
    assert [len(each) for each in labels.values()] == [1] * 30


async def test_an_interrupted_exam_of_other_options_is_rejected_by_name(
    scripted: ScriptedLLM, strong: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = adding(wrong_from=100)
    async with examined(scripted, strong, database_url, tmp_path) as (exam, _):
        exam.write(sums(3))
        first = await exam("--arms", "model:scripted", "--json")
        calls = len(scripted.bodies)

        other_seed = await exam("--arms", "model:scripted", "--seed", 8)
        exam.write([*sums(2), {**sums(3)[2], "answer": "4"}])
        other_tasks = await exam("--arms", "model:scripted")

    name = json.loads(first.stdout)["exam"]
    assert (other_seed.returncode, other_tasks.returncode, len(scripted.bodies)) == (USAGE, USAGE, calls)
    assert f"exam.journal.jsonl is the journal of {name}, and this is exam-" in other_seed.stderr
    assert "seed: 0 there, 8 here" in other_seed.stderr
    assert "its tasks are others" in other_tasks.stderr


async def test_a_model_that_fails_is_listed_and_asked_again_alone(
    scripted: ScriptedLLM, strong: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = adding(wrong_from=100)
    strong.fault(ErrorReply(400, "out of order"), None, ErrorReply(400, "out of order"))
    async with examined(scripted, strong, database_url, tmp_path) as (exam, router):
        exam.write(sums(3))
        words = ("--concurrency", 1, "--json")

        first = await exam(*words)
        before = len(scripted.bodies)
        again = await exam(*words)
        labels = await labels_of(router, [each for each in exam.entries("answer") if each["outcome"] == "ANSWERED"])

    failed = json.loads(first.stdout)["failed"]
    assert (first.returncode, again.returncode, json.loads(again.stdout)["failed"]) == (PARTIAL, OK, [])
    assert [each["arm"] for each in failed] == ["model:strong"] * 2
    assert "out of order" in failed[0]["error"]
    [row] = [row for row in json.loads(first.stdout)["results"] if row["arm"] == "model:strong"]
    assert (row["asked"], row["marked"], row["failed"], row["share_right"]) == (3, 1, 2, 1.0)
    assert (before, len(scripted.bodies), len(strong.bodies)) == (3, 3, 5)
    assert [len(each) for each in labels.values()] == [1] * 6


async def test_an_answer_without_text_is_an_abstention_and_has_no_label(
    scripted: ScriptedLLM, strong: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = lambda body: [" "] * (body.get("n") or 1)
    async with examined(scripted, strong, database_url, tmp_path) as (exam, router):
        exam.write(sums(2))

        done = await exam("--arms", "model:scripted", "--json")
        labels = await labels_of(router, exam.entries("answer"))

    [row] = json.loads(done.stdout)["results"]
    assert done.returncode == OK
    assert (row["asked"], row["marked"], row["abstained"], row["share_right"], row["low"]) == (2, 0, 2, None, None)
    assert list(labels.values()) == [[], []]


def voting(wrong_from: int) -> Any:  # noqa: ANN401
    """Return a model whose drafts are wrong from a number on, and whose reasoned answers are right."""
    draft, reasoned = adding(wrong_from), adding(wrong_from=100)
    return lambda body: (reasoned if "</question>" in str(body["messages"][-1]["content"]) else draft)(body)


async def test_the_gain_of_a_vote_is_shown_by_kind_and_its_labels_calibrate(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = voting(wrong_from=3)
    async with (
        arbiter_at(scripted) as arbiter,
        router_at(scripted, database_url, tmp_path / "spool", others={"arbiter": arbiter.grpc}) as router,
    ):
        exam = Exam(tmp_path, ("--router", router.rest))
        exam.write([*sums(4), *sums(2, LOGIC)])
        api = RestApi(router.rest, ROUTER)
        before = await observations(api, "vote")

        done = await exam("--arms", "strategy:system1,strategy:vote", "--json")
        shown = await exam("--arms", "strategy:system1,strategy:vote")
        after = await observations(api, "vote")

    assert done.returncode == OK, done.stderr
    gains = {row["kind"]: row for row in json.loads(done.stdout)["gains"]}
    # overall (2 + 0) / 6 = 1 / 3; mathematics (2 + 10 / 3) / 14, logic (0 + 10 / 3) / 12
    assert {kind: (row["labels"], row["gain"]) for kind, row in gains.items()} == {
        LOGIC: (2, 0.0),
        MATH: (4, 0.5),
        "all": (6, pytest.approx(1 / 3)),
    }
    assert [gains[kind]["shrunk"] for kind in (LOGIC, MATH)] == pytest.approx([0.277778, 0.380952], abs=1e-6)
    assert [gains[kind]["conclusion"] for kind in (LOGIC, MATH)] == ["too few items"] * 2
    assert (gains["all"]["low"], gains["all"]["conclusion"]) == (0.0, "no gain")
    assert after - before == 6
    assert "fewer than 20 questions labelled for both" in shown.stdout


async def observations(api: RestApi, strategy: str) -> int:
    """Return how many labelled answers of a strategy calibrate its confidence."""
    rows = (await api.ask("GetCalibration", strategy=strategy))["reliabilities"]
    return sum(row["observations"] for row in rows)


@asynccontextmanager
async def agents_examined(
    scripted: ScriptedLLM, database: str, folder: Path, answers: dict[str, str]
) -> AsyncIterator[tuple[Exam, Delegation, dict[str, str]]]:
    """Run a router and a delegation service with agents of this test alone, which give these answers."""
    agents, names = renamed_agents()
    replies = {names[agent]: text for agent, text in answers.items()}
    scripted.answer = ScriptedAgents({}, replies)
    async with (
        delegation_at(scripted, database, agents=agents) as delegation,
        router_at(scripted, database, folder / "spool") as router,
    ):
        yield Exam(folder, ("--router", router.rest, "--delegation", delegation.rest)), delegation, dict(names)


async def profiles_of(delegation: Delegation, agent: str) -> dict[str, tuple[int, float]]:
    """Return observations and competence of an agent by dimension, where it has any."""
    found = (await delegation.api("rest").ask("ListProfiles", agent=agent))["profiles"]
    return {each["dimension"]: (each["observations"], each["competence"]) for each in found if each["observations"]}


async def test_the_profiles_of_agents_learn_from_their_own_answers(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    texts = {"alpha": "Final Answer: 4", "beta": "Final Answer: 5", "gamma": " "}
    async with agents_examined(scripted, database_url, tmp_path, texts) as (exam, delegation, names):
        exam.write([{**line, "answer": "4"} for line in sums(3)])

        done = await exam("--arms", "agents", "--json")
        profiles = [await profiles_of(delegation, names[agent]) for agent in ("alpha", "beta", "gamma")]
        listed = (await delegation.api("rest").ask("ListAgents"))["agents"]

    assert done.returncode == OK, done.stderr
    # 0.5, then three steps of a tenth towards 1 or 0; an agent that gave no answer learns nothing
    alpha, beta, _ = profiles
    assert [list(each) for each in profiles] == [[MATH], [MATH], []]
    assert alpha[MATH] == pytest.approx((3, 1 - 0.5 * 0.9**3))
    assert beta[MATH] == pytest.approx((3, 0.5 * 0.9**3))
    # each rates itself before each of its tasks, and the labels say how far that was true
    assert sum("response_format" in body for body in scripted.bodies) == 9
    assert [each["trust"]["observations"] for each in listed] == [3, 3, 0]
    labels = json.loads(done.stdout)["labels"]
    assert labels[f"agent:{names['alpha']}"] == {"sent": 3, "teach": 3, "not_learned": {}}
    assert labels[f"agent:{names['gamma']}"]["sent"] == 0


async def test_labels_that_are_sent_twice_change_nothing(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    texts = {"alpha": "Final Answer: 4", "beta": "Final Answer: 5", "gamma": "Final Answer: 4"}
    async with agents_examined(scripted, database_url, tmp_path, texts) as (exam, delegation, names):
        exam.write([{**line, "answer": "4"} for line in sums(2)])
        words = ("--arms", f"agent:{names['alpha']},model:scripted", "--json")
        first = await exam(*words)
        before = await profiles_of(delegation, names["alpha"])
        lines = exam.journal.read_text().splitlines(keepends=True)
        exam.journal.write_text("".join(line for line in lines if not line.startswith('{"label"')))

        again = await exam(*words)
        after = await profiles_of(delegation, names["alpha"])

    assert (first.returncode, again.returncode, before) == (OK, OK, after)
    assert before[MATH][0] == 2
    assert json.loads(first.stdout)["labels"] == json.loads(again.stdout)["labels"]


async def test_a_kind_that_delegation_does_not_know_is_classified_by_it(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    texts = dict.fromkeys(("alpha", "beta", "gamma"), "Final Answer: 4")
    async with agents_examined(scripted, database_url, tmp_path, texts) as (exam, delegation, names):
        exam.write([{**line, "answer": "4"} for line in sums(2, "our sums")])

        done = await exam("--arms", f"agent:{names['alpha']}", "--json")
        profiles = await profiles_of(delegation, names["alpha"])

    [estimate] = json.loads(done.stdout)["estimate"]["arms"]
    # each task is classified by a call of its own, answered by one, and rated by two at most
    assert (done.returncode, estimate["calls"]) == (OK, 8)
    assert profiles.keys() == {MATH}


async def test_without_teaching_no_label_is_sent_until_the_same_command_teaches(
    scripted: ScriptedLLM, strong: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = adding(wrong_from=100)
    async with examined(scripted, strong, database_url, tmp_path) as (exam, router):
        exam.write(sums(2))
        words = ("--arms", "model:scripted", "--json")

        measured = await exam(*words, "--no-teach")
        before = await labels_of(router, exam.entries("answer"))
        taught = await exam(*words)
        after = await labels_of(router, exam.entries("answer"))

    assert (measured.returncode, taught.returncode, len(scripted.bodies)) == (OK, OK, 2)
    assert ([len(each) for each in before.values()], [len(each) for each in after.values()]) == ([0, 0], [1, 1])


async def test_a_suite_that_is_away_is_reported_and_no_journal_is_left(tmp_path: Path) -> None:
    exam = Exam(tmp_path, ("--router", f"http://{NO_SERVER}"))
    exam.write(sums(2))

    done = await exam()

    assert (done.returncode, exam.journal.exists()) == (UNREACHABLE, False)
    assert f"the router at http://{NO_SERVER} cannot be reached" in done.stderr


async def test_a_key_that_the_router_does_not_know_is_rejected_before_anything_is_asked(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    keyring = Keyring((ApiKey(name="ann", sha256=sha256(b"right").hexdigest()),))
    async with router_at(scripted, database_url, tmp_path / "spool", keyring=keyring) as router:
        exam = Exam(tmp_path, ("--router", router.rest))
        exam.write(sums(2))

        done = await exam("--key", "wrong")

    assert (done.returncode, scripted.bodies, exam.journal.exists()) == (FORBIDDEN, [], False)
