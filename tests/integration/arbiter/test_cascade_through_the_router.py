"""`metacog/cascade`: small models vote, and a stronger one is called only where they do not agree."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI, BadRequestError

from configuration.policy import read_policy
from kernel.prices import Price
from services.router.compose import RoutingRules
from services.router.service.assessment.routing import RoutingConfig
from tests.support.apis import Api, ApiError, Body, RestApi, RpcApi
from tests.support.arbiter import arbiter_at, sample_text
from tests.support.models.scripted_llm import Cut, ErrorReply, ScriptedLLM, Stall
from tests.support.stack import CALM, ROUTER, TROUBLED, RunningRouter, router_at, until

QUESTION = "What is 2 + 2?"
REQUEST = {"question": QUESTION, "strategy": "cascade", "seed": 5}
FOUR = sample_text("4")
PRICES = {
    "scripted": Price(prompt=1, completion=1),
    "other": Price(prompt=2, completion=2),
    "strong": Price(prompt=100, completion=100),
}


class Says:
    """A model gives one answer, direct or with its reasoning, and rates as it is made to."""

    def __init__(self, answer: str | None, rating: str = TROUBLED) -> None:
        self._answer = answer
        self._rating = rating

    def __call__(self, body: Body) -> Sequence[str]:
        if "response_format" in body:
            return [self._rating]
        if "Final Answer" in str(body["messages"][-1]["content"]):
            return [sample_text(self._answer)]
        return ["I do not know." if self._answer is None else f"It is {self._answer}."]


@dataclass(frozen=True)
class Models:
    """Three models: the default one, another small one, and a stronger one."""

    default: ScriptedLLM
    other: ScriptedLLM
    strong: ScriptedLLM

    def say(self, default: str | None, other: str | None, strong: str | None) -> None:
        """Fix their answers."""
        for model, answer in ((self.default, default), (self.other, other), (self.strong, strong)):
            model.answer = Says(answer)

    @property
    def calls(self) -> tuple[int, int, int]:
        """Calls that each received."""
        return len(self.default.requests), len(self.other.requests), len(self.strong.requests)


@pytest.fixture(scope="module")
def database_url(new_database: Callable[[], str]) -> str:
    """A database of these tests alone: they label answers, from which every router on it would learn."""
    return new_database()


@pytest.fixture
async def models(scripted: ScriptedLLM) -> AsyncIterator[Models]:
    """The models."""
    with ScriptedLLM(model="other") as other, ScriptedLLM(model="strong") as strong:
        yield Models(scripted, other, strong)


class Routers:
    """Starts routers over the models, each with an arbiter whose models write no programs."""

    def __init__(self, models: Models, database_url: str, folder: Path, stack: AsyncExitStack) -> None:
        self._models = models
        self._database_url = database_url
        self._folder = folder
        self._stack = stack

    def written(self, table: str) -> Path:
        """A policy table in a file."""
        path = self._folder / "policy.yaml"
        path.write_text(table)
        return path

    async def start(self, **options: Any) -> RunningRouter:  # noqa: ANN401
        """Start a router with these settings."""
        others = {"other": self._models.other, "strong": self._models.strong}
        prices = options.pop("prices", PRICES)
        arbiter = await self._stack.enter_async_context(
            arbiter_at(self._models.default, programs=False, others=others, prices=prices)
        )
        return await self._stack.enter_async_context(
            router_at(
                self._models.default,
                self._database_url,
                self._folder,
                others={"arbiter": arbiter.grpc},
                models=others,
                prices=prices,
                **options,
            )
        )


@pytest.fixture
async def routers(models: Models, database_url: str, tmp_path: Path) -> AsyncIterator[Routers]:
    """Starts routers."""
    async with AsyncExitStack() as stack:
        yield Routers(models, database_url, tmp_path, stack)


@pytest.fixture
async def router(routers: Routers) -> RunningRouter:
    """A router whose models have prices."""
    return await routers.start()


@pytest.fixture(params=["rest", "rpc"])
def api(request: pytest.FixtureRequest, router: RunningRouter) -> Api:
    """The router, by each of its APIs."""
    return RestApi(router.rest, ROUTER) if request.param == "rest" else RpcApi(router.grpc, ROUTER)


async def test_small_models_that_agree_answer_without_the_stronger_one(api: Api, models: Models) -> None:
    models.say("4", "4", "5")

    run = (await api.ask("Answer", **REQUEST))["run"]

    assert (run["strategy"], run["answer"], run["degraded"]) == ("cascade", FOUR, False)
    assert models.calls == (1, 1, 0)
    assert run["escalation"] == {"model": "strong", "reason": None, "answered": False, "error": ""}
    assert (run["confidence_source"], run["confidence_state"]) == ("votes", "PRIOR")


async def test_the_stronger_model_answers_where_they_do_not_agree(api: Api, models: Models) -> None:
    models.say("4", "5", "6")

    run = (await api.ask("Answer", **REQUEST))["run"]

    assert (run["answer"], run["model"], run["degraded"]) == ("It is 6.", "strong", False)
    assert models.calls == (1, 1, 1)
    assert run["escalation"] == {"model": "strong", "reason": "UNDECIDED", "answered": True, "error": ""}
    assert sorted(run["usage"]["stages"]) == ["escalation", "vote"]
    # The votes say nothing of how probably another model's answer is right.
    assert (run["confidence"], run["confidence_state"]) == (None, None)
    assert (run["state"]["correctness"], run["state"]["conflict"]) == (None, 0.5)
    assert run["state"]["unknown_reasons"]["correctness"].startswith("the stronger model answered")


async def test_the_stronger_model_answers_where_no_vote_is_valid(api: Api, models: Models) -> None:
    models.say(None, None, "6")

    run = (await api.ask("Answer", **REQUEST, answer_type="NUMBER"))["run"]

    assert (run["answer"], run["escalation"]["reason"]) == ("It is 6.", "ABSTAINED")
    assert (run["outcome"], run["degraded"], run["degraded_reasons"]) == ("ANSWERED", False, [])


async def test_the_stronger_models_text_alone_is_streamed(api: Api, models: Models) -> None:
    models.say("4", "5", "6")

    events = await api.events("Answer", **REQUEST)

    assert "".join(data["text"] for name, data in events if name == "answer_token") == "It is 6."
    assert [data["source_model"] for name, data in events if name == "vote_cast"] == ["scripted", "other"]


async def test_answers_that_cannot_be_compared_go_to_the_stronger_model_at_once(api: Api, models: Models) -> None:
    models.say("4", "4", "6")

    run = (await api.ask("Answer", **REQUEST, answer_type="CODE"))["run"]

    assert (run["answer"], run["escalation"]["reason"]) == ("It is 6.", "NOT_COMPARABLE")
    assert run["state"] is None  # nothing was voted on
    assert models.calls[1:] == (0, 1)


async def test_a_stronger_model_that_fails_leaves_the_answer_of_the_votes(api: Api, models: Models) -> None:
    models.say("4", "5", "6")
    models.strong.fault(*[ErrorReply(400, "no")] * 3)

    run = (await api.ask("Answer", **REQUEST))["run"]

    assert (run["answer"], run["degraded"], run["escalation"]["answered"]) == (FOUR, True, False)
    assert run["escalation"]["error"]
    assert run["degraded_reasons"] == [f"NOT_ESCALATED: strong: {run['escalation']['error']}"]


async def test_a_stronger_model_that_hangs_leaves_the_answer_of_the_votes(api: Api, models: Models) -> None:
    models.say("4", "5", "6")
    models.strong.fault(Stall())

    run = (await api.ask("Answer", **REQUEST, envelope={"timeout_ms": 3_000}))["run"]

    assert (run["answer"], run["degraded"], run["escalation"]["answered"]) == (FOUR, True, False)
    assert run["escalation"]["error"].startswith("DEADLINE_EXCEEDED")


async def test_a_stronger_model_that_breaks_off_falls_back_to_system_one(api: Api, models: Models) -> None:
    models.say("4", "5", "6")
    models.strong.fault(Cut(2))

    run = (await api.ask("Answer", **REQUEST))["run"]

    assert (run["strategy"], run["answer"], run["degraded"]) == ("system1", "It is 4.", True)
    assert [one["from_strategy"] for one in run["fallbacks"]] == ["cascade"]


async def test_without_an_arbiter_the_default_model_answers_and_the_stronger_one_is_not_called(
    models: Models, database_url: str, tmp_path: Path
) -> None:
    models.say("4", "4", "6")
    others = {"other": models.other, "strong": models.strong}
    async with router_at(models.default, database_url, tmp_path, models=others, prices=PRICES) as router:
        run = (await RestApi(router.rest, ROUTER).ask("Answer", **REQUEST))["run"]

    assert (run["strategy"], run["answer"], run["degraded"]) == ("system1", "It is 4.", True)
    assert models.calls == (1, 0, 0)


async def test_the_default_models_direct_answer_votes_where_it_is_asked_for_or_exists_already(
    routers: Routers, models: Models
) -> None:
    models.say("4", "5", "6")
    table = "rows: [{name: all, always: true, strategy: cascade}]"
    rules = RoutingRules(config=RoutingConfig(), policy=read_policy(routers.written(table)))
    api = RestApi((await routers.start(routing=rules, assessor="draft")).rest, ROUTER)
    sources = [{"model": "scripted", "mode": "DRAFT"}, {"model": "other"}]

    named = (await api.ask("Answer", **REQUEST, vote={"sources": sources}))["run"]
    routed = (await api.ask("Answer", question=QUESTION))["run"]

    for run in (named, routed):
        cast = [(vote["mode"], vote["answer"]) for vote in run["deliberation"]["votes"]]
        assert cast == [("DRAFT", "4"), ("REASONED", "5")]


async def test_a_request_names_who_votes_and_who_answers_then(api: Api, models: Models) -> None:
    models.say("4", "5", "6")
    sources = [{"model": "strong"}, {"model": "other"}]

    run = (await api.ask("Answer", **REQUEST, vote={"sources": sources, "escalate": "scripted"}))["run"]

    votes = [(vote["source_model"], vote["answer"]) for vote in votes_of(run)]
    assert votes == [("strong", "6"), ("other", "5")]
    assert (run["answer"], run["escalation"]["model"], models.calls) == ("It is 4.", "scripted", (1, 1, 1))


async def test_a_request_may_ask_for_one_vote_alone(api: Api, models: Models) -> None:
    models.say("4", "5", "6")

    run = (await api.ask("Answer", **REQUEST, vote={"sources": [{"model": "other"}], "most": 1}))["run"]
    by_price = (await api.ask("Answer", **REQUEST, vote={"most": 1}))["run"]

    assert [len(votes_of(one)) for one in (run, by_price)] == [1, 1]
    assert [one["strategy"] for one in (run, by_price)] == ["cascade", "cascade"]
    assert models.calls == (1, 1, 0)


async def test_a_model_is_one_and_the_same_under_each_of_its_names(routers: Routers, models: Models) -> None:
    models.say("4", "5", "6")
    router = await routers.start(names={"flagship": "strong", "little": "other"})

    for api in (RestApi(router.rest, ROUTER), RpcApi(router.grpc, ROUTER)):
        before = models.calls
        run = (await api.ask("Answer", **REQUEST, vote={"escalate": "flagship"}))["run"]
        named = (await api.ask("Answer", **REQUEST, vote={"sources": [{"model": "little"}], "most": 3}))["run"]

        assert (run["escalation"]["model"], run["answer"], run["catalogue_name"]) == ("strong", "It is 6.", "strong")
        assert [vote["source_model"] for vote in votes_of(run)] == ["scripted", "other"]
        assert {vote["source_model"] for vote in votes_of(named)} == {"other"}
        assert models.calls[2] - before[2] == 1  # the stronger model has no vote beside its answer


async def test_a_vote_may_be_escalated_too(api: Api, models: Models) -> None:
    models.say("4", None, "6")
    vote = {"sources": [{"model": "other"}], "most": 2, "escalate": "strong"}

    run = (await api.ask("Answer", question=QUESTION, strategy="vote", vote=vote))["run"]

    assert (run["strategy"], run["answer"], run["escalation"]["reason"]) == ("vote", "It is 6.", "UNDECIDED")


async def test_a_model_that_is_not_in_the_catalogue_is_rejected_by_name(api: Api, models: Models) -> None:
    with pytest.raises(ApiError, match=r"vote\.escalate: the model 'unheard-of' is not in models\.yaml") as rejected:
        await api.ask("Answer", **REQUEST, vote={"escalate": "unheard-of"})

    assert rejected.value.reason == "MALFORMED_REQUEST"
    assert models.calls == (0, 0, 0)


async def test_without_prices_the_stronger_model_must_be_named(routers: Routers, models: Models) -> None:
    models.say("4", "5", "6")
    api = RestApi((await routers.start(prices={})).rest, ROUTER)

    with pytest.raises(ApiError, match="METACOG_ROUTER_CASCADE_ESCALATE") as rejected:
        await api.ask("Answer", **REQUEST)
    run = (await api.ask("Answer", **REQUEST, vote={"escalate": "strong"}))["run"]

    assert rejected.value.reason == "NO_CASCADE"
    assert run["answer"] == "It is 6."


async def test_the_settings_name_a_cascade(routers: Routers, models: Models) -> None:
    models.say("4", "5", "6")
    router = await routers.start(prices={}, cascade_sources=["other", "strong"], cascade_escalate="scripted")

    run = (await RestApi(router.rest, ROUTER).ask("Answer", **REQUEST))["run"]

    assert ([vote["answer"] for vote in run["deliberation"]["votes"]], run["answer"]) == (["5", "6"], "It is 4.")


async def test_the_cost_of_a_cascade_stays_inside_its_limit(api: Api, models: Models) -> None:
    models.say("4", "5", "6")

    run = (await api.ask("Answer", **REQUEST, max_tokens=16, envelope={"max_cost": 0.01}))["run"]

    assert run["usage"]["cost"] <= 0.01  # a prompt of some hundred bytes may cost .03 on the stronger model
    assert models.calls == (1, 1, 0)
    assert (run["answer"], run["escalation"]["answered"]) == (FOUR, False)
    assert run["escalation"]["error"].startswith("BUDGET_EXHAUSTED")


async def test_a_row_of_the_policy_names_models(routers: Routers, models: Models, tmp_path: Path) -> None:
    models.say("4", "5", "6")
    table = tmp_path / "policy.yaml"
    table.write_text(
        "rows:\n"
        '  - {name: calm, always: true, when: {conflict: "< 0.3"}, strategy: system1, model: other}\n'
        "  - {name: troubled, strategy: cascade, sources: [other, strong], agree: 2, most: 2, escalate: scripted}\n"
    )
    rules = RoutingRules(config=RoutingConfig(), policy=read_policy(table))
    api = RestApi((await routers.start(routing=rules)).rest, ROUTER)

    troubled = (await api.ask("Answer", question=QUESTION))["run"]
    models.default.answer = Says("4", CALM)
    calm = (await api.ask("Answer", question=QUESTION))["run"]

    assert (troubled["route"]["policy_row"], troubled["answer"]) == ("troubled", "It is 4.")
    assert [vote["answer"] for vote in troubled["deliberation"]["votes"]] == ["5", "6"]
    assert (calm["route"]["policy_row"], calm["model"], calm["answer"]) == ("calm", "other", "It is 5.")


async def test_an_openai_client_names_the_cascade_as_its_model(router: RunningRouter, models: Models) -> None:
    models.say("4", "5", "6")
    async with AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none") as client:
        answer: Any = await client.chat.completions.create(
            model="metacog-cascade", messages=[{"role": "user", "content": QUESTION}]
        )
        with pytest.raises(BadRequestError, match=r"vote\.sources"):
            await client.chat.completions.create(
                model="metacog/cascade",
                messages=[{"role": "user", "content": QUESTION}],
                extra_body={"metacog": {"vote": {"sources": [{"model": "none"}]}}},
            )

    assert answer.choices[0].message.content == "It is 6."
    assert answer.metacog["escalation"]["reason"] == "UNDECIDED"


@pytest.mark.parametrize(("other", "reason", "part"), [(1, "DECIDED", "votes"), (2, "UNDECIDED", "escalation")])
async def test_a_cascade_on_whole_replies_is_counted_in_the_metrics(
    router: RunningRouter, models: Models, other: int, reason: str, part: str
) -> None:
    models.default.answer = lambda _: ['{"v": 1}']
    models.other.answer = lambda _: [f'{{"v": {other}}}']
    models.strong.answer = lambda _: ['{"v": 3}']
    before = await _metrics(router)
    schema = {"type": "object", "properties": {"v": {"type": "integer"}}, "required": ["v"]}
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "v", "schema": schema}}
    async with AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none") as client:
        answer: Any = await client.chat.completions.create(
            model="metacog/cascade",
            messages=[{"role": "user", "content": QUESTION}],
            response_format=wanted,
        )
    now = await _metrics(router)

    assert answer.metacog["escalation"]["model"] == "strong"
    runs, cost = f'metacog_cascades_total{{model="strong",reason="{reason}"}}', "metacog_cascade_cost_total"
    assert now[runs] - before.get(runs, 0) == 1
    priced = f'{cost}{{model="strong",part="{part}"}}'
    assert now[priced] > before.get(priced, 0)


async def _metrics(router: RunningRouter) -> dict[str, float]:
    """The router's metrics by name and labels."""
    async with httpx.AsyncClient(base_url=router.rest) as client:
        lines = (await client.get("/metrics")).raise_for_status().text.splitlines()
    pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name: float(number) for name, _, number in pairs}


