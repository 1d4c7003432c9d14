"""What profiles learn from verdicts: once, in a recorded order, and nothing is lost."""

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

import pytest

from chassis.ids import new_id
from chassis.serving.auth import ApiKey, Keyring
from kernel.learning.profiles import learned
from tests.integration.delegation.support import RIGHT, Stage, imported, staged
from tests.support.delegating import Cast, delegation_at, new_names
from tests.support.faces import Refused
from tests.support.profile_storm import storm
from tests.support.scripted_llm import ScriptedLLM

ANN, PUPIL = "key-of-ann", "key-of-pupil"


def digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()


KEYRING = Keyring([ApiKey(name="ann", sha256=digest(ANN)), ApiKey(name="pupil", sha256=digest(PUPIL), may_teach=False)])


@pytest.fixture
async def stage(scripted: ScriptedLLM, database_url: str) -> AsyncIterator[Stage]:
    async with staged(scripted, database_url) as made:
        made.says(alpha=90, beta=90, gamma=90)
        yield made


async def judge(stage: Stage, face: str, task_id: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    said = {"feedback_id": new_id(), "correct": True, **more}
    return stage.plain(await stage.running.face(face).ask("SubmitFeedback", task_id=task_id, **said))


async def test_late_feedback_teaches_the_one_who_executed(stage: Stage, face: str) -> None:
    task = await stage.process(face, first_agent="alpha")

    name = new_id()
    told = await judge(stage, face, task["task_id"], correct=False, feedback_id=name)

    [update] = told["profile_updates"]
    assert (update["agent"], update["outcome"], update["competence_after"]) == ("alpha", 0, 0.45)
    assert (update["feedback_id"], update["task_id"]) == (name, task["task_id"])
    assert (told["label"]["correct"], told["label"]["checker"]) == (False, "FEEDBACK")
    assert told["not_learned_reason"] == ""


async def test_feedback_that_is_sent_again_gets_the_same_answer_and_counts_once(stage: Stage, face: str) -> None:
    task = await stage.process(face, first_agent="alpha")
    name = new_id()

    async with asyncio.TaskGroup() as group:
        told = [group.create_task(judge(stage, face, task["task_id"], feedback_id=name)) for _ in range(20)]

    assert len({str(one.result()) for one in told}) == 1
    assert await history(stage, "alpha") == [(1, "OUTCOME", 1)]


async def test_a_different_verdict_is_refused_and_teaches_nothing(stage: Stage, face: str) -> None:
    task = await stage.process(face, first_agent="alpha")
    await judge(stage, face, task["task_id"])

    with pytest.raises(Refused) as refused:
        await judge(stage, face, task["task_id"], correct=False)
    agreeing = await judge(stage, face, task["task_id"])

    assert refused.value.reason == "FEEDBACK_CONFLICT"
    assert (agreeing["not_learned_reason"], agreeing["profile_updates"]) == ("already_judged", [])
    assert await history(stage, "alpha") == [(1, "OUTCOME", 1)]


async def test_feedback_against_the_verdict_of_the_service_is_refused(stage: Stage, face: str) -> None:
    stage.says({"alpha": "Final Answer: 40"}, alpha=90)
    task = await stage.process(face, first_agent="alpha", expected=RIGHT)

    with pytest.raises(Refused) as refused:
        await judge(stage, face, task["task_id"], correct=False)

    assert refused.value.reason == "FEEDBACK_CONFLICT"


async def test_a_vote_without_an_answer_teaches_nobody(stage: Stage, face: str) -> None:
    stage.says({name: "I would rather not say." for name in stage.names}, alpha=10, beta=10, gamma=10)
    asked = {"answer_type": "NUMBER", "first_agent": "alpha"}
    task = await stage.process(face, **asked)

    told = await judge(stage, face, task["task_id"], correct=False)

    assert (task["mode"], task["outcome"]) == ("COLLABORATED", "ABSTAINED")
    assert (told["profile_updates"], told["not_learned_reason"]) == ([], "no_answer")


async def test_the_name_of_feedback_belongs_to_one_task(stage: Stage, face: str) -> None:
    first, second = await stage.process(face), await stage.process(face)
    name = new_id()
    await judge(stage, face, first["task_id"], feedback_id=name)

    with pytest.raises(Refused) as reused:
        await judge(stage, face, second["task_id"], feedback_id=name)
    with pytest.raises(Refused) as unknown:
        await judge(stage, face, "nobody")

    assert (reused.value.reason, unknown.value.reason) == ("REQUEST_ID_REUSED", "TASK_NOT_FOUND")


async def test_keys_see_their_own_tasks_and_some_may_not_teach(
    scripted: ScriptedLLM, database_url: str, face: str
) -> None:
    agents, _ = new_names()
    scripted.answer = Cast({agent.id: 90 for agent in agents}, {})
    async with delegation_at(scripted, database_url, agents=agents, keyring=KEYRING) as running:
        ann, pupil = running.face(face, ANN), running.face(face, PUPIL)
        task = await ann.ask("Process", question="?", dimension="math_computation", expected={"answer": "4"})
        untaught = await pupil.ask("Process", question="?", dimension="math_computation", expected={"answer": "4"})
        with pytest.raises(Refused) as hidden:
            await pupil.ask("SubmitFeedback", feedback_id=new_id(), task_id=task["task_id"], correct=True)
        heard = await pupil.ask("SubmitFeedback", feedback_id=new_id(), task_id=untaught["task_id"], correct=True)
        refusals = []
        asked: list[tuple[str, dict[str, Any]]] = [
            ("ResetProfiles", {}),
            ("FreezeProfiles", {"frozen": True}),
            ("ImportProfiles", {"profiles": [{"profile": {"agent": "a", "dimension": "d", "competence": 0.5}}]}),
        ]
        for operation, body in asked:
            with pytest.raises(Refused) as refused:
                await pupil.ask(operation, **body)
            refusals.append(refused.value.reason)

        rated = (await ann.ask("GetReliability", confidence_source="COMBINED", page_size=1000))["reliabilities"]

    own = {agent.id for agent in agents}
    assert sum(row["observations"] for row in rated if row["agent"] in own and not row["dimension"]) == 1
    assert len(task["profile_updates"]) == 1
    assert (untaught["label"]["correct"], untaught["profile_updates"]) == (True, [])
    assert hidden.value.reason == "TASK_NOT_FOUND"
    assert heard["not_learned_reason"] == "may_not_teach"
    assert refusals == ["TEACHING_NOT_ALLOWED"] * 3


async def test_frozen_profiles_record_verdicts_and_learn_nothing(stage: Stage, face: str) -> None:
    service = stage.running.face(face)
    frozen = await service.ask("FreezeProfiles", agent=stage.names["alpha"], frozen=True)
    stage.says({"alpha": "Final Answer: 40"}, alpha=90)

    task = await stage.process(face, first_agent="alpha", expected=RIGHT)
    shown = await service.ask("ListProfiles", agent=stage.names["alpha"])
    thawed = await service.ask("FreezeProfiles", agent=stage.names["alpha"], frozen=False)
    again = await stage.process(face, first_agent="alpha", expected=RIGHT)

    assert frozen["frozen"] is True
    assert (task["label"]["correct"], task["profile_updates"]) == (True, [])
    assert [one["frozen"] for one in shown["profiles"]] == [True] * 5
    assert thawed["changed"] == 1
    assert again["profile_updates"][0]["competence_after"] == 0.55


async def test_a_reset_keeps_the_history(stage: Stage, face: str) -> None:
    stage.says({"alpha": "Final Answer: 40"}, alpha=90)
    await stage.process(face, first_agent="alpha", expected=RIGHT)
    service = stage.running.face(face)

    first = await service.ask("ResetProfiles", agent=stage.names["alpha"])
    second = await service.ask("ResetProfiles", agent=stage.names["alpha"])

    assert (first["reset"], second["reset"]) == (1, 0)
    assert await history(stage, "alpha") == [(1, "OUTCOME", 1), (2, "RESET", None)]
    [profile] = [one for one in await profiles(stage, "alpha") if one["dimension"] == "math_computation"]
    assert (profile["competence"], profile["observations"], profile["memory"]) == (0.5, 0, 0.0)


async def test_what_is_exported_can_be_imported(stage: Stage, scripted: ScriptedLLM, database_url: str) -> None:
    stage.says({"alpha": "Final Answer: 40", "beta": "Final Answer: 1"}, alpha=90, beta=90)
    for first in ("alpha", "beta", "alpha"):
        await stage.process("rest", first_agent=first, expected=RIGHT)
    exported: list[dict[str, Any]] = []
    for name in ("alpha", "beta"):
        page = await stage.running.face("rest").ask("ExportProfiles", agent=stage.names[name], include_history="true")
        exported += page["profiles"]
    async with staged(scripted, database_url) as other:
        renamed = [rename(one, stage, other) for one in exported]
        told = await other.running.face("rest").ask("ImportProfiles", profiles=renamed)
        again = await other.running.face("rest").ask("ImportProfiles", profiles=renamed)
        kept = await other.running.face("rest").ask("ImportProfiles", profiles=renamed, rule="KEEP")
        got = [one for one in await profiles(other, "alpha") if one["dimension"] == "math_computation"]
        steps = await history(other, "alpha")

    assert (told["imported"], again["imported"], kept["kept"]) == (2, 2, 2)
    assert got[0]["competence"] == learned(learned(0.5, 1), 1)
    assert steps == [(1, "OUTCOME", 1), (2, "OUTCOME", 1), (3, "IMPORT", None)]


async def test_a_history_is_imported_once_by_however_many_and_by_those_frozen_before(stage: Stage) -> None:
    service = stage.running.face("rest")
    await service.ask("FreezeProfiles", agent=stage.names["alpha"], frozen=True)
    stage.says({"alpha": "Final Answer: 40"}, alpha=90)
    await stage.process("rest", first_agent="alpha", expected=RIGHT)
    step = {"sequence": 1, "change": "OUTCOME", "outcome": 1, "learning_rate": 0.1, "competence_after": 0.55}
    given = {"agent": stage.names["alpha"], "dimension": "math_computation", "competence": 0.55, "observations": 1}

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(service.ask("ImportProfiles", profiles=[{"profile": given, "history": [step]}]))

    assert await history(stage, "alpha") == [(1, "OUTCOME", 1), (2, "IMPORT", None)]


def rename(exported: dict[str, Any], stage: Stage, other: Stage) -> dict[str, Any]:
    """An exported profile under the name that the same agent has elsewhere."""
    plain: dict[str, Any] = stage.plain(exported)
    plain["profile"]["agent"] = other.names[plain["profile"]["agent"]]
    return plain


@pytest.mark.parametrize(
    "wrong",
    [
        {"competence": 1.5},
        {"competence": -0.1},
        {"observations": -1},
    ],
)
async def test_a_profile_that_cannot_be_is_not_imported(stage: Stage, face: str, wrong: dict[str, Any]) -> None:
    good = {"agent": stage.names["alpha"], "dimension": "math_computation", "competence": 0.9}
    bad = {"agent": stage.names["beta"], "dimension": "math_computation", "competence": 0.5, **wrong}

    with pytest.raises(Refused) as refused:
        await stage.running.face(face).ask("ImportProfiles", profiles=[{"profile": good}, {"profile": bad}])

    assert (refused.value.reason, refused.value.metadata["agent"]) == ("INVALID_PROFILE", stage.names["beta"])
    assert await history(stage, "alpha") == []


async def test_a_history_that_does_not_end_at_the_competence_is_refused(stage: Stage) -> None:
    step = {"sequence": 1, "change": "OUTCOME", "outcome": 1, "learning_rate": 0.1, "competence_after": 0.55}
    given = {"agent": stage.names["alpha"], "dimension": "math_computation", "competence": 0.9, "observations": 1}

    with pytest.raises(Refused) as refused:
        await stage.running.face("rest").ask("ImportProfiles", profiles=[{"profile": given, "history": [step]}])

    assert refused.value.reason == "INVALID_PROFILE"


async def test_every_page_of_an_export_shows_the_same_moment(stage: Stage, face: str) -> None:
    await imported(stage, alpha=0.9, beta=0.8, gamma=0.7)
    service = stage.running.face(face)
    pages, token, seen = 0, "", {}
    while True:
        page = await service.ask("ExportProfiles", page_size=200, dimension="math_computation", page_token=token)
        seen |= {one["profile"]["agent"]: one["profile"]["competence"] for one in page["profiles"]}
        if not pages:
            await imported(stage, gamma=0.1)
        pages, token = pages + 1, page["next_page_token"]
        if not token:
            break

    assert seen[stage.names["gamma"]] == 0.7


@pytest.mark.parametrize(
    "operation", ["ListProfiles", "ExportProfiles", "GetFlows", "GetReliability", "ListAgents", "ListDriftEvents"]
)
async def test_a_token_that_nobody_gave_is_refused(stage: Stage, face: str, operation: str) -> None:
    await stage.process(face, first_agent="alpha", expected={"answer": "4"})

    with pytest.raises(Refused) as refused:
        await stage.running.face(face).ask(operation, page_token="mine")

    assert refused.value.reason == "INVALID_PAGE_TOKEN"


async def test_concurrent_verdicts_of_many_processes_lose_nothing(database_url: str) -> None:
    told = await storm(database_url, new_id()[-12:], updates=400, processes=3)

    assert (told.profiles, told.kills) == (6, 3)


async def history(stage: Stage, agent: str) -> list[tuple[int, str, int | None]]:
    """Changes of an agent's profile in arithmetic."""
    asked = {"agent": stage.names[agent], "dimension": "math_computation", "include_history": True}
    page = await stage.running.face("rpc").ask("ExportProfiles", **asked)
    steps = page["profiles"][0]["history"] if page["profiles"] else []
    return [(step["sequence"], step["change"], step["outcome"]) for step in steps]


async def profiles(stage: Stage, agent: str) -> list[dict[str, Any]]:
    """An agent's profiles."""
    told: dict[str, Any] = await stage.running.face("rest").ask("ListProfiles", agent=stage.names[agent])
    return told["profiles"]
