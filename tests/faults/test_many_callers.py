"""A caller with many requests at once gets a time to retry, and takes nothing from the others."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import httpx
import psycopg
import pytest
import yaml

from chassis.ids import new_id
from chassis.schema import migrations
from configuration.services import WITH_SCHEMA
from tests.faults.conftest import Report
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import Database, cast, process

GREEDY, MODEST = {"Authorization": "Bearer greedy"}, {"Authorization": "Bearer modest"}
FIGURES = ("/v1/calibration", "/v1/activations", "/v1/cascades", "/v1/shadow")

# Labelled answers of System 1, of which every fourth is a cascade, and every tenth has a shadow run.
LABELLED = """
INSERT INTO router.runs (run_id, created_at, request_id, key_name, system, strategy, degraded, activation, outcome,
    confidence, confidence_raw, confidence_source, config_version, reason, assessor, shadow_of, document)
SELECT 'served-' || n, now() - interval '1 hour', '', '', 'SYSTEM_ONE',
    CASE n % 4 WHEN 0 THEN 'cascade' ELSE 'system1' END, false, (n % 997) / 997.0, 'ANSWERED',
    (n % 101) / 101.0, (n % 101) / 101.0, 'draft', 'paper', 'activation', 'draft', '',
    jsonb_build_object('run_id', 'served-' || n, 'duration_ms', n % 89, 'usage', jsonb_build_object('cost', n % 7),
        'escalation', jsonb_build_object('model', 'strong', 'reason', 'UNDECIDED', 'answered', n % 8 = 0))
FROM generate_series(1, :count) n;
INSERT INTO router.runs (run_id, created_at, request_id, key_name, system, strategy, degraded, outcome, shadow_of,
    document)
SELECT 'shadow-' || n, now() - interval '1 hour', '', '', '', 'system1', false, 'ANSWERED', 'served-' || n,
    jsonb_build_object('run_id', 'shadow-' || n, 'duration_ms', n % 97, 'usage', jsonb_build_object('cost', n % 5),
        'shadow', jsonb_build_object('policy', 'candidate', 'agrees', n % 20 = 0))
FROM generate_series(10, :count, 10) n;
INSERT INTO router.feedback (key_name, feedback_id, run_id, score, note, teaches, counts, created_at, request_digest,
    reply)
