"""A promise bounds the error of the answers that are given: what labels do not prove is withheld, with the reason."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from openai import AsyncOpenAI

from chassis.ids import new_id
from chassis.serving.auth import TEACH, ApiKey, Keyring
from kernel.prices import Price
from tests.support.apis import Api, ApiError, Body, RestApi, RpcApi
from tests.support.arbiter import arbiter_at, sample_text
from tests.support.labels import copy_promise_labels
from tests.support.models.scripted_llm import ErrorReply, ScriptedLLM
from tests.support.stack import ROUTER, RunningRouter, router_at, until

QUESTION = "What is 2 + 2?"
# One wrong answer of five may be given: fifty labels without an error prove a level, at the first look.
PROMISE = {"promise": {"error_at_most": 0.2}}
AGREE = ("4", "4")
DIFFER = ("5", "4", "4", "4", "4")
KEYS = ("ann", "bob", "examiner", "pupil")


class Voters:
    """The model's direct answer to each question first, and then one more for each vote."""

    def __init__(self) -> None:
        self._voted: dict[str, list[str]] = {}

    def say(self, question: str, votes: Sequence[str]) -> None:
        """Fix what the votes on a question say, the direct answer first."""
        self._voted[question] = [f"It is {votes[0]}.", *(sample_text(answer) for answer in votes[1:])]

    def __call__(self, body: Body) -> Sequence[str]:
        text = str(body["messages"])
        question = max((known for known in self._voted if known in text), key=len)
        direct, *voted = self._voted[question]
        if "Final Answer" not in str(body["messages"][-1]["content"]):
            return [direct]
        self._voted[question] = [direct, *voted[1:]]
        return [voted[0]]


@pytest.fixture(scope="module")
def database_url(new_database: Callable[[], str]) -> str:
    """A database of these tests alone: they label answers, from which every router on it would learn."""
    return new_database()


class Labelled(NamedTuple):
    """A labelled question, and its digest."""

    question: str
    digest: str


@dataclass(frozen=True)
class Stack:
    """A router with an arbiter whose models write no programs, and a stronger model; its keys are of one test alone.

    Attributes:
        test: What the names of its keys end with.
    """

    test: str
    router: RunningRouter
    database_url: str
    model: Voters
    strong: ScriptedLLM

    def rest(self, name: str = "ann") -> RestApi:
        """REST, with the key of this name."""
        return RestApi(self.router.rest, ROUTER, {"authorization": f"Bearer {name}-{self.test}"})

    def api(self, kind: str, name: str = "ann") -> Api:
        """One of both APIs, with the key of this name."""
        metadata = (("authorization", f"Bearer {name}-{self.test}"),)
        return self.rest(name) if kind == "rest" else RpcApi(self.router.grpc, ROUTER, metadata)

    async def ask(self, api: Api, votes: Sequence[str], **request: Any) -> Body:  # noqa: ANN401
        """The run of a request whose votes say this."""
        asked = {"question": QUESTION, "seed": 5, **request}
        self.model.say(asked["question"], votes)
        run: Body = (await api.ask("Answer", **asked))["run"]
        return run

    async def label(
        self,
        count: int,
        votes: Sequence[str] = AGREE,
        *,
        right: bool = True,
        name: str = "ann",
        origin: str = "EXAM",
        **request: Any,  # noqa: ANN401
    ) -> Labelled:
        """Label a vote that says this, for as many questions; return one of them."""
        asked: dict[str, Any] = {"question": f"What is 2 + 2, {new_id()}?", "strategy": "vote", **request}
        run = await self.ask(self.rest(name), votes, **asked)
        label = {"feedback_id": run["run_id"], "correct": right, "origin": origin}
        await self.rest(name).ask("SubmitFeedback", run_id=run["run_id"], **label)
        if count > 1:
            copy_promise_labels(self.database_url, run["messages_digest"], count)
            self.router.calibrator.on_feedback()
        return Labelled(asked["question"], run["messages_digest"])

    async def reads(self, labels: int, name: str = "ann") -> None:
        """Wait until the router has read as many labels of a key, the newest of which is in the database."""
        promises = self.router.calibrator.promises

        async def has_read() -> bool:
            return len(promises.read(f"{name}-{self.test}")) == labels

        await until(has_read)


