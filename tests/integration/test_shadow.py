"""Shadow runs: a share of the answered requests is answered again by another policy, and compared, never served."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from openai import AsyncOpenAI
from prometheus_client import REGISTRY

from configuration.policy import read_policy
from kernel.prices import Price
from services.router.compose import RoutingRules
from services.router.service.assessment.routing import RoutingConfig
from services.router.service.shadow.traffic import QUEUE
from tests.support.apis import Api, ApiError, Body, RestApi, RpcApi
from tests.support.models.scripted_llm import ErrorReply, ScriptedLLM, Stall
from tests.support.stack import (
    CALM,
    ROOT,
    ROUTER,
    RunningRouter,
    cast,
    environment,
    failed_start,
    quick_storage,
    router_at,
    until,
)

QUESTION = "What is 2 + 2?"
PRICES = {"scripted": Price(prompt=1, completion=1), "other": Price(prompt=2, completion=2)}


@pytest.fixture
async def other(scripted: ScriptedLLM) -> AsyncIterator[ScriptedLLM]:
    """The model that the shadow policy asks; served requests are answered by `scripted`."""
    scripted.answer = cast(CALM, system1="It is 4.")
    with ScriptedLLM(model="other") as llm:
        llm.answer = says("It is 4.")
        yield llm


def says(text: str) -> Callable[[Body], Sequence[str]]:
    return lambda _: [text]


def counted(metric: str, **labels: str) -> float:
    """A counter of this process."""
    return REGISTRY.get_sample_value(metric, labels) or 0.0


class Shadowed:
    """A router with a shadow policy of its own version, so that its comparison is of its runs alone."""

    def __init__(self, running: RunningRouter, policy: str) -> None:
        self.running = running
        self.policy = policy
        self.rest = RestApi(running.rest, ROUTER)

    def api(self, name: str) -> Api:
        """One of its APIs."""
        return self.rest if name == "rest" else RpcApi(self.running.grpc, ROUTER)

    async def ask(self, **more: Any) -> Body:  # noqa: ANN401
        """Ask, and return the served run."""
        run: Body = (await self.rest.ask("Answer", question=QUESTION, **more))["run"]
        return run

    async def shadow_of(self, served: Body) -> Body:
        """The shadow of a served run, once it is recorded."""
        found: list[Body] = []

        async def is_there() -> bool:
            page = await self.rest.ask("ListRuns", shadow=True, page_size=200)
            found[:] = [run for run in page["runs"] if run["shadow"]["shadow_of"] == served["run_id"]]
            return bool(found)

        await until(is_there)
        return found[0]

    async def comparison(self, name: str = "rest") -> Body:
        """The comparison of its policy."""
        found = (await self.api(name).ask("GetShadow"))["comparisons"]
        return next(one for one in found if one["policy"] == self.policy)


class Routers:
    """Starts routers whose shadow policy asks the other model about everything."""

    def __init__(
        self, scripted: ScriptedLLM, other: ScriptedLLM, database: str, folder: Path, stack: AsyncExitStack
    ) -> None:
        self._scripted = scripted
        self._other = other
        self._database = database
        self._folder = folder
        self._stack = stack

    async def start(self, **options: Any) -> Shadowed:  # noqa: ANN401
        """Start a router with these settings."""
        table = self._folder / "shadow.yaml"
        table.write_text(f"rows: [{{name: r{uuid4().hex}, always: true, strategy: system1, model: other}}]\n")
        policy = read_policy(table)
        version = f"test+policy.{policy.version}"
        rules = RoutingRules(
            config=RoutingConfig(), shadow=RoutingRules(config=RoutingConfig(version=version), policy=policy)
        )
        shadow: dict[str, Any] = {"shadow_share": 1.0, **options}
        running = await self._stack.enter_async_context(
            router_at(
                self._scripted,
                self._database,
                self._folder,
                models={"other": self._other},
                prices=PRICES,
                routing=rules,
                **shadow,
            )
        )
        return Shadowed(running, policy.version)


@pytest.fixture
async def routers(
    scripted: ScriptedLLM, other: ScriptedLLM, database_url: str, tmp_path: Path
) -> AsyncIterator[Routers]:
    """Starts routers."""
    async with AsyncExitStack() as stack:
        yield Routers(scripted, other, database_url, tmp_path, stack)


@pytest.fixture
async def router(routers: Routers) -> Shadowed:
    """A router, every run of which gets a shadow."""
    return await routers.start()


async def test_an_answered_request_is_answered_again_by_the_shadow_policy(router: Shadowed, other: ScriptedLLM) -> None:
    served = await router.ask()
    shadow = await router.shadow_of(served)

    assert (served["answer"], served["model"], served["shadow"]) == ("It is 4.", "scripted", None)
    assert (shadow["model"], shadow["messages"], shadow["error_reason"]) == ("other", served["messages"], "")
    assert shadow["shadow"] == {
        "shadow_of": served["run_id"],
        "policy": router.policy,
        "agrees": True,
        "not_compared": None,
    }
    assert shadow["route"]["reason"] == "policy"
    assert len(other.requests) == 1


async def test_shadow_runs_are_listed_only_when_asked_for_and_count_in_no_figure_of_served_runs(
    router: Shadowed,
) -> None:
    before = counted("metacog_runs_total", strategy="system1", outcome="ANSWERED", error="")
    served = await router.ask()
    shadow = await router.shadow_of(served)

    listed = await router.rest.ask("ListRuns", page_size=200)
    seen = await router.rest.ask("GetActivations", config_version=shadow["config_version"])

    names = [run["run_id"] for run in listed["runs"]]
    assert (served["run_id"] in names, shadow["run_id"] in names) == (True, False)
    assert seen["runs"] == 0
    assert counted("metacog_runs_total", strategy="system1", outcome="ANSWERED", error="") - before == 1


async def test_a_shadow_that_hangs_delays_no_served_answer(router: Shadowed, other: ScriptedLLM) -> None:
    other.fault(Stall())

    first = await router.ask()
    await other.until(lambda llm: llm.in_flight == 1)
    second = await router.ask()

    assert [first["answer"], second["answer"]] == ["It is 4.", "It is 4."]
    assert len(other.requests) == 1  # one shadow run at a time


async def test_a_shadow_that_fails_is_recorded_and_harms_nothing(router: Shadowed, other: ScriptedLLM) -> None:
    other.fault(*[ErrorReply(400, "no")] * 3)

    served = await router.ask()
    shadow = await router.shadow_of(served)
    comparison = await router.comparison()
    async with httpx.AsyncClient() as client:
        ready = (await client.get(f"{router.running.rest}/readyz")).json()

    assert (shadow["error_reason"], shadow["shadow"]["agrees"]) == ("BACKEND_REJECTED", None)
    assert (comparison["runs"], comparison["failed"], comparison["answered"]["count"]) == (1, 1, 0)
    assert ready["parts"]["shadow"] == "ok"


async def test_requests_that_do_not_fit_in_the_queue_get_no_shadow(router: Shadowed, other: ScriptedLLM) -> None:
    before = counted("metacog_shadow_dropped_total", reason="FULL")
    other.fault(Stall())
    await router.ask()
    await other.until(lambda llm: llm.in_flight == 1)

    answers = [(await router.ask())["answer"] for _ in range(QUEUE + 2)]

    assert answers == ["It is 4."] * (QUEUE + 2)
    assert counted("metacog_shadow_dropped_total", reason="FULL") - before == 2


async def test_a_rejected_request_ends_the_shadow_that_is_under_way(
    routers: Routers, scripted: ScriptedLLM, other: ScriptedLLM
) -> None:
    router = await routers.start(max_in_flight=1)
    other.fault(Stall())
    served = await router.ask()
    await other.until(lambda llm: llm.in_flight == 1)
    scripted.fault(Stall())
    held = asyncio.create_task(router.ask())
    await scripted.until(lambda llm: llm.in_flight == 1)

    with pytest.raises(ApiError) as rejected:
        await router.ask()

    await other.until(lambda llm: llm.disconnects == 1)
    held.cancel()
    await asyncio.wait({held})
    shadow = await router.shadow_of(served)
    comparison = await router.comparison()
    assert rejected.value.reason == "OVERLOADED"
    assert shadow["error_reason"] == "CANCELLED"
    assert (comparison["runs"], comparison["stopped"], comparison["failed"]) == (0, 1, 0)


async def test_a_shadow_begins_only_while_few_requests_are_served(
    routers: Routers, scripted: ScriptedLLM, other: ScriptedLLM
) -> None:
    router = await routers.start(shadow_max_served=0)
    scripted.fault(Stall())
    held = asyncio.create_task(router.ask())
    await scripted.until(lambda llm: llm.in_flight == 1)

    served = await router.ask()
    begun = len(other.requests)
    held.cancel()
    await asyncio.wait({held})
    shadow = await router.shadow_of(served)

    assert (begun, shadow["model"]) == (0, "other")


@pytest.mark.parametrize("request_fields", [{"strategy": "system1"}, {"model": "scripted"}])
async def test_a_request_that_names_its_strategy_or_its_model_gets_no_shadow(
    router: Shadowed, other: ScriptedLLM, request_fields: Mapping[str, str]
) -> None:
    await router.ask(**request_fields)
    last = await router.ask()
    await router.shadow_of(last)

    assert len(other.requests) == 1


async def test_a_share_of_none_leaves_all_without_a_shadow(routers: Routers, other: ScriptedLLM) -> None:
    router = await routers.start(shadow_share=0.0)

    await router.ask()

    assert other.requests == []


async def test_a_chat_gets_a_shadow_and_one_that_only_a_single_pass_can_serve_gets_none(
    router: Shadowed, other: ScriptedLLM
) -> None:
    messages: Any = [{"role": "user", "content": QUESTION}]
    async with AsyncOpenAI(base_url=f"{router.running.rest}/v1", api_key="none") as client:
        await client.chat.completions.create(model="metacog", messages=messages, n=2)
        answer: Any = await client.chat.completions.create(model="metacog", messages=messages)

    shadow = await router.shadow_of({"run_id": answer.metacog["run_id"]})

    assert (shadow["shadow"]["agrees"], len(other.requests)) == (True, 1)


async def test_streamed_answers_get_a_shadow_in_every_api(router: Shadowed) -> None:
    events = [await router.api(name).events("Answer", question=QUESTION) for name in ("rest", "rpc")]
    served = [data["run"]["run_id"] for each in events for name, data in each if name == "run_finished"]
    async with AsyncOpenAI(base_url=f"{router.running.rest}/v1", api_key="none") as client:
        chunks: Any = await client.chat.completions.create(
            model="metacog", messages=[{"role": "user", "content": QUESTION}], stream=True
        )
        every = [chunk async for chunk in chunks]
    [chat] = [chunk.metacog["run_id"] for chunk in every if getattr(chunk, "metacog", None)]

    shadows = [await router.shadow_of({"run_id": run_id}) for run_id in (*served, chat)]

    assert [shadow["shadow"]["agrees"] for shadow in shadows] == [True] * 3


async def test_a_shadow_has_its_own_envelope_and_no_identifier_of_the_request(routers: Routers) -> None:
    router = await routers.start(shadow_max_cost=0.5, shadow_max_generations=7, shadow_timeout_ms=9_000)
    name = uuid4().hex

    served = await router.ask(request_id=name, envelope={"max_generations": 3})
    shadow = await router.shadow_of(served)
    repeated = await router.ask(request_id=name, envelope={"max_generations": 3})

    envelope = shadow["envelope"]
    assert [envelope[limit] for limit in ("max_generations", "timeout_ms", "max_cost")] == [7, 9_000, 0.5]
    assert (shadow["request_id"], repeated["run_id"]) == ("", served["run_id"])


async def test_agreement_is_known_also_where_contents_are_not_stored(
    routers: Routers, other: ScriptedLLM, tmp_path: Path
) -> None:
    router = await routers.start(storage=quick_storage(tmp_path, contents=False))
    other.answer = says("It is 5.")

    served = await router.ask()
    shadow = await router.shadow_of(served)

    assert (shadow["messages"], shadow["answer"], shadow["shadow"]["agrees"]) == ([], "", False)


async def test_answers_that_cannot_be_compared_are_unknown_and_not_different(
    router: Shadowed, other: ScriptedLLM
) -> None:
    other.answer = says("I do not know.")

    shadow = await router.shadow_of(await router.ask())
    comparison = await router.comparison()

    assert (shadow["shadow"]["agrees"], shadow["shadow"]["not_compared"]) == (None, "DIFFERENT_TYPES")
    assert (comparison["agreement"]["runs"], comparison["not_compared"]) == (0, {"DIFFERENT_TYPES": 1})


@pytest.mark.parametrize("name", ["rest", "rpc"])
async def test_labels_cost_and_time_of_both_are_compared(router: Shadowed, other: ScriptedLLM, name: str) -> None:
    agreeing = await router.ask()
    shadows = [await router.shadow_of(agreeing)]
    other.answer = says("It is 5.")
    differing = await router.ask()
    shadows.append(await router.shadow_of(differing))
    effects = [
        await router.rest.ask("SubmitFeedback", run_id=run["run_id"], feedback_id=run["run_id"], correct=correct)
        for run, correct in ((agreeing, True), (differing, True), (shadows[1], False))
    ]

    found = await router.comparison(name)

    assert (found["runs"], found["agreement"]["count"], found["agreement"]["share"]) == (2, 1, 0.5)
    costs = [sum(run["usage"]["cost"] for run in runs) for runs in ((agreeing, differing), shadows)]
    assert (found["cost"]["pairs"], found["cost"]["ratio"]) == (2, pytest.approx(costs[1] / costs[0]))
    assert found["time"]["pairs"] == 2
    labels = found["labels"]
    assert (labels["served"]["right"], labels["shadow"]["right"], labels["shadow"]["labelled"]) == (2, 1, 2)
    assert (labels["labelled_disagreements"], labels["difference"]) == (1, -0.5)
    assert (labels["comparison"], labels["enough"]) == ("UNDECIDED", False)
    assert labels["labels_needed"] > 0
    # The label of a shadow is for the comparison alone.
    assert [effect["calibrates"] for effect in effects] == [True, True, False]
    assert effects[2]["becomes_experience"] is False


# The command line


async def test_the_command_line_shows_the_comparison_and_lists_the_shadows(router: Shadowed) -> None:
    served = await router.ask()
    shadow = await router.shadow_of(served)

    compared = await metacog("runs", "shadow", "--router", router.running.rest)
    listed = await metacog("runs", "list", "--shadow", "--router", router.running.rest)
    shown = await metacog("runs", "show", shadow["run_id"], "--router", router.running.rest)

    after = compared.partition(f"policy {router.policy}")[2]
    assert "1 (system1 1)" in after
    assert "not enough labels: about 6 more pairs" in after
    assert (shadow["run_id"] in listed, served["run_id"] in listed) == (True, False)
    assert f"{served['run_id']} by policy {router.policy}, the same answer" in shown


async def metacog(*words: str) -> str:
    """What a command prints."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "cli", *words],
        cwd=ROOT,
        env=environment(COLUMNS=200),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


# The start


@pytest.mark.parametrize(
    ("table", "settings", "problem"),
    [
        ("rows: []\n", {}, "at least one row is needed"),
        ("rows: [{name: a, strategy: none}]\n", {}, "rows.0: strategy: 'none' is none"),
        ("rows: [{name: a, strategy: cascade}]\n", {}, "the shadow policy: "),
        (
            "rows: [{name: a, strategy: dialectic}]\n",
            {"METACOG_ROUTER_SHADOW_MAX_COST": "0.1"},
            "the shadow policy: max_cost cannot be kept to",
        ),
    ],
)
def test_a_shadow_policy_that_cannot_be_followed_ends_the_start_with_one_line(
    scripted: ScriptedLLM, tmp_path: Path, table: str, settings: Mapping[str, str], problem: str
) -> None:
    file = tmp_path / "shadow.yaml"
    file.write_text(table)

    done = failed_start(
        "router",
        METACOG_INFERENCE_URL=f"{scripted.url}/v1",
        METACOG_ROUTER_SHADOW_POLICY_FILE=file,
        METACOG_ROUTER_SPOOL_DIR=tmp_path,
        **settings,
    )

    assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1)
    assert problem in done.stderr
