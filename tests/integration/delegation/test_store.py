"""These tests check the schema, and the behaviour without the database."""

import asyncio
from datetime import UTC, datetime

import httpx
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from chassis import database as db
from chassis.idempotency import RequestTakenOver
from chassis.ids import new_id
from chassis.schema import migrations
from kernel.confidence.rules import Checker
from kernel.learning.drift import DriftLimits
from services.delegation.service.task_records import TaskRecord
from services.delegation.service.values import AnswerLabel
from services.delegation.store.profiles import PostgresProfiles
from services.delegation.store.requests import PostgresRequests
from services.delegation.store.tables import SCHEMA, DelegationTable
from services.delegation.store.tasks import PostgresTasks
from tests.integration.delegation.support import RIGHT, TASK, import_profiles, scenario_at
from tests.support.apis import ApiError, RestApi, RpcApi
from tests.support.delegating import CONTRACT, stage_of
from tests.support.models.llm_replies import Body
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER, Database, process


def test_the_migration_creates_the_tables_that_the_code_expects(database_url: str) -> None:
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


async def test_without_the_database_requests_are_rejected(scripted: ScriptedLLM, api: str) -> None:
    async with scenario_at(scripted, f"postgresql+psycopg://nobody@{NO_SERVER}/none") as scenario:
        reasons = []
        for operation, body in (("Process", TASK), ("SelfAssess", TASK), ("ListProfiles", {}), ("GetFlows", {})):
            with pytest.raises(ApiError) as raised:
                await scenario.service.api(api).ask(operation, **body)
            reasons.append(raised.value.reason)

    assert reasons == ["DATABASE_UNAVAILABLE"] * 4


async def test_an_answer_is_returned_when_the_database_stops(scripted: ScriptedLLM) -> None:
    with Database() as database:
        migrations.migrate("services.delegation", database.url)
        async with scenario_at(scripted, database.url) as scenario:
            scenario.script({"alpha": "Final Answer: 40"}, alpha=90)
            script = scenario.llm.answer
            assert script is not None

            def answer(body: Body) -> list[str]:
                if stage_of(body) == "solve":
                    database.stop()
                return list(script(body))  # type: ignore[arg-type]

            scenario.llm.answer = answer
            response = await scenario.process("rest", first_agent="alpha", expected=RIGHT)

    assert (response["answer"], response["label"]["correct"], response["degraded"]) == ("40", True, True)
    assert response["degraded_reasons"][0].startswith("DATABASE_UNAVAILABLE: the task is not kept")
    assert response["profile_updates"] == []


def record_of(agent: str) -> TaskRecord:
    """Return the record of a task that this agent executed."""
    return TaskRecord(
        task_id=f"{agent}-task",
        key_name="ann",
        created_at=datetime.now(UTC),
        baseline="NONE",
        mode="EXECUTED",
        first_agent=agent,
        executor=agent,
        better_profile=False,
        dimensions=["math_computation"],
        voters=[],
        winners=[],
        confidences=[],
        learning_rate=0.1,
    )


async def test_a_task_and_its_lessons_are_stored_together_or_not_at_all(database_url: str) -> None:
    mark = new_id()[-12:]
    record = record_of(mark)
    label = AnswerLabel(correct=True, checker=Checker.EXPECTED, detail="", judged_at=datetime.now(UTC))
    engine = db.build_engine(database_url)
    sessions = db.build_sessions(engine)
    tasks, requests = PostgresTasks(sessions, DriftLimits()), PostgresRequests(sessions)
    profiles = PostgresProfiles(sessions, 0.1)
    claim = await requests.begin("ann", mark, "digest", lease_s=60)
    assert claim

    def broken(_: object) -> dict[str, object]:
        raise RuntimeError("the process ends here")

    with pytest.raises(RuntimeError):
        await tasks.add(record, broken, label, may_teach=True, request_id=mark, claim=claim)
    before = (await profiles.listed(mark), await requests.answered("ann", mark))
    learned = await tasks.add(
        record, lambda updates: {"learned": len(updates)}, label, may_teach=True, request_id=mark, claim=claim
    )  # fmt: skip
    after = (await profiles.listed(mark), await requests.answered("ann", mark))
    await engine.dispose()

    assert before == ({}, None)
    assert [update.competence_after for update in learned] == [0.55]
    assert (len(after[0]), after[1]) == (1, {"learned": 1})


