"""Runs are stored without their contents where configured, and deleted when they are old."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from chassis import database as db
from chassis.errors import DatabaseUnavailable
from chassis.serving.auth import ANYONE
from chassis.worker.retention import Retention
from services.router.service.feedback.feedback import SubmitFeedbackRequest
from services.router.service.runs.retention import OldRuns
from services.router.service.runs.values import Run
from services.router.store.runs import PostgresOldRuns
from tests.support.apis import ApiError, RestApi, RpcApi
from tests.support.assigner import assigner_at
from tests.support.labels import Delegation, delegated, records_at, run_of, serving_delegation, store_runs
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER, ROUTER, TROUBLED, cast, process, quick_storage, router_at, until

OLD = datetime.now(UTC) - timedelta(days=31)
SECRET = "Ann is ill, and nobody but her doctor knows it"
WORDS = ("Ann", "doctor", "knows")


async def dumped(url: str, run_id: str) -> str:
    """Everything that the router's tables have about a run, as one text."""
    engine = db.build_engine(url)
    found = []
    async with engine.connect() as connection:
        for table in ("runs", "feedback", "outbox"):
            query = text(f"SELECT row_to_json(t)::text FROM router.{table} t WHERE run_id = :run_id")
            found += list(await connection.scalars(query, {"run_id": run_id}))
    await engine.dispose()
    return "\n".join(found)


async def is_there(url: str, run: Run) -> bool:
    return run.run_id in await dumped(url, run.run_id)


class FakeExperience:
    """Records the runs whose experience is to be deleted."""

    def __init__(self) -> None:
        self.run_ids: list[str] = []

    async def learn(self, _run: Run) -> None:
        """Learn nothing."""

    async def forget(self, run_id: str) -> None:
        self.run_ids.append(run_id)


async def test_old_runs_are_deleted_with_feedback_messages_and_experience_and_young_ones_stay(
    database_url: str, tmp_path: Path
) -> None:
    experience, delegation = FakeExperience(), Delegation()
    old, young = delegated("old", created_at=OLD), delegated("young")
    async with (
        serving_delegation(delegation) as address,
        records_at(database_url, tmp_path, delegation=address, experience=experience) as records,
    ):
        await store_runs(records, old, young, *(run_of(created_at=OLD) for _ in range(7)))
        for run in (old, young):
            request = SubmitFeedbackRequest(feedback_id=run.run_id, run_id=run.run_id, correct=True)
            await records.submit_feedback(request, key=ANYONE)
        await until(lambda: _all_told(database_url, old))

    engine = db.build_engine(database_url)
    old_runs = OldRuns(PostgresOldRuns(db.build_sessions(engine)), experience.forget)
    sweeper = Retention("runs", old_runs, days=30, batch=3)
    forgotten = await sweeper.sweep()
    await engine.dispose()

    assert forgotten >= 8
    assert await dumped(database_url, old.run_id) == ""
    assert old.run_id in experience.run_ids
    assert young.run_id not in experience.run_ids
    assert await is_there(database_url, young)


async def test_messages_of_an_old_run_that_are_not_delivered_yet_stay(database_url: str, tmp_path: Path) -> None:
    old = delegated("untold", created_at=OLD)
    async with records_at(database_url, tmp_path) as records:
        await store_runs(records, old)
        request = SubmitFeedbackRequest(feedback_id=old.run_id, run_id=old.run_id, correct=True)
        await records.submit_feedback(request, key=ANYONE)
    engine = db.build_engine(database_url)

    await Retention("runs", OldRuns(PostgresOldRuns(db.build_sessions(engine))), days=30).sweep()

    left = await dumped(database_url, old.run_id)
    assert '"task_id": "untold"' in left
    assert '"score"' not in left
    await engine.dispose()


async def test_one_replica_at_a_time_deletes_old_runs(database_url: str, tmp_path: Path) -> None:
    old, engine = run_of(created_at=OLD), db.build_engine(database_url)
    async with records_at(database_url, tmp_path) as records:
        await store_runs(records, old)
    runs = PostgresOldRuns(db.build_sessions(engine))

    async with runs.lock() as first:
        second = await Retention("runs", OldRuns(runs), days=30).sweep()
    third = await Retention("runs", OldRuns(runs), days=30).sweep()

    assert (first, second, third >= 1) == (True, 0, True)
    await engine.dispose()


async def test_old_runs_are_deleted_in_the_background(database_url: str, tmp_path: Path) -> None:
    old, young = run_of(created_at=OLD), run_of()
    storage = quick_storage(tmp_path, days=30, retention_every_s=0.05)
    async with records_at(database_url, tmp_path, storage=storage) as records:
        await store_runs(records, old, young)

        await until(lambda: _is_gone(database_url, old))

    assert await is_there(database_url, young)


async def test_a_run_whose_experience_cannot_be_deleted_stays_for_now(database_url: str, tmp_path: Path) -> None:
    old, engine = run_of(created_at=OLD), db.build_engine(database_url)
    async with records_at(database_url, tmp_path) as records:
        await store_runs(records, old)

    async def fail(_run_id: str) -> None:
        raise DatabaseUnavailable("away")

    sweeper = Retention("runs", OldRuns(PostgresOldRuns(db.build_sessions(engine)), fail), days=30)
    with pytest.raises(DatabaseUnavailable):
        await sweeper.sweep()

    assert await is_there(database_url, old)
    await engine.dispose()


async def _is_gone(url: str, run: Run) -> bool:
    return not await is_there(url, run)


async def _all_told(url: str, run: Run) -> bool:
    return '"delivered_at":null' not in await dumped(url, run.run_id)


