"""Agents of known competence run through the real service over gRPC. `python -m bench delegation` is larger."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from chassis.ids import new_id
from kernel.confidence.rules import Exploration, Rules
from tests.support.delegating import Delegation, delegation_at, delegation_settings
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.models.simulated_agents import NAMES, Simulated, Simulation, run, specialists


@asynccontextmanager
async def simulated(
    llm: ScriptedLLM, database: str, agents: list[Simulated], **rules: object
) -> AsyncIterator[tuple[Delegation, Simulation]]:
    simulation = Simulation(agents, seed=11)
    llm.answer = simulation
    given = Rules(**{"exploration": Exploration.THOMPSON, **rules})  # type: ignore[arg-type]
    configured = [agent.configured() for agent in agents]
    settings = delegation_settings(given, recalibration_minimum=50)
    async with delegation_at(llm, database, agents=configured, settings=settings, recalibrating=True) as running:
        yield running, simulation


@pytest.fixture
def mark() -> str:
    return new_id()[-12:]


async def test_the_service_learns_competences_and_beats_fixed_routing(
    scripted: ScriptedLLM, database_url: str, mark: str
) -> None:
    agents = specialists(3, mark, seed=2)
    numbers = range(240)
    async with simulated(scripted, database_url, agents) as (running, simulation):
        ours = await run(running, simulation, numbers)
        robin = await run(running, simulation, numbers, baseline="ROUND_ROBIN")
        fixed = await run(running, simulation, numbers, baseline="SKILL_FIXED")
        shown = (await running.api("rpc").ask("ListProfiles", page_size=1000))["profiles"]

    truths = {(agent.name, name): agent.competence[name] for agent in agents for name in NAMES}
    learned = [
        (truths[p["agent"], p["dimension"]], p["competence"])
        for p in shown
        if (p["agent"], p["dimension"]) in truths and p["observations"] >= 10
    ]
    assert ours.accuracy > robin.accuracy + 0.05
    assert ours.accuracy > fixed.accuracy
    precision = ours.precision()
    assert precision is not None
    assert precision > robin.accuracy
    assert len(learned) >= 4
    true, competences = zip(*learned, strict=True)
    assert np.corrcoef(true, competences)[0, 1] > 0.5


async def test_a_hundred_agents_cost_no_more_calls_than_five(
    scripted: ScriptedLLM, database_url: str, mark: str
) -> None:
    async with simulated(scripted, database_url, specialists(100, mark, seed=3)) as (running, simulation):
        ours = await run(running, simulation, range(30))

    # One self-assessment, four more for the short-list, and then one answer, or one of each of the five.
    assert max(task["usage"]["generations"] for task in ours.tasks) <= 10
    assert all(len(task["assessments"]) <= 5 for task in ours.tasks)


async def test_a_loss_of_competence_is_detected_and_the_profile_learns_faster(
    scripted: ScriptedLLM, database_url: str, mark: str
) -> None:
    name = f"alone-{mark}"
    steady = dict.fromkeys(NAMES, 0.95)
    lost = Simulated(name, steady, after=dict.fromkeys(NAMES, 0.1), changes_at=200)
    numbers = [*range(0, 200, 5), *range(200, 300, 5)]  # all of them of one dimension
    async with simulated(scripted, database_url, [lost]) as (running, simulation):
        api = running.api("rpc")
        await run(running, simulation, numbers[:40], at_once=1)
        before = (await api.ask("ListProfiles", agent=name, dimension=NAMES[0]))["profiles"][0]
        await run(running, simulation, numbers[40:], at_once=1)
        events = (await api.ask("ListDriftEvents", agent=name))["events"]
        after = (await api.ask("ListProfiles", agent=name, dimension=NAMES[0]))["profiles"][0]

    assert len(events) == 1
    [event] = events
    assert event["competence_before"] > 0.8 > 0.4 > event["competence_after"]
    assert 40 < event["sequence"] <= 56
    assert event["memory_after"] < event["memory_before"]
    assert before["competence"] > 0.8
    assert after["competence"] < 0.35
    assert after["learning_rate"] >= 0.1