async def test_cascades_are_counted_with_cost_and_labels(api: Api, models: Models) -> None:
    before = await counted(api)
    models.say("4", "4", "6")
    decided = (await api.ask("Answer", **REQUEST))["run"]
    models.say("4", "5", "6")
    escalated = (await api.ask("Answer", **REQUEST))["run"]
    for run, correct in ((decided, True), (escalated, False)):
        await api.ask("SubmitFeedback", run_id=run["run_id"], feedback_id=run["run_id"], correct=correct)

    async def are_counted() -> bool:
        return bool((await counted(api))["runs"] - before["runs"] == 2)

    await until(are_counted)  # figures are shared by those who ask within a moment
    now = await counted(api)

    assert {name: now[name] - before[name] for name in ("runs", "escalated", "priced")} == {
        "runs": 2,
        "escalated": 1,
        "priced": 2,
    }
    assert now["cost"] - before["cost"] == pytest.approx(decided["usage"]["cost"] + escalated["usage"]["cost"])
    assert [now[who]["labelled"] - before[who]["labelled"] for who in ("of_votes", "of_model")] == [1, 1]
    assert [now[who]["right"] - before[who]["right"] for who in ("of_votes", "of_model")] == [1, 0]
    assert now["always_cost"] > 0


def votes_of(run: Body) -> Sequence[Body]:
    """The votes of a run, which REST has as its deliberation."""
    account: Body = run["deliberation"] if "votes" in (run["deliberation"] or {}) else run["vote"]
    votes: Sequence[Body] = account["votes"]
    return votes


async def counted(api: Api) -> Body:
    """The cascades whose stronger model is `strong`; all zero where there is none yet."""
    found: list[Body] = (await api.ask("GetCascades"))["cascades"]
    nothing = {"labelled": 0, "right": 0}
    empty = {"runs": 0, "escalated": 0, "priced": 0, "cost": 0.0, "of_votes": nothing, "of_model": nothing}
    return next(({**one, "cost": one["cost"] or 0.0} for one in found if one["model"] == "strong"), empty)
