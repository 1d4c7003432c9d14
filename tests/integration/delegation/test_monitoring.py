"""Monitoring reports agents, flows and reliability."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kernel.confidence.rules import ConfidenceSource
from services.delegation.service.monitoring import GetReliabilityRequest
from tests.integration.delegation.support import RIGHT, Scenario, scenario_at
from tests.support.delegating import delegation_settings
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import until


@pytest.fixture
async def scenario(scripted: ScriptedLLM, database_url: str) -> AsyncIterator[Scenario]:
    async with scenario_at(scripted, database_url) as running_scenario:
        yield running_scenario


async def test_flows_count_delegations_between_agents_and_their_right_answers(scenario: Scenario, api: str) -> None:
    scenario.script({"beta": "Final Answer: 40", "gamma": "Final Answer: 1"}, alpha=10, beta=90, gamma=10)
    for _ in range(3):
        await scenario.process(api, first_agent="alpha", expected=RIGHT)
    await scenario.process(api, first_agent="beta", expected=RIGHT)

    response = scenario.original(await scenario.service.api(api).ask("GetFlows", page_size=1000))

    own = [flow for flow in response["flows"] if flow["from_agent"] == "alpha"]
    assert len(own) == 1
    facts = {name: own[0][name] for name in ("to_agent", "tasks", "judged", "correct", "precision")}
    assert facts == {"to_agent": "beta", "tasks": 3, "judged": 3, "correct": 3, "precision": 1.0}
    assert own[0]["precision_low"] == pytest.approx(0.4385, abs=1e-4)
    assert response["tasks"] == response["executed"] + response["delegated"] + response["collaborated"]
    assert 0 < response["delegated_share"] < 1


async def test_flows_of_a_baseline_are_separate(scenario: Scenario, api: str) -> None:
    scenario.script()
    fields = {"question": "Write a Python function.", "dimension": "", "baseline": "SKILL_FIXED"}
    await scenario.process(api, **fields, expected={"answer": "4"})

    response = scenario.original(
        await scenario.service.api(api).ask("GetFlows", baseline="SKILL_FIXED", page_size=1000)
    )
    ours = scenario.original(await scenario.service.api(api).ask("GetFlows", page_size=1000))

    assert ("alpha", "gamma") in [(flow["from_agent"], flow["to_agent"]) for flow in response["flows"]]
    assert "alpha" not in [flow["from_agent"] for flow in ours["flows"]]


async def test_baselines_do_not_count_in_reliability(scenario: Scenario) -> None:
    scenario.script()
    votes = GetReliabilityRequest(confidence_source=ConfidenceSource.VOTE)
    before = len(await scenario.service.use_cases.monitoring.records.labelled(votes))

    response = await scenario.process("rest", baseline="MAJORITY_VOTE", expected={"answer": "4"})
    after = len(await scenario.service.use_cases.monitoring.records.labelled(votes))

    assert (response["label"]["correct"], response["confidence_source"]) == (True, "VOTE")
    assert after == before


async def test_a_constant_verbalized_confidence_does_not_count_in_reliability(scenario: Scenario, api: str) -> None:
    scenario.script({"alpha": "Final Answer: 40"})
    await scenario.process(api, first_agent="alpha", expected=RIGHT, ablations=["WITHOUT_SELF_ASSESSMENT"])

    response = await scenario.service.api(api).ask("GetReliability", agent=scenario.names["alpha"])

    assert {row["confidence_source"] for row in response["reliabilities"]} == {"PROFILE"}


async def test_reliability_is_by_agent_dimension_and_source(scenario: Scenario, api: str) -> None:
    scenario.script({"alpha": "Final Answer: 40"}, alpha=90)
    await scenario.process(api, first_agent="alpha", expected=RIGHT)
    service, name = scenario.service.api(api), scenario.names["alpha"]

    response = scenario.original(await service.ask("GetReliability", agent=name, bins=4))
    only = await service.ask("GetReliability", agent=name, confidence_source="VERBALIZED", dimension="math_computation")

    rows = {(row["dimension"], row["confidence_source"]): row for row in response["reliabilities"]}
    assert set(rows) == {
        (dimension, source)
        for dimension in ("", "math_computation")
        for source in ("VERBALIZED", "PROFILE", "COMBINED")
    }
    combined = rows["", "COMBINED"]
    assert (combined["observations"], len(combined["bins"])) == (1, 4)
    assert combined["calibration_error"] == pytest.approx(0.26)
    assert combined["brier_score"] == pytest.approx(0.26**2)
    assert rows["", "VERBALIZED"]["calibration_error"] == pytest.approx(0.1)
    assert len(only["reliabilities"]) == 1


async def test_totals_are_first(scenario: Scenario, api: str) -> None:
    scenario.script({"alpha": "Final Answer: 40"}, alpha=90)
    await scenario.process(api, first_agent="alpha", expected=RIGHT)

    page = await scenario.service.api(api).ask("GetReliability", page_size=1)

    [row] = page["reliabilities"]
    assert (row["agent"], row["dimension"]) == ("", "")
    assert page["next_page_token"]


async def test_agents_are_listed_with_the_trust_in_their_self_assessments(scenario: Scenario, api: str) -> None:
    for number in range(31):
        scenario.script({"alpha": "Final Answer: 1"}, alpha=95 - number % 2)
        await scenario.process("rpc", first_agent="alpha", expected=RIGHT, parameters={"confidence_threshold": 0.0})

    response = scenario.original(await scenario.service.api(api).ask("ListAgents"))

    assert [one["configuration"]["id"] for one in response["agents"]] == ["alpha", "beta", "gamma"]
    assert response["agents"][0]["configuration"]["tags"] == ["logical_reasoning", "math_computation"]
    trust = response["agents"][0]["trust"]
    assert (trust["trust"], trust["observations"]) == ("OVERCONFIDENT", 31)
    assert trust["bias"] == pytest.approx((16 * 0.95 + 15 * 0.94) / 31)
    assert (response["agents"][1]["trust"]["trust"], response["agents"][1]["trust"]["observations"]) == (None, 0)


async def test_agents_are_listed_in_pages(scenario: Scenario, api: str) -> None:
    service = scenario.service.api(api)

    first = await service.ask("ListAgents", page_size=2)
    second = await service.ask("ListAgents", page_size=2, page_token=first["next_page_token"])

    names = [one["configuration"]["id"] for page in (first, second) for one in page["agents"]]
    assert names == list(scenario.names.values())
    assert second["next_page_token"] == ""


async def test_an_overconfident_agent_is_recalibrated_once_there_is_data(
    scripted: ScriptedLLM, database_url: str
) -> None:
    settings = delegation_settings(recalibration_minimum=40)
    async with scenario_at(scripted, database_url, settings=settings, recalibrating=True) as scenario:
        for number in range(44):
            right = number % 4 == 0
            scenario.script({"alpha": "Final Answer: 40" if right else "Final Answer: 1"}, alpha=95 if right else 85)
            await scenario.process("rpc", first_agent="alpha", expected=RIGHT, parameters={"confidence_threshold": 0.0})
        name = scenario.names["alpha"]

        async def fitted() -> bool:
            return name in scenario.service.recalibrator.in_force()

        await until(fitted)
        scenario.script({}, alpha=85)
        response = await scenario.process("rpc", first_agent="alpha")
        raw = await scenario.process("rpc", first_agent="alpha", parameters={"recalibrate": False})
        agents: dict[str, Any] = scenario.original(await scenario.service.api("rest").ask("ListAgents"))

    assert response["assessments"][0]["verbalized_raw"] == 0.85
    assert response["assessments"][0]["verbalized"] < 0.4
    assert response["assessments"][0]["verbalized_state"] == "FITTED"
    assert 40 <= response["assessments"][0]["verbalized_labels"] <= 44
    assert raw["assessments"][0]["verbalized"] == 0.85
    assert (raw["assessments"][0]["verbalized_state"], raw["assessments"][0]["verbalized_labels"]) == (
        "UNCALIBRATED",
        0,
    )
    assert agents["agents"][0]["trust"]["recalibration_version"]


async def test_a_rating_that_says_nothing_loses_its_weight_and_the_profile_decides(
    scripted: ScriptedLLM, database_url: str, api: str
) -> None:
    async with scenario_at(scripted, database_url, recalibrating=True) as scenario:
        for number in range(32):
            # Surer where it is wrong: on the whole neither too high nor too low, but no sign of a right answer.
            right = number % 2
            scenario.script({"alpha": f"Final Answer: {41 - right}"}, alpha=60 - 20 * right)
            await scenario.process("rpc", first_agent="alpha", expected=RIGHT, parameters={"confidence_threshold": 0.0})
        name = scenario.names["alpha"]

        async def concluded() -> bool:
            return name in scenario.service.recalibrator.uninformative()

        await until(concluded)
        scenario.script(alpha=90)
        ours = await scenario.process(api, first_agent="alpha", expected=RIGHT)
        papers = await scenario.process(api, first_agent="alpha", parameters={"hand_over_rule": "PAPER"})
        agents = scenario.original(await scenario.service.api(api).ask("ListAgents"))
        rows = await scenario.service.use_cases.monitoring.records.labelled(GetReliabilityRequest(agent=name))

    first = ours["assessments"][0]
    assert (first["verbalized"], first["verbalized_raw"], first["unknown_reason"]) == (None, 0.9, "uninformative")
    assert first["confidence"] == pytest.approx(first["profile"])
    assert (first["disagreement"], first["threshold"]) == (None, 0.5)
    assert papers["assessments"][0]["verbalized"] == 0.9
    assert agents["agents"][0]["trust"]["trust"] == "UNINFORMATIVE"
    assert sum(row.source == "VERBALIZED" for row in rows) == 33  # it may come to deserve trust


async def test_the_confidence_of_a_vote_is_labelled_apart_from_those_of_agents(scenario: Scenario) -> None:
    answers = {"alpha": "Final Answer: 40", "beta": "Final Answer: 40", "gamma": "Final Answer: 1"}
    scenario.script(answers, alpha=10, beta=10, gamma=10)
    rules = {"hand_over_rule": "PAPER"}
    await scenario.process("rest", first_agent="alpha", expected=RIGHT, parameters=rules)

    rows = await scenario.service.use_cases.monitoring.records.labelled(GetReliabilityRequest())

    votes = [row for row in rows if row.source == "VOTE" and not row.agent]
    assert votes[0].confidence == pytest.approx(2 / 3)
    own = {
        scenario.original(row.agent): row.correct
        for row in rows
        if row.source == "COMBINED" and row.agent in scenario.names.values()
    }
    assert own == {"alpha": True, "beta": True, "gamma": False}
