"""Runs are recorded without holding up an answer, and none is lost when the database goes away."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from chassis import database as db
from chassis.schema import migrations
from kernel.errors import RunNotFound
from services.router.compose import RunRecordStore
from services.router.store.runs import PostgresRuns
from tests.support.apis import ApiError, RestApi, RpcApi
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER, ROUTER, Database, RunningRouter, cast, process, router_at, until


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """A database that tests may stop; it runs when a test begins."""
    with Database() as database:
        migrations.migrate("services.router", database.url)
        yield database


@pytest.fixture
async def router(scripted: ScriptedLLM, database: Database, tmp_path: Path) -> AsyncIterator[RunningRouter]:
    scripted.answer = cast()
    async with router_at(scripted, database.url, tmp_path) as running:
        yield running


async def answered(api: RestApi | RpcApi, **fields: object) -> str:
    """Name of the run that answered a question."""
    name: str = (await api.ask("Answer", question="Is it so?", strategy="system1", **fields))["run"]["run_id"]
    return name


async def is_kept(runs: RunRecordStore, run_id: str) -> bool:
    try:
        await runs.get(run_id)
    except RunNotFound:
        return False
    return True


async def ready(router: RunningRouter) -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.get(f"{router.rest}/readyz", timeout=10)


async def test_a_run_is_recorded_and_read_back_by_both_apis(router: RunningRouter) -> None:
    rest, rpc = RestApi(router.rest, ROUTER), RpcApi(router.grpc, ROUTER)
    first_reply = (await rest.ask("Answer", question="Is it so?"))["run"]
    await until(lambda: is_kept(router.runs, first_reply["run_id"]))

    by_rest = (await rest.ask("GetRun", run_id=first_reply["run_id"]))["run"]
    by_rpc = (await rpc.ask("GetRun", run_id=first_reply["run_id"]))["run"]

    assert by_rest == first_reply
    assert by_rpc["answer"] == first_reply["answer"] == "the system1"
    assert by_rpc["messages"] == first_reply["messages"] == [{"role": "user", "content": "Is it so?"}]
    assert by_rpc["route"]["msv"]["correctness"] == 0.9
    assert by_rpc["usage"]["stages"].keys() == {"assess", "system1"}


async def test_runs_are_listed_newest_first(router: RunningRouter) -> None:
    api = RestApi(router.rest, ROUTER)
    names = [await answered(api) for _ in range(3)]
    await until(lambda: is_kept(router.runs, names[-1]))

    first = await api.ask("ListRuns", page_size=2)
    second = await api.ask("ListRuns", page_size=1, page_token=first["next_page_token"])

    assert [run["run_id"] for run in first["runs"]] == [names[2], names[1]]
    assert [run["run_id"] for run in second["runs"]] == [names[0]]


async def test_while_the_database_is_away_runs_wait_on_disk_and_are_written_back(
    router: RunningRouter, database: Database, tmp_path: Path
) -> None:
    api = RestApi(router.rest, ROUTER)
    before = await answered(api)
    await until(lambda: is_kept(router.runs, before))

    database.stop()
    try:
        names = [await answered(api) for _ in range(3)]
        await until(lambda: _is_waiting(tmp_path, names))
        report = await ready(router)
        with pytest.raises(ApiError) as error:
            await api.ask("GetRun", run_id=before)
    finally:
        database.start()

    assert (report.status_code, report.json()["ready"]) == (200, True)
    assert report.json()["parts"]["database"].startswith("the database cannot be reached")
    assert "of runs wait on disk" in report.json()["parts"]["journal"]
    assert report.json()["parts"]["inference"] == "ok"
    assert (error.value.code, error.value.reason) == ("UNAVAILABLE", "DATABASE_UNAVAILABLE")
    for name in names:
        await until(partial(is_kept, router.runs, name))
    await until(lambda: _is_well(router))
    assert spooled(tmp_path).read_bytes() == b""


def spooled(folder: Path) -> Path:
    """Return the file in which the runs of a router with the default port wait."""
    return folder / "runs-8080.jsonl"


async def _is_waiting(spool: Path, names: list[str]) -> bool:
    waiting = spooled(spool)
    return waiting.exists() and all(name in waiting.read_text() for name in names)


async def _is_well(router: RunningRouter) -> bool:
    parts = (await ready(router)).json()["parts"]
    return all(parts[name] == "ok" for name in ("inference", "database", "journal", "outbox"))


async def test_a_repeated_request_is_recognized_while_the_database_is_away(
    scripted: ScriptedLLM, tmp_path: Path
) -> None:
    scripted.answer = cast()
    async with router_at(scripted, f"postgresql+psycopg://nobody@{NO_SERVER}/none", tmp_path) as router:
        api = RestApi(router.rest, ROUTER)
        first = await answered(api, request_id="once")
        again = await answered(api, request_id="once")

    assert again == first
    assert len(scripted.bodies) == 1


async def test_what_is_queued_is_recorded_before_the_process_ends(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    scripted.answer = cast()
    async with process("router", **settings(scripted, database.url, tmp_path)) as router:
        names = [await answered(RpcApi(router.grpc, ROUTER)) for _ in range(5)]
        router.terminate()
        status = await router.ended()

    assert status == 0
    engine = db.build_engine(database.url)
    assert [await is_kept(PostgresRuns(db.build_sessions(engine)), name) for name in names] == [True] * 5
    await engine.dispose()


async def test_what_one_process_left_on_disk_the_next_one_records(
    scripted: ScriptedLLM, database: Database, tmp_path: Path
) -> None:
    scripted.answer = cast()
    away = f"postgresql+psycopg://nobody@{NO_SERVER}/none"
    async with process("router", **settings(scripted, away, tmp_path)) as router:
        name = await answered(RpcApi(router.grpc, ROUTER))
        router.terminate()
        status = await router.ended()
    assert (status, name in left_in(tmp_path)) == (0, True)

    engine = db.build_engine(database.url)
    runs = PostgresRuns(db.build_sessions(engine))
    async with process("router", **settings(scripted, database.url, tmp_path)):
        await until(lambda: is_kept(runs, name))

    await engine.dispose()


def left_in(spool: Path) -> str:
    return "".join(path.read_text() for path in spool.glob("*.jsonl"))


def settings(llm: ScriptedLLM, database: str, spool: Path) -> dict[str, object]:
    return {
        "METACOG_INFERENCE_URL": f"{llm.url}/v1",
        "METACOG_DATABASE_URL": database,
        "METACOG_ROUTER_SPOOL_DIR": spool,
    }
