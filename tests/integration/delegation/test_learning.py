"""Profiles learn from labels: each once, in a recorded order, without a lost update."""

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

import pytest

from chassis.ids import new_id
from chassis.serving.auth import TEACH, ApiKey, Keyring
from kernel.learning.profiles import updated_competence
from tests.integration.delegation.support import RIGHT, Scenario, import_profiles, scenario_at
from tests.support.apis import ApiError
from tests.support.delegating import ScriptedAgents, delegation_at, renamed_agents
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.profile_storm import storm

ANN, STUDENT = "key-of-ann", "key-of-student"


def digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()


KEYRING = Keyring(
    [
        ApiKey(name="ann", sha256=digest(ANN), allowed=frozenset({TEACH})),
        ApiKey(name="student", sha256=digest(STUDENT)),
    ]
)


@pytest.fixture
async def scenario(scripted: ScriptedLLM, database_url: str) -> AsyncIterator[Scenario]:
    async with scenario_at(scripted, database_url) as running_scenario:
        running_scenario.script(alpha=90, beta=90, gamma=90)
        yield running_scenario


async def submit_feedback(scenario: Scenario, api: str, task_id: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    fields = {"feedback_id": new_id(), "correct": True, **more}
    response = await scenario.service.api(api).ask("SubmitFeedback", task_id=task_id, **fields)
    feedback: dict[str, Any] = scenario.original(response)
    return feedback


async def test_the_executor_learns_from_late_feedback(scenario: Scenario, api: str) -> None:
    task = await scenario.process(api, first_agent="alpha")

    name = new_id()
    response = await submit_feedback(scenario, api, task["task_id"], correct=False, feedback_id=name)

    [update] = response["profile_updates"]
    assert (update["agent"], update["outcome"], update["competence_after"]) == ("alpha", 0, 0.45)
    assert (update["feedback_id"], update["task_id"]) == (name, task["task_id"])
    assert (response["label"]["correct"], response["label"]["checker"]) == (False, "FEEDBACK")
    assert response["not_learned_reason"] is None


async def test_repeated_feedback_gets_the_same_response_and_counts_once(scenario: Scenario, api: str) -> None:
    task = await scenario.process(api, first_agent="alpha")
    name = new_id()

    async with asyncio.TaskGroup() as group:
        responses = [
            group.create_task(submit_feedback(scenario, api, task["task_id"], feedback_id=name)) for _ in range(20)
        ]

    assert len({str(each.result()) for each in responses}) == 1
    assert await history(scenario, "alpha") == [(1, "OUTCOME", 1)]


async def test_conflicting_feedback_is_rejected_and_changes_no_profile(scenario: Scenario, api: str) -> None:
    task = await scenario.process(api, first_agent="alpha")
    await submit_feedback(scenario, api, task["task_id"])

    with pytest.raises(ApiError) as raised:
        await submit_feedback(scenario, api, task["task_id"], correct=False)
    agreeing = await submit_feedback(scenario, api, task["task_id"])

    assert raised.value.reason == "FEEDBACK_CONFLICT"
    assert (agreeing["not_learned_reason"], agreeing["profile_updates"]) == ("already_judged", [])
    assert await history(scenario, "alpha") == [(1, "OUTCOME", 1)]


async def test_feedback_that_conflicts_with_the_label_of_the_service_is_rejected(scenario: Scenario, api: str) -> None:
    scenario.script({"alpha": "Final Answer: 40"}, alpha=90)
    task = await scenario.process(api, first_agent="alpha", expected=RIGHT)

    with pytest.raises(ApiError) as raised:
        await submit_feedback(scenario, api, task["task_id"], correct=False)

    assert raised.value.reason == "FEEDBACK_CONFLICT"


async def test_no_profile_learns_from_a_vote_without_an_answer(scenario: Scenario, api: str) -> None:
    scenario.script({name: "I would rather not answer." for name in scenario.names}, alpha=10, beta=10, gamma=10)
    task = await scenario.process(api, answer_type="NUMBER", first_agent="alpha")

    response = await submit_feedback(scenario, api, task["task_id"], correct=False)

    assert (task["mode"], task["outcome"]) == ("COLLABORATED", "ABSTAINED")
    assert (response["profile_updates"], response["not_learned_reason"]) == ([], "no_answer")


async def test_a_feedback_id_belongs_to_one_task(scenario: Scenario, api: str) -> None:
    first, second = await scenario.process(api), await scenario.process(api)
    name = new_id()
    await submit_feedback(scenario, api, first["task_id"], feedback_id=name)

    with pytest.raises(ApiError) as reused:
        await submit_feedback(scenario, api, second["task_id"], feedback_id=name)
    with pytest.raises(ApiError) as unknown:
        await submit_feedback(scenario, api, "missing")

    assert (reused.value.reason, unknown.value.reason) == ("REQUEST_ID_REUSED", "TASK_NOT_FOUND")


async def test_a_key_sees_its_own_tasks_and_needs_permission_to_change_profiles(
    scripted: ScriptedLLM, database_url: str, api: str
) -> None:
    agents, _ = renamed_agents()
    scripted.answer = ScriptedAgents({agent.id: 90 for agent in agents}, {})
    async with delegation_at(scripted, database_url, agents=agents, keyring=KEYRING) as running:
        ann, student = running.api(api, ANN), running.api(api, STUDENT)
        task = await ann.ask("Process", question="?", dimension="math_computation", expected={"answer": "4"})
        unlearned = await student.ask("Process", question="?", dimension="math_computation", expected={"answer": "4"})
        with pytest.raises(ApiError) as hidden:
            await student.ask("SubmitFeedback", feedback_id=new_id(), task_id=task["task_id"], correct=True)
        accepted = await student.ask("SubmitFeedback", feedback_id=new_id(), task_id=unlearned["task_id"], correct=True)
        reasons = []
        operations: list[tuple[str, dict[str, Any]]] = [
            ("ResetProfiles", {}),
            ("FreezeProfiles", {"frozen": True}),
            ("ImportProfiles", {"profiles": [{"profile": {"agent": "a", "dimension": "d", "competence": 0.5}}]}),
        ]
        for operation, body in operations:
            with pytest.raises(ApiError) as raised:
                await student.ask(operation, **body)
            reasons.append(raised.value.reason)

        rated = (await ann.ask("GetReliability", confidence_source="COMBINED", page_size=1000))["reliabilities"]

    own = {agent.id for agent in agents}
    assert sum(row["observations"] for row in rated if row["agent"] in own and not row["dimension"]) == 1
    assert len(task["profile_updates"]) == 1
    assert (unlearned["label"]["correct"], unlearned["profile_updates"]) == (True, [])
    assert hidden.value.reason == "TASK_NOT_FOUND"
    assert accepted["not_learned_reason"] == "may_not_teach"
    assert reasons == ["TEACHING_NOT_ALLOWED"] * 3


async def test_frozen_profiles_do_not_learn_from_labels(scenario: Scenario, api: str) -> None:
    service = scenario.service.api(api)
    frozen = await service.ask("FreezeProfiles", agent=scenario.names["alpha"], frozen=True)
    scenario.script({"alpha": "Final Answer: 40"}, alpha=90)

    task = await scenario.process(api, first_agent="alpha", expected=RIGHT)
    shown = await service.ask("ListProfiles", agent=scenario.names["alpha"])
    unfrozen = await service.ask("FreezeProfiles", agent=scenario.names["alpha"], frozen=False)
    again = await scenario.process(api, first_agent="alpha", expected=RIGHT)

    assert frozen["frozen"] is True
    assert (task["label"]["correct"], task["profile_updates"]) == (True, [])
    assert len(shown["profiles"]) >= 5  # adopted categories are dimensions too
    assert all(one["frozen"] for one in shown["profiles"])
    assert unfrozen["changed"] == 1
    assert again["profile_updates"][0]["competence_after"] == 0.55


async def test_a_reset_keeps_the_history(scenario: Scenario, api: str) -> None:
    scenario.script({"alpha": "Final Answer: 40"}, alpha=90)
    await scenario.process(api, first_agent="alpha", expected=RIGHT)
    service = scenario.service.api(api)

    first = await service.ask("ResetProfiles", agent=scenario.names["alpha"])
    second = await service.ask("ResetProfiles", agent=scenario.names["alpha"])

    assert (first["reset"], second["reset"]) == (1, 0)
    assert await history(scenario, "alpha") == [(1, "OUTCOME", 1), (2, "RESET", None)]
    [profile] = [one for one in await profiles(scenario, "alpha") if one["dimension"] == "math_computation"]
    assert (profile["competence"], profile["observations"], profile["memory"]) == (0.5, 0, 0.0)


async def test_exported_profiles_can_be_imported(scenario: Scenario, scripted: ScriptedLLM, database_url: str) -> None:
    scenario.script({"alpha": "Final Answer: 40", "beta": "Final Answer: 1"}, alpha=90, beta=90)
    for first in ("alpha", "beta", "alpha"):
        await scenario.process("rest", first_agent=first, expected=RIGHT)
    exported: list[dict[str, Any]] = []
    for name in ("alpha", "beta"):
        page = await scenario.service.api("rest").ask(
            "ExportProfiles", agent=scenario.names[name], include_history="true"
        )
        exported += page["profiles"]
    async with scenario_at(scripted, database_url) as other:
        renamed = [rename(one, scenario, other) for one in exported]
        response = await other.service.api("rest").ask("ImportProfiles", profiles=renamed)
        again = await other.service.api("rest").ask("ImportProfiles", profiles=renamed)
        kept = await other.service.api("rest").ask("ImportProfiles", profiles=renamed, rule="KEEP")
        imported = [one for one in await profiles(other, "alpha") if one["dimension"] == "math_computation"]
        steps = await history(other, "alpha")

    assert (response["imported"], again["imported"], kept["kept"]) == (2, 2, 2)
    assert imported[0]["competence"] == updated_competence(updated_competence(0.5, 1), 1)
    assert steps == [(1, "OUTCOME", 1), (2, "OUTCOME", 1), (3, "IMPORT", None)]


async def test_concurrent_imports_store_a_history_once_for_a_frozen_profile_too(scenario: Scenario) -> None:
    service = scenario.service.api("rest")
    await service.ask("FreezeProfiles", agent=scenario.names["alpha"], frozen=True)
    scenario.script({"alpha": "Final Answer: 40"}, alpha=90)
    await scenario.process("rest", first_agent="alpha", expected=RIGHT)
    step = {"sequence": 1, "change": "OUTCOME", "outcome": 1, "learning_rate": 0.1, "competence_after": 0.55}
    given = {"agent": scenario.names["alpha"], "dimension": "math_computation", "competence": 0.55, "observations": 1}

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(service.ask("ImportProfiles", profiles=[{"profile": given, "history": [step]}]))

    assert await history(scenario, "alpha") == [(1, "OUTCOME", 1), (2, "IMPORT", None)]


def rename(exported: dict[str, Any], scenario: Scenario, other: Scenario) -> dict[str, Any]:
    """Return an exported profile under the agent's name in another scenario."""
    renamed: dict[str, Any] = scenario.original(exported)
    renamed["profile"]["agent"] = other.names[renamed["profile"]["agent"]]
    return renamed


@pytest.mark.parametrize(
    "wrong",
    [
        {"competence": 1.5},
        {"competence": -0.1},
        {"observations": -1},
    ],
)
async def test_an_invalid_profile_is_not_imported(scenario: Scenario, api: str, wrong: dict[str, Any]) -> None:
    good = {"agent": scenario.names["alpha"], "dimension": "math_computation", "competence": 0.9}
    bad = {"agent": scenario.names["beta"], "dimension": "math_computation", "competence": 0.5, **wrong}

    with pytest.raises(ApiError) as raised:
        await scenario.service.api(api).ask("ImportProfiles", profiles=[{"profile": good}, {"profile": bad}])

    assert (raised.value.reason, raised.value.metadata["agent"]) == ("INVALID_PROFILE", scenario.names["beta"])
    assert await history(scenario, "alpha") == []


async def test_a_history_that_does_not_end_at_the_competence_is_rejected(scenario: Scenario) -> None:
    step = {"sequence": 1, "change": "OUTCOME", "outcome": 1, "learning_rate": 0.1, "competence_after": 0.55}
    given = {"agent": scenario.names["alpha"], "dimension": "math_computation", "competence": 0.9, "observations": 1}

    with pytest.raises(ApiError) as raised:
        await scenario.service.api("rest").ask("ImportProfiles", profiles=[{"profile": given, "history": [step]}])

    assert raised.value.reason == "INVALID_PROFILE"


async def test_every_page_of_an_export_shows_the_same_moment(scenario: Scenario, api: str) -> None:
    await import_profiles(scenario, alpha=0.9, beta=0.8, gamma=0.7)
    service = scenario.service.api(api)
    seen: dict[str, float] = {}
    pages, token = 0, ""
    while True:
        page = await service.ask("ExportProfiles", page_size=200, dimension="math_computation", page_token=token)
        seen |= {one["profile"]["agent"]: one["profile"]["competence"] for one in page["profiles"]}
        if not pages:
            await import_profiles(scenario, gamma=0.1)
        pages, token = pages + 1, page["next_page_token"]
        if not token:
            break

    assert seen[scenario.names["gamma"]] == 0.7


@pytest.mark.parametrize(
    "operation", ["ListProfiles", "ExportProfiles", "GetFlows", "GetReliability", "ListAgents", "ListDriftEvents"]
)
async def test_an_invalid_page_token_is_rejected(scenario: Scenario, api: str, operation: str) -> None:
    await scenario.process(api, first_agent="alpha", expected={"answer": "4"})

    with pytest.raises(ApiError) as raised:
        await scenario.service.api(api).ask(operation, page_token="mine")

    assert raised.value.reason == "INVALID_PAGE_TOKEN"


async def test_concurrent_feedback_from_many_processes_loses_no_update(database_url: str) -> None:
    result = await storm(database_url, new_id()[-12:], updates=400, processes=3)

    assert (result.profiles, result.kills) == (6, 3)


async def history(scenario: Scenario, agent: str) -> list[tuple[int, str, int | None]]:
    """Return the changes of an agent's profile in arithmetic."""
    fields = {"agent": scenario.names[agent], "dimension": "math_computation", "include_history": True}
    page = await scenario.service.api("rpc").ask("ExportProfiles", **fields)
    steps = page["profiles"][0]["history"] if page["profiles"] else []
    return [(step["sequence"], step["change"], step["outcome"]) for step in steps]


async def profiles(scenario: Scenario, agent: str) -> list[dict[str, Any]]:
    """Return an agent's profiles."""
    response = await scenario.service.api("rest").ask("ListProfiles", agent=scenario.names[agent])
    listed: list[dict[str, Any]] = response["profiles"]
    return listed
