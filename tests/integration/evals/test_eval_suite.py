"""The evaluations against real services over a scripted model: whole, resumed, and beside the services' own replays."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.__main__ import app
from evals.autogen.session import ANSWERS, PROMPTS, Team, collect, run_team, write_prompts
from evals.benchmark.tasks import cross_domain
from evals.controls.arms import arms as control_arms
from evals.controls.files import COMMAND as COMPARE
from evals.controls.files import write_report as write_comparison
from evals.delegation import arms as delegation_arms
from evals.delegation import files as delegation_files
from evals.delegation.replay import Rules, replay
from evals.delegation.tasks import tasks
from evals.dialectic import files as dialectic_files
from evals.errors import NotInstalled, RecordsUnusable, ServiceUnreachable
from evals.harness.arms import Arm, Plan
from evals.harness.item_records import introduction
from evals.harness.rows import recorded_evaluation
from evals.harness.session import RECORDS, REPORT, Session, record
from evals.items import Item, read_sets
from evals.mc_mas import arms as arbitration_arms
from evals.mc_mas import files as arbitration_files
from evals.mc_mas.questions import questions
from evals.mc_mas.replays import REPLAY_FULL, replay_plan
from evals.mc_mas.votes import arbitrated
from evals.outcomes import files as outcome_files
from evals.outcomes.items import read_outcomes
from evals.records import Record, read_records
from evals.stats.chance import seeded
from evals.strategies import route_by
from evals.suite import Addresses, SuiteClient
from kernel.answers import AnswerType
from kernel.errors import MetacogError
from tests.support.arbiter import arbiter_at
from tests.support.assigner import assigner_at
from tests.support.delegating import delegation_at, renamed_agents
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER, Body, router_at

ITEMS = 3
CODE = "Here it is.\n```python\ndef {}(numbers):\n    return 0\n```"


def dice(*names: object) -> int:
    """A number of 0 to 99 that these names always give."""
    return blake2b(repr(names).encode(), digest_size=4).digest()[0] * 100 // 256


def says(body: Body) -> Sequence[str]:
    """Sums, right two times in three; ratings by the same dice, so that nobody knows anything."""
    prompt, seed = str(body["messages"][-1]["content"]), body.get("seed")
    count, who = body.get("n") or 1, str(body["messages"][0]["content"])[-30:]
    if "response_format" in body:
        wanted = re.findall(r"'minItems': (\d+)", str(body["response_format"])) or ["1"]
        return [json.dumps({"r": [dice(who, prompt, seed, n) for n in range(int(wanted[0]))]})] * count
    asked = re.search(r"What is (\d+) \+", prompt)
    if asked is None:
        name = re.search(r"`(pick_\d+)", prompt)
        return [CODE.format(name[1]) if name else "Final Answer: 7"] * count
    right = 2 * int(asked[1])
    return [f"Let me see.\nFinal Answer: {right + (dice(who, seed, n, right) > 66)}" for n in range(count)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a data set."""
    about = {"dataset": "sums", "dimension": "math_computation", "difficulty": "easy", "answer_type": "number"}
    lines = [{"id": f"sums-{n}", "question": f"What is {n} + {n}?", "answer": str(2 * n), **about} for n in range(1, 9)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


@pytest.fixture
async def suite(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[Addresses]:
    """All four services on a model that dices."""
    scripted.answer = says
    async with running_suite(scripted, database_url, tmp_path) as addresses:
        yield addresses


@asynccontextmanager
async def running_suite(llm: ScriptedLLM, database_url: str, spool: Path) -> AsyncIterator[Addresses]:
    agents, _ = renamed_agents()
    async with AsyncExitStack() as opened:
        enter = opened.enter_async_context
        assigner, arbiter = await enter(assigner_at(llm)), await enter(arbiter_at(llm))
        delegation = await enter(delegation_at(llm, database_url, agents=agents))
        others = {"assigner": assigner.grpc, "arbiter": arbiter.grpc, "delegation": delegation.grpc}
        router = await enter(router_at(llm, database_url, spool, others=others))
        yield Addresses(router=router.rest, assigner=assigner.rest, arbiter=arbiter.rest, delegation=delegation.rest)


async def evaluated(command: str, arms: Sequence[Arm], items: Sequence[Item], suite: Addresses, out: Path,
                    **more: Any) -> list[Record]:  # noqa: ANN401  # fmt: skip
    """The records of an evaluation."""
    plan = Plan(items=items, arms=arms, timeout_ms=60_000, **more)
    session = Session(command=command, typed=f"metacog eval {command}", folder=out, asks_router=command == COMPARE)
    async with SuiteClient(suite, timeout_s=60) as apis:
        await record(session, plan, apis, lambda: None)
    return list(read_records(out / RECORDS))


def keys(records: Sequence[Record]) -> list[tuple[str, str]]:
    return [(one["item"], one["arm"]) for one in records if one["kind"] == "reply"]


async def test_a_strategy_is_compared_with_all_its_controls_and_a_killed_run_repeats_no_call(
    suite: Addresses, scripted: ScriptedLLM, data: Path, tmp_path: Path
) -> None:
    items, out = read_sets(data, [], ITEMS), tmp_path / "out"
    arms = control_arms("roles-optimal", agents=())
    whole = await evaluated(COMPARE, arms, items, suite, out)
    said = write_comparison(whole, out, seeded(7, draws=40))
    lines, calls = (out / RECORDS).read_bytes().splitlines(keepends=True), len(scripted.bodies)
    half = b"".join(lines[: len(lines) // 2])
    (out / RECORDS).write_bytes(half + lines[len(lines) // 2][:30])

    again = await evaluated(COMPARE, arms, items, suite, out)

    assert not [one for one in whole if "error" in one]
    assert keys(again) == keys(whole)
    assert len(set(keys(whole))) == ITEMS * len(arms)
    assert 0 < len(scripted.bodies) - calls < 0.8 * calls
    assert (out / RECORDS).read_bytes().startswith(half)
    for control in ("system1", "self-consistency", "majority", "roles-greedy", "roles-random"):
        assert f"| {control} | " in said
    assert "- configuration: `" in said
    # Self-consistency drew, item by item, what the dialectic had drawn.
    drawn = {
        (one["item"], one["arm"]): one["reply"]["usage"]["generations"]
        for one in whole
        if one.get("arm") in ("roles-optimal", "self-consistency")
    }
    assert all(drawn[item.id, "roles-optimal"] == drawn[item.id, "self-consistency"] > 4 for item in items)


async def test_arbitration_is_sampled_once_and_our_votes_are_the_services(
    suite: Addresses, data: Path, tmp_path: Path
) -> None:
    sampling = arbitration_arms.Sampling(solver_samples=3, arbitration_samples=8)

    records = await evaluated("mc-mas", arbitration_arms.arms(sampling), read_sets(data, [], ITEMS), suite, tmp_path)

    assert not [one for one in records if "error" in one]
    made = recorded_evaluation(records, "mc-mas")
    answers = {row.item.id: row.reply["answer"] for row in made.of("mc-mas")}
    written = {row.item.id: row.said.spent.completion_tokens for row in made.of("mc-mas")}
    for question in questions(made.of("mc-mas")):
        assert arbitrated(question, question.arbiter).answer == answers[question.item.id]
        # The tokens of all that was written are those that the service counts.
        assert question.critique_tokens
        assert question.tokens == written[question.item.id]
    replayed = {row.item.id: row.reply for row in made.of("replay-adaptive")}
    assert len(replayed) == ITEMS
    assert all(one["recorded_answer"] == answers[item] for item, one in replayed.items())
    said = arbitration_files.write_report(records, tmp_path, seeded(7, draws=40))
    assert "| sums (3) | self-consistency | " in said
    assert "The adaptive mode on the same samples" in said
    # What was sampled is replayed elsewhere, as a recording, with the same answers.
    file, out = tmp_path / "recordings.jsonl", tmp_path / "again"
    lines = [{"id": row.item.id, "answer_type": row.reply["answer_type"], "truth": row.item.known.answer,
              **arbitration_arms.recording(row.reply)} for row in made.of("mc-mas")]  # fmt: skip
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    plan = replay_plan(file)
    again = recorded_evaluation(
        await evaluated("mc-mas", plan.arms, plan.items, suite, out, seeds=plan.seeds), "mc-mas"
    )
    assert {row.item.id: row.reply["arbitration"]["answer"] for row in again.of(REPLAY_FULL)} == answers
    assert "--replay`" in arbitration_files.report_recordings(file, out, seeded(7, draws=40))


async def test_the_service_decides_as_the_replay_does_from_the_ratings_it_was_given(
    suite: Addresses, data: Path, tmp_path: Path
) -> None:
    programs = [item for item in cross_domain(7) if item.answer_type is AnswerType.CODE][:1]
    items = [*read_sets(data, [], ITEMS), *programs]

    records = await evaluated("delegation", delegation_arms.arms(live=True), items, suite, tmp_path)

    assert not [one for one in records if "error" in one]
    made = recorded_evaluation(records, "delegation")
    known = tasks(made)
    assert len(known) == len(items)
    assert [task.item.dimensions for task in known][-1] == ("code_generation", "logical_reasoning")
    # The program that returns 0 for everything was run, and failed its tests.
    assert not any(solved.right for solved in known[-1].solved.values())
    live = {row.item.id: row.reply for row in made.of("live")}
    first = live[known[0].item.id]
    told = {one["agent"]: one["verbalized"] for one in first["assessments"]}
    asked = [*told, *(agent for agent in known[0].solved if agent not in told)]
    task = replace(known[0], verbalized=told)
    [done] = replay([task], asked, Rules()).done
    assert (done.mode, done.executor) == (first["mode"], first["executor"])
    said = delegation_files.write_report(records, tmp_path, seeded(7, draws=40))
    assert "**Live**" in said
    assert "| Skill-Fixed | " in said
    # Self-consistency drew, task by task, what all ratings and answers take; of the program it drew nothing.
    ratings = {row.item.id: row.reply for row in made.of(delegation_arms.ASSESS)}
    most = [delegation_arms.most_calls(ratings[task.item.id]) for task in known]
    assert [len(task.samples) for task in known] == [*most[:-1], 0]
    assert min(most) >= 6
    assert f"compared on these: self-consistency {ITEMS}." in said


async def test_the_state_of_a_dialectic_is_measured_at_every_stage(
    suite: Addresses, data: Path, tmp_path: Path
) -> None:
    records = await evaluated("dialectic", dialectic_files.arms(), read_sets(data, [], 2), suite, tmp_path)

    assert not [one for one in records if "error" in one]
    said = dialectic_files.write_report(records, tmp_path, seeded(7, draws=40))
    assert re.search(r"\| synthesis \| 2 \| 0\.\d\d \[", said)
    assert "| sums |" in said


async def test_a_router_is_scored_on_outcomes_without_calling_either_model(suite: Addresses, tmp_path: Path) -> None:
    rows = [{"id": f"routing_x-{n}", "question": f"What is {n} + {n}?", "choices": None, "weak_correct": n % 2 == 0,
             "strong_correct": True, "weak_model": "w", "strong_model": "s"} for n in range(1, 7)]  # fmt: skip
    file = tmp_path / "routing_x.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    outcomes = read_outcomes([file], 10)
    plan = Plan(items=outcomes.items, arms=[route_by("hybrid")])
    session = Session(command=outcome_files.COMMAND, typed="x", folder=tmp_path, asks_router=True,
                      introduce=outcomes.introduce)  # fmt: skip

    async with SuiteClient(suite, timeout_s=60) as apis:
        await record(session, plan, apis, lambda: None)

    said = outcome_files.write_report(read_records(tmp_path / RECORDS), tmp_path, seeded(7, draws=40))
    assert "**routing_x**, 6 questions, weak right 50.0 %, strong right 100.0 %" in said
    assert "| hybrid | " in said


async def test_what_a_team_of_autogens_said_becomes_records_whose_programs_are_run(tmp_path: Path) -> None:
    program = next(item for item in cross_domain(7) if item.answer_type is AnswerType.CODE)
    text = f"Here:\n```python\n{program.answer}```"
    usage = {"generations": 2, "http_calls": 2, "prompt_tokens": 90, "completion_tokens": 40}
    said = {"text": text, "agent": "gamma", "model": "m", "usage": usage, "duration_ms": 5.0}
    write_prompts([program], tmp_path)
    (tmp_path / ANSWERS).write_text(json.dumps({"id": program.id, "reply": said}) + "\n")

    [made] = read_records(await collect([program], tmp_path))

    assert "Write the whole program" in json.loads((tmp_path / PROMPTS).read_text())["prompt"]
    assert made["checks"]["answer"]["passed"] is True
    opening: Record = {"kind": "run", "command": "delegation"}
    [row] = recorded_evaluation([opening, introduction(program, ""), made], "delegation").rows
    assert (row.arm, row.right, row.said.spent.generations) == ("autogen", True, 2)


async def test_without_autogens_environment_it_is_said_how_to_make_one(tmp_path: Path) -> None:
    team = Team(python=tmp_path / "none", url="http://127.0.0.1:1/v1", model="m")

    with pytest.raises(NotInstalled, match=r"evals/autogen/install\.sh makes the environment"):
        await run_team([], [], team, tmp_path)


async def test_a_service_that_does_not_run_is_named(data: Path, tmp_path: Path) -> None:
    nowhere = Addresses(arbiter=f"http://{NO_SERVER}")

    with pytest.raises(ServiceUnreachable, match=r"no arbiter answers at .*; is it running\? \(--arbiter\)"):
        await evaluated("mc-mas", arbitration_arms.arms(arbitration_arms.Sampling()), read_sets(data, [], 1), nowhere,
                        tmp_path)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["compare"], "give the folder with the data sets, or public sets with --hub"),
        (["compare", "--strategy", "oracle", "--data", "DATA"], "there is no strategy oracle to compare"),
        (["compare", "--hub", "rivers"], "there is no public set rivers"),
        (["mc-mas", "--seeds", "x", "--data", "DATA"], "invalid literal"),
        (["mc-mas", "--recordings", "nowhere.jsonl"], "nowhere.jsonl cannot be read"),
        (["delegation", "--live", "--concurrency", "2", "--data", "DATA"], "--live needs --concurrency 1"),
        (["dialectic", "--report-only", "nowhere"], "nowhere cannot be read"),
        (["benchmark", "--data", "DATA"], "logical_reasoning, easy: 40 items are needed"),
        (["routing", "--outcomes", "nowhere.jsonl"], "nowhere.jsonl cannot be read"),
        (["routing", "--hub", "rivers"], "there is no public set rivers"),
        (["routing"], "give the folder with the data sets, --hub or --quick"),
    ],
)
def test_what_is_asked_wrongly_is_refused_by_name(data: Path, tmp_path: Path, words: list[str], complaint: str) -> None:
    typed = [str(data) if word == "DATA" else word for word in words]

    ended = CliRunner().invoke(app, ["eval", *typed, "--out", str(tmp_path / "out")], env={"COLUMNS": "200"})

    error = ended.exception
    assert complaint in (error.message if isinstance(error, MetacogError) else ended.output)


def test_records_of_one_evaluation_are_none_of_another(tmp_path: Path) -> None:
    (tmp_path / RECORDS).write_text('{"kind": "run", "command": "compare"}\n')

    ended = CliRunner().invoke(app, ["eval", "mc-mas", "--report-only", str(tmp_path)])

    assert isinstance(ended.exception, RecordsUnusable)
    assert not (tmp_path / REPORT).exists()
