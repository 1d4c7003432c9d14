"""Arbitration over a scripted model agent_of samples are known, by gRPC."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from math import inf, log
from typing import Any

import httpx
import numpy as np
import pytest
from grpc import aio
from metacog.arbiter.v1 import arbiter_pb2, arbiter_pb2_grpc
from metacog.common.v1 import answer_pb2

from configuration.agents import AgentConfig
from inference import Embedded, Encoder
from kernel.outcomes import NO_VALID_ANSWER
from sandbox.mathematics import InProcessCalculator, Job, LimitedMathematics, TooLate, always
from tests.support.apis import ApiError, Body, Events, RpcApi
from tests.support.arbiter import ARBITER, AwayEncoder, Script, arbiter_at, sample_text, stage_of
from tests.support.models.scripted_llm import LLAMACPP, MINIMAL, ErrorReply, Hangup, ScriptedChoice, ScriptedLLM, Stall
from tests.support.stack import until

QUESTION = "What is 2 + 2?"
# Solver one: 4 x 4, 1 x 5. Solver two: 1 x 4, 3 x 5, one invalid.
TORN = ["4", "4", "5", "4", "4", "5", "5", "4", None, "5"]
# Every sample of a solver comes in one call.
ALL_SAMPLES = {"stop": "NONE"}


@pytest.fixture
async def api(scripted: ScriptedLLM) -> AsyncIterator[RpcApi]:
    """An arbiter."""
    async with arbiter_at(scripted) as running:
        yield RpcApi(running.grpc, ARBITER)


async def arbitrated(api: RpcApi, **fields: Any) -> Body:  # noqa: ANN401
    """The end of an arbitration."""
    return await api.ask("Arbitrate", **{"question": QUESTION, "seed": 7, **fields})


async def events_of(api: RpcApi, **fields: Any) -> Events:  # noqa: ANN401
    """The events of an arbitration."""
    return await api.events("Arbitrate", **{"question": QUESTION, "seed": 7, **fields})


def of(events: Events, name: str) -> list[Body]:
    """The events called `name`."""
    return [data for each, data in events if each == name]


def stages(llm: ScriptedLLM) -> list[str]:
    return [stage_of(body) for body in llm.bodies]


# Paper mode


async def test_paper_mode_costs_five_calls_for_sixty_two_generations(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, ["4"] * 30 + ["5"] * 19 + [None])

    end = await arbitrated(api, mode="PAPER")

    assert sorted(stages(scripted)) == ["arbitrate", "critique", "critique", "solve", "solve"]
    assert sorted(body.get("n", 1) for body in scripted.bodies) == [1, 1, 5, 5, 50]
    assert (end["usage"]["http_calls"], end["usage"]["generations"], end["planned_generations"]) == (5, 62, 62)
    assert {name: spent["generations"] for name, spent in end["usage"]["stages"].items()} == {
        "solve": 10,
        "critique": 2,
        "arbitrate": 50,
    }
    assert (end["stopping_reason"], end["saved_generations"]) == ("ALL_SAMPLES", 0)


async def test_the_result_holds_both_distributions_with_their_measures(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, ["4"] * 30 + ["5"] * 19 + [None])

    end = await arbitrated(api, mode="PAPER", truth="4")

    # Solvers 5 : 4 of 9 valid; arbiter 30 : 19 of 49 valid.
    solver = 5 / 9 * log(9 / 5) + 4 / 9 * log(9 / 4)
    arbiter = 30 / 49 * log(49 / 30) + 19 / 49 * log(49 / 19)
    assert (end["solver"], end["solver_invalid"]) == ({"4": 5, "5": 4}, 1)
    assert (end["arbiter"], end["arbiter_invalid"]) == ({"4": 30, "5": 19}, 1)
    assert (end["answer"], end["answer_source"], end["confidence"]) == ("4", "ARBITER", pytest.approx(30 / 49))
    assert end["confidence_state"] == "UNCALIBRATED"
    measures = end["measures"]
    assert measures["entropy_solver"] == pytest.approx(solver)
    assert measures["entropy_arbiter"] == pytest.approx(arbiter)
    assert measures["entropy_reduction"] == pytest.approx(solver - arbiter)
    assert measures["compression"] == pytest.approx(1 - arbiter / solver)
    assert (measures["solver_invalid_share"], measures["arbiter_invalid_share"]) == (0.1, 0.02)
    assert (measures["correct"], measures["overconfident_error"]) == (True, False)
    assert [one["overconfident_error"] for one in measures["solvers"]] == [False, True]  # second: 5 with 3/4
    assert measures["novelty_threshold"] == 0.7
    assert measures["semantic_share"] + measures["symbolic_share"] + measures["untraced_share"] == pytest.approx(1)
    assert end["answer_text"] == sample_text("4")


async def test_the_first_valid_sample_represents_a_solver(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script([None, "5", "4", "4", "4", "4", "4", "4", "4", "4"], ["4"] * 50)

    end = await arbitrated(api, mode="PAPER")

    assert [solver["representative"]["answer"] for solver in end["solver_results"]] == ["5", "4"]
    critiques = [body["messages"][-1]["content"] for body in scripted.bodies if stage_of(body) == "critique"]
    assert sorted("Final Answer: 5" in prompt for prompt in critiques) == [False, True]
    [arbiter] = [body["messages"][-1]["content"] for body in scripted.bodies if stage_of(body) == "arbitrate"]
    assert "<answer_of_solver_1>\n5\n</answer_of_solver_1>" in arbiter
    assert arbiter.count("The second step does not follow.") == 2


async def test_a_solver_without_a_valid_sample_has_no_representative(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script([None] * 5 + ["4"] * 5, ["4"] * 50)

    end = await arbitrated(api, mode="PAPER")

    assert end["solver_results"][0]["representative"] is None
    assert stages(scripted).count("critique") == 1
    [arbiter] = [body["messages"][-1]["content"] for body in scripted.bodies if stage_of(body) == "arbitrate"]
    assert "Solver 1 gave no answer that could be read" in arbiter
    assert (end["answer"], end["degraded"]) == ("4", False)


async def test_a_tie_goes_to_the_solvers_favourite_and_is_reported(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(["5"] * 6 + ["4"] * 4, ["4"] * 25 + ["5"] * 25)

    end = await arbitrated(api, mode="PAPER")

    assert (end["answer"], end["tied_answers"], end["confidence"]) == ("5", ["5", "4"], 0.5)


async def test_without_a_valid_arbitration_sample_the_solvers_decide(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, [None] * 50)

    end = await arbitrated(api, mode="PAPER")

    assert (end["answer"], end["answer_source"], end["confidence"]) == ("4", "SOLVER_FALLBACK", pytest.approx(5 / 9))
    assert end["measures"]["entropy_reduction"] is None
    assert end["measures"]["undefined_reasons"]["compression"] == "no arbitration sample holds a valid answer"
    assert end["degraded_reasons"] == ["no arbitration sample holds a valid answer; the solvers' vote is the answer"]


async def test_without_any_valid_sample_it_abstains(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script([None] * 10, [None] * 50)

    end = await arbitrated(api, mode="PAPER")

    assert (end["outcome"], end["answer"], end["confidence"], end["answer_source"]) == ("ABSTAINED", "", None, None)
    assert end["confidence_state"] is None
    assert (end["solver_invalid"], end["arbiter_invalid"]) == (10, 50)
    assert (end["degraded"], end["degraded_reasons"]) == (True, [NO_VALID_ANSWER])


@pytest.mark.parametrize("variant", ["MAJORITY_VOTE", "SELF_CONSISTENCY"])
async def test_a_vote_with_only_invalid_samples_abstains_with_a_reason(
    api: RpcApi, scripted: ScriptedLLM, variant: str
) -> None:
    scripted.answer = Script([None] * 10)

    end = await arbitrated(api, variant=variant, self_consistency_samples=10)

    assert (end["outcome"], end["degraded"], end["degraded_reasons"]) == ("ABSTAINED", True, [NO_VALID_ANSWER])


async def test_a_critique_begins_while_the_other_solver_is_still_at_work(scripted: ScriptedLLM) -> None:
    agents = [AgentConfig(id="slow", system_prompt="slow"), AgentConfig(id="quick")]
    with ScriptedLLM(model="slow") as slow:
        slow.fault(Stall())
        scripted.answer = Script(["4"] * 5)
        configured = [AgentConfig(id="slow", model="slow"), agents[1]]
        async with arbiter_at(scripted, configured, others={"slow": slow}) as running:
            api = RpcApi(running.grpc, ARBITER)
            fields = {"mode": "PAPER", "answer_type": "NUMBER", "solver_agents": ["slow", "quick"]}
            task = asyncio.create_task(arbitrated(api, **fields))
            await scripted.until(lambda llm: "critique" in stages(llm))
            task.cancel()
            await asyncio.wait({task})

    assert stages(scripted) == ["solve", "critique"]


@pytest.mark.parametrize("stepwise", [False, True], ids=["at once", "in steps"])
async def test_once_disagreement_is_certain_both_critiques_begin_and_hold_nothing_up(
    scripted: ScriptedLLM, stepwise: bool
) -> None:
    # Each solver agrees with itself, and the two differ: known only when both are drawn.
    scripted.answer = Script(["4"] * 3 + ["5"] * 3 + ["4", "4", "5", "5"] if stepwise else ["4"] * 5 + ["5"] * 5)
    with ScriptedLLM(model="critic") as critic:
        critic.fault(Stall(), Stall() if stepwise else None)
        agents = [AgentConfig(id="critic", model="critic")]
        async with arbiter_at(scripted, agents, others={"critic": critic}) as running:
            api = RpcApi(running.grpc, ARBITER)
            stop = {"stop": "AGREE" if stepwise else "NONE"}
            fields = {"answer_type": "NUMBER", "critic_agent": "critic", "adaptive": stop}
            task = asyncio.create_task(arbitrated(api, **fields))
            await critic.until(lambda llm: len(llm.requests) == 2)
            await scripted.until(lambda llm: stages(llm).count("solve") == (4 if stepwise else 2))
            task.cancel()
            await asyncio.wait({task})

    assert "arbitrate" not in stages(scripted)


# The requests to the backend


async def test_seeds_differ_between_solvers_stages_and_batches_and_repeat(api: RpcApi, scripted: ScriptedLLM) -> None:
    for _ in range(2):
        scripted.answer = Script(TORN, ["4", "5"] * 25)
        await arbitrated(api)

    seeds = [body["seed"] for body in scripted.bodies]
    half = len(seeds) // 2
    assert sorted(seeds[:half]) == sorted(seeds[half:])
    assert len(set(seeds)) == half > 5


async def test_temperatures_and_tokens_are_the_papers_or_the_callers(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, ["4"] * 50)
    await arbitrated(api, mode="PAPER")
    assert {stage_of(body): body["temperature"] for body in scripted.bodies} == {
        "solve": 0.6,
        "critique": 0.2,
        "arbitrate": 0.4,
    }
    scripted.requests.clear()
    scripted.answer = Script(TORN, ["4"] * 50)

    await arbitrated(api, mode="PAPER", solver_temperature=1.1, arbitration_temperature=0.7, solver_max_tokens=99)

    reported = {stage_of(body): (body["temperature"], body["max_tokens"]) for body in scripted.bodies}
    assert reported == {"solve": (1.1, 99), "critique": (0.2, 192), "arbitrate": (0.7, 256)}


async def test_every_part_may_have_a_model_of_its_own(scripted: ScriptedLLM) -> None:
    with ScriptedLLM(model="other") as other:
        scripted.answer = Script(["4"] * 5, ["4"] * 50)
        other.answer = Script(["5"] * 5)
        agents = [
            AgentConfig(id="ada", system_prompt="You are Ada."),
            AgentConfig(id="ben", model="other", thinking=False),
        ]
        async with arbiter_at(scripted, agents, others={"other": other}) as running:
            api = RpcApi(running.grpc, ARBITER)
            end = await arbitrated(api, mode="PAPER", solver_agents=["ada", "ben"], arbiter_agent="ada")

    assert sorted(stages(other)) == ["critique", "solve"]
    assert [(solver["agent"], solver["model"]) for solver in end["solver_results"]] == [
        ("ada", "scripted"),
        ("ben", "other"),
    ]
    assert (end["arbiter_agent"], end["arbiter_model"]) == ("ada", "scripted")
    assert {critique["agent"] for critique in end["critiques"]} == {"ada", "ben"}


async def test_thinking_is_no_part_of_a_sample(api: RpcApi, scripted: ScriptedLLM) -> None:
    thought = ScriptedChoice("So it is four.\nFinal Answer: 4", reasoning="Perhaps five? Final Answer: 5")
    inline = "<think>Final Answer: 5</think>Four.\nFinal Answer: 4"
    scripted.answer = lambda body: [thought, inline] * 25 if stage_of(body) != "critique" else ["Fine."]

    end = await arbitrated(api, mode="PAPER", return_samples=True)

    assert end["solver"] == {"4": 10}
    assert not any("five" in sample["text"] or "Answer: 5" in sample["text"] for sample in end["samples"])


async def test_samples_are_returned_on_request(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, ["4"] * 50)

    end = await arbitrated(api, mode="PAPER", return_samples=True)

    assert [(sample["solver"], sample["answer"]) for sample in end["samples"][:10]] == list(
        zip([0] * 5 + [1] * 5, TORN, strict=True)
    )
    assert [sample["solver"] for sample in end["samples"][10:]] == [None] * 50
    assert end["samples"][0]["completion_tokens"] == len(sample_text("4").split())


async def test_a_long_trace_is_shortened_and_reported(scripted: ScriptedLLM) -> None:
    scripted.answer = lambda body: [
        f"{'word ' * 150}\nFinal Answer: {place % 2}" for place in range(body.get("n") or 1)
    ]
    async with arbiter_at(scripted, input_max_tokens=64) as running:
        end = await arbitrated(RpcApi(running.grpc, ARBITER), mode="PAPER", arbitration_samples=2)

    assert set(end["shortened_inputs"]) >= {"solver_0.trace", "solver_1.trace"}


async def test_a_small_context_shortens_more_instead_of_failing() -> None:
    trace = " ".join(f"w{place}" for place in range(180)) + "\nFinal Answer: "
    with ScriptedLLM(LLAMACPP) as small:
        small.shape = type(LLAMACPP)("small", max_n=None, checks=False, context=460)
        small.answer = lambda body: [f"{trace}{place % 2}" for place in range(body.get("n") or 1)]
        async with arbiter_at(small) as running:
            end = await arbitrated(RpcApi(running.grpc, ARBITER), mode="PAPER", arbitration_samples=2)

    assert end["answer_source"] == "ARBITER"
    assert end["shortened_inputs"]


async def test_a_question_that_cannot_fit_is_a_clear_error(api: RpcApi, scripted: ScriptedLLM) -> None:
    with pytest.raises(ApiError) as raised:
        await arbitrated(api, question="why " * 3000)

    assert raised.value.reason == "PROMPT_TOO_LONG"


# Adaptive mode


async def test_solvers_that_agree_need_no_arbiter(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(["4"] * 10)

    events = await events_of(api, adaptive=ALL_SAMPLES)

    end = of(events, "arbitration_finished")[0]
    assert stages(scripted) == ["solve", "solve"]
    assert of(events, "solvers_finished")[0]["settled"] is True
    assert (end["answer"], end["answer_source"], end["confidence"]) == ("4", "CONSENSUS", 1.0)
    assert (end["stopping_reason"], end["saved_generations"]) == ("SOLVERS_AGREE", 52)
    measures = end["measures"]
    assert (measures["entropy_solver"], measures["entropy_arbiter"]) == (0.0, None)
    assert (measures["entropy_reduction"], measures["compression"], measures["novelty"]) == (None, None, None)
    assert measures["failure_regimes"] == ["HIGH_AGREEMENT"]
    assert end["arbiter_agent"] == ""


async def test_one_valid_sample_of_ten_is_no_consensus(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script([None] * 9 + ["4"], ["5"] * 50)

    end = await arbitrated(api, answer_type="NUMBER")

    assert (end["solver"], end["answer"], end["answer_source"]) == ({"4": 1}, "5", "ARBITER")


async def test_one_solver_alone_is_no_consensus(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script([None] * 5 + ["4"] * 5, ["5"] * 50)

    end = await arbitrated(api, answer_type="NUMBER", adaptive=ALL_SAMPLES)

    assert (end["solver"], end["answer"], end["answer_source"]) == ({"4": 5}, "5", "ARBITER")


async def test_a_little_dissent_may_count_as_agreement(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(["4"] * 9 + ["5"])

    end = await arbitrated(api, adaptive={"agreement_entropy": 0.33, **ALL_SAMPLES})  # H(0.9, 0.1) = 0.325

    assert (end["answer_source"], end["confidence"]) == ("CONSENSUS", 0.9)


async def test_unanimous_solvers_can_be_stopped_half_way(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(["4"] * 6)

    end = await arbitrated(api)

    assert [body["n"] for body in scripted.bodies] == [3, 3]
    assert (end["solver"], end["saved_generations"]) == ({"4": 6}, 56)


async def test_solvers_that_differ_draw_all_their_samples(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(["4", "5", "4"] * 2 + ["5", "5"] * 2, ["5"] * 50)

    end = await arbitrated(api)

    assert [body["n"] for body in scripted.bodies if stage_of(body) == "solve"] == [3, 3, 2, 2]
    assert end["solver"] == {"4": 4, "5": 6}


async def test_self_consistency_draws_one_sample_after_another_until_two_agree(
    api: RpcApi, scripted: ScriptedLLM
) -> None:
    scripted.answer = Script(["4", None, "5", "4"])

    end = await arbitrated(api, variant="SELF_CONSISTENCY", self_consistency_samples=9, answer_type="NUMBER")

    assert [body.get("n", 1) for body in scripted.bodies] == [1, 1, 1, 1]
    assert (end["solver"], end["solver_invalid"], end["answer"]) == ({"4": 2, "5": 1}, 1, "4")
    assert (end["answer_source"], end["stopping_reason"], end["saved_generations"]) == (
        "SOLVER_VOTE",
        "SOLVERS_AGREE",
        5,
    )


async def test_the_caller_sets_how_many_samples_must_agree(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(["4", "5", "4", "5", "4"])

    end = await arbitrated(
        api, variant="SELF_CONSISTENCY", self_consistency_samples=9, answer_type="NUMBER", adaptive={"agree": 3}
    )

    assert (end["solver"], end["saved_generations"]) == ({"4": 3, "5": 2}, 4)


async def test_a_majority_vote_asks_all_solvers_once_before_it_asks_again(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(["4", "5", "5", "5"])

    end = await arbitrated(api, variant="MAJORITY_VOTE", answer_type="NUMBER")

    assert (end["solver"], end["answer"], end["saved_generations"]) == ({"4": 1, "5": 3}, "5", 6)


@pytest.mark.parametrize("fields", [{"adaptive": {"stop": "NONE"}}, {"mode": "PAPER"}], ids=["NONE", "paper"])
async def test_self_consistency_with_a_fixed_number_is_one_call(
    api: RpcApi, scripted: ScriptedLLM, fields: Body
) -> None:
    scripted.answer = Script(["4"] * 9)

    end = await arbitrated(api, variant="SELF_CONSISTENCY", self_consistency_samples=9, **fields)

    assert [body["n"] for body in scripted.bodies] == [9]
    assert (end["solver"], end["stopping_reason"], end["saved_generations"]) == ({"4": 9}, "ALL_SAMPLES", 0)


async def test_a_clear_leader_ends_the_sampling(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, ["4"] * 50)

    events = await events_of(api)

    end = of(events, "arbitration_finished")[0]
    batches = [data for data in of(events, "samples_drawn") if data["phase"] == "ARBITRATE"]
    assert [data["batch"] for data in batches] == [6]
    assert batches[0]["leader"] == "4"
    assert batches[0]["leader_probability"] == pytest.approx(1 - end["stopping_error"])
    assert (end["stopping_reason"], end["saved_generations"], end["arbiter"]) == ("LEADER_LIKELY", 44, {"4": 6})
    assert end["stopping_error"] < 0.05


async def test_a_close_race_is_sampled_until_it_is_decided(api: RpcApi, scripted: ScriptedLLM) -> None:
    # After 42 samples 26 : 16; the eight that are left cannot change that.
    scripted.answer = Script(TORN, (["4", "5"] * 16 + ["4"] * 10 + ["5"] * 8))

    events = await events_of(api)

    end = of(events, "arbitration_finished")[0]
    batches = [data["batch"] for data in of(events, "samples_drawn") if data["phase"] == "ARBITRATE"]
    assert batches == [6, 4, 6, 10, 16]
    assert (end["stopping_reason"], end["saved_generations"]) == ("LEADER_UNCATCHABLE", 8)
    assert end["stopping_error"] is None


async def test_at_probability_one_only_certainty_stops(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, ["4"] * 50)

    end = await arbitrated(api, adaptive={"stopping_probability": 1.0})

    # 26 of 50 cannot be caught; the batches end at 26.
    assert (end["stopping_reason"], end["arbiter"]) == ("LEADER_UNCATCHABLE", {"4": 26})


async def test_the_events_show_how_the_distribution_changes(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, ["4", "5"] * 25)

    events = await events_of(api, return_samples=True, adaptive=ALL_SAMPLES)

    names = [name for name, _ in events]
    assert (names[0], names[-1]) == ("arbitration_started", "arbitration_finished")
    # Nobody stated the form, so no critique is written before all solvers are in.
    assert names.index("solvers_finished") < names.index("critique_finished")
    assert names.count("critique_finished") == 2
    assert names[-2:] == ["answer_settled", "arbitration_finished"]
    drawn = of(events, "samples_drawn")
    assert [data["drawn"] for data in drawn if data["phase"] == "SOLVE"] == [5, 10]
    arbiter = [data for data in drawn if data["phase"] == "ARBITRATE"]
    assert [data["drawn"] for data in arbiter] == [6, 10, 16, 26, 42, 50]
    assert [len(data["samples"]) for data in arbiter] == [data["batch"] for data in arbiter]
    assert all(sum(data["counts"].values()) + data["invalid"] == data["drawn"] for data in drawn)


# Variants


@pytest.mark.parametrize(
    ("variant", "expected", "source"),
    [
        ("MAJORITY_VOTE", ["solve", "solve"], "SOLVER_VOTE"),
        ("REFLECTIONS", ["critique", "critique", "solve", "solve"], "SOLVER_VOTE"),
        ("SINGLE_ARBITER", ["arbitrate", "critique", "critique", "solve", "solve"], "ARBITER"),
        ("SELF_CONSISTENCY", ["solve"], "SOLVER_VOTE"),
    ],
)
async def test_the_ablations_are_options(
    api: RpcApi, scripted: ScriptedLLM, variant: str, expected: list[str], source: str
) -> None:
    scripted.answer = Script([*TORN, *TORN], ["5"])

    end = await arbitrated(api, mode="PAPER", variant=variant, self_consistency_samples=20)

    assert sorted(stages(scripted)) == expected
    assert end["answer_source"] == source
    assert end["usage"]["generations"] == end["planned_generations"]
    assert end["measures"]["novelty"] is not None


async def test_self_consistency_takes_the_first_of_several_agents(scripted: ScriptedLLM) -> None:
    scripted.answer = Script(["4"] * 6)
    async with arbiter_at(scripted, [AgentConfig(id="ada"), AgentConfig(id="ben")]) as running:
        api = RpcApi(running.grpc, ARBITER)
        end = await arbitrated(
            api, variant="SELF_CONSISTENCY", self_consistency_samples=6, solver_agents=["ada", "ben"]
        )

    assert [solver["agent"] for solver in end["solver_results"]] == ["ada"]


async def test_one_arbitration_sample_has_no_entropy(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, ["5"])

    end = await arbitrated(api, mode="PAPER", variant="SINGLE_ARBITER")

    assert (end["arbiter"], end["confidence"], end["measures"]["entropy_arbiter"]) == ({"5": 1}, 1.0, 0.0)


# The envelope


async def test_the_generations_of_the_envelope_are_never_passed(api: RpcApi, scripted: ScriptedLLM) -> None:
    for most in (1, 3, 9, 11, 13, 20):
        scripted.requests.clear()
        scripted.answer = Script(TORN, ["4", "5"] * 25)

        end = await arbitrated(api, mode="PAPER", envelope={"max_generations": most})

        assert sum(body.get("n") or 1 for body in scripted.bodies) == end["usage"]["generations"] <= most
        assert (end["outcome"], end["budget_exhausted"], end["stopping_reason"]) == ("ANSWERED", True, "BUDGET")
        assert end["degraded_reasons"]


async def test_a_budget_that_ends_in_the_arbitration_gives_its_best_answer_so_far(
    api: RpcApi, scripted: ScriptedLLM
) -> None:
    scripted.answer = Script(TORN, ["5"] * 50)

    end = await arbitrated(api, mode="PAPER", envelope={"max_generations": 20})

    assert (end["answer"], end["answer_source"], end["arbiter"]) == ("5", "ARBITER", {"5": 8})
    assert end["saved_generations"] == 0


async def test_critiques_are_left_out_where_no_arbitration_sample_would_fit_after_them(
    api: RpcApi, scripted: ScriptedLLM
) -> None:
    scripted.answer = Script(TORN)

    end = await arbitrated(api, mode="PAPER", envelope={"max_generations": 12})

    assert stages(scripted) == ["solve", "solve"]
    assert (end["answer"], end["answer_source"]) == ("4", "SOLVER_FALLBACK")


async def test_few_tokens_draw_whole_samples_in_more_calls(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, ["4"] * 50)

    end = await arbitrated(api, mode="PAPER", envelope={"max_generated_tokens": 1200})

    # 256 tokens each would be the worst case: 4 samples at a time. They take 8.
    assert {body["max_tokens"] for body in scripted.bodies if stage_of(body) == "solve"} == {256}
    assert max(body.get("n") or 1 for body in scripted.bodies) <= 1200 // 256
    assert end["usage"]["completion_tokens"] <= 1200
    assert (end["usage"]["generations"], end["budget_exhausted"]) == (62, False)


async def test_hardly_any_tokens_still_give_one_sample(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(["4"] * 10)

    end = await arbitrated(api, envelope={"max_generated_tokens": 12})

    assert [body["max_tokens"] for body in scripted.bodies] == [12]
    assert (end["answer"], end["budget_exhausted"]) == ("4", True)


async def test_the_deadline_gives_the_best_answer_so_far(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN)
    scripted.fault(None, None, None, None, Stall())

    end = await arbitrated(api, mode="PAPER", envelope={"timeout_ms": 1000})

    assert (end["answer"], end["answer_source"], end["stopping_reason"]) == ("4", "SOLVER_FALLBACK", "BUDGET")
    assert end["budget_exhausted"]
    assert end["usage"]["unknown_generations"] == 50
    assert end["measures"]["novelty"] is None


async def test_a_deadline_before_the_first_sample_is_an_error(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.fault(Stall(), Stall())

    with pytest.raises(ApiError) as raised:
        await arbitrated(api, envelope={"timeout_ms": 300})

    assert raised.value.reason == "DEADLINE_EXCEEDED"


# Backends that lack or fail


@pytest.mark.parametrize("shape", [LLAMACPP, MINIMAL], ids=lambda shape: shape.name)
async def test_a_backend_without_large_draws_is_asked_in_parallel_parts(shape: Any) -> None:  # noqa: ANN401
    with ScriptedLLM(shape) as llm:
        answers = {"solve": iter(TORN * 9), "arbitrate": iter(["4", "5", "4"] * 99)}
        llm.answer = lambda body: (
            ["Hm."]
            if stage_of(body) == "critique"
            else [sample_text(next(answers[stage_of(body)])) for _ in range(body.get("n") or 1)]
        )
        async with arbiter_at(llm) as running:
            end = await arbitrated(RpcApi(running.grpc, ARBITER), mode="PAPER", arbitration_samples=12)

    assert (sum(end["solver"].values()) + end["solver_invalid"], sum(end["arbiter"].values())) == (10, 12)
    assert end["usage"]["http_calls"] > 5
    assert max(body.get("n") or 1 for body in llm.bodies[-3:]) <= (shape.max_n or 1)


async def test_a_failed_critique_degrades_and_the_arbiter_goes_on(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, ["4"] * 50)
    scripted.fault(None, None, ErrorReply(400, "no"), None)

    end = await arbitrated(api, mode="PAPER")

    assert (end["answer_source"], end["degraded"]) == ("ARBITER", True)
    assert [critique["succeeded"] for critique in end["critiques"]].count(False) == 1
    assert "failed: BACKEND_REJECTED" in end["degraded_reasons"][0]


async def test_a_batch_that_fails_leaves_what_was_drawn_before(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, ["4", "5", "4", "5", "4", "4"])
    scripted.fault(None, None, None, None, None, *[ErrorReply(400, "no")] * 9)

    end = await arbitrated(api, adaptive=ALL_SAMPLES)

    assert (end["answer"], end["arbiter"], end["stopping_reason"]) == ("4", {"4": 4, "5": 2}, "FAILURE")
    assert end["degraded_reasons"][0].startswith("arbitrate failed: BACKEND_REJECTED")


async def test_one_solver_that_fails_leaves_the_other(scripted: ScriptedLLM) -> None:
    with ScriptedLLM(model="dead") as dead:
        pass
    scripted.answer = Script(["4", "5", "4", "4", "4"], ["4"] * 50)
    agents = [AgentConfig(id="gone", model="dead"), AgentConfig(id="here")]
    async with arbiter_at(scripted, agents, others={"dead": dead}) as running:
        end = await arbitrated(RpcApi(running.grpc, ARBITER), solver_agents=["gone", "here"])

    assert (end["answer"], end["degraded"]) == ("4", True)
    assert end["degraded_reasons"][0].startswith("solver 0 failed: BACKEND_UNAVAILABLE")
    assert end["solver_results"][0]["representative"] is None


async def test_a_dead_backend_is_an_error_when_nothing_was_sampled() -> None:
    with ScriptedLLM() as dead:
        pass
    async with arbiter_at(dead) as running:
        with pytest.raises(ApiError) as raised:
            await arbitrated(RpcApi(running.grpc, ARBITER))

    assert (raised.value.code, raised.value.reason) == ("UNAVAILABLE", "BACKEND_UNAVAILABLE")


async def test_a_backend_that_dies_in_the_arbitration_leaves_the_solvers_vote(
    api: RpcApi, scripted: ScriptedLLM
) -> None:
    scripted.answer = Script(TORN)
    scripted.fault(None, None, None, None, *[Hangup()] * 9)

    end = await arbitrated(api, mode="PAPER", envelope={"max_generations": 500, "max_generated_tokens": 90_000})

    assert (end["answer"], end["answer_source"], end["stopping_reason"]) == ("4", "SOLVER_FALLBACK", "FAILURE")
    assert end["degraded"]


async def test_a_client_that_goes_away_stops_the_backend(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, ["4"] * 50)
    scripted.fault(None, None, None, None, Stall())
    async with aio.insecure_channel(api.address) as channel:
        stub = arbiter_pb2_grpc.ArbiterServiceStub(channel)
        call = stub.Arbitrate(arbiter_pb2.ArbitrateRequest(question=QUESTION, mode=arbiter_pb2.ARBITRATION_MODE_PAPER))
        started = await call.read()
        assert started is not aio.EOF
        await scripted.until(lambda llm: len(llm.requests) == 5)  # two solvers, two critiques, and the one that stalls
        call.cancel()
        await scripted.until(lambda llm: llm.disconnects == 1)

    assert scripted.in_flight == 0


async def test_without_the_encoder_its_measures_are_missing_and_nothing_else(scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, ["4"] * 50)
    async with arbiter_at(scripted, encoder=AwayEncoder()) as running:
        end = await arbitrated(RpcApi(running.grpc, ARBITER))

    measures = end["measures"]
    assert (measures["novelty"], measures["redundancy"], measures["novelty_threshold"]) == (None, None, None)
    assert measures["undefined_reasons"]["novelty"].startswith("ENCODER_UNAVAILABLE")
    assert (end["answer"], end["degraded"]) == ("4", False)


class Pausing(InProcessCalculator):
    """Compares only once it is reported to go on."""

    def __init__(self) -> None:
        self.asked, self.go_on = threading.Event(), threading.Event()

    def within(self, seconds_left: Callable[[], float] = lambda: inf) -> LimitedMathematics:
        """Mathematics that waits."""
        return LimitedMathematics(always(self._compared), seconds_left, most=inf)

    def _compared(self, job: Job, seconds: float) -> bool:
        self.asked.set()
        if not self.go_on.wait(30.0):
            raise TooLate
        return True


async def test_the_service_answers_others_while_expressions_are_compared(scripted: ScriptedLLM) -> None:
    scripted.answer = Script([r"\sqrt{4}"] * 5 + ["2"] * 5)
    pausing = Pausing()
    async with (
        arbiter_at(scripted, calculator=pausing) as running,
        httpx.AsyncClient(base_url=running.rest, timeout=20) as client,
    ):
        task = asyncio.create_task(
            arbitrated(RpcApi(running.grpc, ARBITER), answer_type="NUMBER", adaptive=ALL_SAMPLES)
        )
        await asyncio.to_thread(pausing.asked.wait, 20)
        alive = await client.get("/healthz")
        pausing.go_on.set()
        end = await task

    assert alive.status_code == 200
    assert (list(end["solver"].values()), end["answer_source"], end["degraded"]) == ([10], "CONSENSUS", False)


async def test_expressions_that_take_too_long_count_as_different_with_a_reason(scripted: ScriptedLLM) -> None:
    class Late(InProcessCalculator):
        def within(self, seconds_left: Callable[[], float] = lambda: 0.0) -> LimitedMathematics:
            return LimitedMathematics(
                always(lambda job, seconds: pytest.fail("no comparison begins after the deadline")), lambda: 0.0
            )

    scripted.answer = Script([r"\sqrt{4}"] * 5 + ["2"] * 5, ["2"] * 50)
    async with arbiter_at(scripted, calculator=Late()) as running:
        end = await arbitrated(RpcApi(running.grpc, ARBITER), answer_type="NUMBER")

    assert (end["solver"], end["answer"]) == ({"2": 5, r"\sqrt{4}": 5}, "2")
    assert "took too long" in end["degraded_reasons"][0]


class StuckEncoder(AwayEncoder):
    """An encoder that never replies."""

    async def batches(self, texts: Sequence[str], *, timeout_s: float) -> AsyncGenerator[Embedded, None]:
        """Wait for ever."""
        await asyncio.Event().wait()
        yield Embedded(encoder=Encoder(name="stuck", dimension=1), vectors=np.zeros((0, 1), dtype=np.float32))


async def test_the_answer_does_not_wait_for_the_embedding_measures(scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, ["4"] * 50)
    async with (
        arbiter_at(scripted, encoder=StuckEncoder()) as running,
        aio.insecure_channel(running.grpc) as channel,
    ):
        stub = arbiter_pb2_grpc.ArbiterServiceStub(channel)
        call = stub.Arbitrate(arbiter_pb2.ArbitrateRequest(question=QUESTION, seed=7))
        settled = [reply async for reply in _until_settled(call)][-1].answer_settled
        call.cancel()

    assert (settled.answer, settled.confidence, settled.answer_text) == ("4", 1.0, sample_text("4"))
    assert settled.outcome == answer_pb2.OUTCOME_ANSWERED


async def _until_settled(
    call: AsyncIterable[arbiter_pb2.ArbitrateResponse],
) -> AsyncIterator[arbiter_pb2.ArbitrateResponse]:
    async for reply in call:
        yield reply
        if reply.WhichOneof("event") == "answer_settled":
            return


# Forms of answers


async def test_the_form_is_inferred_and_reported(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = lambda body: [sample_text("(b)")] * (body.get("n") or 1)

    end = await arbitrated(api, question="Which one flies?\nA. a cat\nB. a bird")

    assert (end["answer_type"], end["answer"]) == ("CHOICE", "B")


async def test_a_form_that_no_sample_has_is_corrected(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = lambda body: [sample_text("a great many")] * (body.get("n") or 1)

    end = await arbitrated(api, question="How many stars are there?")

    assert (end["answer_type"], end["answer"]) == ("TEXT", "great many")


LONG = [
    "The treaty put an end to the long war between both of the kingdoms for good.",
    "With the treaty the long war between both of the kingdoms was over for good.",
    "The treaty opened the harbours of both of the kingdoms to foreign merchant ships.",
]


async def test_long_answers_are_compared_by_a_model_inside_the_envelope(api: RpcApi, scripted: ScriptedLLM) -> None:
    def judged(body: Body) -> Sequence[str]:
        stage = stage_of(body)
        if stage == "compare":
            prompt = body["messages"][-1]["content"]
            count = prompt.count("<answer_")
            alike = [
                int("long war" in prompt.split(f"<answer_{place}>")[1].split("</")[0]) for place in range(1, count + 1)
            ]
            reference = "long war" in prompt.split("<reference_1>")[1].split("</")[0]
            return [f'{{"same": {[int(each and reference) for each in alike]}}}']
        texts = {"solve": [LONG[0], LONG[1], LONG[1], LONG[0], LONG[2]], "arbitrate": [LONG[1], LONG[0]] * 25}
        return [sample_text(text) for text in texts.get(stage, ["Hm."])[: body.get("n") or 1]]

    scripted.answer = judged

    end = await arbitrated(api, question="What did the treaty achieve? Explain.", mode="PAPER", arbitration_samples=10)

    assert end["answer_type"] == "TEXT"
    assert sorted(end["solver"].values()) == [2, 8]
    assert list(end["arbiter"].values()) == [10]
    assert end["usage"]["stages"]["compare"]["generations"] >= 1
    assert "same_meaning" in end["prompt_digests"]


async def test_prompt_digests_name_the_prompts_that_were_used(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, ["4"] * 50)

    end = await arbitrated(api)

    assert sorted(end["prompt_digests"]) == ["arbitrate", "check", "critique", "form", "solve"]
    assert all(len(digest) == 64 for digest in end["prompt_digests"].values())


# Replay


async def test_a_recorded_question_replays_through_either_mode(api: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, ["4"] * 35 + ["5"] * 15)
    end = await arbitrated(api, mode="PAPER", return_samples=True)
    calls = len(scripted.bodies)
    recording = {
        "recorded_solver_samples": [s for s in end["samples"] if s["solver"] is not None],
        "recorded_arbitration_samples": [s for s in end["samples"] if s["solver"] is None],
        "recorded_critiques": end["critiques"],
        "answer_type": "NUMBER",
    }

    paper = await api.ask("Replay", mode="PAPER", id="q1", **recording)
    adaptive = await api.ask("Replay", **recording)
    vote = await api.ask("Replay", variant="MAJORITY_VOTE", **recording)

    assert len(scripted.bodies) == calls
    replayed = paper["arbitration"]
    assert (paper["id"], paper["recorded_answer"], paper["same_answer"], paper["recorded_generations"]) == (
        "q1", "4", True, 62,
    )  # fmt: skip
    for name in ("answer", "solver", "arbiter", "confidence", "stopping_reason"):
        assert replayed[name] == end[name]
    assert replayed["measures"]["entropy_reduction"] == end["measures"]["entropy_reduction"]
    assert replayed["usage"]["completion_tokens"] == end["usage"]["completion_tokens"]
    assert (adaptive["arbitration"]["arbiter"], adaptive["same_answer"]) == ({"4": 6}, True)
    assert adaptive["arbitration"]["usage"]["generations"] == 18
    assert vote["arbitration"]["answer_source"] == "SOLVER_VOTE"


async def test_a_replay_finds_the_same_answer_in_another_spelling(api: RpcApi) -> None:
    # The samples of the first batch all hold the root of 4, most of the recording holds 2.
    reply = await api.ask(
        "Replay",
        answer_type="NUMBER",
        recorded_solver_samples=[{"solver": 0, "answer": "1"}, {"solver": 1, "answer": "3"}],
        recorded_arbitration_samples=[{"answer": r"\sqrt{4}"}] * 12 + [{"answer": "2"}] * 38,
    )

    assert (reply["arbitration"]["answer"], reply["recorded_answer"]) == (r"\sqrt{4}", "2")
    assert reply["same_answer"] is True


async def test_recorded_forms_are_not_read_again(api: RpcApi) -> None:
    # As a text of a model, "a b" would lose its article.
    reply = await api.ask(
        "Replay",
        mode="PAPER",
        answer_type="TEXT",
        recorded_solver_samples=[{"solver": 0, "answer": "a b"}, {"solver": 1, "answer": "b"}],
        recorded_arbitration_samples=[{"answer": "a b"}, {"answer": "b"}, {"answer": "b"}],
    )

    assert reply["arbitration"]["arbiter"] == {"a b": 1, "b": 2}


async def test_a_long_recording_is_replayed_with_certain_stops_only(api: RpcApi) -> None:
    reply = await api.ask(
        "Replay",
        answer_type="NUMBER",
        recorded_solver_samples=[{"solver": 0, "answer": "1"}, {"solver": 1, "answer": "3"}],
        recorded_arbitration_samples=[{"answer": "1"}] * 4_096,
    )

    assert reply["arbitration"]["stopping_reason"] == "LEADER_UNCATCHABLE"
    assert 2_048 <= reply["arbitration"]["arbiter"]["1"] < 4_096


async def test_a_replay_can_draw_in_another_order_and_under_an_envelope(api: RpcApi) -> None:
    recording: Body = {
        "recorded_solver_samples": [{"solver": 0, "answer": "4"}, {"solver": 1, "answer": "5"}],
        "recorded_arbitration_samples": [{"answer": "4" if place < 30 else "5"} for place in range(50)],
        "answer_type": "NUMBER",
    }

    shuffled = [(await api.ask("Replay", seed=seed, **recording))["arbitration"]["arbiter"] for seed in range(4)]
    short = await api.ask("Replay", mode="PAPER", envelope={"max_generations": 10}, **recording)

    assert len({str(counts) for counts in shuffled}) > 1
    assert short["arbitration"]["budget_exhausted"]
    assert short["arbitration"]["usage"]["generations"] == 10


async def test_a_recording_that_is_too_short_names_what_is_missing(api: RpcApi) -> None:
    recording: Body = {
        "recorded_solver_samples": [{"solver": 0, "answer": "4"}, {"solver": 1, "answer": "5"}],
        "answer_type": "NUMBER",
    }

    for fields, stage in (({"solver_samples": 2}, "solve by solver 0"), ({}, "arbitrate")):
        with pytest.raises(ApiError) as raised:
            await api.ask("Replay", **recording, **fields)
        assert (raised.value.reason, raised.value.metadata["stage"]) == ("RECORDING_TOO_SHORT", stage)


# As a service


@asynccontextmanager
async def rest_at(llm: ScriptedLLM) -> AsyncIterator[httpx.AsyncClient]:
    async with arbiter_at(llm) as running, httpx.AsyncClient(base_url=running.rest, timeout=30) as client:
        yield client


async def test_readiness_needs_the_model(scripted: ScriptedLLM) -> None:
    async with rest_at(scripted) as client:
        ready = await client.get("/readyz")
        scripted.ready = False

        async def is_loading() -> bool:
            return (await client.get("/readyz")).status_code == 503

        async with asyncio.timeout(10):  # readiness is checked once a second at most
            await until(is_loading)

    assert ready.status_code == 200


async def test_metrics_report_entropy_savings_and_tokens(scripted: ScriptedLLM) -> None:
    scripted.answer = Script(TORN, ["4"] * 50)
    async with rest_at(scripted) as client:
        await client.post("/v1/arbitrations", json={"question": QUESTION})
        text = (await client.get("/metrics")).text

    assert "metacog_entropy_reduction_nats_bucket" in text
    assert "metacog_arbiter_saved_generations_total" in text
    assert 'metacog_tokens_total{kind="completion",stage="arbitrate"}' in text
