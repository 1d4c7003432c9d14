"""A database that hangs, as those see it who vote, escalate, shadow, take an exam or match experience."""

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from metacog.delegation.v1 import delegation_pb2_grpc, experience_pb2

from chassis import database as db
from chassis.errors import DatabaseUnavailable
from chassis.ids import new_id
from chassis.serving.peer import Peer
from chassis.serving.wire import plain
from cli.terminal.exits import OK, PARTIAL
from configuration.policy import read_policy
from kernel.errors import RunNotFound
from services.router.compose import RoutingRules
from services.router.service.assessment.routing import RoutingConfig
from tests.support.apis import ApiError, Body, RestApi
from tests.support.arbiter import arbiter_at, sample_text
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROUTER, Database, RunningRouter, cast, environment, process, router_at, until

# What a request may take beyond its time-out, by the promise of the suite; the rest is for a busy test machine [s].
OVER_S, SPARE_S = 0.5, 1.5
TIMEOUT_S = 2.0
QUESTION = {"question": "What is 2 + 2?", "envelope": {"timeout_ms": round(TIMEOUT_S * 1000)}}
VOTE = {**QUESTION, "strategy": "vote"}
CASCADE = {
    **QUESTION,
    "strategy": "cascade",
    "vote": {"sources": [{}, {"model": "other"}], "agree": 2, "most": 2, "escalate": "strong"},
}


def saying(answer: str) -> Callable[[Body], Sequence[str]]:
    """A model that always gives one answer, directly or with its reasoning."""
    return lambda body: [sample_text(answer) if "Final Answer" in str(body["messages"]) else f"It is {answer}."]


async def timed(work: Awaitable[Body]) -> tuple[Body, float]:
    """The reply, and the time that it took [s]."""
    began = time.monotonic()
    reply = await work
    return reply, time.monotonic() - began


async def is_stored(router: RunningRouter, run: Body) -> bool:
    """Whether a run is in the database."""
    try:
        await router.runs.get(run["run_id"])
    except (RunNotFound, DatabaseUnavailable):
        return False
    return True


async def until_stored(router: RunningRouter, *runs: Body) -> None:
    """Wait until runs are in the database."""
    for run in runs:
        async with asyncio.timeout(30):
            await until(lambda run=run: is_stored(router, run))  # type: ignore[misc]


@asynccontextmanager
async def voting_router(scripted: ScriptedLLM, database: Database, folder: Path) -> AsyncIterator[RunningRouter]:
    """A router whose votes two small models give, with a strong one behind them."""
    with ScriptedLLM(model="other") as other, ScriptedLLM(model="strong") as strong:
        scripted.answer, other.answer, strong.answer = saying("3"), saying("5"), saying("4")
        models = {"other": other, "strong": strong}
        async with (
            arbiter_at(scripted, programs=False, others=models) as arbiter,
            router_at(scripted, database.url, folder, others={"arbiter": arbiter.grpc}, models=models) as router,
        ):
            yield router


