"""The roles of a deliberation are assigned by what each agent answered right, as delegation recorded it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from configuration.agents import AgentConfig
from services.assigner.compose import CONTRACT as ASSIGNER
from tests.integration.delegation.support import RIGHT
from tests.support.apis import RestApi, RpcApi
from tests.support.assigner import assigner_at
from tests.support.delegating import Delegation, ScriptedAgents, delegation_at, renamed_agents
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER, ROUTER, cast, router_at

QUESTION = "Which planet of the solar system has the most moons?"


@asynccontextmanager
async def taught(
    llm: ScriptedLLM, database: str, encoder_url: str
) -> AsyncIterator[tuple[Delegation, list[AgentConfig]]]:
    """A delegation service whose first agent answered the question right, and its agents."""
    agents, _ = renamed_agents()
    first = agents[0].id
    llm.answer = ScriptedAgents({first: 95}, {first: "Final Answer: 40"})
    async with delegation_at(llm, database, agents=agents, encoder_url=encoder_url) as service:
        task = {"question": QUESTION, "dimension": "knowledge_retrieval", "first_agent": first, "expected": RIGHT}
        await service.api("rpc").ask("Process", **task)
        await service.recorder.record()
        llm.answer = cast()
        yield service, agents


def experiences(deliberation: Mapping[str, Any]) -> list[float | None]:
    return [each["msv"]["experience"] for each in deliberation["assessments"]]


def reasons(deliberation: Mapping[str, Any]) -> list[str]:
    return [each["msv"]["unknown_reasons"].get("experience", "") for each in deliberation["assessments"]]


async def test_called_alone_the_assigner_asks_delegation(
    scripted: ScriptedLLM, database_url: str, encoder_url: str
) -> None:
    async with (
        taught(scripted, database_url, encoder_url) as (delegation, agents),
        assigner_at(scripted, agents, delegation=delegation.grpc) as assigner,
    ):
        done = await RpcApi(assigner.grpc, ASSIGNER).ask("Deliberate", question=QUESTION)

    assert experiences(done) == [pytest.approx(1.0), None, None]
    assert reasons(done)[1:] == ["no right answer of this agent is recorded yet"] * 2


@pytest.mark.parametrize("protocol", ["rest", "rpc"])
async def test_a_text_near_what_an_agent_answered_right_has_experience_and_every_text_has_affect(
    scripted: ScriptedLLM, database_url: str, encoder_url: str, protocol: str
) -> None:
    async with (
        taught(scripted, database_url, encoder_url) as (delegation, agents),
        assigner_at(scripted, agents, delegation=delegation.grpc) as assigner,
    ):
        scripted.answer = cast(
            thesis="Bread is wonderful!", synthesis="Saturn is the planet of the solar system with the most moons."
        )
        api = RestApi(assigner.rest, ASSIGNER) if protocol == "rest" else RpcApi(assigner.grpc, ASSIGNER)
        done = await api.ask("Deliberate", question=QUESTION)

    states = {each["stage"]: each["msv"] for each in done["measurements"]}
    assert states["SYNTHESIS"]["experience"] > 0.5
    assert states["THESIS"]["experience"] is None
    assert "no question that this agent answered right is near" in states["THESIS"]["unknown_reasons"]["experience"]
    assert states["THESIS"]["emotional_response"] > 0.5
    assert states["SYNTHESIS"]["emotional_response"] == 0.0


async def test_the_router_passes_each_agents_experience(
    scripted: ScriptedLLM, database_url: str, encoder_url: str, tmp_path: Path
) -> None:
    async with taught(scripted, database_url, encoder_url) as (delegation, agents):
        stranger = AgentConfig(id="zoe")
        async with (
            assigner_at(scripted, [*agents, stranger]) as assigner,
            router_at(
                scripted,
                database_url,
                tmp_path,
                others={"delegation": delegation.grpc, "assigner": assigner.grpc},
            ) as router,
        ):
            api = RpcApi(router.grpc, ROUTER)
            events = await api.events("Answer", question=QUESTION, strategy="dialectic", max_tokens=20)
            run = (await api.ask("GetRun", run_id=events[-1][1]["run"]["run_id"]))["run"]

    deliberation = run["deliberation"]
    assert experiences(deliberation) == [pytest.approx(1.0), None, None, None]
    assert reasons(deliberation)[3] == "delegation has no agent of this name"


async def test_without_delegation_the_answer_comes_and_experience_is_unknown_with_the_reason(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    async with (
        assigner_at(scripted) as assigner,
        router_at(scripted, database_url, tmp_path, others={"assigner": assigner.grpc}) as router,
        assigner_at(scripted, delegation=NO_SERVER) as alone,
    ):
        api = RpcApi(router.grpc, ROUTER)
        events = await api.events("Answer", question=QUESTION, strategy="dialectic", max_tokens=20)
        run = (await api.ask("GetRun", run_id=events[-1][1]["run"]["run_id"]))["run"]
        done = await RpcApi(alone.grpc, ASSIGNER).ask("Deliberate", question=QUESTION)

    for deliberation in (run["deliberation"], done):
        assert set(experiences(deliberation)) == {None}
        assert all(reason.startswith("PEER_UNAVAILABLE: delegation at ") for reason in reasons(deliberation))
    assert (run["degraded"], done["degraded"]) == (False, False)
