"""The arbiter as a process, behind the router, and with a real model and a real encoder."""

from collections.abc import Callable, Sequence
from pathlib import Path

import httpx
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from openai import AsyncOpenAI

from kernel.arbitration.claims import claims
from tests.support.apis import Body, RestApi, RpcApi
from tests.support.arbiter import ARBITER, Script, arbiter_at, sample_text, stage_of
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROUTER, At, cast, process, router_at

QUESTION = "What is 2 + 2?"
TORN = ["4", "4", "5", "4", "4", "5", "5", "4", None, "5"]


def arbitration(arbitrate: Sequence[str | None]) -> Callable[[Body], Sequence[str]]:
    """Answers of a model that assesses and arbitrates."""
    script, others = Script(TORN, arbitrate), cast()

    def answer(body: Body) -> Sequence[str]:
        is_ours = "</question>" in str(body["messages"][-1]["content"]) and stage_of(body) != "compare"
        return script(body) if is_ours else others(body)

    return answer


async def test_the_process_is_healthy_and_lists_its_parts(scripted: ScriptedLLM) -> None:
    async with process("arbiter", METACOG_INFERENCE_URL=f"{scripted.url}/v1") as running:
        async with httpx.AsyncClient(base_url=running.rest) as client:
            ready = await client.get("/readyz")
        async with aio.insecure_channel(running.grpc) as channel:
            request = health_pb2.HealthCheckRequest(service=ARBITER.full_name)
            health = await health_pb2_grpc.HealthStub(channel).Check(request)

    assert ready.status_code == 200
    parts = ready.json()["parts"]
    assert (parts["inference"], parts["agents"]) == ("ok", "ok")
    assert "cannot be reached" in parts["encoder"]
    assert health.status == health_pb2.HealthCheckResponse.SERVING


async def test_a_chat_with_the_arbiter_shows_a_sample_that_holds_the_answer(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = arbitration(["5"] * 50)
    async with (
        arbiter_at(scripted) as arbiter,
        router_at(scripted, database_url, tmp_path, others={"arbiter": arbiter.grpc}) as router,
        AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none") as client,
    ):
        whole = await client.chat.completions.create(
            model="metacog/arbiter", messages=[{"role": "user", "content": QUESTION}], seed=7, temperature=0.9
        )
        ours = [body for body in scripted.bodies if "</question>" in str(body["messages"][-1]["content"])]
        metadata: Body = whole.model_extra["metacog"]  # type: ignore[index]
        run = (await RestApi(router.rest, ROUTER).ask("GetRun", run_id=metadata["run_id"]))["run"]
        scripted.answer = arbitration(["5"] * 50)
        stream = await client.chat.completions.create(
            model="metacog/arbiter",
            messages=[{"role": "user", "content": QUESTION}],
            stream=True,
            extra_body={"metacog": {"stage_events": True, "answer_type": "NUMBER"}},
        )
        chunks = [chunk async for chunk in stream]

    # What a caller asks for is the temperature of what is shown in the end; critiques keep theirs.
    temperatures = {stage_of(body): body["temperature"] for body in ours}
    assert temperatures == {"solve": 0.9, "critique": 0.2, "arbitrate": 0.9}
    # Ten of the solvers, and the arbiter's first batch.
    assert len(run["deliberation"]["samples"]) == 16
    assert whole.choices[0].message.content == sample_text("5")
    assert (metadata["strategy"], metadata["confidence_source"], metadata["degraded"]) == ("arbiter", "arbiter", False)
    assert metadata["confidence"] == 1.0
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == sample_text("5")
    extras = [chunk.model_extra or {} for chunk in chunks]
    events = [extra["metacog"].get("event") for extra in extras if "metacog" in extra]
    assert {"samples_drawn", "solvers_finished", "critique_finished"} <= set(events)


async def test_an_abstention_is_a_normal_completion(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> None:
    scripted.answer = lambda body: ["I cannot tell."] * (body.get("n") or 1)
    async with (
        arbiter_at(scripted) as arbiter,
        router_at(scripted, database_url, tmp_path, others={"arbiter": arbiter.grpc}) as router,
        httpx.AsyncClient(base_url=router.rest, timeout=30) as client,
    ):
        reply = await client.post(
            "/v1/chat/completions",
            json={
                "model": "metacog/arbiter",
                "messages": [{"role": "user", "content": QUESTION}],
                "metacog": {"answer_type": "NUMBER", "fallback": False},
            },
        )

    assert reply.status_code == 200
    assert reply.json()["metacog"]["outcome"] == "ABSTAINED"
    assert reply.json()["metacog"]["confidence"] is None


async def test_an_arbitration_runs_with_a_real_model_and_a_real_encoder(llm_url: str, encoder_url: str) -> None:
    async with arbiter_at(At(f"{llm_url}", "smollm2"), encoder=encoder_url) as running:
        api = RpcApi(running.grpc, ARBITER)
        end = await api.ask(
            "Arbitrate",
            question="Tom has 3 apples and buys 2 more. How many apples has he now?",
            answer_type="NUMBER",
            mode="PAPER",
            solver_samples=2,
            arbitration_samples=2,
            solver_max_tokens=32,
            critique_max_tokens=24,
            arbitration_max_tokens=32,
            return_samples=True,
            truth="5",
            seed=11,
            envelope={"timeout_ms": 300_000},
        )
        assert end["stopping_reason"] == "ALL_SAMPLES", end["degraded_reasons"]
        again = await api.ask(
            "Replay",
            mode="PAPER",
            answer_type="NUMBER",
            recorded_solver_samples=[sample for sample in end["samples"] if sample["solver"] is not None],
            recorded_arbitration_samples=[sample for sample in end["samples"] if sample["solver"] is None],
        )

    assert len(end["samples"]) == 6
    assert sum(end["solver"].values()) + end["solver_invalid"] == 4
    assert sum(end["arbiter"].values()) + end["arbiter_invalid"] == 2
    assert end["usage"]["stages"]["solve"]["http_calls"] == 2
    assert end["usage"]["stages"]["arbitrate"]["http_calls"] == 1
    valid = bool(end["solver"] or end["arbiter"])
    assert (end["outcome"], end["answer"] != "") == ("ANSWERED" if valid else "ABSTAINED", valid)
    assert again["arbitration"]["answer"] == end["answer"]
    # The encoder measured all that there was to measure.
    traces = [solver["representative"]["text"] for solver in end["solver_results"] if solver["representative"]]
    final = [sample["text"] for sample in end["samples"] if sample["solver"] is None]
    texts = [*traces, *(critique["text"] for critique in end["critiques"]), *final]
    measures = end["measures"]
    assert (measures["redundancy"] is not None) is (sum(len(claims(text)) for text in texts) > 1)
    known = any(map(claims, traces)) and any(map(claims, final))
    shares = [measures[name] for name in ("semantic_share", "symbolic_share", "untraced_share")]
    assert (sum(shares) == pytest.approx(1)) if known else (shares == [None] * 3)
