"""Whether System 2 pays, by kind: an exam of both systems decides how questions of a kind are answered from then on."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.terminal.exits import OK
from inference import kinds
from kernel.learning.gain_words import DECIDING_LABELS
from kernel.msv.assessors import AssessorName
from kernel.policy import Policy, PolicyRow
from services.router.compose import RoutingRules
from services.router.service.assessment.routing import RoutingConfig
from tests.support.apis import Api, RestApi, RpcApi
from tests.support.arbiter import arbiter_at, sample_text
from tests.support.models.scripted_llm import Body, ScriptedLLM
from tests.support.stack import NO_SERVER, ROOT, ROUTER, RunningRouter, router_at, until

SUMS, FACTS = "math_computation", "knowledge_retrieval"
# Questions of either kind that the exam does not ask.
SUM, FACT = "What is 41 + 0?", "In which year did the Berlin Wall fall?"
MUCH = {"importance": 0.9}  # the activation alone says System 2
# Labels of either kind before the exam is complete.
BEFORE = DECIDING_LABELS - 1


class Systems:
    """On sums the direct answer is wrong and every vote right; on facts the direct answer is right, and no vote is."""

    def __call__(self, body: Body) -> Sequence[str]:
        prompt = str(body["messages"][-1]["content"])
        is_vote = "by yourself" in prompt
        if "+ 0" not in prompt:
            number = prompt.partition("number ")[2].partition(" ")[0] or "1989"
            return [sample_text("0" if is_vote else number)] * (body.get("n") or 1)
        number = prompt.partition("What is ")[2].partition(" ")[0]
        return [sample_text(number if is_vote else "0")] * (body.get("n") or 1)


def tasks(first: int, count: int) -> list[dict[str, Any]]:
    """Return tasks of both kinds."""
    texts = {SUMS: "What is {} + 0?", FACTS: "Name the river number {} that flows through Vienna."}
    return [
        {
            "id": f"{kind}-{number}",
            "kind": kind,
            "question": text.format(number),
            "answer": f"{number}",
            "answer_type": "NUMBER",
        }
        for kind, text in texts.items()
        for number in range(first, first + count)
    ]


def take_exam(router: RunningRouter, folder: Path, asked: Sequence[Mapping[str, Any]]) -> None:
    """Have both systems take the exam of these tasks, by the command."""
    folder.mkdir()
    (folder / "tasks.jsonl").write_text("".join(f"{json.dumps(task)}\n" for task in asked))
    command = [sys.executable, "-m", "cli", "exam", "--tasks", "tasks.jsonl", "--router", router.rest, "--yes"]
    own = {name: text for name, text in os.environ.items() if not name.startswith("METACOG_")}
    done = subprocess.run(
        [*command, "--arms", "strategy:system1,strategy:vote"],
        cwd=folder,
        env={**own, "PYTHONPATH": f"{ROOT}:{ROOT / 'gen'}", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == OK, done.stderr


def both_apis(router: RunningRouter) -> tuple[Api, Api]:
    """Return both APIs of the router."""
    return RestApi(router.rest, ROUTER), RpcApi(router.grpc, ROUTER)


@asynccontextmanager
async def routed_by(
    llm: ScriptedLLM,
    database: str,
    folder: Path,
    encoder: str,
    **more: Any,  # noqa: ANN401
) -> AsyncIterator[RunningRouter]:
    """Serve a router with an arbiter, whose state needs no model: what matters is fixed, and the share right known."""
    options = {"assessor": AssessorName.ANSWERS, **MUCH, "encoder_url": encoder, **more}
    async with (
        arbiter_at(llm, programs=False) as arbiter,
        router_at(llm, database, folder, others={"arbiter": arbiter.grpc}, **options) as router,
    ):
        yield router


@dataclass(frozen=True)
class Examined:
    """What an exam of both systems left, with what was decided before its last task.

    Attributes:
        database_url: The database with its labels.
        none: Decisions before any label, by question, of either API.
        some: Decisions with one label too few.
    """

    database_url: str
    none: Mapping[str, Sequence[Body]]
    some: Mapping[str, Sequence[Body]]


@pytest.fixture(scope="module", autouse=True)
def patient() -> Iterator[None]:
    """The encoder may take its time: on a busy machine a kind would else be unknown."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds, "KIND_TIMEOUT_S", 30.0)
        yield


@pytest.fixture(scope="module")
def examined(
    encoder_url: str, new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Examined]:
    """A database of these tests alone, with the labels of an exam."""
    folder = tmp_path_factory.mktemp("exam")
    with ScriptedLLM() as llm:
        llm.answer = Systems()
        yield asyncio.run(_examined(llm, new_database(), folder, encoder_url))


