"""A run whose caller goes away keeps what was finished, and says what was spent; errors state its own deadline."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from metacog.router.v1 import router_pb2, router_pb2_grpc

from chassis.serving.wire import event, to_proto
from tests.support.apis import RestApi, RpcApi, api_error
from tests.support.arbiter import arbiter_at, sample_text
from tests.support.assigner import assigner_at
from tests.support.delegating import ScriptedAgents, delegation_at
from tests.support.models.scripted_llm import ScriptedLLM, Stall
from tests.support.stack import ROUTER, TROUBLED, Body, RunningRouter, cast, router_at, until


def _vote(body: Body) -> Sequence[str]:
    return [sample_text("4" if "seed" in body and body["seed"] % 2 else "5")]


def _samples(body: Body) -> Sequence[str]:
    return [sample_text("4"), *[sample_text("5")] * ((body.get("n") or 1) - 1)]


class Case:
    """A strategy, what its models say, the event after which its caller goes away, and what is then finished."""

    def __init__(
        self, strategy: str, answer: Callable[[Body], Sequence[str]], last: str, kept: str, **more: object
    ) -> None:
        self.body: Mapping[str, Any] = {"question": "What is 2 + 2?", "strategy": strategy, "seed": 1, **more}
        self.answer = answer
        self.last = last
        self.kept = kept


VOTE = {"agree": 5, "most": 9}
CASES = {
    "dialectic": Case("dialectic", cast(TROUBLED, antithesis="word " * 900), "stage_finished", "stages"),
    "vote": Case("vote", _vote, "vote_cast", "votes", vote=VOTE),
    "arbiter": Case("arbiter", _samples, "samples_drawn", "solver", arbitration={"mode": "PAPER"}),
    "delegation": Case("delegation", ScriptedAgents(rated={}, answers={}), "agent_assessed", "assessments"),
}


@pytest.fixture
async def router(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[RunningRouter]:
    async with (
        assigner_at(scripted) as assigner,
        arbiter_at(scripted, programs=False) as arbiter,
        delegation_at(scripted, database_url) as delegation,
        router_at(
            scripted,
            database_url,
            tmp_path,
            others={"assigner": assigner.grpc, "arbiter": arbiter.grpc, "delegation": delegation.grpc},
        ) as running,
    ):
        yield running


async def _leave_after(router: RunningRouter, body: Mapping[str, Any], last: str) -> str:
    """Return the run whose caller went away after its first event of a name."""
    run_id = ""
    async with aio.insecure_channel(router.grpc) as channel:
        call = router_pb2_grpc.RouterServiceStub(channel).Answer(to_proto(body, router_pb2.AnswerRequest))
        async for reply in call:
            name, data = event(reply)
            run_id = run_id or data.get("run_id", "")
            if name.removeprefix("task_") == last:
                call.cancel()
                break
    return run_id


async def _recorded(router: RunningRouter, run_id: str) -> Body:
    """Return a run once it is recorded."""
    api = RestApi(router.rest, ROUTER)

    async def is_recorded() -> bool:
        await router.journal.flush(10)
        return any(run["run_id"] == run_id for run in (await api.ask("ListRuns", outcome="CANCELLED"))["runs"])

    await until(is_recorded)
    found: Body = (await api.ask("GetRun", run_id=run_id))["run"]
    return found


@pytest.mark.parametrize("strategy", CASES)
async def test_a_run_whose_caller_went_away_keeps_what_was_finished_and_says_what_was_spent(
    router: RunningRouter, scripted: ScriptedLLM, strategy: str
) -> None:
    case = CASES[strategy]
    scripted.answer, scripted.token_delay_s = case.answer, 0.02

    run_id = await _leave_after(router, case.body, case.last)
    run = await _recorded(router, run_id)
    by_rpc = (await RpcApi(router.grpc, ROUTER).ask("GetRun", run_id=run_id))["run"]

    assert (run["outcome"], run["error_reason"], run["answer"]) == ("CANCELLED", "CANCELLED", "")
    assert (by_rpc["outcome"], by_rpc["usage"]) == ("CANCELLED", run["usage"])
    assert run["deliberation"][case.kept]
    usage = run["usage"]
    assert usage["completion_tokens"] > 0  # what was finished is known
    assert usage["unknown_generations"] > 0  # the rest may have been spent
    assert usage["unknown_tokens"] > 0


@pytest.mark.parametrize("strategy", ["system1", "dialectic", "vote", "arbiter", "delegation"])
async def test_an_error_about_time_states_the_deadline_of_the_caller(
    router: RunningRouter, scripted: ScriptedLLM, strategy: str
) -> None:
    scripted.fault(*[Stall()] * 40)
    body = {"question": "What is 2 + 2?", "strategy": strategy, "fallback": False}

    async with aio.insecure_channel(router.grpc) as channel:
        stub = router_pb2_grpc.RouterServiceStub(channel)
        with pytest.raises(aio.AioRpcError) as raised:
            async for _ in stub.Answer(to_proto(body, router_pb2.AnswerRequest), timeout=1.5):
                pass

    error = api_error(raised.value)
    assert (raised.value.code(), error.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED")
    assert 0 < int(error.metadata["timeout_ms"]) <= 1500
    assert f"{error.metadata['timeout_ms']} ms" in error.message