async def test_a_vote_and_a_cascade_end_in_time_and_are_stored_later(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    async with voting_router(scripted, database, tmp_path) as router:
        rest = RestApi(router.rest, ROUTER)
        known = (await rest.ask("Answer", **VOTE))["run"]
        await until_stored(router, known)
        database.freeze()
        asked = [rest.ask("Answer", **one, request_id=new_id()) for one in (VOTE, CASCADE) for _ in range(3)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(timed(one)) for one in asked]
        database.thaw()
        runs = [task.result()[0]["run"] for task in tasks]
        await until_stored(router, *runs)

    assert max(task.result()[1] for task in tasks) < TIMEOUT_S + OVER_S + SPARE_S
    assert [run["strategy"] for run in runs] == ["vote"] * 3 + ["cascade"] * 3
    assert {run["idempotency"] for run in runs} == {"UNAVAILABLE"}
    assert {run["escalation"]["answered"] for run in runs[3:]} == {True}
    assert {run["answer"] for run in runs[3:]} == {"It is 4."}


async def test_a_run_with_a_shadow_is_answered_in_time_and_both_are_stored_later(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    scripted.answer = cast(system1="It is 4.")
    (tmp_path / "shadow.yaml").write_text("rows: [{name: everything, always: true, strategy: system1}]\n")
    policy = read_policy(tmp_path / "shadow.yaml")
    shadowing = RoutingRules(config=RoutingConfig(version="shadowing"), policy=policy)
    rules = RoutingRules(config=RoutingConfig(), shadow=shadowing)
    async with router_at(scripted, database.url, tmp_path, routing=rules, shadow_share=1.0) as router:
        rest = RestApi(router.rest, ROUTER)
        await rest.ask("GetShadow")
        database.freeze()
        reply, took_s = await timed(rest.ask("Answer", **QUESTION))
        with pytest.raises(ApiError) as rejected:
            await rest.ask("GetShadow", until="2020-01-01T00:00:00Z")  # a time of which no figures are kept
        database.thaw()

        async def are_compared() -> bool:
            try:
                found = (await rest.ask("GetShadow"))["comparisons"]
            except ApiError:
                return False
            return any(one["policy"] == policy.version and one["agreement"]["runs"] == 1 for one in found)

        async with asyncio.timeout(30):
            await until(are_compared)
        await until_stored(router, reply["run"])

    assert took_s < TIMEOUT_S + OVER_S + SPARE_S
    assert (rejected.value.code, rejected.value.reason) == ("UNAVAILABLE", "DATABASE_UNAVAILABLE")


async def test_the_label_of_an_exam_is_rejected_in_time_and_counts_once_when_it_is_sent_again(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    scripted.answer = cast()
    async with router_at(scripted, database.url, tmp_path) as router:
        rest = RestApi(router.rest, ROUTER)
        runs = [(await rest.ask("Answer", **QUESTION))["run"]]
        await until_stored(router, *runs)
        database.freeze()
        runs.append((await rest.ask("Answer", **QUESTION))["run"])
        labels = [{"feedback_id": new_id(), "run_id": run["run_id"], "correct": True, "origin": "EXAM"} for run in runs]
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            sent = [group.create_task(reason_of(rest, label)) for label in labels]
        took_s = time.monotonic() - began
        database.thaw()
        await until_stored(router, *runs)
        for label in [*labels, *labels]:
            await rest.ask("SubmitFeedback", **label)
        stored = [(await rest.ask("GetRun", run_id=run["run_id"]))["run"]["feedback"] for run in runs]

    assert [task.result() for task in sent] == ["DATABASE_UNAVAILABLE"] * 2
    assert took_s < 2 * db.CALL_WITHIN_S + OVER_S + SPARE_S  # the look-up of the run, and the wait for one on its way
    assert [[label["origin"] for label in each] for each in stored] == [["EXAM"], ["EXAM"]]


async def test_an_exam_goes_on_and_the_same_command_sends_its_labels_later(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    scripted.answer = lambda body: ["Final Answer: 4"] * (body.get("n") or 1)
    task = {"kind": "sums", "question": "What is 2 + 2?", "answer": "4", "answer_type": "NUMBER"}
    (tmp_path / "tasks.jsonl").write_text("".join(f"{json.dumps({'id': str(n), **task})}\n" for n in range(3)))
    async with router_at(scripted, database.url, tmp_path) as router:
        rest = RestApi(router.rest, ROUTER)

        async def exam() -> "tuple[int, Body]":
            words = ["exam", "--yes", "--json", "--tasks", "tasks.jsonl", "--router", router.rest]
            command = [sys.executable, "-m", "cli", *words, "--arms", "model:scripted", "--attempts", "1"]
            done = await asyncio.to_thread(
                subprocess.run,
                command,
                cwd=tmp_path,
                env=environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=120,
                check=False,
            )
            return done.returncode, json.loads(done.stdout)

        await rest.ask("ListRuns")
        database.freeze()
        frozen, measured = await exam()
        database.thaw()
        asked = len(scripted.bodies)
        lines = (tmp_path / "exam.journal.jsonl").read_text().splitlines()
        runs = [{"run_id": entry["answer"]["record"]} for entry in map(json.loads, lines) if "answer" in entry]
        await until_stored(router, *runs)
        later, taught = await exam()
        stored = [(await rest.ask("GetRun", **run))["run"]["feedback"] for run in runs]

    assert (frozen, later) == (PARTIAL, OK)
    assert (asked, len(scripted.bodies)) == (3, 3)
    assert [result["results"][0]["share_right"] for result in (measured, taught)] == [1.0, 1.0]
    assert [[label["origin"] for label in each] for each in stored] == [["EXAM"]] * 3


async def reason_of(rest: RestApi, label: dict[str, Any]) -> str:
    """Why a label is rejected; empty: it is not."""
    try:
        await rest.ask("SubmitFeedback", **label)
    except ApiError as error:
        return error.reason
    return ""


async def test_no_answer_waits_for_what_is_read_in_the_background(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    async with voting_router(scripted, database, tmp_path) as router:
        rest = RestApi(router.rest, ROUTER)
        run = (await rest.ask("Answer", **VOTE))["run"]
        await until_stored(router, run)
        await rest.ask("SubmitFeedback", feedback_id=new_id(), run_id=run["run_id"], correct=True)
        database.freeze()
        router.calibrator.on_feedback()
        reading = asyncio.create_task(router.calibrator.votes.refresh())  # as the background worker does, and beside it
        await asyncio.sleep(0)
        taken = [(await timed(rest.ask("Answer", **one)))[1] for one in (QUESTION, VOTE, CASCADE)]
        still_reads = not reading.done()
        database.thaw()
        await asyncio.wait([reading])
        assert reading.exception() is None or isinstance(reading.exception(), Exception)

    assert still_reads
    assert max(taken) < TIMEOUT_S + OVER_S + SPARE_S


async def test_experience_is_unknown_before_the_callers_own_deadline(
    scripted: ScriptedLLM, database: Database, encoder_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    settings = {
        "METACOG_INFERENCE_URL": f"{scripted.url}/v1",
        "METACOG_DATABASE_URL": database.url,
        "METACOG_HOME": tmp_path,
        "METACOG_ENCODER_URL": encoder_url,
        "METACOG_DELEGATION_EXPERIENCE_TIMEOUT_MS": 30_000,
    }
    request = experience_pb2.MatchExperienceRequest(question="Which planet has the most moons?")
    async with process("delegation", **settings) as delegation:
        peer = Peer("delegation", delegation.grpc)
        match = delegation_pb2_grpc.DelegationServiceStub(peer.channel).MatchExperience
        healthy = plain(await peer.call(match, request, timeout_s=30))
        database.freeze()
        frozen = plain(await peer.call(match, request, timeout_s=2))
        await peer.close()

    assert {agent["unknown_reason"] for agent in healthy["agents"]} == {"no right answer of this agent is recorded yet"}
    [reason] = {agent["unknown_reason"] for agent in frozen["agents"]}
    found = re.match(r"comparing the question took more than ([\d.]+) s", reason)
    assert found
    assert 0 < float(found[1]) < 2
