"""What a run may generate is bounded by what System 1 alone needs: a short request never starts a long deliberation."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from configuration.agents import AgentConfig
from tests.support.apis import Api, RestApi, RpcApi
from tests.support.arbiter import arbiter_at, sample_text
from tests.support.gateway import Suite, gateway, metacog_field, text_of
from tests.support.models.scripted_llm import MINIMAL, ErrorReply, ScriptedLLM, Stall
from tests.support.stack import ROUTER, TROUBLED, Body, cast, router_at

# Of a question whose answers cannot be compared, and of one whose answers can be.
OPEN: Any = [{"role": "user", "content": "Why do people greet one another?"}]
LONG = "word " * 200
# Longer than what can be voted on, and shorter than what counts at least.
SHORT = " ".join(["hello"] * 20)
STATE = {"correctness": 0.1, "conflict": 0.9, "importance": 0.9, "experience": 0.1}


@pytest.fixture
async def suite(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[Suite]:
    """A router with the guard that ships."""
    scripted.answer = cast(TROUBLED, system1=SHORT)
    async with gateway(scripted, database_url, tmp_path, at_most_times_system1=6.0) as suite:
        yield suite


async def _answered(suite: Suite, model: str, *, stream: bool, **more: Any) -> tuple[str, Body]:  # noqa: ANN401
    """Return the text of a chat, and its `metacog`."""
    if stream:
        chunks = await suite.chunks(model, messages=OPEN, **more)
        return text_of(chunks), metacog_field(chunks[-1])
    answer = await suite.ask(model, messages=OPEN, **more)
    return answer.choices[0].message.content, metacog_field(answer)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_deliberation_that_does_not_fit_is_not_started_and_the_draft_is_the_answer(
    suite: Suite, scripted: ScriptedLLM, stream: bool
) -> None:
    text, found = await _answered(suite, "metacog", stream=stream, metacog={"msv": STATE})

    guard = found["cost_guard"]
    assert (text, found["strategy"], found["outcome"]) == (SHORT, "system1", "ANSWERED")
    assert (guard["times_system1"], guard["max_generated_tokens"], guard["not_started"]) == (6.0, 384, "dialectic")
    assert guard["reason"] == f"dialectic needs 416 tokens at least, and {384 - guard['draft_tokens']} are left of 384"
    assert len(scripted.bodies) == 1  # the draft


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("assessor", ["probe", "hybrid", "draft"])
async def test_an_assessment_that_draws_samples_waits_for_the_guard(
    suite: Suite, scripted: ScriptedLLM, assessor: str, stream: bool
) -> None:
    text, found = await _answered(suite, "metacog", stream=stream, metacog={"assessor": assessor})

    guard = found["cost_guard"]
    assert (text, found["strategy"], found["reason"]) == (SHORT, "system1", "envelope")
    assert (guard["max_generated_tokens"], guard["not_started"]) == (384, "dialectic")
    assert guard["reason"].startswith("dialectic needs 416 tokens at least, and ")
    assert len(scripted.bodies) == 1  # the draft, which is the answer
    assert found["usage"]["completion_tokens"] == guard["draft_tokens"]


@pytest.mark.parametrize("api", ["rest", "rpc"])
@pytest.mark.parametrize("assessor", ["probe", "hybrid"])
async def test_the_whole_run_stays_within_the_multiple_with_an_assessment(
    suite: Suite, scripted: ScriptedLLM, assessor: str, api: str
) -> None:
    scripted.answer = cast(TROUBLED, system1=LONG, thesis=LONG, antithesis=LONG, resolution=LONG, synthesis=LONG)
    asked: Api = RestApi(suite.router.rest, ROUTER) if api == "rest" else RpcApi(suite.router.grpc, ROUTER)

    run = (await asked.ask("Answer", question="Why?", assessor=assessor, at_most={"times_system1": 8}))["run"]

    assert run["route"]["assessor"] == assessor
    draft, *later = scripted.bodies
    assert draft.get("n", 1) == 1
    assert "response_format" not in draft
    assert any(body.get("n", 1) > 1 for body in later)  # the samples of the assessment
    if run.get("cost_guard"):
        assert int(run["usage"]["completion_tokens"]) <= int(run["cost_guard"]["max_generated_tokens"])


async def test_a_model_that_gives_no_draft_is_asked_once_before_an_assessment_too(
    suite: Suite, scripted: ScriptedLLM
) -> None:
    scripted.fault(ErrorReply(400, "no"))

    _, found = await _answered(suite, "metacog", stream=False, metacog={"assessor": "probe"})

    assert (found["assessor"], found["cost_guard"]) == ("probe", None)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_fallback_that_does_not_fit_is_not_started_either(
    suite: Suite, scripted: ScriptedLLM, stream: bool
) -> None:
    more: Body = {"max_tokens": 4, "metacog": {"msv": STATE, "answer_type": "NUMBER"}}

    _, found = await _answered(suite, "metacog", stream=stream, **more)  # the arbiter, which votes, is away

    assert (found["strategy"], found["cost_guard"]["not_started"]) == ("system1", "dialectic")
    assert any(reason.startswith("vote: PEER_UNAVAILABLE") for reason in found["degraded_reasons"])
    assert len(scripted.bodies) == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_deliberation_that_fits_stays_within_the_multiple(
    suite: Suite, scripted: ScriptedLLM, stream: bool
) -> None:
    scripted.answer = cast(TROUBLED, system1=LONG, thesis=LONG, antithesis=LONG, resolution=LONG, synthesis=LONG)

    _, found = await _answered(suite, "metacog", stream=stream, metacog={"msv": STATE})

    guard, usage = found["cost_guard"], found["usage"]
    assert (found["strategy"], guard["not_started"]) == ("dialectic", "")
    assert guard["max_generated_tokens"] == 6 * guard["draft_tokens"]
    spent = usage["completion_tokens"] + usage["unknown_tokens"]
    assert guard["draft_tokens"] < spent <= guard["max_generated_tokens"]


async def test_a_named_strategy_has_only_its_envelope_unless_the_caller_states_a_guard(suite: Suite) -> None:
    text, named = await _answered(suite, "metacog/dialectic", stream=False)
    _, guarded = await _answered(suite, "metacog/dialectic", stream=False, metacog={"at_most": {"times_system1": 4}})

    assert (named["strategy"], named["cost_guard"], text) == ("dialectic", None, "the synthesis")
    assert (guarded["strategy"], guarded["cost_guard"]["max_generated_tokens"]) == ("system1", 256)


async def test_the_papers_setting_has_no_guard(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> None:
    scripted.answer = cast(TROUBLED)
    async with gateway(scripted, database_url, tmp_path, at_most_times_system1=6.0, system_two="dialectic") as suite:
        _, found = await _answered(suite, "metacog", stream=False, metacog={"msv": STATE})

    assert (found["strategy"], found["cost_guard"]) == ("dialectic", None)


@pytest.mark.parametrize("api", ["rest", "rpc"])
async def test_the_run_has_the_guard_by_both_apis(suite: Suite, api: str) -> None:
    asked: Api = RestApi(suite.router.rest, ROUTER) if api == "rest" else RpcApi(suite.router.grpc, ROUTER)

    run = (await asked.ask("Answer", question="Why?", strategy="dialectic", at_most={"times_system1": 2}))["run"]

    assert (run["strategy"], run["answer"]) == ("system1", SHORT)
    assert (run["cost_guard"]["max_generated_tokens"], run["cost_guard"]["not_started"]) == (128, "dialectic")


async def test_votes_stay_within_the_guard(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> None:
    scripted.answer = lambda body: ["It is 4." if "Final" not in str(body["messages"]) else f"{LONG}Final Answer: 5"]
    async with arbiter_at(scripted, programs=False) as arbiter:
        others = {"arbiter": arbiter.grpc}
        async with (
            router_at(scripted, database_url, tmp_path, at_most_times_system1=6.0, others=others) as router,
            httpx.AsyncClient(base_url=router.rest, timeout=60) as client,
        ):
            body = {
                "model": "metacog",
                "messages": [{"role": "user", "content": "What is 2 + 2?"}],
                "metacog": {"msv": STATE, "vote": {"most": 9, "agree": 5}},
            }
            found = (await client.post("/v1/chat/completions", json=body)).json()["metacog"]

    assert (found["strategy"], found["budget_exhausted"]) == ("vote", True)
    assert found["usage"]["completion_tokens"] + found["usage"]["unknown_tokens"] <= 384


@pytest.mark.parametrize("api", ["rest", "rpc"])
@pytest.mark.parametrize("fault", [ErrorReply(400, "no"), Stall()], ids=["rejects", "hangs"])
async def test_a_default_model_that_gives_no_draft_is_asked_once_and_the_others_vote_without_a_guard(
    database_url: str, tmp_path: Path, fault: ErrorReply | Stall, api: str
) -> None:
    with ScriptedLLM() as default, ScriptedLLM() as there:
        there.answer = lambda _: [sample_text("4")]
        default.fault(*[fault] * 99)
        agents = [AgentConfig(id="there", model="there")]
        async with (
            arbiter_at(default, agents, others={"there": there}, programs=False) as arbiter,
            router_at(default, database_url, tmp_path, others={"arbiter": arbiter.grpc}) as router,
        ):
            asked: Api = RestApi(router.rest, ROUTER) if api == "rest" else RpcApi(router.grpc, ROUTER)
            request: Body = {
                "question": "What is 2 + 2?",
                "msv": STATE,
                "vote": {"sources": [{"agent": "there"}]},
                "envelope": {"timeout_ms": 12_000},
            }
            without = len((await _run_of(asked, request, default))[1])
            run, bodies = await _run_of(asked, {**request, "at_most": {"times_system1": 6}}, default)

    assert (run["strategy"], run["answer"][-1:]) == ("vote", "4")
    assert [reason[:23] for reason in run["degraded_reasons"]] == ["SOURCE_LEFT_OUT: draft:"]
    assert run.get("cost_guard") is None
    assert len(bodies) == without


async def _run_of(asked: Api, request: Body, model: ScriptedLLM) -> tuple[Body, list[Body]]:
    """Return the run of a request, and what it asked of a model."""
    before = len(model.bodies)
    run: Body = (await asked.ask("Answer", **request))["run"]
    return run, model.bodies[before:]


async def test_a_draft_whose_length_the_server_does_not_report_counts_as_what_is_booked_for_it(
    database_url: str, tmp_path: Path
) -> None:
    with ScriptedLLM(MINIMAL) as scripted:
        scripted.answer = cast(TROUBLED, system1=LONG)
        async with gateway(scripted, database_url, tmp_path, at_most_times_system1=6.0) as suite:
            _, found = await _answered(suite, "metacog", stream=False, metacog={"msv": STATE})

    guard, booked = found["cost_guard"], found["usage"]["stages"]["system1"]
    assert (found["strategy"], guard["not_started"], booked["estimated"]) == ("dialectic", "", True)
    assert guard["draft_tokens"] == booked["completion_tokens"] > 64
    assert guard["max_generated_tokens"] == 6 * guard["draft_tokens"]


@pytest.mark.parametrize("times", [1, 1001, "many"])
async def test_a_guard_that_cannot_be_is_a_400(suite: Suite, times: object) -> None:
    body = {"model": "metacog", "messages": OPEN, "metacog": {"at_most": {"times_system1": times}}}
    async with httpx.AsyncClient(base_url=suite.router.rest) as client:
        reply = await client.post("/v1/chat/completions", json=body)

    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "metacog.at_most.times_system1")
