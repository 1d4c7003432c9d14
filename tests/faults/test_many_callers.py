"""A caller with many requests at once gets a time to retry, and takes nothing from the others."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
import yaml

from chassis import database as db
from chassis.ids import new_id
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import Database, cast, process

GREEDY, MODEST = {"Authorization": "Bearer greedy"}, {"Authorization": "Bearer modest"}


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with Database() as database:
        for service in ("router", "delegation"):
            db.migrate(f"services.{service}", database.url)
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