async def test_an_attempt_that_was_held_up_past_its_lease_keeps_and_learns_nothing(database_url: str) -> None:
    late, first = (f"{name}-{new_id()[-12:]}" for name in ("late", "first"))
    label = AnswerLabel(correct=True, checker=Checker.EXPECTED, detail="", judged_at=datetime.now(UTC))
    engine = db.build_engine(database_url)
    sessions = db.build_sessions(engine)
    tasks, requests = PostgresTasks(sessions, DriftLimits()), PostgresRequests(sessions)
    profiles = PostgresProfiles(sessions, 0.1)

    lost = await requests.begin("ann", first, "digest", lease_s=-1)  # it has run out already
    taken = await requests.begin("ann", first, "digest", lease_s=60)
    assert lost
    assert taken
    assert lost != taken
    await requests.leave("ann", first, lost)  # the request is not its own any more
    with pytest.raises(RequestTakenOver, match="another attempt answers"):
        await tasks.add(record_of(late), lambda _: {"by": "late"}, label, may_teach=True, request_id=first, claim=lost)
    await tasks.add(record_of(first), lambda _: {"by": "first"}, label, may_teach=True, request_id=first, claim=taken)
    answered = await requests.answered("ann", first)
    learned = [len(await profiles.listed(name)) for name in (late, first)]
    await engine.dispose()

    assert answered == {"by": "first"}
    assert learned == [0, 1]


async def test_characters_of_a_model_that_the_database_cannot_store_are_left_out(
    scripted: ScriptedLLM, database_url: str, api: str
) -> None:
    async with scenario_at(scripted, database_url) as scenario:
        scenario.script({"alpha": "Fin\x00al.\nFinal Answer: 40"}, alpha=90)
        response = await scenario.process(api, first_agent="alpha", expected=RIGHT)

    assert (response["degraded"], len(response["profile_updates"])) == (False, 1)


async def test_concurrent_imports_of_one_profile_store_one_of_them(scripted: ScriptedLLM, database_url: str) -> None:
    async with scenario_at(scripted, database_url) as scenario:
        async with asyncio.TaskGroup() as group:
            for level in (0.1, 0.2, 0.3, 0.4):
                group.create_task(import_profiles(scenario, alpha=level, beta=level))
        page = await scenario.service.api("rpc").ask("ListProfiles", dimension="math_computation", page_size=1000)

    levels = {p["agent"]: p["competence"] for p in page["profiles"] if p["agent"] in scenario.names.values()}
    assert levels[scenario.names["alpha"]] in (0.1, 0.2, 0.3, 0.4)


async def test_the_process_is_ready_with_a_model_and_a_database(
    scripted: ScriptedLLM, database_url: str, api: str
) -> None:
    settings = {
        "METACOG_INFERENCE_URL": f"{scripted.url}/v1",
        "METACOG_INFERENCE_MODEL": scripted.model,
        "METACOG_DATABASE_URL": database_url,
    }
    async with process("delegation", **settings) as running:
        async with httpx.AsyncClient(base_url=running.rest, timeout=30) as client:
            ready = (await client.get("/readyz")).json()
        apis: dict[str, RestApi | RpcApi] = {
            "rest": RestApi(running.rest, CONTRACT),
            "rpc": RpcApi(running.grpc, CONTRACT),
        }
        agents = await apis[api].ask("ListAgents")

    assert ready["ready"] is True
    assert "cannot be reached" in ready["parts"]["encoder"]
    assert [one["configuration"]["id"] for one in agents["agents"]] == ["ada", "ben", "cleo", "dan", "eve"]
