"""The router's own APIs over real parts: assess, route, answer, and fall back."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import httpx
import pytest

from kernel.votes.prior import SHIPPED_PRIOR
from tests.support.apis import Api, ApiError, RestApi, RpcApi
from tests.support.assigner import assigner_at
from tests.support.models.scripted_llm import ErrorReply, ScriptedLLM, Stall
from tests.support.stack import LONG, ROUTER, TROUBLED, At, RunningRouter, cast, router_at, stage_of

STAGE = ["stage_started", "stage_token", "stage_finished"]


@dataclass(frozen=True)
class Suite:
    """A router with an assigner behind it."""

    router: RunningRouter

    @property
    def rest(self) -> RestApi:
        """Its REST API."""
        return RestApi(self.router.rest, ROUTER)

    @property
    def rpc(self) -> RpcApi:
        """Its gRPC API."""
        return RpcApi(self.router.grpc, ROUTER)


@pytest.fixture
async def suite(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[Suite]:
    scripted.answer = cast()
    async with (
        assigner_at(scripted) as assigner,
        router_at(scripted, database_url, tmp_path, others={"assigner": assigner.grpc}) as router,
    ):
        yield Suite(router)


@pytest.fixture(params=["rest", "rpc"])
def api(suite: Suite, request: pytest.FixtureRequest) -> Api:
    """Each API in turn."""
    return suite.rest if request.param == "rest" else suite.rpc


async def test_an_assessment_is_one_short_rating(api: Api, scripted: ScriptedLLM) -> None:
    reply = await api.ask("Assess", question="I am delighted and very happy!", seed=3)

    assert [stage_of(body) for body in scripted.bodies] == ["assess"]
    assert scripted.bodies[0]["max_tokens"] <= 64
    msv = reply["msv"]
    assert (msv["correctness"], msv["conflict"], msv["importance"], msv["experience"]) == (0.9, 0.05, 0.1, None)
    assert msv["emotional_response"] > 0.5
    assert (msv["kind"], reply["assessor"]) == ("PROSPECTIVE", "verbalized")
    assert reply["usage"]["generations"] == 1


async def test_a_query_with_a_ready_state_is_routed_without_a_model(api: Api, scripted: ScriptedLLM) -> None:
    reply = await api.ask("Route", msv={"correctness": 0.45, "conflict": 0.72, "importance": 0.85, "experience": 1.0})

    assert (reply["activation"]["value"], reply["system"]) == (0.5575, "SYSTEM_TWO")
    assert scripted.bodies == []


async def test_system_one_answers_word_by_word(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(system1="It is so.")

    events = await api.events("Answer", question="Is it so?", max_tokens=20, temperature=0.2, seed=5)

    assert [name for name, _ in events] == ["run_started", "routed", *["answer_token"] * 3, "run_finished"]
    run = events[-1][1]["run"]
    assert (run["answer"], run["model"], run["finish_reason"]) == ("It is so.", "scripted", "stop")
    assert run["first_token_ms"] is not None
    sent = scripted.bodies[-1]
    assert (sent["max_tokens"], sent["temperature"], sent["seed"]) == (20, 0.2, 5)


async def test_system_one_by_name_has_the_share_right_as_its_confidence(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(system1="It is so.")

    run = (await api.ask("Answer", question="Is it so?", strategy="system1"))["run"]

    assert [stage_of(body) for body in scripted.bodies] == ["system1"]  # nothing else was asked
    assert run["confidence"] == run["confidence_raw"] == SHIPPED_PRIOR.share_right
    assert (run["confidence_source"], run["confidence_state"], run["confidence_labels"]) == ("answers", "PRIOR", 0)
    assert run["confidence_unknown_reason"] == ""


async def test_no_confidence_has_a_reason(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(system1=" ")

    run = (await api.ask("Answer", question="Is it so?", strategy="system1"))["run"]

    assert (run["outcome"], run["confidence"]) == ("ABSTAINED", None)
    assert run["confidence_unknown_reason"] == "there is no answer"


async def test_the_events_of_a_deliberation_pass_through(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(TROUBLED, system1=LONG)

    events = await api.events("Answer", question="Why is it so?")

    names = [name for name, _ in groupby(name for name, _ in events if name not in ("stage_measured", "answer_token"))]
    course = ["run_started", "routed", "agent_assessed", "roles_assigned", *STAGE * 5, "run_finished"]
    assert [name for name, _ in groupby(names)] == course
    assert "".join(data["text"] for name, data in events if name == "answer_token") == "the synthesis"
    run = events[-1][1]["run"]
    assert run["deliberation"]["answer"] == run["answer"] == "the synthesis"
    assert run["deliberation"]["note"] == "the note"


async def test_the_roles_of_a_deliberation_can_be_chosen(api: Api) -> None:
    roles = {"EXPERT": "eve", "CRITIC": "dan", "EVALUATOR": "cleo", "SYNTHESIZER": "ben", "GENERALIST": "ada"}

    run = (
        await api.ask(
            "Answer", question="Is it so?", strategy="dialectic", assignment_kind="FIXED", fixed_assignment=roles
        )
    )["run"]

    assert run["deliberation"]["roles"]["assignment"] == roles
    assert [stage["agent"] for stage in run["deliberation"]["stages"]] == ["eve", "dan", "cleo", "ben"]


async def test_an_envelope_holds_over_the_whole_fan_out(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(TROUBLED)

    run = (await api.ask("Answer", question="Is it so?", envelope={"max_generations": 5}))["run"]

    assert run["usage"]["generations"] == len(scripted.bodies) <= 5
    assert (run["outcome"], run["budget_exhausted"], run["degraded"]) == ("ANSWERED", True, True)
    assert run["envelope"]["max_generations"] == 5


async def test_a_strategy_that_fails_gives_way_to_system_one(api: Api, scripted: ScriptedLLM) -> None:
    scripted.fault(*[None] * 5, *[ErrorReply(500, "broken")] * 3)

    events = await api.events("Answer", question="Is it so?", strategy="dialectic")

    fell = next(data for name, data in events if name == "fell_back")
    assert (fell["from_strategy"], fell["to_strategy"]) == ("dialectic", "system1")
    assert fell["reason"] == "BACKEND_UNAVAILABLE"
    run = events[-1][1]["run"]
    assert (run["answer"], run["strategy"], run["degraded"]) == ("the system1", "system1", True)
    assert [fallback["reason"] for fallback in run["fallbacks"]] == ["BACKEND_UNAVAILABLE"]


async def test_without_a_fallback_the_strategys_error_is_the_response(api: Api, scripted: ScriptedLLM) -> None:
    scripted.fault(*[None] * 5, *[ErrorReply(500, "broken")] * 3)

    with pytest.raises(ApiError) as raised:
        await api.ask("Answer", question="Is it so?", strategy="dialectic", fallback=False)

    assert (raised.value.code, raised.value.reason) == ("UNAVAILABLE", "BACKEND_UNAVAILABLE")


async def test_a_slow_strategy_leaves_system_one_some_time(api: Api, scripted: ScriptedLLM) -> None:
    scripted.fault(*[None] * 5, *[Stall()] * 3)

    run = (await api.ask("Answer", question="Is it so?", strategy="dialectic", envelope={"timeout_ms": 5000}))["run"]

    assert (run["answer"], run["strategy"], run["degraded"]) == ("the system1", "system1", True)
    assert run["fallbacks"][0]["reason"] == "DEADLINE_EXCEEDED"


async def test_what_the_caller_got_wrong_no_fallback_mends(api: Api) -> None:
    with pytest.raises(ApiError) as raised:
        await api.ask("Answer", question="Is it so?", strategy="dialectic", assignment_kind="FIXED")

    assert raised.value.reason == "MALFORMED_REQUEST"


async def test_a_caller_that_goes_away_stops_the_generation_and_is_recorded(
    api: Api, suite: Suite, scripted: ScriptedLLM
) -> None:
    scripted.fault(Stall())

    asking = asyncio.create_task(api.ask("Answer", question="Is it so?", strategy="system1"))
    await scripted.until(lambda llm: len(llm.bodies) == 1)
    asking.cancel()
    await scripted.until(lambda llm: llm.disconnects == 1)

    await asyncio.wait({asking})
    await suite.router.journal.close()
    runs = (await suite.rpc.ask("ListRuns", page_size=1))["runs"]
    assert runs[0]["error_reason"] == "CANCELLED"


async def test_a_failed_run_is_recorded_with_its_reason(api: Api, suite: Suite, scripted: ScriptedLLM) -> None:
    scripted.fault(ErrorReply(500, "broken"))
    with pytest.raises(ApiError):
        await api.ask("Answer", question="Is it so?", strategy="system1")

    await suite.router.journal.close()

    runs = (await suite.rpc.ask("ListRuns", page_size=1))["runs"]
    assert (runs[0]["error_reason"], runs[0]["outcome"]) == ("BACKEND_UNAVAILABLE", "ABSTAINED")


async def test_a_run_that_failed_leaves_its_name_to_the_next_attempt(
    api: Api, suite: Suite, scripted: ScriptedLLM, tmp_path: Path
) -> None:
    scripted.fault(ErrorReply(500, "broken"))
    with pytest.raises(ApiError):
        await api.ask("Answer", question="Is it so?", strategy="system1", request_id=tmp_path.name)

    run = (await api.ask("Answer", question="Is it so?", strategy="system1", request_id=tmp_path.name))["run"]

    await suite.router.journal.close()
    assert (await suite.rpc.ask("GetRun", run_id=run["run_id"]))["run"]["answer"] == "the system1"
    found = await suite.router.runs.by_request("", tmp_path.name)
    assert found is not None
    assert found.run_id == run["run_id"]


async def test_an_event_stream_is_kept_alive_and_named(suite: Suite) -> None:
    async with httpx.AsyncClient() as client:
        reply = await client.post(
            f"{suite.router.rest}/v1/answers", json={"question": "?"}, headers={"accept": "text/event-stream"}
        )

    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["cache-control"] == "no-store"
    assert reply.text.startswith("event: run_started\ndata: {")


async def test_a_real_model_is_assessed_and_answers(llm_url: str, database_url: str, tmp_path: Path) -> None:
    llm = At(llm_url, "smollm2")
    async with router_at(llm, database_url, tmp_path) as router:
        api = RpcApi(router.grpc, ROUTER)
        assessed = await api.ask("Assess", question="What is two and two?", assessor="probe")
        events = await api.events("Answer", question="What is two and two?", strategy="system1", max_tokens=24, seed=1)

    assert assessed["msv"]["correctness"] is not None
    assert assessed["usage"]["completion_tokens"] <= 64
    run = events[-1][1]["run"]
    assert run["answer"] == "".join(data["text"] for name, data in events if name == "answer_token").strip()
    assert 0 < run["usage"]["stages"]["system1"]["completion_tokens"] <= 24
