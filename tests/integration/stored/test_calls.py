"""Arbitrations, votes and deliberations that were asked for by themselves are read later, by their key alone."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from google.protobuf.descriptor import ServiceDescriptor
from sqlalchemy import Table, create_engine, make_url

from chassis.calls.records import CallRecords, CallStorage
from chassis.ids import new_id
from chassis.schema import migrations
from chassis.serving.auth import ACT, TEACH, Keyring
from services.arbiter.store.tables import CALLS as OF_ARBITER
from services.assigner.compose import CONTRACT as ASSIGNER
from services.assigner.store.tables import CALLS as OF_ASSIGNER
from tests.support.apis import ApiError, RestApi, RpcApi, Running, teaching_key
from tests.support.arbiter import ARBITER, arbiter_at
from tests.support.assigner import assigner_at
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROUTER, Database, cast, process, router_at, until

Client = RestApi | RpcApi
Body = dict[str, Any]
QUESTION = "What is two and two, Ann?"
# Gives a call a question of 640 kB that hardly compresses, so that a page has room for one of them.
LARGE = """
UPDATE {service}.calls
SET document = jsonb_set(
    document, '{{question}}', (SELECT to_jsonb(string_agg(md5(n::text), '')) FROM generate_series(1, 20000) AS n)
)
WHERE run_id = %s
"""
OLD = datetime.now(UTC) - timedelta(days=31)


@dataclass(frozen=True)
class Kind:
    """A kind of call, with the operations of its service."""

    service: str
    contract: ServiceDescriptor
    table: Table
    ask: str
    one: str
    field: str

    @property
    def many(self) -> str:
        """Return the name of the list."""
        return f"{self.one}s"


KINDS = {
    "arbitration": Kind("arbiter", ARBITER, OF_ARBITER, "Arbitrate", "Arbitration", "arbitration"),
    "vote": Kind("arbiter", ARBITER, OF_ARBITER, "Vote", "Vote", "vote"),
    "deliberation": Kind("assigner", ASSIGNER, OF_ASSIGNER, "Deliberate", "Deliberation", "deliberation"),
}


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def holders() -> tuple[str, str]:
    """Holders of keys that no other test uses; the key of a holder is its name."""
    mark = new_id()[-10:]
    return f"ann-{mark}", f"bob-{mark}"


def served(
    kind: Kind, llm: ScriptedLLM, records: CallRecords | None, keyring: Keyring | None = None
) -> AbstractAsyncContextManager[Running]:
    """The service of a kind, on a scripted model that answers whatever it is asked."""
    if kind.service == "assigner":
        llm.answer = cast()
        return assigner_at(llm, keyring=keyring, records=records)
    llm.answer = lambda body: ["Two and two make it.\nFinal Answer: 4"] * (body.get("n") or 1)
    return arbiter_at(llm, keyring=keyring, records=records)


def records_of(kind: Kind, url: str, folder: Path, **more: Any) -> CallRecords:  # noqa: ANN401
    storage = CallStorage(url=url, spool=folder / f"{kind.service}.jsonl", retry_s=0.05, **more)
    return CallRecords(storage, kind.table)


def client(kind: Kind, running: Running, api: str, key: str = "") -> Client:
    if api == "rest":
        return RestApi(running.rest, kind.contract, {"authorization": f"Bearer {key}"} if key else {})
    return RpcApi(running.grpc, kind.contract, (("authorization", f"Bearer {key}"),) if key else ())


@asynccontextmanager
async def clients(
    kind: Kind, llm: ScriptedLLM, records: CallRecords | None, api: str, holders: tuple[str, str]
) -> AsyncIterator[tuple[Client, Client]]:
    """Two clients of one service, each with a key."""
    keyring = Keyring([teaching_key(name) for name in holders])
    async with served(kind, llm, records, keyring) as running:
        ann, bob = (client(kind, running, api, name) for name in holders)
        yield ann, bob


async def asked(kind: Kind, of: Client, **more: Any) -> Body:  # noqa: ANN401
    return await of.ask(kind.ask, question=QUESTION, **more)


async def got(kind: Kind, of: Client, run_id: str) -> Body:
    stored: Body = (await of.ask(f"Get{kind.one}", run_id=run_id))[kind.field]
    return stored


async def listed(kind: Kind, of: Client, **wanted: Any) -> list[str]:  # noqa: ANN401
    page = await of.ask(f"List{kind.many}", **wanted)
    return [stored["finished"]["run_id"] for stored in page[f"{kind.field}s"]]


def execute(url: str, statement: str, *values: object) -> list[Any]:
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection:
        found = connection.execute(statement, values)
        return found.fetchall() if found.description else []


async def test_a_call_is_returned_as_it_ended_to_its_own_key_alone(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, holders: tuple[str, str], kind: Kind, api: str
) -> None:
    async with clients(kind, scripted, records_of(kind, database_url, tmp_path), api, holders) as (ann, bob):
        finished = await asked(kind, ann)
        of_bob = await asked(kind, bob)
        stored = await got(kind, ann, finished["run_id"])
        with pytest.raises(ApiError) as raised:
            await got(kind, bob, finished["run_id"])
        await got(kind, bob, of_bob["run_id"])
        lists = (await listed(kind, ann), await listed(kind, bob))

    assert (stored["question"], stored["finished"]) == (QUESTION, finished)
    assert stored["created_at"]
    assert (raised.value.code, raised.value.reason) == ("NOT_FOUND", "RUN_NOT_FOUND")
    assert lists == ([finished["run_id"]], [of_bob["run_id"]])


async def test_every_event_of_a_call_has_the_identifier_by_which_it_is_read(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, holders: tuple[str, str], kind: Kind, api: str
) -> None:
    async with clients(kind, scripted, records_of(kind, database_url, tmp_path), api, holders) as (ann, _):
        events = await ann.events(kind.ask, question=QUESTION)
        stored = await got(kind, ann, events[0][1]["run_id"])

    assert {data["run_id"] for _, data in events if "run_id" in data} == {stored["finished"]["run_id"]}


async def test_calls_are_listed_page_by_page_newest_first_and_by_time(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, holders: tuple[str, str], kind: Kind, api: str
) -> None:
    async with clients(kind, scripted, records_of(kind, database_url, tmp_path), api, holders) as (ann, _):
        names = [(await asked(kind, ann))["run_id"] for _ in range(3)]
        await got(kind, ann, names[-1])
        execute(database_url, f"UPDATE {kind.service}.calls SET created_at = %s WHERE run_id = %s", OLD, names[0])
        hour_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
        first = await ann.ask(f"List{kind.many}", page_size=2)
        second = await ann.ask(f"List{kind.many}", page_size=2, page_token=first["next_page_token"])
        by_time = (await listed(kind, ann, since=hour_ago), await listed(kind, ann, until=hour_ago))
        reasons = []
        for wrong in ({"page_size": 0}, {"page_size": 201}, {"page_token": "made-up"}):
            with pytest.raises(ApiError) as raised:
                await ann.ask(f"List{kind.many}", **wrong)
            reasons.append(raised.value.reason)

    pages = [[stored["finished"]["run_id"] for stored in page[f"{kind.field}s"]] for page in (first, second)]
    assert pages == [[names[2], names[1]], [names[0]]]
    assert second["next_page_token"] == ""
    assert by_time == ([names[2], names[1]], [names[0]])
    assert reasons == ["MALFORMED_REQUEST", "MALFORMED_REQUEST", "INVALID_PAGE_TOKEN"]


async def test_a_call_of_another_version_hides_only_itself(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, holders: tuple[str, str], kind: Kind, api: str
) -> None:
    async with clients(kind, scripted, records_of(kind, database_url, tmp_path), api, holders) as (ann, _):
        names = [(await asked(kind, ann))["run_id"] for _ in range(2)]
        await got(kind, ann, names[-1])
        execute(database_url, f"UPDATE {kind.service}.calls SET document = '[]' WHERE run_id = %s", names[0])
        page = await ann.ask(f"List{kind.many}")
        with pytest.raises(ApiError) as raised:
            await got(kind, ann, names[0])

    assert [stored["finished"]["run_id"] for stored in page[f"{kind.field}s"]] == [names[1]]
    assert page["unreadable"] == 1
    assert raised.value.reason == "RECORD_UNREADABLE"


async def test_a_call_that_is_part_of_a_run_is_not_stored_twice(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, holders: tuple[str, str], kind: Kind, api: str
) -> None:
    run_id = new_id()
    async with clients(kind, scripted, records_of(kind, database_url, tmp_path), api, holders) as (ann, _):
        finished = await asked(kind, ann, run_id=run_id)
        direct = (await asked(kind, ann))["run_id"]
        await got(kind, ann, direct)
        there = await listed(kind, ann)

    assert finished["run_id"] == run_id
    assert there == [direct]


async def test_a_run_of_the_router_is_not_stored_again_by_the_service_that_answers_it(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, holders: tuple[str, str], api: str
) -> None:
    kind, (ann, suite) = KINDS["vote"], holders
    keyring = Keyring([teaching_key(ann), replace(teaching_key(suite), allowed=frozenset({ACT, TEACH}))])
    async with (
        served(kind, scripted, records_of(kind, database_url, tmp_path), keyring) as arbiter,
        router_at(
            scripted, database_url, tmp_path, others={"arbiter": arbiter.grpc}, keyring=keyring, peer_key=suite
        ) as router,
    ):
        answering = RestApi(router.rest, ROUTER, {"authorization": f"Bearer {ann}"})
        run = (await answering.ask("Answer", question=QUESTION, strategy="vote"))["run"]
        of = client(kind, arbiter, api, ann)
        direct = (await asked(kind, of))["run_id"]
        await got(kind, of, direct)
        there = await listed(kind, of)

    assert (run["strategy"], run["deliberation"]["run_id"]) == ("vote", run["run_id"])
    assert there == [direct]


@pytest.mark.parametrize("name", ["vote", "deliberation"])
async def test_the_process_stores_in_the_database_that_it_is_given_what_the_router_would_store(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, name: str
) -> None:
    kind = KINDS[name]
    async with served(kind, scripted, None):  # which has the model answer for the service
        base = {"METACOG_INFERENCE_URL": scripted.url, "METACOG_HOME": tmp_path}
        given = {"METACOG_DATABASE_URL": database_url, "METACOG_ROUTER_KEEP_CONTENTS": "false"}
        async with process(kind.service, **base, **given) as running:
            of = RestApi(running.rest, kind.contract)
            finished = await asked(kind, of)
            stored = await got(kind, of, finished["run_id"])

    assert (stored["question"], stored["finished"]["usage"]) == ("", finished["usage"])


async def test_without_a_database_calls_work_and_reading_them_says_what_to_set(
    scripted: ScriptedLLM, kind: Kind, api: str
) -> None:
    async with served(kind, scripted, None) as running:
        of = client(kind, running, api)
        finished = await asked(kind, of)
        errors = []
        for operation, body in ((f"Get{kind.one}", {"run_id": "any"}), (f"List{kind.many}", {})):
            with pytest.raises(ApiError) as raised:
                await of.ask(operation, **body)
            errors.append(raised.value)

    assert finished["outcome"] in ("ANSWERED", "DECIDED")
    assert [error.reason for error in errors] == ["CALLS_NOT_STORED"] * 2
    assert [error.metadata["setting"] for error in errors] == ["METACOG_DATABASE_URL"] * 2
    assert f"python -m services.{kind.service} migrate" in errors[0].message


async def test_without_contents_no_word_of_a_call_is_stored_and_the_caller_has_it_all(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, holders: tuple[str, str], kind: Kind, api: str
) -> None:
    records = records_of(kind, database_url, tmp_path, contents=False)
    async with clients(kind, scripted, records, api, holders) as (ann, _):
        finished = await asked(kind, ann)
        stored = await got(kind, ann, finished["run_id"])

    [(document,)] = execute(
        database_url, f"SELECT document::text FROM {kind.service}.calls WHERE run_id = %s", finished["run_id"]
    )
    assert [word for word in ("Ann", "Two and two", "the thesis", "the synthesis") if word in document] == []
    assert (stored["question"], stored["finished"]["answer"]) == ("", "")
    assert stored["finished"]["usage"] == finished["usage"]
    assert finished["answer"]


async def test_old_calls_are_deleted_and_young_ones_stay(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, holders: tuple[str, str], kind: Kind
) -> None:
    records = records_of(kind, database_url, tmp_path, days=30, retention_every_s=0.05)
    async with clients(kind, scripted, records, "rest", holders) as (ann, _):
        old, young = [(await asked(kind, ann))["run_id"] for _ in range(2)]
        await got(kind, ann, young)
        execute(database_url, f"UPDATE {kind.service}.calls SET created_at = %s WHERE run_id = %s", OLD, old)

        async def is_deleted() -> bool:
            return await listed(kind, ann) == [young]

        await until(is_deleted)


@pytest.mark.parametrize("table", [OF_ARBITER, OF_ASSIGNER], ids=["arbiter", "assigner"])
def test_the_migration_creates_the_table_that_the_code_expects(database_url: str, table: Table) -> None:
    engine = create_engine(database_url)
    options = {
        "include_schemas": True,
        "include_name": lambda name, kind, _parents: kind != "schema" or name == table.schema,
        "version_table_schema": table.schema,
    }
    with engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection, opts=options), table.metadata)
    engine.dispose()

    assert differences == []


async def test_a_page_ends_where_its_documents_are_too_large_together(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, holders: tuple[str, str], kind: Kind
) -> None:
    records = records_of(kind, database_url, tmp_path)
    async with clients(kind, scripted, records, "rest", holders) as (ann, _):
        names = [(await asked(kind, ann))["run_id"] for _ in range(2)]
        for name in names:
            await got(kind, ann, name)
        assert await records.journal.flush(10)
        for name in names:
            execute(database_url, LARGE.format(service=kind.service), name)
        first = await ann.ask(f"List{kind.many}")
        second = await ann.ask(f"List{kind.many}", page_token=first["next_page_token"])

    pages = [[stored["finished"]["run_id"] for stored in page[f"{kind.field}s"]] for page in (first, second)]
    assert pages == [[names[1]], [names[0]]]
    assert second["next_page_token"] == ""


@pytest.mark.parametrize("name", ["vote", "deliberation"])
async def test_a_database_that_hangs_holds_up_no_call_and_has_it_when_it_answers_again(
    scripted: ScriptedLLM, tmp_path: Path, name: str
) -> None:
    kind = KINDS[name]
    with Database() as database:
        migrations.migrate(f"services.{kind.service}", database.url)
        records = records_of(kind, database.url, tmp_path)
        async with served(kind, scripted, records) as running:
            of = client(kind, running, "rest")
            before = (await asked(kind, of))["run_id"]
            await got(kind, of, before)
            database.freeze()
            finished = await asked(kind, of)
            was_stored = await records.journal.flush(0)
            database.thaw()

            async def is_stored() -> bool:
                return await listed(kind, of) == [finished["run_id"], before]

            await until(is_stored)

    assert (finished["degraded"], finished["outcome"]) == (False, {"vote": "DECIDED"}.get(name, "ANSWERED"))
    assert not was_stored
