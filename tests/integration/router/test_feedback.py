"""Feedback is stored once and reaches those who learn from it, whatever is away meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncEngine

from chassis import database as db
from chassis.errors import DatabaseUnavailable
from chassis.idempotency import RequestIdReused
from chassis.ids import new_id
from chassis.schema import migrations
from chassis.serving.auth import ANYONE, TEACH, ApiKey
from kernel.errors import Code, FeedbackConflict, MetacogError, RunNotFound
from services.router.compose import RunRecords
from services.router.core.feedback import LabelOrigin
from services.router.service.calibration.recalibration import Calibrator
from services.router.service.feedback.feedback import SubmitFeedbackRequest, SubmitFeedbackResponse
from services.router.service.runs.values import ListRunsRequest, Run
from services.router.store.runs import PostgresRuns
from tests.support.apis import ApiError, RestApi, RpcApi
from tests.support.labels import Delegation, delegated, records_at, run_of, serving_delegation, store_runs
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROUTER, Database, free_port, quick_storage, router_at, until

ANN = ApiKey(name="ann", sha256="", allowed=frozenset({TEACH}))
PUPIL = ApiKey(name="pupil", sha256="")


@pytest.fixture
async def records(database_url: str, tmp_path: Path) -> AsyncIterator[RunRecords]:
    async with records_at(database_url, tmp_path) as records:
        yield records


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = db.build_engine(database_url)
    yield engine
    await engine.dispose()


async def submit(records: RunRecords, run: Run | str, *, key: ApiKey = ANYONE, **label: Any) -> SubmitFeedbackResponse:  # noqa: ANN401
    """Submit feedback: right, with an identifier of its own, unless `label` has others."""
    run_id = run if isinstance(run, str) else run.run_id
    fields = {"feedback_id": new_id(), **({"correct": True} if "score" not in label else {}), **label}
    return await records.submit_feedback(SubmitFeedbackRequest(run_id=run_id, **fields), key=key)


async def rows(engine: AsyncEngine, table: str, run: Run) -> list[dict[str, Any]]:
    """Rows about a run, in their order."""
    order = "id" if table == "outbox" else "created_at"
    query = text(f"SELECT * FROM router.{table} WHERE run_id = :run_id ORDER BY {order}")
    async with engine.connect() as connection:
        return [dict(row) for row in (await connection.execute(query, {"run_id": run.run_id})).mappings()]


async def is_told(engine: AsyncEngine, run: Run) -> bool:
    found = await rows(engine, "outbox", run)
    return bool(found) and all(row["delivered_at"] or row["parked_at"] for row in found)


async def test_the_same_feedback_fifty_times_at_once_is_stored_once_with_one_response(
    records: RunRecords, engine: AsyncEngine
) -> None:
    run = delegated("t-50")
    await store_runs(records, run)

    async with asyncio.TaskGroup() as group:
        responses = [group.create_task(submit(records, run, feedback_id="fifty")) for _ in range(50)]

    assert {task.result().delegation_tasks for task in responses} == {1}
    assert len({str(task.result()) for task in responses}) == 1
    assert (len(await rows(engine, "feedback", run)), len(await rows(engine, "outbox", run))) == (1, 1)


async def test_of_much_agreeing_feedback_at_once_one_counts(records: RunRecords, engine: AsyncEngine) -> None:
    run = delegated("t-many")
    await store_runs(records, run)

    async with asyncio.TaskGroup() as group:
        responses = [group.create_task(submit(records, run)) for _ in range(20)]

    assert sum(task.result().delegation_tasks for task in responses) == 1
    assert sum(task.result().calibrates for task in responses) == 1
    found = await rows(engine, "feedback", run)
    assert (len(found), sum(row["counts"] for row in found)) == (20, 1)
    assert len(await rows(engine, "outbox", run)) == 1


async def test_of_opposite_feedback_at_once_one_side_is_rejected(records: RunRecords, engine: AsyncEngine) -> None:
    run = run_of()
    await store_runs(records, run)

    async with asyncio.TaskGroup() as group:
        attempts = [group.create_task(attempt(submit(records, run, correct=n % 2 == 0))) for n in range(20)]

    errors = [task.result() for task in attempts if task.result() is not None]
    assert len(errors) == 10
    assert all(isinstance(one, FeedbackConflict) for one in errors)
    assert len({row["score"] for row in await rows(engine, "feedback", run)}) == 1


async def attempt(judging: Any) -> MetacogError | None:  # noqa: ANN401
    """Return the error of feedback, if it is rejected."""
    try:
        await judging
    except MetacogError as error:
        return error
    return None


async def test_the_identifier_of_feedback_belongs_to_its_key_and_to_one_run(records: RunRecords) -> None:
    first, second, others = run_of(), run_of(), run_of(key_name="ann")
    await store_runs(records, first, second, others)
    await submit(records, first, feedback_id="mine")

    await submit(records, others, feedback_id="mine", key=ANN)
    with pytest.raises(RequestIdReused):
        await submit(records, second, feedback_id="mine")
    with pytest.raises(RequestIdReused):
        await submit(records, first, feedback_id="mine", score=0.9)


async def test_the_same_identifier_for_two_runs_at_once_is_stored_for_one(records: RunRecords) -> None:
    runs = [run_of() for _ in range(10)]
    await store_runs(records, *runs)

    async with asyncio.TaskGroup() as group:
        attempts = [group.create_task(attempt(submit(records, run, feedback_id="race"))) for run in runs]

    errors = [task.result() for task in attempts if task.result() is not None]
    assert len(errors) == 9
    assert all(isinstance(one, RequestIdReused) for one in errors)


@pytest.mark.parametrize("run_id", ["nobody", "a\x00b", "x" * 128])
async def test_a_run_that_does_not_exist_cannot_get_feedback(records: RunRecords, run_id: str) -> None:
    with pytest.raises(RunNotFound):
        await submit(records, run_id)


async def test_a_run_of_another_key_does_not_exist(records: RunRecords) -> None:
    run = run_of(key_name="ann")
    await store_runs(records, run)

    with pytest.raises(RunNotFound):
        await submit(records, run, key=PUPIL)


async def test_feedback_of_a_key_that_may_not_teach_is_stored_and_teaches_nothing(
    records: RunRecords, engine: AsyncEngine
) -> None:
    run = delegated("t-pupil", key_name="pupil")
    await store_runs(records, run)

    response = await submit(records, run, key=PUPIL, note="I think")

    assert (response.teaches, response.calibrates, response.becomes_experience, response.delegation_tasks) == (
        False,
        False,
        False,
        0,
    )
    assert await rows(engine, "outbox", run) == []
    assert [row["counts"] for row in await rows(engine, "feedback", run)] == [False]
    [shown] = (await records.get_run(run.run_id)).feedback
    assert (shown.note, shown.teaches, shown.score, shown.key_name) == ("I think", False, 1.0, "pupil")


async def test_a_run_that_is_on_its_way_to_the_database_is_waited_for(records: RunRecords) -> None:
    run = run_of()
    records.journal.record(run)

    assert (await submit(records, run)).calibrates


async def test_a_run_that_another_replica_is_about_to_record_is_waited_for(
    records: RunRecords, database_url: str, tmp_path: Path
) -> None:
    run = run_of()
    async with records_at(database_url, tmp_path / "other") as other:
        judging = asyncio.create_task(submit(records, run))
        await asyncio.sleep(0.2)
        other.journal.record(run)

        assert (await judging).run_id == run.run_id


async def test_feedback_is_read_with_runs_in_one_statement(records: RunRecords, database_url: str) -> None:
    run, other = run_of(key_name="shown"), run_of(key_name="shown")
    shown = ApiKey(name="shown", sha256="", allowed=frozenset({TEACH}))
    await store_runs(records, run, other)
    await submit(records, run, key=shown, score=0.75, note="first")
    await submit(records, run, key=shown, score=1.0)
    engine, statements = db.build_engine(database_url), list[str]()
    event.listen(engine.sync_engine, "before_cursor_execute", lambda *call: statements.append(call[2]))

    page = await PostgresRuns(db.build_sessions(engine)).page(ListRunsRequest(), key_name="shown")

    assert [[label.score for label in one.feedback] for one in page.runs] == [[], [0.75, 1.0]]
    assert page.runs[1].feedback[0].note == "first"
    assert [label.score for label in (await records.get_run(run.run_id)).feedback] == [0.75, 1.0]
    assert len([statement for statement in statements if "router.runs" in statement]) == 1
    await engine.dispose()


async def test_a_delegation_service_that_was_away_gets_each_task_once(
    database_url: str, engine: AsyncEngine, tmp_path: Path
) -> None:
    delegation, address = Delegation(), f"127.0.0.1:{free_port()}"
    runs = [delegated(f"away-{n}-a", f"away-{n}-b") for n in range(5)]
    async with records_at(database_url, tmp_path, delegation=address) as records:
        await store_runs(records, *runs)
        responses = [await submit(records, run, correct=n != 0) for n, run in enumerate(runs)]
        await until(lambda: _was_tried(engine, runs[0]))
        assert [one.delegation_tasks for one in responses] == [2] * 5

        async with serving_delegation(delegation, address):
            for run in runs:
                await until(lambda run=run: is_told(engine, run))  # type: ignore[misc]

    once = {f"away-{n}-{task}": 1 for n in range(5) for task in "ab"}
    assert delegation.of("away") == (once, once)
    assert [delegation.correct[f"away-{n}-a"] for n in range(5)] == [False, True, True, True, True]


async def _was_tried(engine: AsyncEngine, run: Run) -> bool:
    return all(
        row["attempts"] >= 2 and "PEER_UNAVAILABLE" in row["last_error"] for row in await rows(engine, "outbox", run)
    )


async def test_what_one_process_could_not_deliver_the_next_one_delivers(
    database_url: str, engine: AsyncEngine, tmp_path: Path
) -> None:
    delegation, run = Delegation(), delegated("restart")
    async with records_at(database_url, tmp_path) as records:
        await store_runs(records, run)
        await submit(records, run)
        await until(lambda: _was_tried(engine, run))

    async with serving_delegation(delegation) as address, records_at(database_url, tmp_path, delegation=address):
        await until(lambda: is_told(engine, run))

    assert delegation.of("restart") == ({"restart": 1}, {"restart": 1})


async def test_several_replicas_deliver_each_task_once(database_url: str, engine: AsyncEngine, tmp_path: Path) -> None:
    delegation = Delegation()
    runs = [delegated(f"replicas-{n}") for n in range(60)]
    async with (
        serving_delegation(delegation) as address,
        records_at(database_url, tmp_path / "a", delegation=address) as a,
        records_at(database_url, tmp_path / "b", delegation=address) as b,
    ):
        await store_runs(a, *runs)
        for run, records in zip(runs, [a, b] * 30, strict=True):
            await submit(records, run)
        for run in runs:
            await until(lambda run=run: is_told(engine, run))  # type: ignore[misc]

    once = {f"replicas-{n}": 1 for n in range(60)}
    assert delegation.of("replicas") == (once, once)


class TaskGone(MetacogError):
    """The error of the delegation service."""

    code = Code.NOT_FOUND
    reason = "TASK_NOT_FOUND"


async def test_what_delegation_will_never_accept_is_parked_and_holds_up_nothing(
    database_url: str, engine: AsyncEngine, tmp_path: Path
) -> None:
    delegation, run = Delegation(), delegated("gone", "there")
    delegation.errors["gone"] = TaskGone("there is no task 'gone'", task_id="gone")
    async with (
        serving_delegation(delegation) as address,
        records_at(database_url, tmp_path, delegation=address) as records,
    ):
        await store_runs(records, run)
        await submit(records, run)
        await until(lambda: is_told(engine, run))
        await asyncio.sleep(0.3)
        await records.checks["outbox"]()

    gone, there = await rows(engine, "outbox", run)
    assert (gone["delivered_at"], gone["attempts"]) == (None, 1)
    assert gone["last_error"] == "TASK_NOT_FOUND: delegation: there is no task 'gone'"
    assert there["delivered_at"] is not None
    assert (delegation.of("there"), delegation.of("gone")) == (({"there": 1},) * 2, ({}, {"gone": 1}))


class FakeExperience:
    """Verified answers in a list; its encoder is away at first."""

    def __init__(self) -> None:
        self.learned: list[str] = []
        self.forgotten: list[str] = []
        self.attempts = 0

    async def learn(self, run: Run) -> None:
        self.attempts += 1
        if self.attempts < 3:
            raise DatabaseUnavailable("away")
        self.learned.append(f"{run.messages[0].content} {run.answer}")

    async def forget(self, run_id: str) -> None:
        self.forgotten.append(run_id)


async def test_a_right_answer_becomes_experience_and_a_wrong_one_does_not(
    database_url: str, engine: AsyncEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experience, judged = FakeExperience(), list[str]()
    right, wrong = run_of(), run_of()
    monkeypatch.setattr(Calibrator, "on_feedback", lambda _: judged.append("judged"))
    async with records_at(database_url, tmp_path, experience=experience) as records:
        await store_runs(records, right, wrong)
        responses = [await submit(records, right), await submit(records, wrong, correct=False)]
        await until(lambda: is_told(engine, right))

    assert [one.becomes_experience for one in responses] == [True, False]
    assert (experience.learned, experience.attempts) == (["Is it so? It is."], 3)
    assert await rows(engine, "outbox", wrong) == []
    assert judged == ["judged"] * 2


@pytest.mark.parametrize(("transport", "contents"), [("rest", True), ("rpc", True), ("rpc", False)])
async def test_feedback_on_an_answer_by_delegation_reaches_its_task(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, transport: str, contents: bool
) -> None:
    delegation = Delegation()
    storage = quick_storage(tmp_path, contents=contents)
    async with (
        serving_delegation(delegation) as address,
        router_at(scripted, database_url, tmp_path, others={"delegation": address}, storage=storage) as router,
    ):
        api = RestApi(router.rest, ROUTER) if transport == "rest" else RpcApi(router.grpc, ROUTER)
        run_id = (await api.ask("Answer", question="Is it so?", strategy="delegation"))["run"]["run_id"]
        response = await api.ask("SubmitFeedback", feedback_id=new_id(), run_id=run_id, score=0.25)
        run = (await RestApi(router.rest, ROUTER).ask("GetRun", run_id=run_id))["run"]
        by_rpc = (await RpcApi(router.grpc, ROUTER).ask("GetRun", run_id=run_id))["run"]
        task = run["deliberation"]["task_id"]
        await until(lambda: _has_learned(delegation, task))

    assert (response["delegation_tasks"], response["calibrates"]) == (1, True)
    assert (delegation.learned[task], delegation.correct[task]) == (1, False)
    assert run["deliberation"]["decision"]["reason"] == "confident"
    assert run["deliberation"]["answer_text"] == ("It is so." if contents else "")
    assert (by_rpc["deliberation"], by_rpc["feedback"][0]["score"]) == (None, 0.25)


@pytest.mark.parametrize("transport", ["rest", "rpc"])
@pytest.mark.parametrize(
    ("given", "shown"),
    [({}, "VOLUNTEERED"), ({"origin": "EXAM"}, "EXAM"), ({"origin": "SAMPLED"}, "SAMPLED")],
)
async def test_a_label_states_how_it_came_about(
    scripted: ScriptedLLM,
    database_url: str,
    engine: AsyncEngine,
    tmp_path: Path,
    transport: str,
    given: dict[str, str],
    shown: str,
) -> None:
    async with router_at(scripted, database_url, tmp_path, label_share=1.0) as router:
        api = RestApi(router.rest, ROUTER) if transport == "rest" else RpcApi(router.grpc, ROUTER)
        run_id = (await api.ask("Answer", question="Is it so?", strategy="system1"))["run"]["run_id"]
        label: dict[str, Any] = {"feedback_id": new_id(), "run_id": run_id, "correct": True, **given}
        first = await api.ask("SubmitFeedback", **label)
        again = await api.ask("SubmitFeedback", **label)
        [feedback] = (await api.ask("GetRun", run_id=run_id))["run"]["feedback"]

        with pytest.raises(ApiError) as changed:
            await api.ask("SubmitFeedback", **{**label, "origin": "EXAM" if shown != "EXAM" else "SAMPLED"})
        [row] = await rows(engine, "feedback", run_of(run_id=run_id))

    assert (first, feedback["origin"], row["origin"]) == (again, shown, shown)
    assert changed.value.reason == "REQUEST_ID_REUSED"


async def test_an_unknown_origin_of_a_label_is_rejected_by_name(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    async with router_at(scripted, database_url, tmp_path) as router:
        label = {"feedback_id": new_id(), "run_id": "any", "correct": True, "origin": "HEARSAY"}
        with pytest.raises(ApiError, match="origin") as unknown:
            await RestApi(router.rest, ROUTER).ask("SubmitFeedback", **label)

    assert unknown.value.reason == "MALFORMED_REQUEST"


async def test_a_label_of_a_version_without_origins_is_volunteered(records: RunRecords, engine: AsyncEngine) -> None:
    run = run_of()
    await store_runs(records, run)
    response = await submit(records, run, feedback_id="of-this-version")
    columns = "key_name, run_id, score, note, teaches, created_at, request_digest, reply"
    copied = f"SELECT 'of-an-earlier-one', false, {columns} FROM router.feedback WHERE run_id = :run_id"
    async with engine.begin() as connection:
        inserting = text(f"INSERT INTO router.feedback (feedback_id, counts, {columns}) {copied}")
        await connection.execute(inserting, {"run_id": run.run_id})

    repeated = await submit(records, run, feedback_id="of-an-earlier-one")

    assert repeated == response
    labels = (await records.get_run(run.run_id)).feedback
    assert [label.origin for label in labels] == [LabelOrigin.VOLUNTEERED] * 2


async def _has_learned(delegation: Delegation, task: str) -> bool:
    return task in delegation.learned


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """A database that tests may stop; it runs when a test begins."""
    with Database() as database:
        migrations.migrate("services.router", database.url)
        yield database


async def test_while_the_database_is_away_feedback_is_rejected_and_nothing_is_half_done(
    database: Database, tmp_path: Path
) -> None:
    run = delegated("half")
    engine = db.build_engine(database.url)
    async with records_at(database.url, tmp_path) as records:
        await store_runs(records, run)
        database.stop()
        try:
            with pytest.raises(DatabaseUnavailable):
                await submit(records, run, feedback_id="again")
            with pytest.raises(DatabaseUnavailable):
                await records.checks["outbox"]()
        finally:
            database.start()
        assert (await rows(engine, "feedback", run), await rows(engine, "outbox", run)) == ([], [])

        response = await submit(records, run, feedback_id="again")

    assert response.delegation_tasks == 1
    await engine.dispose()


async def test_feedback_on_a_run_that_waits_on_disk_is_stored_once_the_run_is(
    database: Database, tmp_path: Path
) -> None:
    run = run_of()
    async with records_at(database.url, tmp_path) as records:
        database.stop()
        try:
            records.journal.record(run)
            await until(lambda: _is_on_disk(tmp_path, run))
            with pytest.raises(DatabaseUnavailable):
                await submit(records, run)
        finally:
            database.start()

        assert (await submit(records, run)).calibrates


async def _is_on_disk(spool: Path, run: Run) -> bool:
    file = spool / "runs-8080.jsonl"  # named after the port, which is the default one here
    return file.exists() and run.run_id in file.read_text()
