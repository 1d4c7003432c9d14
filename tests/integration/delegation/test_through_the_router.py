"""`metacog/delegation`: the router sends questions to the delegation service, and feedback on runs reaches profiles."""

from pathlib import Path
from typing import Any

import pytest
from metacog.router.v1.router_pb2 import AnswerResponse, GetRunResponse
from openai import AsyncOpenAI

from chassis.serving.wire import from_rest
from tests.support.apis import RestApi, RpcApi
from tests.support.delegating import ScriptedAgents, delegation_at, renamed_agents
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROUTER, At, router_at, until


async def test_the_executors_profile_learns_from_feedback_on_a_run(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    agents, _ = renamed_agents()
    scripted.answer = ScriptedAgents({agent.id: 90 for agent in agents}, {})
    async with (
        delegation_at(scripted, database_url, agents=agents) as delegation,
        router_at(scripted, database_url, tmp_path, others={"delegation": delegation.grpc}) as router,
    ):
        api = RpcApi(router.grpc, ROUTER)
        fields = {
            "question": "What is 2 + 2?",
            "strategy": "delegation",
            "answer_type": "NUMBER",
            "seed": 5,
            "max_tokens": 20,
        }
        events = await api.events("Answer", **fields)
        run = events[-1][1]["run"]
        rest = RestApi(router.rest, ROUTER)
        whole = (await rest.ask("GetRun", run_id=run["run_id"]))["run"]
        [message] = await api.messages("GetRun", {"run_id": run["run_id"]})
        by_rest = [from_rest({name: data}, AnswerResponse) for name, data in await rest.events("Answer", **fields)]
        feedback = await api.ask("SubmitFeedback", feedback_id=f"v-{run['run_id']}", run_id=run["run_id"], correct=True)
        executor = whole["deliberation"]["executor"]

        async def has_learned() -> bool:
            page = await delegation.api("rpc").ask("ListProfiles", agent=executor)
            return any(profile["observations"] for profile in page["profiles"])

        await until(has_learned)
        page = await delegation.api("rpc").ask("ExportProfiles", agent=executor, include_history=True)

    assert from_rest({"run": whole}, GetRunResponse) == message
    assert [event.WhichOneof("event") for event in by_rest] == [name for name, _ in events]
    deliberation: dict[str, Any] = whole["deliberation"]
    streamed = {name: data for name, data in events}
    assert {"task_dispatched", "task_agent_assessed", "mode_chosen", "agent_answered"} <= set(streamed)
    assert streamed["task_agent_assessed"]["confidence"] > 0
    assert (run["task"]["executor"], run["deliberation"]) == (executor, None)
    assert (run["strategy"], run["degraded"], run["answer"]) == ("delegation", False, "Final Answer: 4")
    assert (deliberation["answer"], deliberation["run_id"], deliberation["answer_type"]) == (
        "4",
        run["run_id"],
        "NUMBER",
    )
    assert run["confidence"] == deliberation["confidence"] == 0.74
    assert deliberation["votes"][0]["model"] == run["model"] == scripted.model
    assert feedback["delegation_tasks"] == 1
    [step] = page["profiles"][0]["history"]
    assert (step["task_id"], step["outcome"]) == (deliberation["task_id"], 1)
    solved = [body for body in scripted.bodies if "response_format" not in body]
    assert [(body["max_tokens"], "seed" in body) for body in solved] == [(20, True)] * 2


@pytest.mark.parametrize(("rated", "mode", "state"), [(10, "COLLABORATED", "PRIOR"), (90, "EXECUTED", "UNCALIBRATED")])
async def test_a_run_says_what_the_confidence_of_a_task_is(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, rated: int, mode: str, state: str
) -> None:
    agents, _ = renamed_agents()
    scripted.answer = ScriptedAgents(
        {agent.id: rated for agent in agents}, {agent.id: "Final Answer: 40" for agent in agents}
    )
    async with (
        delegation_at(scripted, database_url, agents=agents) as delegation,
        router_at(scripted, database_url, tmp_path, others={"delegation": delegation.grpc}) as router,
    ):
        asked = {"question": "What is 4 * 10?", "strategy": "delegation", "answer_type": "NUMBER"}
        run = (await RestApi(router.rest, ROUTER).ask("Answer", **asked))["run"]

    task = run["deliberation"]
    assert (task["mode"], task["confidence_state"]) == (mode, state)
    assert (run["confidence"], run["confidence_state"], run["confidence_labels"]) == (task["confidence"], state, 0)


async def test_the_executors_text_is_streamed_and_ends_at_a_stop_text(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    agents, _ = renamed_agents()
    text = "one two END three"
    scripted.answer = ScriptedAgents({agent.id: 90 for agent in agents}, {agent.id: text for agent in agents})
    fields: Any = {"model": "metacog/delegation", "messages": [{"role": "user", "content": "Why?"}]}
    async with (
        delegation_at(scripted, database_url, agents=agents) as delegation,
        router_at(scripted, database_url, tmp_path, others={"delegation": delegation.grpc}) as router,
        AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none") as client,
    ):
        full = [chunk async for chunk in await client.chat.completions.create(stream=True, **fields)]
        ended = [chunk async for chunk in await client.chat.completions.create(stream=True, stop="END", **fields)]
        events = await RpcApi(router.grpc, ROUTER).events(
            "Answer", question="Why?", strategy="delegation", stop=["END"]
        )

    pieces, until_stop = [
        [choice.delta.content for chunk in chunks for choice in chunk.choices if choice.delta.content]
        for chunks in (full, ended)
    ]
    tokens = "".join(data["text"] for name, data in events if name == "answer_token")
    assert ("".join(pieces), len(pieces) > 1) == (text, True)
    assert "".join(until_stop) == tokens == events[-1][1]["run"]["answer"] == "one two "


async def test_a_real_model_assesses_itself_and_answers(llm_url: str, database_url: str) -> None:
    agents, _ = renamed_agents()
    async with delegation_at(At(llm_url, "smollm2"), database_url, agents=agents) as delegation:
        api = delegation.api("rest")
        rated = await api.ask("SelfAssess", question="What is two and two?", dimension="math_computation", seed=1)
        events = await api.events(
            "Process",
            question="What is two and two?",
            seed=1,
            expected={"answer": "4", "answer_type": "NUMBER"},
            answer_max_tokens=48,
            envelope={"max_generations": 16, "max_generated_tokens": 1024, "timeout_ms": 60_000},
        )

    assert len(rated["assessments"]) == 3
    for one in rated["assessments"]:
        assert one["verbalized"] is not None or one["unknown_reason"]
    finished = events[-1][1]
    assert events[-1][0] == "task_finished"
    assert finished["dimensions"]
    assert finished["usage"]["generations"] <= 16
    assert finished["answer_text"]
    assert finished["label"]["correct"] in (True, False)
    # After a vote without a valid answer no answer is labelled.
    assert finished["profile_updates"] or finished["outcome"] == "ABSTAINED"
