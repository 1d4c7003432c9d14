"""Agents have experience with what they answered right, by the real encoder and a real database."""

import asyncio
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from chassis import database as db
from chassis.ids import new_id
from chassis.serving.auth import Keyring
from inference import EncoderUnavailable
from services.delegation.store.experience import PostgresAgentExperience
from tests.integration.delegation.support import RIGHT, TASK, Scenario, scenario_at
from tests.support.apis import ApiError, RestApi, RpcApi, teaching_key
from tests.support.delegating import ScriptedAgents, delegation_at, delegation_settings, renamed_agents
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER

PLANETS = "Which planet of the solar system has the most moons?"
PARAPHRASE = "Which planet in our solar system has the largest number of moons?"
BREAD = "How long should sourdough bread rest before it is baked?"


async def matched(scenario: Scenario, api: str, question: str, **more: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401
    """The experience of each agent, by its original name."""
    reply = await scenario.service.api(api).ask("MatchExperience", question=question, **more)
    return {each["agent"]: each for each in scenario.original(reply)["agents"]}


async def answered(scenario: Scenario, agent: str, question: str, *, right: bool = True) -> str:
    """Let an agent answer a question, with a label; return the task."""
    scenario.script({agent: "Final Answer: 40"}, **{agent: 95})  # type: ignore[arg-type]
    expected = RIGHT if right else {**RIGHT, "answer": "41"}
    task = await scenario.process("rest", question=question, first_agent=agent, expected=expected)
    assert (task["executor"], task["label"]["correct"]) == (agent, right)
    return str(task["task_id"])


async def test_an_agent_has_experience_with_what_it_answered_right(
    scripted: ScriptedLLM, database_url: str, encoder_url: str, api: str
) -> None:
    async with scenario_at(scripted, database_url, encoder_url=encoder_url) as scenario:
        await answered(scenario, "alpha", PLANETS)
        await answered(scenario, "beta", PLANETS, right=False)
        await scenario.service.recorder.record()

        near = await matched(scenario, api, PARAPHRASE)
        same = await matched(scenario, api, PLANETS)
        far = await matched(scenario, api, BREAD)

    assert near["alpha"]["experience"] > 0.6
    assert same["alpha"]["experience"] == pytest.approx(1.0)
    assert (near["alpha"]["unknown_reason"], near["alpha"]["questions"]) == ("", 1)
    assert near["beta"]["experience"] is None
    assert near["beta"]["unknown_reason"] == "no right answer of this agent is recorded yet"
    assert far["alpha"]["experience"] is None
    assert far["alpha"]["unknown_reason"] == "no question that this agent answered right is near"


async def test_where_the_records_cover_the_questions_nothing_near_is_no_experience(
    scripted: ScriptedLLM, database_url: str, encoder_url: str
) -> None:
    settings = delegation_settings(experience_covers=True)
    async with scenario_at(scripted, database_url, encoder_url=encoder_url, settings=settings) as scenario:
        await answered(scenario, "alpha", PLANETS)
        await scenario.service.recorder.record()

        far = await matched(scenario, "rest", BREAD)

    assert far["alpha"]["experience"] == 0.0
    assert far["beta"]["experience"] is None


async def test_feedback_that_an_answer_was_right_is_experience_and_the_worker_embeds_it(
    scripted: ScriptedLLM, database_url: str, encoder_url: str
) -> None:
    async with scenario_at(scripted, database_url, encoder_url=encoder_url, recalibrating=True) as scenario:
        scenario.script({"alpha": "Final Answer: 40"}, alpha=95)
        task = await scenario.process("rest", question=PLANETS, first_agent="alpha")
        before = await matched(scenario, "rest", PLANETS)
        feedback = {"feedback_id": new_id(), "task_id": task["task_id"], "correct": True}
        for _ in range(2):  # a repetition changes nothing
            await scenario.service.api("rest").ask("SubmitFeedback", **feedback)
        async with asyncio.timeout(30):
            while not (after := await matched(scenario, "rest", PLANETS))["alpha"]["questions"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    assert before["alpha"]["experience"] is None
    assert (after["alpha"]["experience"], after["alpha"]["questions"]) == (pytest.approx(1.0), 1)


async def test_all_agents_whose_answer_won_a_vote_have_the_experience(
    scripted: ScriptedLLM, database_url: str, encoder_url: str
) -> None:
    async with scenario_at(scripted, database_url, encoder_url=encoder_url) as scenario:
        answers = {"alpha": "Final Answer: 40", "beta": "Final Answer: 40", "gamma": "Final Answer: 7"}
        scenario.script(answers, alpha=5, beta=5, gamma=5)
        paper = {"hand_over_rule": "PAPER"}
        task = await scenario.process("rest", question=PLANETS, expected=RIGHT, parameters=paper)
        await scenario.service.recorder.record()

        found = await matched(scenario, "rest", PLANETS)

    assert task["mode"] == "COLLABORATED"
    assert [found[name]["questions"] for name in ("alpha", "beta", "gamma")] == [1, 1, 0]


async def test_experience_belongs_to_the_key_whose_tasks_it_comes_from(
    scripted: ScriptedLLM, database_url: str, encoder_url: str, api: str
) -> None:
    owner, other = new_id(), new_id()
    keyring = Keyring([teaching_key(key) for key in (owner, other)])
    async with scenario_at(scripted, database_url, encoder_url=encoder_url, keyring=keyring) as scenario:
        scenario.script({"alpha": "Final Answer: 40"}, alpha=95)
        mine, theirs = scenario.service.api(api, owner), scenario.service.api(api, other)
        first, names = scenario.names["alpha"], [scenario.names["alpha"]]
        await mine.ask("Process", **{**TASK, "question": PLANETS}, first_agent=first, expected=RIGHT)
        await scenario.service.recorder.record()

        own = await mine.ask("MatchExperience", question=PLANETS, agents=names)
        foreign = await theirs.ask("MatchExperience", question=PLANETS, agents=names)

    assert own["agents"][0]["experience"] == pytest.approx(1.0)
    assert foreign["agents"][0]["experience"] is None


async def test_an_agents_oldest_questions_are_forgotten(
    scripted: ScriptedLLM, database_url: str, encoder_url: str
) -> None:
    settings = delegation_settings(experience_questions=2)
    async with scenario_at(scripted, database_url, encoder_url=encoder_url, settings=settings) as scenario:
        for question in (PLANETS, BREAD, "Who wrote the novel War and Peace?"):
            await answered(scenario, "alpha", question)
        await scenario.service.recorder.record()

        oldest = await matched(scenario, "rest", PLANETS)
        kept = await matched(scenario, "rest", BREAD)

    assert (oldest["alpha"]["experience"], oldest["alpha"]["questions"]) == (None, 2)
    assert kept["alpha"]["experience"] == pytest.approx(1.0)


async def test_what_is_kept_of_a_question_is_its_vector_and_it_goes_with_its_task(
    scripted: ScriptedLLM, database_url: str, encoder_url: str
) -> None:
    url = make_url(database_url).set(drivername="postgresql").render_as_string(hide_password=False)
    async with scenario_at(scripted, database_url, encoder_url=encoder_url) as scenario:
        task_id = await answered(scenario, "alpha", PLANETS)
        await scenario.service.recorder.record()
        with psycopg.connect(url, autocommit=True) as connection:
            table = "delegation.agent_experiences"
            (row,) = connection.execute(f"SELECT row_to_json(e)::text FROM {table} e WHERE task_id = %s", [task_id])
            connection.execute("DELETE FROM delegation.tasks WHERE task_id = %s", [task_id])
        after = await matched(scenario, "rest", PLANETS)

    assert "moons" not in row[0]
    assert after["alpha"]["questions"] == 0


async def test_without_encoder_or_database_experience_is_unknown_with_the_reason(
    scripted: ScriptedLLM, database_url: str, encoder_url: str, api: str
) -> None:
    async with scenario_at(scripted, database_url) as scenario:
        no_encoder = await matched(scenario, api, PLANETS)
    nowhere = f"postgresql+psycopg://nobody@{NO_SERVER}/none"
    async with scenario_at(scripted, nowhere, encoder_url=encoder_url) as scenario:
        no_database = await matched(scenario, api, PLANETS)

    assert set(no_encoder) == set(no_database) == {"alpha", "beta", "gamma"}
    assert no_encoder["alpha"]["unknown_reason"].startswith("ENCODER_UNAVAILABLE: ")
    assert no_database["alpha"]["unknown_reason"].startswith("DATABASE_UNAVAILABLE: ")
    assert no_database["alpha"]["experience"] is None


async def test_vectors_of_another_encoder_are_never_compared(
    scripted: ScriptedLLM, database_url: str, encoder_url: str
) -> None:
    other = delegation_settings(similarity_encoder="another-encoder")
    async with scenario_at(scripted, database_url, encoder_url=encoder_url, settings=other) as scenario:
        uncalibrated = await matched(scenario, "rest", PLANETS)
    url = make_url(database_url).set(drivername="postgresql").render_as_string(hide_password=False)
    async with scenario_at(scripted, database_url, encoder_url=encoder_url) as scenario:
        task_id = await answered(scenario, "alpha", PLANETS)
        await scenario.service.recorder.record()
        with psycopg.connect(url, autocommit=True) as connection:
            changed = "UPDATE delegation.agent_experiences SET encoder = 'another-encoder' WHERE task_id = %s"
            connection.execute(changed, [task_id])
        replaced = await matched(scenario, "rest", PLANETS)

    assert "METACOG_DELEGATION_SIMILARITY_ENCODER" in uncalibrated["alpha"]["unknown_reason"]
    assert replaced["alpha"]["experience"] is None
    assert "recorded for the encoder another-encoder" in replaced["alpha"]["unknown_reason"]


@pytest.mark.parametrize(
    "body", [{}, {"question": " "}, {"question": "?", "messages": [{"role": "user", "content": "?"}]}]
)
async def test_a_match_needs_one_question(
    scripted: ScriptedLLM, database_url: str, api: str, body: dict[str, Any]
) -> None:
    async with scenario_at(scripted, database_url) as scenario:
        client: RestApi | RpcApi = scenario.service.api(api)
        with pytest.raises(ApiError) as raised:
            await client.ask("MatchExperience", **body)

    assert raised.value.reason == "MALFORMED_REQUEST"


async def test_forgetting_waits_for_no_other_replica(database_url: str) -> None:
    engine = db.build_engine(database_url)
    store = PostgresAgentExperience(db.build_sessions(engine))

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(store.forget(1_000))

    await engine.dispose()


async def test_what_was_right_while_the_encoder_was_away_is_embedded_later(
    scripted: ScriptedLLM, database_url: str, encoder_url: str
) -> None:
    agents, _ = renamed_agents()
    async with delegation_at(scripted, database_url, agents=agents) as away:
        scripted.answer = ScriptedAgents({agents[0].id: 95}, {agents[0].id: "Final Answer: 40"})
        task = {**TASK, "question": PLANETS, "first_agent": agents[0].id, "expected": RIGHT}
        await away.api("rest").ask("Process", **task)
        with pytest.raises(EncoderUnavailable):
            await away.recorder.record()
    async with delegation_at(scripted, database_url, agents=agents, encoder_url=encoder_url) as back:
        await back.recorder.record()
        reply = await back.api("rest").ask("MatchExperience", question=PLANETS)

    assert reply["agents"][0]["experience"] == pytest.approx(1.0)