async def test_without_contents_no_word_reaches_the_database_and_the_caller_has_it_all(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast(TROUBLED, **dict.fromkeys(STAGES, SECRET))
    storage = quick_storage(tmp_path, contents=False)
    async with (
        assigner_at(scripted) as assigner,
        router_at(scripted, database_url, tmp_path, others={"assigner": assigner.grpc}, storage=storage) as router,
    ):
        rest, rpc = RestApi(router.rest, ROUTER), RpcApi(router.grpc, ROUTER)
        answered = (await rest.ask("Answer", question=f"{SECRET}?"))["run"]
        labelled = await rest.ask(
            "SubmitFeedback", feedback_id=answered["run_id"], run_id=answered["run_id"], correct=True, note=SECRET
        )
        by_rest = (await rest.ask("GetRun", run_id=answered["run_id"]))["run"]
        by_rpc = (await rpc.ask("GetRun", run_id=answered["run_id"]))["run"]

    assert (answered["answer"], answered["messages"][0]["content"]) == (SECRET, f"{SECRET}?")
    assert_redacted(await dumped(database_url, answered["run_id"]))
    assert (by_rest["answer"], by_rest["messages"], by_rest["messages_digest"]) == ("", [], answered["messages_digest"])
    assert by_rest["usage"] == answered["usage"]
    assert by_rest["route"]["msv"]["correctness"] == answered["route"]["msv"]["correctness"]
    assert len(by_rest["deliberation"]["stages"]) == len(answered["deliberation"]["stages"])
    assert [one["msv"]["parts"] for one in by_rest["deliberation"]["measurements"]] == [
        one["msv"]["parts"] for one in answered["deliberation"]["measurements"]
    ]
    assert [stage["agent"] for stage in by_rpc["deliberation"]["stages"]] == [
        stage["agent"] for stage in answered["deliberation"]["stages"]
    ]
    assert (labelled["becomes_experience"], by_rest["feedback"][0]["note"]) == (False, "")


STAGES = ("system1", "thesis", "antithesis", "resolution", "synthesis", "note")


async def test_without_contents_no_word_reaches_the_disk_and_a_repetition_is_answered_from_memory(
    scripted: ScriptedLLM, tmp_path: Path
) -> None:
    scripted.answer = cast(system1=SECRET)
    away = f"postgresql+psycopg://nobody@{NO_SERVER}/none"
    async with router_at(scripted, away, tmp_path, storage=quick_storage(tmp_path, contents=False)) as router:
        api = RestApi(router.rest, ROUTER)
        request: Mapping[str, Any] = {"question": f"{SECRET}?", "strategy": "system1", "request_id": "once"}
        answered = (await api.ask("Answer", **request))["run"]
        await until(lambda: _is_on_disk(tmp_path, answered["run_id"]))
        again = (await api.ask("Answer", **request))["run"]

    assert (again["run_id"], again["answer"]) == (answered["run_id"], SECRET)
    assert_redacted(all_files(tmp_path))


async def test_without_contents_another_process_answers_a_repetition_anew_and_rejects_a_reused_identifier(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast(system1=SECRET)
    request: Mapping[str, Any] = {"question": f"{SECRET}?", "strategy": "system1", "request_id": tmp_path.name}
    answered = []
    for spool in (tmp_path / "one", tmp_path / "two"):
        async with router_at(scripted, database_url, spool, storage=quick_storage(spool, contents=False)) as router:
            api = RestApi(router.rest, ROUTER)
            answered.append((await api.ask("Answer", **request))["run"])
            with pytest.raises(ApiError) as error:
                await api.ask("Answer", **{**request, "question": "something else"})

    assert [run["answer"] for run in answered] == [SECRET, SECRET]
    assert answered[0]["run_id"] != answered[1]["run_id"]
    assert error.value.reason == "REQUEST_ID_REUSED"


async def test_contents_are_switched_off_by_a_setting_and_readiness_lists_outbox_and_retention(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast(system1=SECRET)
    settings = {
        "METACOG_INFERENCE_URL": scripted.url,
        "METACOG_DATABASE_URL": database_url,
        "METACOG_ROUTER_SPOOL_DIR": tmp_path,
        "METACOG_ROUTER_KEEP_CONTENTS": "false",
        "METACOG_ROUTER_RETENTION_DAYS": "30",
    }
    async with process("router", **settings) as router:
        api = RpcApi(router.grpc, ROUTER)
        answered = (await api.ask("Answer", question=f"{SECRET}?", strategy="system1"))["run"]
        labelled = await api.ask(
            "SubmitFeedback", feedback_id=f"of-{answered['run_id']}", run_id=answered["run_id"], score=0.9, note=SECRET
        )
        async with httpx.AsyncClient() as client:
            parts = (await client.get(f"{router.rest}/readyz", timeout=10)).json()["parts"]
        router.terminate()
        status = await router.ended()

    assert (answered["answer"], labelled["teaches"], status) == (SECRET, True, 0)
    assert (parts["outbox"], parts["retention"]) == ("ok", "ok")
    assert_redacted(await dumped(database_url, answered["run_id"]))


def assert_redacted(content: str) -> None:
    """Nothing of the secret is in a text that is not empty."""
    assert content
    assert not any(word in content for word in WORDS)


def all_files(folder: Path) -> str:
    """What stands in all files of a folder."""
    return "\n".join(file.read_text() for file in folder.rglob("*") if file.is_file())


async def _is_on_disk(spool: Path, run_id: str) -> bool:
    file = spool / "runs-8080.jsonl"  # named after the port, which is the default one here
    return file.exists() and run_id in file.read_text()
