"""`metacog/dialectic` through router and assigner: the paper's examples, and a real model from end to end."""

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from configuration.agents import AgentConfig
from tests.support.apis import RestApi
from tests.support.assigner import assigner_at
from tests.support.gateway import metacog_field, text_of
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROUTER, At, cast, router_at, stage_of

CHAIN = ["THESIS", "ANTITHESIS", "RESOLUTION", "SYNTHESIS"]
ROLES = ["EXPERT", "CRITIC", "EVALUATOR", "SYNTHESIZER", "GENERALIST"]
FIGURES = ("generations", "http_calls", "prompt_tokens", "completion_tokens")
# The paper's two demonstrations: question, state, system. What it does not say is ordinary, or unknown.
CAPITAL = "What is the capital of India?"
BRAINS = "Do we use 10% of our brains?"
CALM = {"correctness": 0.92, "conflict": 0.12, "importance": 0.5, "experience": 0.5}
CONTESTED = {"correctness": 0.45, "conflict": 0.72, "importance": 0.85}


async def test_the_papers_examples_go_where_the_paper_sends_them(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    async with (
        assigner_at(scripted) as assigner,
        router_at(scripted, database_url, tmp_path, others={"assigner": assigner.grpc}) as router,
    ):
        api = RestApi(router.rest, ROUTER)
        capital = (await api.ask("Answer", question=CAPITAL, msv=CALM))["run"]
        stages = [stage_of(body) for body in scripted.bodies]
        brains = (await api.ask("Answer", question=BRAINS, msv=CONTESTED))["run"]

    assert (capital["route"]["system"], capital["answer"], stages) == ("SYSTEM_ONE", "the system1", ["system1"])
    # .3 · .08 + .25 · .12 + .25 · .5 + .2 · .5
    assert capital["route"]["activation"]["value"] == pytest.approx(0.279)
    assert (brains["route"]["system"], brains["strategy"]) == ("SYSTEM_TWO", "dialectic")
    # (.3 · .55 + .25 · .72 + .25 · .85) / .8, for the experience is unknown
    assert brains["route"]["activation"]["value"] == pytest.approx(0.5575 / 0.8)
    assert [stage["stage"] for stage in brains["deliberation"]["stages"]] == CHAIN
    assert (brains["answer"], brains["deliberation"]["note"]) == ("the synthesis", "the note")
    assert {made["msv"]["importance"] for made in brains["deliberation"]["assessments"]} == {0.85}


@pytest.mark.timeout(600)  # most of a minute on two idle cores, and far more on busy ones
async def test_a_real_model_deliberates_under_the_eyes_of_the_watcher(
    llm_url: str, database_url: str, tmp_path: Path
) -> None:
    llm, envelope = At(llm_url, "smollm2"), {"max_generations": 14, "max_generated_tokens": 700, "timeout_ms": 550_000}
    seated = [AgentConfig(id="ada", system_prompt="You are Ada."), AgentConfig(id="ben", system_prompt="You are Ben.")]
    options = {"stage_events": True, "stage_max_tokens": 16, "envelope": envelope, "msv": CONTESTED}
    async with (
        assigner_at(llm, seated) as assigner,
        router_at(llm, database_url, tmp_path, others={"assigner": assigner.grpc}) as router,
        AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none", max_retries=0) as client,
    ):
        stream = await client.chat.completions.create(
            model="metacog/dialectic",
            messages=[{"role": "user", "content": BRAINS}],
            max_tokens=16,
            seed=1,
            stream=True,
            extra_body={"metacog": options},
        )
        chunks = [chunk async for chunk in stream]
        run_id = metacog_field(chunks[-1])["run_id"]
        run = (await RestApi(router.rest, ROUTER).ask("GetRun", run_id=run_id))["run"]

    events = [
        (metacog_field(chunk)["event"], metacog_field(chunk)["data"])
        for chunk in chunks
        if "event" in metacog_field(chunk)
    ]
    check_order(events)
    check_account(run["deliberation"], run, events)
    assert text_of(chunks).strip() == run["answer"] == run["deliberation"]["answer"]
    assert run["usage"]["generations"] <= 14
    assert run["usage"]["completion_tokens"] <= 700
    assert run["envelope"] == {**envelope, "max_cost": None}


def check_order(events: list[tuple[str, Any]]) -> None:
    """The stages follow one another as they must, whatever the texts; measurements come when they are ready."""
    course = [name for name, _ in groupby(name for name, _ in events if name != "stage_measured")]
    of_a_stage = ["stage_started", "stage_token", "stage_finished"]
    assert course == ["routed", "agent_assessed", "roles_assigned", *of_a_stage * 5]
    assert [data["stage"] for name, data in events if name == "stage_started"] == [*CHAIN, "NOTE"]
    assert sorted(data["stage"] for name, data in events if name == "stage_measured") == sorted(CHAIN)
    for place, stage in enumerate(CHAIN):
        finished = next(
            n for n, event in enumerate(events) if event[0] == "stage_finished" and event[1]["stage"] == stage
        )
        measured = next(
            n for n, event in enumerate(events) if event[0] == "stage_measured" and event[1]["stage"] == stage
        )
        assert finished < measured, place


def check_account(account: Any, run: Any, events: list[tuple[str, Any]]) -> None:  # noqa: ANN401
    """The record says who did what, with which prompt, at what cost, and the sums are right."""
    assert sorted(account["roles"]["assignment"]) == sorted(ROLES)
    assert set(account["roles"]["assignment"].values()) <= {"ada", "ben"}
    assert account["roles"]["capacities"] == {"ada": 3, "ben": 3}
    assert account["roles"]["propensity"] == 1.0
    texts = [*account["stages"], account["note_stage"]]
    for stage, role in zip(texts, ROLES, strict=True):
        assert (stage["role"], stage["model"], stage["succeeded"]) == (role, "smollm2", True)
        assert stage["agent"] == account["roles"]["assignment"][role]
        assert len(stage["prompt_digest"]) == 64
        assert 0 < stage["usage"]["completion_tokens"] <= 16
    assert account["note"] == account["note_stage"]["text"] != ""
    assert account["note_reason"].endswith("experience is unknown, which counts as low")
    assert [made["stage"] for made in account["measurements"]] == CHAIN
    assert {made["model"] for made in account["measurements"]} == {"smollm2"}
    rated = [*account["assessments"], *account["measurements"]]
    spent = [stage["usage"] for stage in texts] + [made["usage"] for made in rated if made["usage"]]
    by_stage = run["usage"]["stages"]
    for figure in FIGURES:
        assert run["usage"][figure] == sum(usage[figure] for usage in by_stage.values())
        if all(made["usage"] for made in rated):  # of a rating that failed only the totals know what it cost
            assert run["usage"][figure] == sum(usage[figure] for usage in spent)
    assert [data for name, data in events if name == "stage_finished"] == texts
