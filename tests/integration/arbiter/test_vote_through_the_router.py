"""`metacog/vote`: the draft votes first, the arbiter asks for more, and the confidence is a probability."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import httpx
import pytest
from openai import AsyncOpenAI, BadRequestError

from chassis.ids import new_id
from chassis.serving.auth import Keyring
from configuration.agents import AgentConfig
from kernel.learning.gains import LabelledPair
from kernel.votes.competence import recorded_competences
from kernel.votes.prior import SHIPPED_PRIOR
from kernel.votes.probability import VoteEvidence, probability_model
from services.router.compose import RoutingRules
from services.router.service.assessment.routing import RoutingConfig
from services.router.store.calibration import PostgresCalibration
from tests.support.apis import Api, ApiError, Body, RestApi, RpcApi, teaching_key
from tests.support.arbiter import arbiter_at, sample_text
from tests.support.models.scripted_llm import ErrorReply, ScriptedLLM, Stall
from tests.support.stack import ROUTER, RunningRouter, quick_storage, router_at, until

QUESTION = "What is 2 + 2?"
REQUEST = {"question": QUESTION, "strategy": "vote", "seed": 5}


class Voters:
    """The model's direct answer, and then the answers of its votes."""

    def __init__(self, direct: str, *voted: str | None) -> None:
        self._direct = direct
        self._voted = [sample_text(answer) for answer in voted]

    def __call__(self, body: Body) -> Sequence[str]:
        is_vote = "Final Answer" in str(body["messages"][-1]["content"])
        return [self._voted.pop(0) if is_vote else self._direct]


