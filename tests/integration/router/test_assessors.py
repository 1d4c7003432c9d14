"""The five assessors over a scripted model: what each asks, what each makes of the replies, what it costs."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from math import exp, log
from pathlib import Path
from typing import Any

import httpx
import pytest

from kernel.msv.assessors import AssessorName
from kernel.votes.prior import SHIPPED_PRIOR
from services.router.settings import Settings
from tests.support.apis import Api, ApiError, RestApi, RpcApi
from tests.support.models.llm_replies import ScriptedChoice
from tests.support.models.scripted_llm import MINIMAL, Body, ErrorReply, ScriptedLLM, Stall
from tests.support.stack import ROUTER, RunningRouter, rating, router_at

# What one token of the scripted model is worth: a log-probability of -0.5.
TOKEN = exp(-0.5)


def part_of(body: Body) -> str:
    """What a request is for."""
    prompt = str(body["messages"][-1]["content"])
    if "response_format" in body:
        numbers = body["response_format"]["json_schema"]["schema"]["properties"]["r"]
        return "rating" if numbers["minItems"] == 7 else "importance"
    if "only the final answer" in prompt:
        return "probe"
    return "check" if "Is that answer right?" in prompt else "draft"


@dataclass
class ModelReplies:
    """A scripted model that knows what it is asked."""

    draft: str = "Two and two.\nFinal Answer: 4"
    samples: Sequence[str] = ("4", "4", "4", "5", "Final Answer: 4")
    check: dict[str, float] = field(default_factory=lambda: {"Yes": log(0.6), "No": log(0.2)})
    rating: str = rating(90, 80, 70, 10, 30, 20, 10)
    importance: str = '{"r": [30, 20, 10]}'

    def __call__(self, body: Body) -> Sequence[str | ScriptedChoice]:
        part = part_of(body)
        if part == "probe":
            return list(self.samples)[: body.get("n") or 1]
        if part == "check":
            return [ScriptedChoice("Yes", instead=self.check)]
        return [getattr(self, part)]


@pytest.fixture
async def router(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[RunningRouter]:
    scripted.answer = ModelReplies()
    async with router_at(scripted, database_url, tmp_path) as running:
        yield running


@pytest.fixture(params=["rest", "rpc"])
def api(router: RunningRouter, request: pytest.FixtureRequest) -> Api:
    """Each API in turn."""
    return RestApi(router.rest, ROUTER) if request.param == "rest" else RpcApi(router.grpc, ROUTER)


async def assessed(api: Api, assessor: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return await api.ask("Assess", question="What is 2 + 2?", assessor=assessor, seed=3, **more)


async def test_the_default_assessor_is_one_for_route_assess_answers_and_streams_alike(
    scripted: ScriptedLLM, own_database_url: str, tmp_path: Path
) -> None:
    scripted.answer = ModelReplies()
    asked = {"question": "What is 2 + 2?", "seed": 3}
    chat = {"model": "metacog", "messages": [{"role": "user", "content": "What is 2 + 2?"}]}
    shipped = Settings.model_construct()
    async with (
        router_at(
            scripted, own_database_url, tmp_path, assessor=shipped.assessor, streamed_assessor=shipped.streamed_assessor
        ) as router,
        httpx.AsyncClient(base_url=router.rest) as client,
    ):
        both = (RestApi(router.rest, ROUTER), RpcApi(router.grpc, ROUTER))
        routed = [await api.ask("Route", **asked) for api in both]
        assessed_once = [await api.ask("Assess", **asked) for api in both]
        answered = [(await api.ask("Answer", **asked))["run"]["route"] for api in both]
        streamed = dict(await both[0].events("Answer", **asked))["routed"]
        chats = [
            (await client.post("/v1/chat/completions", json={**chat, "stream": way})).text for way in (True, False)
        ]

    decisions = [*routed, *answered, streamed]
    assert {one["assessor"] for one in (*decisions, *assessed_once)} == {AssessorName.ANSWERS}
    assert [one["msv"] for one in (*decisions, *assessed_once)] == [routed[0]["msv"]] * 7
    assert [(one["system"], one["activation"]) for one in decisions] == [
        (routed[0]["system"], routed[0]["activation"])
    ] * 5
    assert all('"assessor":"answers"' in reply.replace(": ", ":") for reply in chats)


async def test_correctness_before_any_answer_is_the_share_right_and_conflict_is_unknown(api: Api) -> None:
    msv = (await assessed(api, AssessorName.ANSWERS))["msv"]

    assert msv["correctness"] == msv["parts"]["prior_share"] == SHIPPED_PRIOR.share_right
    assert (msv["conflict"], msv["unknown_reasons"]["conflict"]) == (
        None,
        "one answer alone has nothing to disagree with",
    )
    assert (msv["importance"], msv["parts"]["consequence"], msv["kind"]) == (0.2, 0.3, "PROSPECTIVE")


async def test_the_confidence_of_a_system_one_answer_is_that_share_and_says_that_no_label_is_behind_it(
    api: Api,
) -> None:
    run = (await api.ask("Answer", question="What is 2 + 2?", assessor=AssessorName.ANSWERS))["run"]

    assert (run["strategy"], run["answer"]) == ("system1", "Two and two.\nFinal Answer: 4")
    assert (run["confidence"], run["confidence_source"]) == (SHIPPED_PRIOR.share_right, AssessorName.ANSWERS)
    assert (run["confidence_state"], run["confidence_labels"]) == ("PRIOR", 0)


@pytest.mark.parametrize("rated", [(30, 20, 10), (1, 2, 3)])
async def test_what_is_neither_answer_nor_vote_has_at_most_64_tokens_even_where_the_rating_is_asked_for_twice(
    api: Api, scripted: ScriptedLLM, rated: tuple[int, ...]
) -> None:
    replies = ModelReplies(importance=json.dumps({"r": rated}))
    scripted.answer = replies

    run = (await api.ask("Answer", question="What is 2 + 2?", assessor=AssessorName.ANSWERS))["run"]

    others = [body for body in scripted.bodies if part_of(body) != "draft"]
    assert [part_of(body) for body in others] == ["importance"] * (1 if rated == (30, 20, 10) else 2)
    assert sum(body["max_tokens"] * (body.get("n") or 1) for body in others) <= 64
    assert run["usage"]["stages"]["assess"]["completion_tokens"] <= 64
    assert set(run["usage"]["stages"]) == {"assess", "system1"}


async def test_an_importance_by_policy_calls_no_model_and_is_shown_as_one(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    async with router_at(scripted, database_url, tmp_path, assessor=AssessorName.ANSWERS, importance=0.8) as router:
        replies = [await assessed(api, "") for api in (RestApi(router.rest, ROUTER), RpcApi(router.grpc, ROUTER))]

    assert scripted.bodies == []
    for reply in replies:
        assert (reply["msv"]["importance"], reply["msv"]["parts"]["importance_by_policy"]) == (0.8, 0.8)
        assert (reply["assessor"], reply["usage"]["generations"]) == (AssessorName.ANSWERS, 0)


@pytest.mark.parametrize("reply", ["bad", '{"r": [200]}'])
async def test_a_rating_of_importance_that_cannot_be_read_is_unknown_and_system_two_is_the_default(
    api: Api, scripted: ScriptedLLM, reply: str
) -> None:
    scripted.answer = ModelReplies(importance=reply)

    routed = await api.ask("Route", question="What is 2 + 2?", assessor=AssessorName.ANSWERS)

    assert routed["msv"]["importance"] is None
    assert routed["msv"]["unknown_reasons"]["importance"]
    assert (routed["system"], routed["reason"], routed["activation"]["value"]) == ("SYSTEM_TWO", "undetermined", None)


async def test_the_rating_is_the_models_own(api: Api, scripted: ScriptedLLM) -> None:
    reply = await assessed(api, "verbalized")

    assert [part_of(body) for body in scripted.bodies] == ["rating"]
    msv = reply["msv"]
    assert (msv["correctness"], msv["conflict"], msv["importance"]) == (0.8, 0.1, 0.2)
    assert (reply["draft"], list(reply["samples"])) == ("", [])


async def test_a_rating_that_counts_its_places_is_asked_for_again_in_another_order(
    api: Api, scripted: ScriptedLLM
) -> None:
    replies = ModelReplies()
    numbers = iter([(1, 2, 3, 4, 5, 6, 7), (4, 3, 2, 1, 7, 6, 5)])
    scripted.answer = lambda body: [rating(*next(numbers))] if part_of(body) == "rating" else replies(body)

    msv = (await assessed(api, "verbalized"))["msv"]

    # The same numbers for the same questions: they are meant.
    assert (msv["correctness"], msv["conflict"], msv["importance"]) == (0.02, 0.04, 0.06)
    first, second = (str(body["messages"][-1]["content"]) for body in scripted.bodies)
    assert "1. would its logic hold" in first
    assert "1. how much would your own quick attempts contradict" in second


async def test_a_probe_is_one_call_of_few_tokens(api: Api, scripted: ScriptedLLM) -> None:
    reply = await assessed(api, "probe")

    assert [part_of(body) for body in scripted.bodies] == ["probe"]
    [sent] = scripted.bodies
    assert sent["n"] * sent["max_tokens"] <= 64
    assert len(reply["samples"]) == sent["n"] == 5


async def test_a_probe_reads_correctness_and_conflict_off_the_samples(api: Api) -> None:
    msv = (await assessed(api, "probe"))["msv"]

    # Four of five agree, so 4 of 10 pairs differ; each token of the leading ones has a probability of e^-0.5.
    assert msv["conflict"] == pytest.approx(0.4)
    assert msv["correctness"] == pytest.approx((0.8 + TOKEN) / 2)
    assert msv["parts"]["sample_agreement"] == 0.8
    assert (msv["importance"], msv["unknown_reasons"]["importance"]) == (None, "this assessor does not measure it")


async def test_the_hybrid_probes_the_answer_and_has_the_request_rated_at_once(api: Api, scripted: ScriptedLLM) -> None:
    reply = await assessed(api, "hybrid")

    assert sorted(part_of(body) for body in scripted.bodies) == ["importance", "probe"]
    msv = reply["msv"]
    assert (msv["conflict"], msv["importance"]) == (pytest.approx(0.4), 0.2)
    assert msv["parts"]["consequence"] == 0.3
    assert set(reply["prompt_digests"]) == {"probe", "importance"}


async def test_a_draft_is_judged_by_check_likelihood_and_support(api: Api) -> None:
    reply = await assessed(api, "draft")

    assert reply["draft"] == "Two and two.\nFinal Answer: 4"
    msv = reply["msv"]
    parts = msv["parts"]
    assert parts["check"] == pytest.approx(0.75)
    assert parts["draft_support"] == 0.8
    assert parts["draft_likelihood"] == pytest.approx(TOKEN)
    assert msv["correctness"] == pytest.approx((0.75 + TOKEN + 0.8) / 3)
    assert (msv["conflict"], msv["importance"]) == (pytest.approx(0.2), 0.2)
    assert msv["kind"] == "RETROSPECTIVE"


async def test_the_check_is_one_token_about_the_draft_itself(api: Api, scripted: ScriptedLLM) -> None:
    reply = await assessed(api, "draft")

    [check] = [body for body in scripted.bodies if part_of(body) == "check"]
    assert (check["max_tokens"], check["top_logprobs"]) == (1, 20)
    assert check["messages"][-2] == {"role": "assistant", "content": reply["draft"]}


async def test_the_cost_of_each_assessment_is_reported(api: Api) -> None:
    usage = (await assessed(api, "draft"))["usage"]

    # Five samples, a check and a rating of the request; the draft is System 1's.
    assert (usage["stages"]["assess"]["generations"], usage["stages"]["system1"]["generations"]) == (7, 1)


@pytest.mark.parametrize("assessor", ["verbalized", "probe", "hybrid", "draft"])
async def test_a_model_that_talks_nonsense_leaves_unknowns_and_never_zeros(
    api: Api, scripted: ScriptedLLM, assessor: str
) -> None:
    scripted.answer = ModelReplies(
        draft=" ", samples=[" "] * 5, check={"Perhaps": -0.1}, rating="bad", importance="bad"
    )

    msv = (await assessed(api, assessor))["msv"]

    unknown = ("correctness", "conflict", "importance", "experience")
    assert [msv[name] for name in unknown] == [None] * 4
    assert all(msv["unknown_reasons"][name] for name in unknown)


@pytest.mark.parametrize("assessor", ["verbalized", "probe", "hybrid", "draft"])
async def test_an_error_of_the_backend_is_a_reason_and_no_error(api: Api, scripted: ScriptedLLM, assessor: str) -> None:
    for _ in range(8):
        scripted.fault(ErrorReply(400, "no"))

    msv = (await assessed(api, assessor))["msv"]

    assert (msv["correctness"], msv["conflict"], msv["importance"]) == (None, None, None)
    assert "no" in msv["unknown_reasons"]["correctness"]


async def test_an_assessment_takes_no_more_than_its_share_of_the_time(api: Api, scripted: ScriptedLLM) -> None:
    scripted.fault(Stall())

    msv = (await assessed(api, "verbalized", envelope={"timeout_ms": 1000}))["msv"]

    assert "DEADLINE_EXCEEDED" in msv["unknown_reasons"]["correctness"]


async def test_a_backend_without_probabilities_still_supports_a_draft(database_url: str, tmp_path: Path) -> None:
    with ScriptedLLM(MINIMAL) as llm:
        llm.answer = ModelReplies(samples=["4"])
        async with router_at(llm, database_url, tmp_path) as router:
            msv = (await assessed(RestApi(router.rest, ROUTER), "draft"))["msv"]

    assert (msv["correctness"], msv["conflict"]) == (1.0, 0.0)
    assert set(msv["parts"]) & {"check", "draft_likelihood"} == set()


async def test_an_unknown_assessor_is_rejected_with_the_known_ones(api: Api) -> None:
    with pytest.raises(ApiError) as raised:
        await assessed(api, "oracle")

    assert (raised.value.code, raised.value.reason) == ("INVALID_ARGUMENT", "UNKNOWN_ASSESSOR")
    assert raised.value.metadata == {"assessor": "oracle"}
    assert "verbalized, probe, hybrid, draft" in raised.value.message


async def test_a_preview_returns_the_draft_and_the_samples(api: Api) -> None:
    reply = await api.ask("Route", question="What is 2 + 2?", assessor="draft")

    assert (reply["system"], reply["assessor"]) == ("SYSTEM_ONE", "draft")
    assert reply["draft"].endswith("Final Answer: 4")
    assert len(reply["samples"]) == 5
    assert (reply["usage"]["stages"]["system1"]["generations"], reply["usage"]["generations"]) == (1, 8)


async def test_a_draft_that_is_good_enough_is_the_answer(router: RunningRouter, scripted: ScriptedLLM) -> None:
    api = RestApi(router.rest, ROUTER)

    run = (await api.ask("Answer", question="What is 2 + 2?", assessor="draft"))["run"]

    assert [part_of(body) for body in scripted.bodies].count("draft") == 1
    assert (run["answer"], run["strategy"]) == ("Two and two.\nFinal Answer: 4", "system1")
    assert (run["confidence"], run["confidence_source"]) == (run["route"]["msv"]["correctness"], "draft")


async def test_a_doubted_draft_goes_into_the_deliberation(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = ModelReplies(samples=["1", "2", "3", "5", "6"], check={"No": log(0.9), "Yes": log(0.01)})
    async with router_at(scripted, database_url, tmp_path) as router:
        api = RestApi(router.rest, ROUTER)

        reply = await api.ask("Route", question="What is 2 + 2?", assessor="draft")

    assert (reply["system"], reply["strategy"]) == ("SYSTEM_TWO", "vote")  # numbers can be compared
    assert reply["draft"]


async def test_a_chat_with_a_draft_gets_the_backends_own_reply(router: RunningRouter, scripted: ScriptedLLM) -> None:
    body = {"model": "metacog", "messages": [{"role": "user", "content": "What is 2 + 2?"}], "user": "ada",
            "metacog": {"assessor": "draft"}}  # fmt: skip

    async with httpx.AsyncClient(base_url=router.rest) as client:
        reply = (await client.post("/v1/chat/completions", json=body)).raise_for_status().json()

    drafts = [sent for sent in scripted.bodies if part_of(sent) == "draft"]
    assert [sent["user"] for sent in drafts] == ["ada"]
    [choice] = reply["choices"]
    assert choice["message"]["content"] == "Two and two.\nFinal Answer: 4"
    assert choice["logprobs"] is None
    assert reply["metacog"]["confidence_source"] == "draft"


async def test_an_assessor_sees_the_whole_conversation(router: RunningRouter, scripted: ScriptedLLM) -> None:
    messages = [
        {"role": "system", "content": "Speak like a pirate."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "See"}, {"type": "text", "text": "the ship"}],
        },
        {"role": "assistant", "content": "Arr."},
        {"role": "user", "content": "How many masts?"},
    ]
    body = {"model": "metacog", "messages": messages, "metacog": {"assessor": "probe"}}

    async with httpx.AsyncClient(base_url=router.rest) as client:
        (await client.post("/v1/chat/completions", json=body)).raise_for_status()

    [probe] = [sent for sent in scripted.bodies if part_of(sent) == "probe"]
    assert probe["messages"][:3] == messages[:3]
    assert probe["messages"][3]["content"].startswith("How many masts?\n\n")


async def test_a_stream_never_waits_for_a_draft(router: RunningRouter, scripted: ScriptedLLM) -> None:
    body = {"model": "metacog", "messages": [{"role": "user", "content": "2 + 2?"}], "stream": True}

    async with httpx.AsyncClient(base_url=router.rest) as client:
        (await client.post("/v1/chat/completions", json=body)).raise_for_status()

    assert [part_of(sent) for sent in scripted.bodies] == ["rating", "draft"]
    assert scripted.bodies[-1]["stream"] is True


async def test_a_stream_that_asks_for_a_draft_gets_it_in_one_piece(
    router: RunningRouter, scripted: ScriptedLLM
) -> None:
    body = {"model": "metacog", "messages": [{"role": "user", "content": "2 + 2?"}], "stream": True,
            "metacog": {"assessor": "draft"}}  # fmt: skip

    async with httpx.AsyncClient(base_url=router.rest) as client:
        reply = (await client.post("/v1/chat/completions", json=body)).raise_for_status()

    *chunks, last, done = [line.removeprefix("data: ") for line in reply.text.splitlines() if line]
    documents = [json.loads(chunk) for chunk in (*chunks, last)]
    assert done == "[DONE]"
    assert {chunk["object"] for chunk in documents} == {"chat.completion.chunk"}
    assert "".join(c["choices"][0]["delta"].get("content") or "" for c in documents) == "Two and two.\nFinal Answer: 4"
    assert documents[-1]["metacog"]["confidence_source"] == "draft"
    assert [part_of(sent) for sent in scripted.bodies].count("draft") == 1


async def test_an_envelope_too_small_for_an_assessor_gets_a_single_pass_call(api: Api, scripted: ScriptedLLM) -> None:
    # The draft assessor draws 7 samples of 125 tokens in all beside the answer, which needs 64 at least.
    reply = await api.ask(
        "Route", question="2 + 2?", assessor="draft", envelope={"max_generations": 8, "max_generated_tokens": 188}
    )

    assert (reply["system"], reply["reason"], scripted.bodies) == ("SYSTEM_ONE", "envelope", [])


async def test_an_envelope_with_room_for_a_draft_is_not_exceeded(api: Api) -> None:
    reply = await api.ask(
        "Route", question="2 + 2?", assessor="draft", envelope={"max_generations": 8, "max_generated_tokens": 189}
    )

    assert (reply["reason"], reply["assessor"]) == ("activation", "draft")
    assert reply["msv"]["parts"]["check"] == pytest.approx(0.75)
