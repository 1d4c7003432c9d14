"""A router as its operator configures it: routing file, policy table, kept decisions."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import CALM, ROOT, TROUBLED, cast, failed_start, process, stage_of

POLICY = ROOT / "config" / "policy.example.yaml"
CITY = "What is the capital of France?"


def settings(llm: ScriptedLLM, database_url: str, spool: Path, **more: object) -> dict[str, object]:
    return {
        "METACOG_INFERENCE_URL": f"{llm.url}/v1",
        "METACOG_DATABASE_URL": database_url,
        "METACOG_ROUTER_SPOOL_DIR": spool,
        "METACOG_ROUTER_ASSESSOR": "verbalized",
        **more,
    }


def chat(*texts: str) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)]
    return {"model": "metacog", "messages": messages}


async def test_files_decide_and_are_named_with_each_decision(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast(TROUBLED)
    routing = tmp_path / "routing.yaml"
    routing.write_text("version: spring\nthreshold: 0.7\n")
    files = {"METACOG_ROUTER_ROUTING_FILE": routing, "METACOG_ROUTER_POLICY_FILE": POLICY}

    async with (
        process("router", **settings(scripted, database_url, tmp_path, **files)) as router,
        httpx.AsyncClient(base_url=router.rest) as client,
    ):
        routed = (await client.post("/v1/route", json={"question": "Is it so?"})).json()
        routing.write_text("version: summer\nthreshold: 0.9\n")
        again = (await client.post("/v1/route", json={"question": "Is it so?"})).json()

    assert (routed["strategy"], routed["reason"], routed["policy_row"]) == ("arbiter", "policy", "disputed")
    assert routed["activation"]["threshold"] == again["activation"]["threshold"] == 0.7
    assert routed["config_version"].startswith("spring+policy.")
    assert again["config_version"] == routed["config_version"]


async def test_a_chat_pays_for_one_assessment_while_its_task_continues(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast(CALM)

    async with (
        process("router", **settings(scripted, database_url, tmp_path)) as router,
        httpx.AsyncClient(base_url=router.rest) as client,
    ):
        first = (await client.post("/v1/chat/completions", json=chat(CITY))).json()
        answer = first["choices"][0]["message"]["content"]
        second = (await client.post("/v1/chat/completions", json=chat(CITY, answer, "and its population?"))).json()
        third = (await client.post("/v1/chat/completions", json=chat(CITY, answer, "Who wrote Hamlet?"))).json()
        run = (await client.get(f"/v1/runs/{second['metacog']['run_id']}")).json()["run"]

    assert [reply["metacog"]["reason"] for reply in (first, second, third)] == ["activation", "cached", "activation"]
    assert [stage_of(body) for body in scripted.bodies] == ["assess", "system1", "system1", "assess", "system1"]
    assert second["metacog"]["msv"] == first["metacog"]["msv"]
    assert run["route"]["cached_from"] == first["metacog"]["run_id"]
    assert (run["confidence_source"], run["confidence"] is not None) == ("answers", True)
    assert set(run["usage"]["stages"]) == {"system1"}


async def test_where_decisions_are_not_cached_every_turn_is_assessed(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast(CALM)

    async with (
        process(
            "router", **settings(scripted, database_url, tmp_path, METACOG_ROUTER_CACHE_DECISIONS="false")
        ) as router,
        httpx.AsyncClient(base_url=router.rest) as client,
    ):
        for texts in ([CITY], [CITY, "Paris.", "why?"]):
            await client.post("/v1/chat/completions", json=chat(*texts))

    assert [stage_of(body) for body in scripted.bodies] == ["assess", "system1"] * 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"METACOG_ROUTER_THRESHOLD": "0.5"}, "METACOG_ROUTER_ROUTING_FILE and METACOG_ROUTER_THRESHOLD are both set"),
        ({"METACOG_ROUTER_ROUTING_FILE": "/nowhere.yaml"}, "/nowhere.yaml: cannot be read: No such file"),
        ({"METACOG_ROUTER_POLICY_FILE": "ROUTING"}, "routing.yaml, line 1: "),
        ({"METACOG_AFFECT": "words"}, "METACOG_AFFECT: give 'vader' or 'nrc'"),
    ],
)
def test_a_configuration_that_cannot_be_used_ends_the_start_with_one_line(
    tmp_path: Path, more: dict[str, str], message: str
) -> None:
    routing = tmp_path / "routing.yaml"
    routing.write_text("threshold: 0.5\n")
    given = {name: str(routing) if value == "ROUTING" else value for name, value in more.items()}

    done = failed_start("router", **{"METACOG_ROUTER_ROUTING_FILE": routing, **given})

    assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1)
    assert message in done.stderr