@asynccontextmanager
async def stack_at(
    scripted: ScriptedLLM,
    database_url: str,
    folder: Path,
    **options: Any,  # noqa: ANN401
) -> AsyncIterator[Stack]:
    """Start it with these settings of the router."""
    test = new_id()
    names = {name: f"{name}-{test}" for name in KEYS}
    keyring = Keyring(
        [
            ApiKey(
                name=full,
                sha256=sha256(full.encode()).hexdigest(),
                allowed=frozenset() if name == "pupil" else frozenset({TEACH}),
            )
            for name, full in names.items()
        ]
    )
    voters = Voters()
    scripted.answer = voters
    async with AsyncExitStack() as stack:
        strong = stack.enter_context(ScriptedLLM(model="strong"))
        prices = {"scripted": Price(prompt=1, completion=1), "strong": Price(prompt=100, completion=100)}
        arbiter = await stack.enter_async_context(
            arbiter_at(scripted, programs=False, others={"strong": strong}, prices=prices)
        )
        router = await stack.enter_async_context(
            router_at(
                scripted,
                database_url,
                folder,
                others={"arbiter": arbiter.grpc},
                models={"strong": strong},
                prices=prices,
                keyring=keyring,
                calibration_refresh_s=0.1,
                exam_keys=[names["examiner"]],
                **options,
            )
        )
        yield Stack(test, router, database_url, voters, strong)


