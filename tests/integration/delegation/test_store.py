"""The schema, and what happens when the database is away."""

import asyncio
from datetime import UTC, datetime

import httpx
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from chassis import database as db
from chassis.ids import new_id
from kernel.confidence.rules import Checker
from kernel.learning.drift import DriftLimits
from services.delegation.service.task_records import TaskRecord
from services.delegation.service.values import AnswerLabel
from services.delegation.store.profiles import PostgresProfiles
from services.delegation.store.requests import PostgresRequests
from services.delegation.store.tables import SCHEMA, DelegationTable
from services.delegation.store.tasks import PostgresTasks
from tests.integration.delegation.support import RIGHT, TASK, imported, staged
from tests.support.delegating import CONTRACT, stage_of
from tests.support.faces import Refused, RestFace, RpcFace
from tests.support.llm_replies import Body
from tests.support.scripted_llm import ScriptedLLM
from tests.support.stack import NOBODY, Database, process


def test_the_migrations_make_the_tables_that_the_code_expects(database_url: str) -> None:
    engine = create_engine(database_url)
    options = {
        "include_schemas": True,
        "include_name": lambda name, kind, _parents: kind != "schema" or name == SCHEMA,
        "version_table_schema": SCHEMA,
    }
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        differences = compare_metadata(context, DelegationTable.metadata)
    engine.dispose()

    assert differences == []


async def test_without_profiles_there_is_nothing_to_decide_by(scripted: ScriptedLLM, face: str) -> None:
    async with staged(scripted, f"postgresql+psycopg://nobody@{NOBODY}/none") as stage:
        refusals = []
        for operation, body in (("Process", TASK), ("SelfAssess", TASK), ("ListProfiles", {}), ("GetFlows", {})):
            with pytest.raises(Refused) as refused:
                await stage.running.face(face).ask(operation, **body)
            refusals.append(refused.value.reason)

    assert refusals == ["DATABASE_UNAVAILABLE"] * 4


async def test_an_answer_is_not_lost_with_the_database(scripted: ScriptedLLM) -> None:
    with Database() as database:
        db.migrate("services.delegation", database.url)
        async with staged(scripted, database.url) as stage:
            stage.says({"alpha": "Final Answer: 40"}, alpha=90)
            cast = stage.llm.answer
            assert cast is not None

            def answer(body: Body) -> list[str]:
                if stage_of(body) == "solve":
                    database.stop()
                return list(cast(body))  # type: ignore[arg-type]

            stage.llm.answer = answer
            told = await stage.process("rest", first_agent="alpha", expected=RIGHT)

    assert (told["answer"], told["label"]["correct"], told["degraded"]) == ("40", True, True)
    assert told["degraded_reasons"][0].startswith("DATABASE_UNAVAILABLE: the task is not kept")
    assert told["profile_updates"] == []


async def test_a_task_and_what_is_learned_from_it_are_kept_together_or_not_at_all(database_url: str) -> None:
    mark = new_id()[-12:]
    record = TaskRecord(
        task_id=f"{mark}-task",
        key_name="ann",
        created_at=datetime.now(UTC),
        baseline="NONE",
        mode="EXECUTED",
        first_agent=mark,
        executor=mark,
        better_profile=False,
        dimensions=["math_computation"],
        voters=[],
        winners=[],
        beliefs=[],
        learning_rate=0.1,
    )
    label = AnswerLabel(correct=True, checker=Checker.EXPECTED, detail="", judged_at=datetime.now(UTC))
    engine = db.build_engine(database_url)
    sessions = db.build_sessions(engine)
    tasks, requests = PostgresTasks(sessions, DriftLimits()), PostgresRequests(sessions)
    shelf = PostgresProfiles(sessions, 0.1)
    await requests.begin("ann", mark, "digest", lease_s=60)

    def broken(_: object) -> dict[str, object]:
        raise RuntimeError("the process ends here")

    with pytest.raises(RuntimeError):
        await tasks.keep(record, broken, label, teaches=True, request_id=mark)
    before = (await shelf.listed(mark), await requests.answered("ann", mark))
    learned = await tasks.keep(
        record, lambda updates: {"learned": len(updates)}, label, teaches=True, request_id=mark
    )  # fmt: skip
    after = (await shelf.listed(mark), await requests.answered("ann", mark))
    await engine.dispose()

    assert before == ({}, None)
    assert [update.competence_after for update in learned] == [0.55]
    assert (len(after[0]), after[1]) == (1, {"learned": 1})


async def test_what_the_database_cannot_keep_is_left_out(scripted: ScriptedLLM, database_url: str, face: str) -> None:
    async with staged(scripted, database_url) as stage:
        stage.says({"alpha": "Fin\x00al.\nFinal Answer: 40"}, alpha=90)
        told = await stage.process(face, question="What\x00 is it?", first_agent="alpha", expected=RIGHT)
        strange = await stage.running.face("rpc").ask("ListProfiles", agent="al\x00pha")

    assert (told["degraded"], len(told["profile_updates"])) == (False, 1)
    assert strange["profiles"] == []


async def test_imports_of_one_profile_at_once_leave_one_of_them(scripted: ScriptedLLM, database_url: str) -> None:
    async with staged(scripted, database_url) as stage:
        async with asyncio.TaskGroup() as group:
            for level in (0.1, 0.2, 0.3, 0.4):
                group.create_task(imported(stage, alpha=level, beta=level))
        page = await stage.running.face("rpc").ask("ListProfiles", dimension="math_computation", page_size=1000)

    levels = {p["agent"]: p["competence"] for p in page["profiles"] if p["agent"] in stage.names.values()}
    assert levels[stage.names["alpha"]] in (0.1, 0.2, 0.3, 0.4)


async def test_the_process_is_ready_once_model_and_database_are_there(
    scripted: ScriptedLLM, database_url: str, face: str
) -> None:
    settings = {
        "METACOG_INFERENCE_URL": f"{scripted.url}/v1",
        "METACOG_INFERENCE_MODEL": scripted.model,
        "METACOG_DATABASE_URL": database_url,
    }
    async with process("delegation", **settings) as running:
        async with httpx.AsyncClient(base_url=running.rest, timeout=30) as client:
            ready = (await client.get("/readyz")).json()
        faces = {"rest": RestFace(running.rest, CONTRACT), "rpc": RpcFace(running.grpc, CONTRACT)}
        agents = await faces[face].ask("ListAgents")

    assert ready["ready"] is True
    assert "cannot be reached" in ready["parts"]["encoder"]
    assert [one["configuration"]["id"] for one in agents["agents"]] == ["alpha", "beta", "gamma"]