async def _examined(llm: ScriptedLLM, database: str, folder: Path, encoder: str) -> Examined:
    async with routed_by(llm, database, folder / "spool", encoder) as router:
        await kinds_known(router)

        async def decisions() -> Mapping[str, Sequence[Body]]:
            return {
                question: [await api.ask("Route", question=question) for api in both_apis(router)]
                for question in (SUM, FACT)
            }

        none = await decisions()
        await asyncio.to_thread(take_exam, router, folder / "first", tasks(1, BEFORE))
        await known(router, 2 * BEFORE)
        some = await decisions()
        await asyncio.to_thread(take_exam, router, folder / "second", tasks(1 + BEFORE, 1))
        await known(router, 2 * DECIDING_LABELS)
    return Examined(database_url=database, none=none, some=some)


async def known(router: RunningRouter, labels: int) -> None:
    """Wait until the gains in force rest on so many questions."""

    async def are_in_force() -> bool:
        return router.calibrator.votes.gains.overall.labels == labels

    await until(are_in_force)


async def kinds_known(router: RunningRouter) -> None:
    """Wait until the encoder has the examples of every kind."""

    async def are_known() -> bool:
        return bool((await RestApi(router.rest, ROUTER).ask("Route", question=SUM))["kind"])

    await until(are_known)


@pytest.fixture
async def router(
    scripted: ScriptedLLM, examined: Examined, encoder_url: str, tmp_path: Path
) -> AsyncIterator[RunningRouter]:
    """A router that has read the labels of the exam."""
    scripted.answer = Systems()
    async with routed_by(scripted, examined.database_url, tmp_path, encoder_url) as running:
        await known(running, 2 * DECIDING_LABELS)
        await kinds_known(running)
        yield running


@pytest.fixture(params=["rest", "rpc"])
def api(request: pytest.FixtureRequest, router: RunningRouter) -> Api:
    """The router, by each of its APIs."""
    return both_apis(router)[request.param == "rpc"]


def test_before_the_exam_and_with_one_label_too_few_the_activation_decides_both_kinds(examined: Examined) -> None:
    for question, kind in ((SUM, SUMS), (FACT, FACTS)):
        for before, labels in ((examined.none[question], 0), (examined.some[question], BEFORE)):
            assert [one["system"] for one in before] == ["SYSTEM_TWO"] * 2
            assert [(one["kind"], one["decided_by"]) for one in before] == [(kind, "ACTIVATION")] * 2
            assert [(one["gain"] or {"labels": 0})["labels"] for one in before] == [labels] * 2


async def test_an_exam_of_both_systems_flips_the_decision_of_the_kind_on_which_reasoning_loses(
    api: Api, router: RunningRouter
) -> None:
    run = (await api.ask("Answer", question=FACT, answer_type="NUMBER"))["run"]

    route = run["route"]
    assert (route["system"], route["decided_by"], route["reason"]) == ("SYSTEM_ONE", "GAIN", "gain")
    assert (route["kind"], route["kind_unknown_reason"]) == (FACTS, "")
    assert route["gain"] == {
        "labels": 20,
        "system_one": 1.0,
        "system_two": 0.0,
        "gain": -1.0,
        "shrunk": pytest.approx(-20 / 30),
        "minimum": 0.15,
    }
    # The activation is computed and recorded although it does not decide, and says otherwise.
    assert route["activation"]["value"] >= route["activation"]["threshold"]
    assert (run["strategy"], run["answer"]) == ("system1", sample_text("1989"))
    assert await router.journal.flush(10)
    assert (await api.ask("GetRun", run_id=run["run_id"]))["run"]["route"] == route


async def test_reasoning_goes_on_where_it_pays(api: Api) -> None:
    run = (await api.ask("Answer", question=SUM, answer_type="NUMBER"))["run"]

    route = run["route"]
    assert (route["system"], route["decided_by"], route["kind"]) == ("SYSTEM_TWO", "GAIN", SUMS)
    assert (route["gain"]["labels"], route["gain"]["gain"], route["gain"]["shrunk"]) == (
        20,
        1.0,
        pytest.approx(20 / 30),
    )
    assert (run["strategy"], run["degraded_reasons"]) == ("vote", [])
    assert run["answer"] == sample_text("41")


async def test_the_exam_says_how_often_system_one_is_right_on_a_kind_too(api: Api) -> None:
    """By name it looks for no kind: it is that of the votes on the same question."""
    shares = {
        kind: (await api.ask("Route", question=question))["msv"]["correctness"]
        for kind, question in ((SUMS, SUM), (FACTS, FACT))
    }

    # 0 of 20, and 20 of 20, drawn by ten towards half of 40 (with the prior's ten).
    assert shares[SUMS] == pytest.approx(1 / 6, abs=0.02)
    assert shares[FACTS] == pytest.approx(5 / 6, abs=0.02)


async def test_a_given_state_is_decided_by_the_activation_unchanged(api: Api) -> None:
    calm = {"correctness": 0.92, "conflict": 0.12, "importance": 0.3, "experience": 0.5}

    route = await api.ask("Route", question=SUM, msv=calm)

    assert (route["system"], route["decided_by"], route["reason"]) == ("SYSTEM_ONE", "STATE", "activation")
    assert (route["kind"], route["kind_unknown_reason"], route["gain"]) == ("", "", None)


