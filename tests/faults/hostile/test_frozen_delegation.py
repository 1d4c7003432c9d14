"""A delegation replica that is frozen for longer than the lease of its request, while another one takes over."""

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import httpx
import psycopg
import pytest

from chassis.schema import migrations
from tests.faults.conftest import Report
from tests.support.delegating import ScriptedAgents, stage_of
from tests.support.models.llm_replies import Body
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROOT, Database, process, until

TASK = {
    "question": "What is 2 + 2?",
    "dimension": "math_computation",
    "expected": {"answer": "4", "answer_type": "NUMBER"},
    "first_agent": "alpha",
    "request_id": "asked-of-two-replicas",
    "envelope": {"timeout_ms": 3000},
}
LEASE_IS_OVER = "SELECT count(*) FROM delegation.requests WHERE task_id = '' AND expires_at < clock_timestamp()"
TASKS = "SELECT count(*) FROM delegation.tasks"
LESSONS = "SELECT coalesce(sum(observations), 0) FROM delegation.profiles WHERE agent = 'alpha'"


def number(database: Database, query: str) -> int:
    """Return the one number that a query finds."""
    with psycopg.connect(database.url.replace("+psycopg", "")) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row
    return int(row[0])


@pytest.mark.hard
async def test_a_replica_that_is_frozen_past_its_lease_keeps_and_learns_nothing_twice(
    scripted: ScriptedLLM, tmp_path: Path, fault: Report
) -> None:
    with Database() as database:
        migrations.migrate("services.delegation", database.url)
        settings = {
            "METACOG_INFERENCE_URL": f"{scripted.url}/v1",
            "METACOG_DATABASE_URL": database.url,
            "METACOG_HOME": tmp_path,
            "METACOG_DELEGATION_AGENTS_FILE": ROOT / "config" / "agents.delegation.yaml",
        }
        async with (
            process("delegation", **settings) as frozen,
            process("delegation", **settings) as awake,
            httpx.AsyncClient(timeout=120) as client,
        ):
            is_frozen, loop = asyncio.Event(), asyncio.get_running_loop()
            answers = ScriptedAgents({}, {})

            def answer(body: Body) -> Sequence[str]:
                if stage_of(body) == "solve" and not is_frozen.is_set():
                    os.kill(frozen.inner.pid, signal.SIGSTOP)  # the answer comes while it sleeps
                    loop.call_soon_threadsafe(is_frozen.set)
                return answers(body)

            scripted.answer = answer
            first = asyncio.create_task(client.post(f"{frozen.rest}/v1/tasks", json=TASK))
            try:
                await is_frozen.wait()

                async def is_over() -> bool:
                    return await asyncio.to_thread(number, database, LEASE_IS_OVER) == 1

                await until(is_over)
                second = await client.post(f"{awake.rest}/v1/tasks", json=TASK)
            finally:
                os.kill(frozen.inner.pid, signal.SIGCONT)
            late = await first
            again = await client.post(f"{frozen.rest}/v1/tasks", json=TASK)
        kept, learned = number(database, TASKS), number(database, LESSONS)

    assert (second.status_code, second.json()["answer"], second.json()["degraded"]) == (200, "4", False)
    assert again.json()["task_id"] == second.json()["task_id"]
    assert (kept, learned) == (1, 1)
    outcome = late.json().get("reason") or ", ".join(late.json()["degraded_reasons"])
    assert late.status_code != 200 or "REQUEST_TAKEN_OVER" in outcome
    fault(
        "delegation frozen past the lease of a request",
        f"another replica answers; late: {outcome}",
        "1 of 1 tasks, learned from once",
        "none needed",
    )