@pytest.fixture
async def router(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[RunningRouter]:
    """A router with an arbiter behind it, whose models write no programs."""
    async with (
        arbiter_at(scripted, programs=False) as arbiter,
        router_at(scripted, database_url, tmp_path, others={"arbiter": arbiter.grpc}, label_share=1.0) as running,
    ):
        yield running


@pytest.fixture(params=["rest", "rpc"])
def api(request: pytest.FixtureRequest, router: RunningRouter) -> Api:
    """The router, by each of its APIs."""
    return RestApi(router.rest, ROUTER) if request.param == "rest" else RpcApi(router.grpc, ROUTER)


def prior_of_agreement(*, agreeing: int, valid: int, modes: int) -> float:
    evidence = VoteEvidence(agreeing=agreeing, valid=valid, modes=modes, draft_agrees=modes == 2)
    return probability_model(SHIPPED_PRIOR).probability(evidence)


async def test_the_draft_and_one_vote_that_agree_are_an_answer_with_its_probability(
    api: Api, scripted: ScriptedLLM
) -> None:
    scripted.answer = Voters("It is 4.", "4")

    run = (await api.ask("Answer", **REQUEST))["run"]

    assert (run["strategy"], run["answer"], run["outcome"], run["degraded"]) == ("vote", "It is 4.", "ANSWERED", False)
    assert (run["confidence_source"], run["confidence_state"], run["confidence_labels"]) == ("votes", "PRIOR", 0)
    assert run["confidence"] == pytest.approx(prior_of_agreement(agreeing=2, valid=2, modes=2))
    assert run["usage"]["generations"] == 2  # the draft, and one vote
    assert sorted(run["usage"]["stages"]) == ["system1", "vote"]


async def test_the_run_has_the_state_that_the_votes_measured(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Voters("It is 4.", "5", "4")
    before = {"correctness": 0.5, "conflict": 0.9, "importance": 0.3}
    question = f"What is 2 + 2, {new_id()}?"

    run = (await api.ask("Answer", question=question, strategy="vote", seed=5, msv=before))["run"]

    state = run["state"]
    assert (state["correctness"], state["conflict"]) == (run["confidence"], pytest.approx(1 / 3))
    assert (state["kind"], state["importance"], state["experience"]) == ("RETROSPECTIVE", 0.3, None)
    # The draft agrees with one of two reasoned votes, and these differ from each other.
    assert state["parts"] == {"source_disagreement": 0.5, "internal_inconsistency": 1.0}
    assert state["unknown_reasons"]["instability"] == "no earlier run of this question is recorded"
    assert run["route"]["msv"]["conflict"] == 0.9  # the state before stays what it was


async def test_answers_of_earlier_runs_of_the_same_question_show_how_stable_it_is(
    api: Api, router: RunningRouter, scripted: ScriptedLLM
) -> None:
    asked = {**REQUEST, "question": f"What is 2 + 2, {new_id()}?"}
    for answer in ("4", "5"):
        scripted.answer = Voters(f"It is {answer}.", answer)
        await api.ask("Answer", **asked)
        assert await router.journal.flush(10)
    scripted.answer = Voters("It is 4.", "4")
    other = (await api.ask("Answer", **{**asked, "question": f"What is 2 + 2, {new_id()}?"}))["run"]
    scripted.answer = Voters("It is 4.", "4")

    events = dict(await api.events("Answer", **asked))
    run = events["run_finished"]["run"]

    assert run["state"]["parts"]["instability"] == 0.5
    assert "instability" not in run["state"]["unknown_reasons"]
    assert "instability" not in other["state"]["parts"]
    assert await router.journal.flush(10)
    shown = (await api.ask("GetRun", run_id=run["run_id"]))["run"]
    assert (shown["state"], shown["winner_digest"]) == (run["state"], run["winner_digest"])
    assert len(run["winner_digest"]) == 64


async def test_earlier_runs_of_another_key_or_another_configuration_do_not_count(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    asked = {**REQUEST, "question": f"What is 2 + 2, {new_id()}?"}
    keyring = Keyring([teaching_key(name) for name in ("ann", "bob")])
    states = []
    async with arbiter_at(scripted, programs=False) as arbiter:
        for version, name in (("one", "ann"), ("one", "bob"), ("two", "ann"), ("one", "ann")):
            rules = RoutingRules(config=RoutingConfig(version=version))
            async with router_at(
                scripted,
                database_url,
                tmp_path,
                others={"arbiter": arbiter.grpc},
                keyring=keyring,
                routing=rules,
                storage=quick_storage(tmp_path, contents=False),
            ) as running:
                rest = RestApi(running.rest, ROUTER, {"authorization": f"Bearer {name}"})
                scripted.answer = Voters("It is 4.", "4")
                states.append((await rest.ask("Answer", **asked))["run"]["state"])
                assert await running.journal.flush(10)

    # Only the last has an earlier run of the same key and configuration; contents are not stored, and digests are.
    assert ["instability" in state["parts"] for state in states] == [False, False, False, True]
    assert states[-1]["parts"]["instability"] == 0.0


async def test_a_chat_shows_the_measured_state_where_its_confidence_is(
    router: RunningRouter, scripted: ScriptedLLM
) -> None:
    scripted.answer = Voters("It is 4.", "5", "4")
    body = {"model": "metacog/vote", "messages": [{"role": "user", "content": f"What is 2 + 2, {new_id()}?"}]}

    async with httpx.AsyncClient(base_url=router.rest) as client:
        field = (await client.post("/v1/chat/completions", json=body)).raise_for_status().json()["metacog"]

    assert (field["state"]["correctness"], field["state"]["conflict"]) == (field["confidence"], pytest.approx(1 / 3))


async def test_a_run_without_votes_has_no_measured_state(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Voters("It is 4.")

    run = (await api.ask("Answer", question=QUESTION, strategy="system1"))["run"]

    assert (run["state"], run["winner_digest"]) == (None, "")


async def test_every_vote_is_an_event_of_the_run(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Voters("It is 4.", "5", "4")

    events = await api.events("Answer", **REQUEST)

    cast = [data for name, data in events if name == "vote_cast"]
    assert [(vote["mode"], vote["answer"]) for vote in cast] == [("DRAFT", "4"), ("REASONED", "5"), ("REASONED", "4")]
    assert all(vote["completion_tokens"] > 0 for vote in cast)  # of the draft too, which the router wrote
    assert [name for name, _ in events][-2:] == ["answer_token", "run_finished"]


async def test_an_undecided_vote_is_shown_and_its_probability_is_low(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Voters("It is 1.", "2", "3", "4", "5")

    run = (await api.ask("Answer", **REQUEST))["run"]

    assert (run["answer"], run["outcome"]) == ("It is 1.", "ANSWERED")
    assert run["confidence"] < 0.2 < prior_of_agreement(agreeing=2, valid=2, modes=2)


async def test_no_valid_vote_is_an_abstention_without_a_confidence(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Voters("I do not know.", None, None, None, None)

    run = (await api.ask("Answer", **REQUEST, answer_type="NUMBER"))["run"]

    assert (run["outcome"], run["confidence"], run["confidence_state"]) == ("ABSTAINED", None, None)
    assert (run["state"]["correctness"], run["state"]["conflict"], run["winner_digest"]) == (None, None, "")
    assert run["state"]["unknown_reasons"]["correctness"] == "no vote is valid"


async def test_three_must_agree_where_much_depends_on_the_answer(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Voters("It is 4.", "4", "4")
    state = {"correctness": 0.5, "importance": 0.7}

    run = (await api.ask("Answer", **REQUEST, msv=state))["run"]

    assert run["usage"]["generations"] == 3


async def test_with_votes_ahead_the_draft_and_the_next_vote_do_not_wait_for_each_other(
    api: Api, scripted: ScriptedLLM
) -> None:
    scripted.answer = Voters("It is 4.", "4", "4")

    run = (await api.ask("Answer", **REQUEST, vote={"ahead": 2, "most": 2}))["run"]

    assert sorted(run["usage"]["stages"]) == ["vote"]  # the arbiter asked for both at once
    assert run["confidence"] == pytest.approx(prior_of_agreement(agreeing=2, valid=2, modes=2))


async def test_a_failing_arbiter_falls_back_to_the_draft_as_system_one(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = Voters("It is 4.")
    async with router_at(scripted, database_url, tmp_path) as router:
        run = (await RestApi(router.rest, ROUTER).ask("Answer", **REQUEST))["run"]

    assert (run["strategy"], run["answer"], run["degraded"]) == ("system1", "It is 4.", True)
    assert run["usage"]["generations"] == 1  # the draft is the answer, and is not paid for twice
    assert run["degraded_reasons"][0].startswith("vote: PEER_UNAVAILABLE")


async def test_an_envelope_of_one_call_gives_the_draft_and_reports_the_limit(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Voters("It is 4.")

    run = (await api.ask("Answer", **REQUEST, envelope={"max_generations": 1}))["run"]

    assert (run["strategy"], run["answer"], run["usage"]["generations"]) == ("system1", "It is 4.", 1)
    assert run["degraded_reasons"][0].startswith("vote: BUDGET_EXHAUSTED")


async def test_the_stock_client_needs_the_models_name_alone(router: RunningRouter, scripted: ScriptedLLM) -> None:
    scripted.answer = Voters("It is 4.", "4")
    async with AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none") as client:
        models = [model.id async for model in client.models.list()]
        whole = await client.chat.completions.create(
            model="metacog/vote", messages=[{"role": "user", "content": QUESTION}]
        )
        metadata: Body = whole.model_extra["metacog"]  # type: ignore[index]
        recorded = await client.get(f"/runs/{metadata['run_id']}", cast_to=httpx.Response)
        scripted.answer = Voters("It is 4.", "5", "5")
        stream = await client.chat.completions.create(
            model="metacog/vote", messages=[{"role": "user", "content": QUESTION}], stream=True
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    assert "metacog/vote" in models
    assert whole.choices[0].message.content == "It is 4."
    assert (metadata["strategy"], metadata["confidence_state"], metadata["confidence_labels"]) == ("vote", "PRIOR", 0)
    assert recorded.json()["run"]["deliberation"]["votes"][0]["completion_tokens"] > 0
    assert text == sample_text("5")


async def test_a_wrong_option_is_named_to_the_stock_client(router: RunningRouter) -> None:
    async with AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none") as client:
        with pytest.raises(BadRequestError, match="most"):
            await client.chat.completions.create(
                model="metacog/vote",
                messages=[{"role": "user", "content": QUESTION}],
                extra_body={"metacog": {"vote": {"most": 65}}},
            )


async def test_one_of_two_servers_dies_and_the_other_decides(database_url: str, tmp_path: Path) -> None:
    with ScriptedLLM() as gone, ScriptedLLM() as there:
        there.answer = Voters("It is 5.", "4", "4")
        gone.fault(*[ErrorReply(503, "down")] * 9)
        agents = [AgentConfig(id=name, model=name) for name in ("gone", "there")]
        async with (
            arbiter_at(there, agents, others={"gone": gone, "there": there}, programs=False) as arbiter,
            router_at(there, database_url, tmp_path, others={"arbiter": arbiter.grpc}) as router,
        ):
            sources = [{"agent": "gone"}, {"agent": "there"}]
            run = (await RestApi(router.rest, ROUTER).ask("Answer", **REQUEST, vote={"sources": sources}))["run"]

    assert (run["strategy"], run["deliberation"]["winner"]) == ("vote", "4")
    assert run["degraded_reasons"][0].startswith("SOURCE_LEFT_OUT: gone reasoned")


@pytest.mark.parametrize("fault", [ErrorReply(503, "down"), Stall()], ids=["is down", "hangs"])
async def test_without_the_server_of_the_draft_the_others_vote_and_the_client_gets_no_error(
    database_url: str, tmp_path: Path, fault: ErrorReply | Stall
) -> None:
    with ScriptedLLM() as default, ScriptedLLM() as there:
        there.answer = Voters("It is 5.", *["4"] * 4)
        default.fault(*[fault] * 99)
        agents = [AgentConfig(id="there", model="there")]
        asked = {"vote": {"sources": [{"agent": "there"}]}, "envelope": {"timeout_ms": 12_000}, "fallback": False}
        async with (
            arbiter_at(default, agents, others={"there": there}, programs=False) as arbiter,
            router_at(default, database_url, tmp_path, others={"arbiter": arbiter.grpc}) as router,
        ):
            run = (await RestApi(router.rest, ROUTER).ask("Answer", **REQUEST, **asked))["run"]

    assert (run["strategy"], run["outcome"], run["deliberation"]["winner"]) == ("vote", "ANSWERED", "4")
    assert [vote["agent"] for vote in run["deliberation"]["votes"]] == ["there", "there"]
    assert [reason[:23] for reason in run["degraded_reasons"]] == ["SOURCE_LEFT_OUT: draft:"]


async def test_labels_make_the_probability_the_deployments_own(router: RunningRouter, scripted: ScriptedLLM) -> None:
    rest = RestApi(router.rest, ROUTER)
    for correct in (False, False, False):
        scripted.answer = Voters("It is 4.", "4")
        run = (await rest.ask("Answer", **REQUEST))["run"]
        await rest.ask("SubmitFeedback", run_id=run["run_id"], feedback_id=run["run_id"], correct=correct)

    async def is_fitted() -> bool:
        return router.calibrator.votes.model.labels >= 3

    await until(is_fitted)
    scripted.answer = Voters("It is 4.", "4")
    fitted = (await rest.ask("Answer", **REQUEST))["run"]

    assert (fitted["confidence_state"], fitted["confidence_labels"]) == ("FITTED", router.calibrator.votes.model.labels)
    assert fitted["confidence"] < prior_of_agreement(agreeing=2, valid=2, modes=2)


async def test_labelled_votes_are_counted_by_their_evidence(router: RunningRouter, scripted: ScriptedLLM) -> None:
    store: PostgresCalibration = router.calibrator._store  # type: ignore[assignment]
    before = {one.evidence: (one.labels, one.right) for one in await store.vote_labels()}
    rest = RestApi(router.rest, ROUTER)
    for voted, correct in ((("7",), True), (("7",), False), (("8", "7"), True)):
        scripted.answer = Voters("It is 7.", *voted)
        run = (await rest.ask("Answer", **REQUEST))["run"]
        await rest.ask("SubmitFeedback", run_id=run["run_id"], feedback_id=run["run_id"], correct=correct)

    found = {one.evidence: (one.labels, one.right) for one in await store.vote_labels()}
    sure = VoteEvidence(agreeing=2, valid=2, modes=2, draft_agrees=True)
    unsure = VoteEvidence(agreeing=2, valid=3, modes=2, draft_agrees=True)
    gained = {}
    for evidence in (sure, unsure):
        labels, right = before.get(evidence, (0, 0))
        gained[evidence] = (found[evidence][0] - labels, found[evidence][1] - right)
    assert gained == {sure: (2, 1), unsure: (1, 1)}


async def test_labels_drawn_at_random_show_how_often_system_one_is_right(
    router: RunningRouter, scripted: ScriptedLLM
) -> None:
    store: PostgresCalibration = router.calibrator._store  # type: ignore[assignment]
    before = {one.kind: (one.labels, one.right) for one in await store.system_one_records(scripted.model)}.get(
        "", (0, 0)
    )
    rest = RestApi(router.rest, ROUTER)
    labels = [("system1", "EXAM", True), ("system1", "SAMPLED", False), ("system1", "VOLUNTEERED", True),
              ("vote", "EXAM", True)]  # fmt: skip
    for strategy, origin, correct in labels:
        scripted.answer = Voters("It is 7.", "7")
        run = (await rest.ask("Answer", question=QUESTION, strategy=strategy))["run"]
        label = {"feedback_id": run["run_id"], "correct": correct, "origin": origin}
        await rest.ask("SubmitFeedback", run_id=run["run_id"], **label)

    after = {one.kind: (one.labels, one.right) for one in await store.system_one_records(scripted.model)}[""]
    assert (after[0] - before[0], after[1] - before[1]) == (2, 1)
    assert await store.system_one_records("another") == []  # nothing was asked of it

    async def is_in_force() -> bool:
        return router.calibrator.votes.shares.overall == after

    await until(is_in_force)
    scripted.answer = Voters("It is 7.")
    state = {"question": QUESTION, "assessor": "answers"}
    shares = router.calibrator.votes.shares
    assert (await rest.ask("Assess", **state))["msv"]["parts"]["overall_share"] == shares.overall_share


async def test_labels_record_how_often_each_source_was_right(router: RunningRouter, scripted: ScriptedLLM) -> None:
    store: PostgresCalibration = router.calibrator._store  # type: ignore[assignment]
    before = {(one.agent, one.mode): (one.votes, one.right) for one in await store.source_records()}
    rest = RestApi(router.rest, ROUTER)
    # 7 wins each time: right, wrong (of the 8 nothing is known then), right with an invalid vote and one for 8.
    for voted, correct in ((("7",), True), (("8", "7"), False), ((None, "8", "7"), True)):
        scripted.answer = Voters("It is 7.", *voted)
        run = (await rest.ask("Answer", **REQUEST))["run"]
        await rest.ask("SubmitFeedback", run_id=run["run_id"], feedback_id=run["run_id"], correct=correct)

    gained = {}
    for one in await store.source_records():
        votes, right = before.get((one.agent, one.mode), (0, 0))
        gained[one.mode] = (one.votes - votes, one.right - right)
    assert gained == {"DRAFT": (3, 2), "REASONED": (5, 2)}

    async def is_recorded() -> bool:
        return router.calibrator.votes.competences == recorded_competences(await store.source_records())

    await until(is_recorded)
    scripted.answer = Voters("It is 7.", "7")
    account = (await rest.ask("Answer", **REQUEST))["run"]["deliberation"]
    odds = {str(one.mode): one.log_odds for one in router.calibrator.votes.competences}
    assert account["groups"][0]["log_odds"] == pytest.approx(odds["DRAFT"] + odds["REASONED"], abs=1e-6)


async def test_a_question_labelled_for_both_systems_is_a_pair_with_the_newest_answer_of_each(
    router: RunningRouter, scripted: ScriptedLLM
) -> None:
    store: PostgresCalibration = router.calibrator._store  # type: ignore[assignment]
    before = len(await store.labelled_pairs(["vote"], scripted.model))
    rest = RestApi(router.rest, ROUTER)
    scripted.answer = Voters("It is 7.", "7", "7")

    async def label(question: str, strategy: str, origin: str, *, correct: bool) -> None:
        run = (await rest.ask("Answer", **{**REQUEST, "question": question, "strategy": strategy}))["run"]
        assert (run["strategy"], run["outcome"]) == (strategy, "ANSWERED")
        await rest.ask(
            "SubmitFeedback", run_id=run["run_id"], feedback_id=run["run_id"], correct=correct, origin=origin
        )

    for correct in (True, False):  # the newer label counts
        await label("What is 3 + 4?", "system1", "EXAM", correct=correct)
    await label("What is 3 + 4?", "vote", "SAMPLED", correct=True)
    await label("What is 4 + 4?", "system1", "EXAM", correct=True)  # of one system alone
    await label("What is 5 + 4?", "system1", "EXAM", correct=True)
    await label("What is 5 + 4?", "vote", "VOLUNTEERED", correct=True)  # not drawn at random

    pairs = await store.labelled_pairs(["vote"], scripted.model)
    assert len(pairs) == before + 1
    assert LabelledPair(kind="", system_one=0.0, system_two=1.0) in pairs
    assert await store.labelled_pairs(["dialectic"], scripted.model) == []
    assert await store.labelled_pairs(["vote"], "another model") == []

    async def is_read() -> bool:
        return router.calibrator.votes.gains.overall.labels == before + 1

    await until(is_read)


@pytest.mark.parametrize(
    ("direct", "strategy"), [("Paris.", "vote"), ("It is a long story that " + "goes on and " * 20, "dialectic")]
)
async def test_a_draft_shows_whether_answers_to_an_open_question_can_be_compared(
    api: Api, scripted: ScriptedLLM, direct: str, strategy: str
) -> None:
    scripted.answer = Voters(direct, "Paris")
    route = await api.ask("Route", question="What is the capital of France?", msv=None, assessor="answers")
    scripted.answer = Voters(direct, "Paris")
    state = {"correctness": 0.0, "conflict": 1.0, "importance": 1.0, "experience": 0.0}
    asked = {"question": "What is the capital of France?", "msv": state, "seed": 5, "fallback": False}
    if strategy == "dialectic":
        with pytest.raises(ApiError):  # there is no assigner here
            await api.ask("Answer", **asked)
        return
    run = (await api.ask("Answer", **asked))["run"]

    assert (run["strategy"], run["answer"], run["usage"]["generations"]) == ("vote", "Paris.", 2)
    assert route["strategy"] in ("vote", "system1")