async def test_a_named_strategy_is_run_as_named(api: Api) -> None:
    run = (await api.ask("Answer", question=FACT, strategy="vote", answer_type="NUMBER"))["run"]

    assert (run["strategy"], run["route"]["decided_by"], run["route"]["gain"]) == ("vote", "NAMED", None)
    assert run["route"]["kind"] == FACTS  # found beside the votes, since labels of this run teach


async def test_the_papers_setting_leaves_every_kind_to_the_activation(
    scripted: ScriptedLLM, examined: Examined, encoder_url: str, tmp_path: Path
) -> None:
    async with routed_by(scripted, examined.database_url, tmp_path, encoder_url, system_two="dialectic") as router:
        await kinds_known(router)
        routes = [await api.ask("Route", question=FACT) for api in both_apis(router)]

    for route in routes:
        assert (route["decided_by"], route["strategy"], route["kind"]) == ("STATE", "dialectic", FACTS)


async def test_a_row_of_the_policy_table_keeps_its_place(
    scripted: ScriptedLLM, examined: Examined, encoder_url: str, tmp_path: Path
) -> None:
    row = PolicyRow(name="important", strategy="vote", always=True)
    rules = RoutingRules(config=RoutingConfig(), policy=Policy(version="p", rows=[row]))
    async with routed_by(scripted, examined.database_url, tmp_path, encoder_url, routing=rules) as router:
        await known(router, 2 * DECIDING_LABELS)
        await kinds_known(router)
        routes = [await api.ask("Route", question=FACT) for api in both_apis(router)]

    for route in routes:
        assert (route["decided_by"], route["reason"], route["policy_row"]) == ("POLICY", "policy", "important")
        assert (route["kind"], route["gain"]["labels"]) == (FACTS, 20)


async def test_without_the_encoder_the_kind_is_unknown_and_the_activation_decides(
    scripted: ScriptedLLM, examined: Examined, tmp_path: Path
) -> None:
    scripted.answer = Systems()
    away = f"http://{NO_SERVER}/v1"
    async with routed_by(scripted, examined.database_url, tmp_path, away) as router:
        await known(router, 2 * DECIDING_LABELS)
        runs = [(await api.ask("Answer", question=FACT, answer_type="NUMBER"))["run"] for api in both_apis(router)]

    for run in runs:
        route = run["route"]
        assert (route["kind"], route["gain"], route["decided_by"]) == ("", None, "ACTIVATION")
        assert route["kind_unknown_reason"].startswith("ENCODER_UNAVAILABLE: ")
        assert (run["outcome"], route["system"]) == ("ANSWERED", "SYSTEM_TWO")


async def test_a_streamed_draft_goes_on_where_the_gain_says_system_one_and_votes_come_first_otherwise(api: Api) -> None:
    facts = [name for name, _ in await api.events("Answer", question=FACT, answer_type="NUMBER")]
    sums = [name for name, _ in await api.events("Answer", question=SUM, answer_type="NUMBER")]

    assert facts[:3] == ["run_started", "routed", "answer_token"]
    assert (facts.count("vote_cast"), facts[-1]) == (0, "run_finished")
    assert facts.count("answer_token") > 1  # as the model wrote it
    assert sums.index("vote_cast") < sums.index("answer_token")
    assert sums.count("answer_token") == 1


async def test_a_streamed_draft_goes_on_where_the_activation_says_system_one(
    scripted: ScriptedLLM, examined: Examined, tmp_path: Path
) -> None:
    scripted.answer = Systems()
    away = f"http://{NO_SERVER}/v1"
    async with routed_by(scripted, examined.database_url, tmp_path, away, importance=0.1) as router:
        found = [await api.events("Answer", question=SUM, answer_type="NUMBER") for api in both_apis(router)]

    for events in found:
        assert dict(events)["routed"]["decided_by"] == "ACTIVATION"
        assert dict(events)["routed"]["msv"]["conflict"] is None  # there is no vote yet
        names = [name for name, _ in events]
        assert (names[2], names.count("vote_cast")) == ("answer_token", 0)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_chat_says_which_rule_decided_with_kind_and_gain(router: RunningRouter, stream: bool) -> None:
    own = {"stage_events": stream}
    body = {"model": "metacog", "messages": [{"role": "user", "content": FACT}], "stream": stream, "metacog": own}

    async with httpx.AsyncClient(base_url=router.rest, timeout=60) as client:
        reply = (await client.post("/v1/chat/completions", json=body)).raise_for_status()

    if stream:
        chunks = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
        fields = [chunk["metacog"] for chunk in chunks if "metacog" in chunk]
        field = fields[-1]
        routed = next(own["data"] for own in fields if own.get("event") == "routed")
        assert (routed["decided_by"], routed["kind"], routed["gain"]["labels"]) == ("GAIN", FACTS, 20)
    else:
        field = reply.json()["metacog"]
    assert (field["decided_by"], field["kind"], field["gain"]["labels"]) == ("GAIN", FACTS, 20)
    assert field["strategy"] == "system1"
