"""What is served of how delegation does: agents, flows, reliability."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kernel.confidence.rules import ConfidenceSource
from services.delegation.service.monitoring import GetReliabilityRequest
from tests.integration.delegation.support import RIGHT, Stage, staged
from tests.support.delegating import options
from tests.support.scripted_llm import ScriptedLLM
from tests.support.stack import until


@pytest.fixture
async def stage(scripted: ScriptedLLM, database_url: str) -> AsyncIterator[Stage]:
    async with staged(scripted, database_url) as made:
        yield made


async def test_flows_tell_who_hands_to_whom_and_how_well(stage: Stage, face: str) -> None:
    stage.says({"beta": "Final Answer: 40", "gamma": "Final Answer: 1"}, alpha=10, beta=90, gamma=10)
    for _ in range(3):
        await stage.process(face, first_agent="alpha", expected=RIGHT)
    await stage.process(face, first_agent="beta", expected=RIGHT)

    told = stage.plain(await stage.running.face(face).ask("GetFlows", page_size=1000))

    own = [flow for flow in told["flows"] if flow["from_agent"] == "alpha"]
    assert len(own) == 1
    facts = {name: own[0][name] for name in ("to_agent", "tasks", "judged", "correct", "precision")}
    assert facts == {"to_agent": "beta", "tasks": 3, "judged": 3, "correct": 3, "precision": 1.0}
    assert own[0]["precision_low"] == pytest.approx(0.4385, abs=1e-4)
    assert told["tasks"] == told["executed"] + told["delegated"] + told["collaborated"]
    assert 0 < told["delegated_share"] < 1


async def test_flows_of_a_baseline_are_told_apart(stage: Stage, face: str) -> None:
    stage.says()
    asked = {"question": "Write a Python function.", "dimension": "", "baseline": "SKILL_FIXED"}
    await stage.process(face, **asked, expected={"answer": "4"})

    told = stage.plain(await stage.running.face(face).ask("GetFlows", baseline="SKILL_FIXED", page_size=1000))
    ours = stage.plain(await stage.running.face(face).ask("GetFlows", page_size=1000))

    assert ("alpha", "gamma") in [(flow["from_agent"], flow["to_agent"]) for flow in told["flows"]]
    assert "alpha" not in [flow["from_agent"] for flow in ours["flows"]]


async def test_baselines_are_no_part_of_reliability(stage: Stage) -> None:
    stage.says()
    votes = GetReliabilityRequest(confidence_source=ConfidenceSource.VOTE)
    before = len(await stage.running.use.watching.records.judged(votes))

    told = await stage.process("rest", baseline="MAJORITY_VOTE", expected={"answer": "4"})
    after = len(await stage.running.use.watching.records.judged(votes))

    assert (told["label"]["correct"], told["confidence_source"]) == (True, "VOTE")
    assert after == before


async def test_a_constant_is_no_confidence_that_anybody_had(stage: Stage, face: str) -> None:
    stage.says({"alpha": "Final Answer: 40"})
    await stage.process(face, first_agent="alpha", expected=RIGHT, ablations=["WITHOUT_SELF_ASSESSMENT"])

    told = await stage.running.face(face).ask("GetReliability", agent=stage.names["alpha"])

    assert {row["confidence_source"] for row in told["reliabilities"]} == {"PROFILE"}


async def test_reliability_is_kept_by_agent_dimension_and_source(stage: Stage, face: str) -> None:
    stage.says({"alpha": "Final Answer: 40"}, alpha=90)
    await stage.process(face, first_agent="alpha", expected=RIGHT)
    service, name = stage.running.face(face), stage.names["alpha"]

    told = stage.plain(await service.ask("GetReliability", agent=name, bins=4))
    only = await service.ask("GetReliability", agent=name, confidence_source="VERBALIZED", dimension="math_computation")

    rows = {(row["dimension"], row["confidence_source"]): row for row in told["reliabilities"]}
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


async def test_totals_stand_first(stage: Stage, face: str) -> None:
    stage.says({"alpha": "Final Answer: 40"}, alpha=90)
    await stage.process(face, first_agent="alpha", expected=RIGHT)

    page = await stage.running.face(face).ask("GetReliability", page_size=1)

    [row] = page["reliabilities"]
    assert (row["agent"], row["dimension"]) == ("", "")
    assert page["next_page_token"]


async def test_agents_are_listed_with_the_trust_they_deserve(stage: Stage, face: str) -> None:
    stage.says({"alpha": "Final Answer: 1"}, alpha=95)
    for _ in range(31):
        await stage.process("rpc", first_agent="alpha", expected=RIGHT, parameters={"confidence_threshold": 0.0})

    told = stage.plain(await stage.running.face(face).ask("ListAgents"))

    assert [one["configuration"]["id"] for one in told["agents"]] == ["alpha", "beta", "gamma"]
    assert told["agents"][0]["configuration"]["tags"] == ["logical_reasoning", "math_computation"]
    trust = told["agents"][0]["trust"]
    assert (trust["trust"], trust["observations"]) == ("OVERCONFIDENT", 31)
    assert trust["bias"] == pytest.approx(0.95)
    assert (told["agents"][1]["trust"]["trust"], told["agents"][1]["trust"]["observations"]) == (None, 0)


async def test_pages_of_agents_come_one_after_another(stage: Stage, face: str) -> None:
    service = stage.running.face(face)

    first = await service.ask("ListAgents", page_size=2)
    second = await service.ask("ListAgents", page_size=2, page_token=first["next_page_token"])

    names = [one["configuration"]["id"] for page in (first, second) for one in page["agents"]]
    assert names == list(stage.names.values())
    assert second["next_page_token"] == ""


async def test_an_overconfident_agent_is_recalibrated_once_there_is_data(
    scripted: ScriptedLLM, database_url: str
) -> None:
    behaviour = options(recalibration_minimum=40)
    async with staged(scripted, database_url, behaviour=behaviour, recalibrating=True) as stage:
        for number in range(44):
            right = number % 4 == 0
            stage.says({"alpha": "Final Answer: 40" if right else "Final Answer: 1"}, alpha=95 if right else 85)
            await stage.process("rpc", first_agent="alpha", expected=RIGHT, parameters={"confidence_threshold": 0.0})
        name = stage.names["alpha"]

        async def fitted() -> bool:
            return name in stage.running.recalibrator.points()

        await until(fitted)
        stage.says({}, alpha=85)
        told = await stage.process("rpc", first_agent="alpha")
        raw = await stage.process("rpc", first_agent="alpha", parameters={"recalibrate": False})
        agents: dict[str, Any] = stage.plain(await stage.running.face("rest").ask("ListAgents"))

    assert told["assessments"][0]["verbalized_raw"] == 0.85
    assert told["assessments"][0]["verbalized"] < 0.4
    assert raw["assessments"][0]["verbalized"] == 0.85
    assert agents["agents"][0]["trust"]["recalibration_version"]


async def test_a_vote_is_held_against_its_verdict_by_itself(stage: Stage) -> None:
    answers = {"alpha": "Final Answer: 40", "beta": "Final Answer: 40", "gamma": "Final Answer: 1"}
    stage.says(answers, alpha=10, beta=10, gamma=10)
    await stage.process("rest", first_agent="alpha", expected=RIGHT)

    rows = await stage.running.use.watching.records.judged(GetReliabilityRequest())

    votes = [row for row in rows if row.source == "VOTE" and not row.agent]
    assert votes[0].confidence == pytest.approx(2 / 3)
    own = {
        stage.plain(row.agent): row.correct
        for row in rows
        if row.source == "COMBINED" and row.agent in stage.names.values()
    }
    assert own == {"alpha": True, "beta": True, "gamma": False}