SELECT '', 'label-' || n, 'served-' || n, (n % 3 <> 0)::int, '', true, true, now() - interval '1 hour', '', '{}'
FROM generate_series(1, :count) n;
ANALYZE router.runs;
ANALYZE router.feedback;
"""


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with Database() as database:
        for service in WITH_SCHEMA:
            migrations.migrate(f"services.{service}", database.url)
        yield database


@pytest.fixture
def settings(database: Database, scripted: ScriptedLLM, tmp_path: Path) -> dict[str, object]:
    scripted.answer = cast()
    keys = [{"name": name, "sha256": sha256(name.encode()).hexdigest()} for name in ("greedy", "modest")]
    (tmp_path / "keys.yaml").write_text(yaml.safe_dump({"keys": keys}))
    return {
        "METACOG_INFERENCE_URL": f"{scripted.url}/v1",
        "METACOG_DATABASE_URL": database.url,
        "METACOG_HOME": tmp_path,
        "METACOG_KEYS_FILE": tmp_path / "keys.yaml",
    }


async def test_two_hundred_look_ups_of_unknown_runs_leave_other_keys_alone(settings: dict[str, object]) -> None:
    limits = httpx.Limits(max_connections=300)
    async with (
        process("router", **settings) as router,
        httpx.AsyncClient(base_url=router.rest, timeout=60, limits=limits) as client,
    ):

        async def look_up() -> httpx.Response:
            return await client.get(f"/v1/runs/{new_id()}", headers=GREEDY)

        async with asyncio.TaskGroup() as group:
            greedy = [group.create_task(look_up()) for _ in range(200)]
            modest = [group.create_task(client.get("/v1/runs", headers=MODEST)) for _ in range(10)]

    assert Counter(task.result().status_code for task in modest) == {200: 10}
    replies = [task.result() for task in greedy]
    assert {reply.status_code for reply in replies} <= {404, 429}
    rejected = [reply for reply in replies if reply.status_code == 429]
    assert rejected
    assert all(int(reply.headers["Retry-After"]) >= 1 for reply in rejected)
    assert {reply.json()["reason"] for reply in rejected} == {"OVERLOADED"}


def store_labels(database: Database, count: int) -> None:
    """Store so many labelled answers, in place of all others."""
    with psycopg.connect(database.url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("TRUNCATE router.runs, router.feedback CASCADE")
        connection.execute(LABELLED.replace(":count", str(count)).encode())


def since(number: int) -> dict[str, str]:
    """The beginning of a time that no other request has, so that no figure of it is computed already."""
    return {"since": (datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=number)).isoformat()}


async def test_many_different_figures_of_a_key_wait_or_are_rejected_and_other_keys_get_theirs(
    settings: dict[str, object], database: Database
) -> None:
    store_labels(database, 2000)
    limits = httpx.Limits(max_connections=100)
    async with (
        process("router", **settings) as router,
        httpx.AsyncClient(base_url=router.rest, timeout=60, limits=limits) as client,
        asyncio.TaskGroup() as group,
    ):

        def asked(path: str, number: int, key: dict[str, str]) -> asyncio.Task[httpx.Response]:
            return group.create_task(client.get(path, params=since(number), headers=key))

        greedy = [asked(path, number, GREEDY) for number in range(15) for path in FIGURES]
        modest = [asked(path, -1, MODEST) for path in FIGURES for _ in range(3)]

    assert Counter(task.result().status_code for task in modest) == {200: 12}
    replies = [task.result() for task in greedy]
    found = Counter((reply.status_code, reply.json().get("reason", "")) for reply in replies)
    assert set(found) == {(200, ""), (429, "OVERLOADED")}
    assert all(int(reply.headers["Retry-After"]) >= 1 for reply in replies if reply.status_code == 429)


async def test_whoever_asks_for_the_same_figures_shares_them(settings: dict[str, object], database: Database) -> None:
    store_labels(database, 2000)
    limits = httpx.Limits(max_connections=100)
    async with (
        process("router", **settings) as router,
        httpx.AsyncClient(base_url=router.rest, timeout=60, limits=limits) as client,
        asyncio.TaskGroup() as group,
    ):
        asked = [group.create_task(client.get(path, headers=GREEDY)) for _ in range(20) for path in FIGURES]

    assert Counter(task.result().status_code for task in asked) == {200: 80}


@pytest.mark.hard
@pytest.mark.timeout(300)
async def test_forty_pages_of_figures_over_a_hundred_thousand_labels_leave_other_keys_alone(
    settings: dict[str, object], database: Database, fault: Report
) -> None:
    store_labels(database, 100_000)
    limits = httpx.Limits(max_connections=100)
    answered, slowest_s = set[str](), 0.0
    async with (
        process("router", **settings) as router,
        httpx.AsyncClient(base_url=router.rest, timeout=120, limits=limits) as client,
    ):

        async def look_on(number: int) -> httpx.Response:
            return await client.get(FIGURES[number % len(FIGURES)], params=since(number), headers=GREEDY)

        async with asyncio.TaskGroup() as group:
            greedy = [group.create_task(look_on(number)) for number in range(40)]
            while not all(task.done() for task in greedy):
                began = time.monotonic()
                (await client.get("/v1/runs", headers=MODEST)).raise_for_status()
                body = {"question": "Is it so?", "strategy": "system1"}
                reply = (await client.post("/v1/answers", json=body, headers=MODEST)).raise_for_status()
                answered.add(reply.json()["run"]["run_id"])
                slowest_s = max(slowest_s, time.monotonic() - began)
        kept = {run_id for run_id in answered if (await client.get(f"/v1/runs/{run_id}", headers=MODEST)).is_success}

    assert kept == answered
    replies = Counter((task.result().status_code, task.result().json().get("reason", "")) for task in greedy)
    # Figures that the database does not deliver in time are an error of their own, for whoever asked for them.
    assert replies.keys() <= {(200, ""), (429, "OVERLOADED"), (503, "DATABASE_UNAVAILABLE")}
    assert replies[200, ""]
    assert replies[429, "OVERLOADED"]
    counts = ", ".join(f"{status} {count}" for (status, _), count in sorted(replies.items()))
    fault(
        "one key asks for 40 different pages of figures over 100,000 labels",
        f"that key: {counts}; another one: system1 {len(answered)}, each with a look-up; slowest {slowest_s:.1f} s",
        f"{len(kept):,} of {len(answered):,} runs",
        "none needed",
    )


async def test_three_hundred_tasks_at_once_are_done_or_rejected_with_a_time_to_retry(
    settings: dict[str, object],
) -> None:
    limits = httpx.Limits(max_connections=400)
    async with (
        process("delegation", **settings) as delegation,
        httpx.AsyncClient(base_url=delegation.rest, timeout=150, limits=limits) as client,
    ):

        async def ask() -> httpx.Response:
            return await client.post("/v1/tasks", json={"question": "What is 2 + 2?"}, headers=GREEDY)

        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(ask()) for _ in range(300)]
        profiles = await client.get("/v1/profiles", headers=MODEST)

    replies = [task.result() for task in asked]
    found = Counter((reply.status_code, reply.json().get("reason", "")) for reply in replies)
    assert set(found) == {(200, ""), (429, "OVERLOADED")}
    assert all("Retry-After" in reply.headers for reply in replies if reply.status_code == 429)
    assert profiles.status_code == 200