@pytest.fixture
async def stack(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    """The suite as it ships."""
    async with stack_at(scripted, database_url, tmp_path) as running:
        yield running


def outcome_of(run: Mapping[str, Any]) -> tuple[str, str | None, str]:
    """What became of the promise: state, stage, reason."""
    found = run["promise"]
    return found["state"], found["stage"], found["reason"]


@pytest.mark.parametrize("kind", ["rest", "rpc"])
async def test_without_labels_an_answer_is_withheld_and_says_how_many_are_missing(stack: Stack, kind: str) -> None:
    run = await stack.ask(stack.api(kind), AGREE, **PROMISE)

    assert (run["strategy"], run["route"]["reason"]) == ("vote", "promise")
    assert (run["answer"], run["outcome"]) == ("", "ABSTAINED")
    assert outcome_of(run) == ("WITHHELD", "FIRST", "not yet: 0 of 50 labels")
    assert (run["promise"]["withheld"], run["promise"]["labels_needed"]) == ("It is 4.", 50)
    assert run["degraded_reasons"] == ["PROMISE_NOT_PROVED: not yet: 0 of 50 labels"]
    assert run["agreement"]["first"] == {"agreeing": 2, "against": 0}
    assert run["usage"]["generations"] == 2  # more votes could prove nothing
    assert run["usage"]["stages"].keys() == {"system1", "vote"}  # nothing is assessed


async def test_fifty_right_answers_of_an_exam_prove_it_to_their_owner(stack: Stack) -> None:
    await stack.label(49)
    await stack.reads(49)
    before = await stack.ask(stack.rest(), AGREE, **PROMISE)
    await stack.label(1)
    await stack.reads(50)

    for kind in ("rest", "rpc"):
        run = await stack.ask(stack.api(kind), AGREE, **PROMISE)
        assert (run["answer"], run["outcome"], run["degraded"]) == ("It is 4.", "ANSWERED", False)
        assert outcome_of(run) == ("PROVED", "FIRST", "")
        assert (run["promise"]["labels"], run["promise"]["error_at_most"]) == (50, 0.2)

    assert outcome_of(before) == ("WITHHELD", "FIRST", "not yet: 49 of 50 labels")
    less = await stack.ask(stack.rest(), AGREE, promise={"error_at_most": 0.05})
    assert outcome_of(less) == ("WITHHELD", "FIRST", "not yet: 50 of 100 labels")
    differ = await stack.ask(stack.rest(), DIFFER, **PROMISE)
    assert outcome_of(differ) == (
        "WITHHELD",
        "FIRST",
        "50 labels prove it only for answers with more agreement; tested again at 100",
    )
    other = await stack.ask(stack.rest("bob"), AGREE, **PROMISE)
    assert outcome_of(other) == ("WITHHELD", "FIRST", "not yet: 0 of 50 labels")
    otherwise = await stack.ask(stack.rest(), AGREE, vote={"most": 3}, **PROMISE)
    assert outcome_of(otherwise) == ("WITHHELD", "FIRST", "not yet: 0 of 50 labels")  # another configuration


async def test_an_exam_of_the_operator_proves_it_to_every_key(stack: Stack) -> None:
    await stack.label(50, name="examiner")
    await stack.reads(50, "bob")

    run = await stack.ask(stack.rest("bob"), AGREE, **PROMISE)

    assert (outcome_of(run), run["answer"]) == (("PROVED", "FIRST", ""), "It is 4.")


async def test_labels_that_users_volunteer_or_that_may_not_teach_prove_nothing(stack: Stack) -> None:
    await stack.label(50, origin="VOLUNTEERED")
    await stack.label(50, name="pupil")
    await stack.label(1)
    await stack.reads(1)
    await stack.reads(0, "pupil")

    run = await stack.ask(stack.rest(), AGREE, **PROMISE)

    assert outcome_of(run) == ("WITHHELD", "FIRST", "not yet: 1 of 50 labels")


async def test_wrong_answers_keep_a_promise_from_being_proved(stack: Stack) -> None:
    await stack.label(30)
    await stack.label(20, right=False)
    await stack.reads(50)

    run = await stack.ask(stack.rest(), AGREE, **PROMISE)

    assert outcome_of(run) == ("WITHHELD", "FIRST", "50 labels do not prove it; tested again at 100")


async def test_more_votes_are_asked_for_where_their_agreement_is_proved(stack: Stack) -> None:
    await stack.label(25, ("5", "4", "5", "4", "4"), vote={"ask_all": True})  # first 5 by two to one, then 4
    await stack.label(25, DIFFER, vote={"ask_all": True})
    await stack.label(25, ("5", "4", "5", "4", "4"), vote={"ask_all": True})
    await stack.label(25, DIFFER, vote={"ask_all": True})
    await stack.reads(100)

    run = await stack.ask(stack.rest(), DIFFER, **PROMISE)

    assert (outcome_of(run), run["usage"]["generations"]) == (("PROVED", "WENT_ON", ""), 5)
    assert run["agreement"]["last"] == {"agreeing": 4, "against": 1}
    assert run["agreement"]["went_on"] is True


async def test_the_stronger_model_answers_where_its_answers_are_proved(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    """Votes that differ are wrong in the exam; the stronger model, asked the same questions by its name, is right."""
    async with stack_at(scripted, database_url, tmp_path, cascade_escalate="strong") as stack:
        stack.strong.answer = lambda _body: ["It is 4."]
        rest = stack.rest()
        labelled = await stack.label(1, ("5", "4", "6", "7", "8"), right=False)
        run = (await rest.ask("Answer", question=labelled.question, model="strong", seed=5))["run"]
        label = {"feedback_id": run["run_id"], "correct": True, "origin": "EXAM"}
        await rest.ask("SubmitFeedback", run_id=run["run_id"], **label)
        copy_promise_labels(database_url, labelled.digest, 50)
        stack.router.calibrator.on_feedback()
        await stack.reads(50)
        calls = len(stack.strong.requests)
        run = await stack.ask(rest, ("5", "4", "6", "7", "8"), **PROMISE)

        assert (run["answer"], outcome_of(run)) == ("It is 4.", ("PROVED", "ESCALATED", ""))
        assert run["escalation"] == {"model": "strong", "reason": "NOT_PROVED", "answered": True, "error": ""}
        assert len(stack.strong.requests) == calls + 1
        assert (await rest.ask("GetPromises", error_at_most=0.2))["levels"][0]["escalated"]["labels"] == 50

        stack.strong.fault(*[ErrorReply(400, "no")] * 3)
        failed = await stack.ask(rest, ("5", "4", "6", "7", "8"), **PROMISE)
        assert (failed["answer"], failed["outcome"]) == ("", "ABSTAINED")
        assert failed["escalation"]["error"]
        assert failed["promise"]["state"] == "WITHHELD"


async def test_a_stronger_model_whose_answers_are_not_proved_is_not_called(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    async with stack_at(scripted, database_url, tmp_path, cascade_escalate="strong") as stack:
        run = await stack.ask(stack.rest(), ("5", "4", "6", "7", "8"), **PROMISE)

        assert (run["outcome"], run["promise"]["state"], len(stack.strong.requests)) == ("ABSTAINED", "WITHHELD", 0)


@pytest.mark.parametrize("kind", ["rest", "rpc"])
async def test_a_strategy_that_cannot_keep_a_promise_is_rejected(stack: Stack, kind: str) -> None:
    for named in ({"strategy": "system1"}, {"strategy": "dialectic"}, {"model": "strong"}):
        with pytest.raises(ApiError, match="promise: only vote and cascade can keep one") as raised:
            await stack.api(kind).ask("Answer", question=QUESTION, **named, **PROMISE)
        assert raised.value.reason == "MALFORMED_REQUEST"
    for error in (0.001, 0.6):
        with pytest.raises(ApiError, match="error_at_most"):
            await stack.api(kind).ask("Answer", question=QUESTION, promise={"error_at_most": error})


async def test_answers_that_cannot_be_compared_are_withheld_without_a_vote(stack: Stack) -> None:
    run = await stack.ask(stack.rest(), AGREE, answer_type="CODE", **PROMISE)

    assert (run["outcome"], run["usage"]["generations"]) == ("ABSTAINED", 1)
    assert outcome_of(run) == ("WITHHELD", None, "answers to this question cannot be compared, so that none can agree")


async def test_nothing_is_given_where_the_votes_fail(stack: Stack, scripted: ScriptedLLM) -> None:
    """Without an arbiter another strategy would answer; under a promise it may not."""
    stack.model.say(QUESTION, ("4",))
    scripted.fault(*[ErrorReply(400, "no")] * 9)

    with pytest.raises(ApiError):
        await stack.rest().ask("Answer", question=QUESTION, **PROMISE)


async def test_the_operators_promise_reaches_every_request_that_votes_can_answer(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    async with stack_at(scripted, database_url, tmp_path, promise=0.2) as stack:
        open_request = await stack.ask(stack.rest(), AGREE)
        named = await stack.ask(stack.rest(), AGREE, strategy="vote")
        single = await stack.ask(stack.rest(), AGREE, strategy="system1")
        own = await stack.ask(stack.rest(), AGREE, promise={"error_at_most": 0.5})

        assert [run["promise"]["state"] for run in (open_request, named, own)] == ["WITHHELD"] * 3
        assert (single["answer"], outcome_of(single)) == (
            "It is 4.",
            ("NOT_APPLIED", None, "the request needs system1, and only votes can prove a promise"),
        )
        assert own["promise"]["error_at_most"] == 0.5


async def test_a_chat_has_the_promise_in_its_metacog_field(stack: Stack) -> None:
    async with AsyncOpenAI(base_url=f"{stack.router.rest}/v1", api_key=f"ann-{stack.test}") as client:
        stack.model.say(QUESTION, AGREE)
        reply = await client.chat.completions.create(
            model="metacog", messages=[{"role": "user", "content": QUESTION}], extra_body={"metacog": PROMISE}
        )
        stack.model.say(QUESTION, AGREE)
        stream = await client.chat.completions.create(
            model="metacog",
            messages=[{"role": "user", "content": QUESTION}],
            stream=True,
            extra_body={"metacog": PROMISE},
        )
        chunks = [chunk async for chunk in stream]

    explained = reply.model_extra["metacog"] if reply.model_extra else {}
    assert explained["promise"]["reason"] == "not yet: 0 of 50 labels"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert (reply.choices[0].message.content, text) == (ABSTENTION, ABSTENTION)
    assert "It is 4." not in text


ABSTENTION = "No answer was given: labels do not prove that it keeps the promise (not yet: 0 of 50 labels)."


@pytest.mark.parametrize(("share", "drawn"), [(1.0, True), (0.0, False)])
async def test_labels_of_sampled_runs_count_and_others_are_rejected(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, share: float, *, drawn: bool
) -> None:
    async with stack_at(scripted, database_url, tmp_path, label_share=share) as stack:
        rest = stack.rest()
        run = await stack.ask(rest, AGREE, **PROMISE)  # its withheld answer may be labelled
        assert await stack.router.journal.flush(10)
        listed = (await rest.ask("ListRuns", sampled=True))["runs"]
        others = (await rest.ask("ListRuns", sampled=False))["runs"]
        label = {"run_id": run["run_id"], "feedback_id": run["run_id"], "correct": True, "origin": "SAMPLED"}

        assert (run["sampled"], len(listed), len(others)) == (drawn, int(drawn), int(not drawn))
        if drawn:
            await rest.ask("SubmitFeedback", **{**label, "origin": "VOLUNTEERED"})  # on a drawn run that counts too
            await stack.reads(1)
            return
        with pytest.raises(ApiError, match="was not drawn at random") as raised:
            await rest.ask("SubmitFeedback", **label)
        assert raised.value.reason == "NOT_SAMPLED"


@pytest.mark.parametrize("kind", ["rest", "rpc"])
async def test_what_can_be_promised_is_reported_with_what_more_labels_would_prove(stack: Stack, kind: str) -> None:
    await stack.label(50)
    await stack.reads(50)

    found = await stack.api(kind).ask("GetPromises", error_at_most=0.1)

    assert (found["error_at_most"], found["versions"]) == (0.1, [found["version"]])
    first = found["levels"][0]["first"]
    assert (first["labels"], first["looked_at"], first["next_look"], first["kept_share"]) == (50, 50, 100, 1.0)
    assert first["error_probability"] == 0.025
    test = first["tests"][0]
    assert (test["agreeing"], test["against"], test["labels"], test["errors"], test["proved"]) == (2, 0, 50, 0, True)
    assert test["bound"] == pytest.approx(1 - 0.025 ** (1 / 50))  # no error among 50
    assert {point["error_at_most"]: point["kept_share"] for point in found["curve"]} == {
        0.01: 0.0,
        0.02: 0.0,
        0.05: 0.0,
        0.1: 1.0,
        0.15: 1.0,
        0.2: 1.0,
        0.3: 1.0,
    }
    assert [one["labels"] for one in first["projection"]] == [50, 100, 200, 400, 800, 1600, 3200]
    assert (await stack.api(kind, "bob").ask("GetPromises"))["versions"] == []


async def test_drawn_runs_that_are_not_labelled_count_as_errors(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    """Who labels only those that are right would prove whatever they like."""
    async with stack_at(scripted, database_url, tmp_path, label_share=1.0) as stack:
        skipped = [await stack.ask(stack.rest(), AGREE, question=f"What is 2 + {number}?") for number in range(20)]
        assert await stack.router.journal.flush(10)
        await stack.label(50, origin="SAMPLED")
        await stack.reads(50)
        run = await stack.ask(stack.rest(), AGREE, **PROMISE)
        report = await stack.rest().ask("GetPromises", error_at_most=0.2)
        for one in skipped:
            label = {"feedback_id": one["run_id"], "correct": True, "origin": "SAMPLED"}
            await stack.rest().ask("SubmitFeedback", run_id=one["run_id"], **label)
        await stack.reads(70)

        async def is_proved() -> bool:
            found = await stack.ask(stack.rest(), AGREE, **PROMISE)
            return outcome_of(found)[0] == "PROVED"

        await until(is_proved)

    assert outcome_of(run) == ("WITHHELD", "FIRST", "50 labels do not prove it; tested again at 100")
    assert report["unlabelled"] == 20


async def test_a_repeated_question_proves_nothing_new(stack: Stack) -> None:
    for _ in range(3):
        await stack.label(1, question=QUESTION)
    await stack.label(1)
    await stack.reads(2)


async def test_a_vote_that_ended_early_proves_nothing_and_is_withheld(stack: Stack) -> None:
    await stack.label(50)
    await stack.reads(50)
    run = await stack.ask(stack.rest(), ("4", "5", "4"), envelope={"max_generations": 2}, **PROMISE)

    assert (run["agreement"], run["outcome"]) == (None, "ABSTAINED")
    assert outcome_of(run) == ("WITHHELD", None, "asking ended before its rule did: BUDGET_EXHAUSTED")
