"""Models of `models.yaml`: replicas that fail, requests by a model's own name, and a file that changes."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from openai import APIError, AsyncOpenAI, BadRequestError, NotFoundError
from typer.testing import CliRunner

from cli.__main__ import app
from tests.support.apis import Body
from tests.support.models.scripted_llm import Cut, ErrorReply, Hangup, ScriptedLLM, Stall
from tests.support.stack import Process, failed_start, process, until

Model = dict[str, Any]
MESSAGES: Any = [{"role": "user", "content": "What is 2 + 2?"}]


def write_models(path: Path, *models: Model, default: str = "") -> Path:
    """Write a catalogue of models at once, as an editor that saves does."""
    aside = path.with_suffix(".new")
    aside.write_text(yaml.safe_dump({"models": list(models), **({"default": default} if default else {})}))
    os.replace(aside, path)
    return path


def model(name: str, *servers: ScriptedLLM, **more: object) -> Model:
    """An entry of the file."""
    return {"name": name, "served_as": "scripted", "endpoints": [{"url": f"{one.url}/v1"} for one in servers], **more}


@pytest.fixture
def servers() -> Iterator[Sequence[ScriptedLLM]]:
    """Three servers, each of which answers with its own name."""
    with ScriptedLLM() as one, ScriptedLLM() as two, ScriptedLLM() as three:
        for name, server in (("one", one), ("two", two), ("three", three)):
            server.answer = lambda _body, name=name: [name]
        yield one, two, three


class Started:
    """A router that is a process of its own, over a file of models."""

    def __init__(self, running: Process, file: Path) -> None:
        self.running = running
        self.file = file
        self.client = AsyncOpenAI(base_url=f"{running.rest}/v1", api_key="none", max_retries=0)

    async def ask(self, name: str = "metacog-system1", **more: Any) -> Any:  # noqa: ANN401
        """The answer of the model with this name."""
        return await self.client.chat.completions.create(model=name, messages=MESSAGES, **more)

    async def said(self, name: str = "metacog-system1") -> str:
        """Its text."""
        return str((await self.ask(name)).choices[0].message.content)


@pytest.fixture
async def router(servers: Sequence[ScriptedLLM], database_url: str, tmp_path: Path) -> AsyncIterator[Started]:
    """A router with the model `small` on two replicas, and `strong` on one."""
    one, two, three = servers
    file = write_models(
        tmp_path / "models.yaml",
        model("small", one, two),
        model("strong", three, aliases=["gpt-4o"], features={"tools": False, "images": False}),
    )
    variables = {"METACOG_MODELS_FILE": file, "METACOG_DATABASE_URL": database_url, "METACOG_HOME": tmp_path}
    async with process("router", **variables) as running:
        yield Started(running, file)


async def test_a_model_is_asked_by_its_own_name_and_recorded_like_any_run(router: Started) -> None:
    answer = await router.ask("strong")
    by_alias = await router.ask("gpt-4o")
    async with httpx.AsyncClient(base_url=router.running.rest) as client:
        run = (await client.get(f"/v1/runs/{answer.metacog['run_id']}")).json()["run"]
        runs = (await client.get("/v1/runs", params={"page_size": 2})).json()["runs"]

    assert [one.choices[0].message.content for one in (answer, by_alias)] == ["three", "three"]
    assert (run["strategy"], run["route"]["reason"], run["answer"]) == ("system1", "requested", "three")
    assert (run["model"], {one["catalogue_name"] for one in runs}) == ("scripted", {"strong"})


async def test_an_unknown_name_is_not_found_and_the_known_ones_are_listed(router: Started) -> None:
    with pytest.raises(NotFoundError, match=r"the model 'huge' does not exist; there are metacog,.*small, strong"):
        await router.ask("huge")

    listed = {one.id: one.model_extra["metacog"]["kind"] async for one in router.client.models.list()}  # type: ignore[index]
    assert (listed["metacog/cascade"], listed["metacog-cascade"], listed["strong"]) == ("strategy", "strategy", "model")


async def test_what_a_model_is_known_to_lack_is_rejected_with_the_line_that_says_so(router: Started) -> None:
    tool = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}}

    with pytest.raises(BadRequestError, match=r"strong is configured without tools \(models\.yaml: features\.tools\)"):
        await router.ask("strong", tools=[tool])


@pytest.mark.parametrize(
    "fault",
    [ErrorReply(503, "loading"), ErrorReply(401, "no"), ErrorReply(404, "there is no such model"), Hangup()],
    ids=["rejects", "does not accept the key", "has another model", "hangs up"],
)
async def test_a_replica_that_fails_before_the_first_byte_is_replaced_by_the_other(
    router: Started,
    servers: Sequence[ScriptedLLM],
    fault: Any,  # noqa: ANN401
) -> None:
    one, two, _ = servers
    one.fault(*[fault] * 40)

    answers = [await router.said() for _ in range(6)]
    stream = await router.ask(stream=True)
    streamed = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    assert [*answers, streamed] == ["two"] * 7
    assert len(two.requests) == 7


async def test_a_replica_that_is_killed_costs_no_client_an_error(
    router: Started, servers: Sequence[ScriptedLLM]
) -> None:
    one, _, _ = servers
    assert {await router.said() for _ in range(4)} == {"one", "two"}

    one.__exit__()

    assert [await router.said() for _ in range(8)] == ["two"] * 8


async def test_a_stream_that_breaks_off_after_its_first_words_is_not_begun_again(
    router: Started, servers: Sequence[ScriptedLLM]
) -> None:
    one, two, _ = servers
    one.fault(Cut(2))
    two.fault(Cut(2))

    with pytest.raises(APIError):
        async for _ in await router.ask(stream=True):
            pass

    assert len(one.requests) + len(two.requests) == 1


async def test_a_changed_file_is_in_force_without_a_restart_and_a_run_keeps_its_version(
    router: Started, servers: Sequence[ScriptedLLM]
) -> None:
    one, two, three = servers
    three.fault(Stall())
    under_way = asyncio.create_task(router.said("strong"))
    await three.until(lambda server: server.in_flight == 1)
    write_models(router.file, model("small", three), model("other", one))

    async def is_in_force() -> bool:
        return {one.id async for one in router.client.models.list()} >= {"small", "other"}

    await until(is_in_force)
    now = await router.said("other")
    with pytest.raises(NotFoundError):
        await router.ask("strong")
    under_way.cancel()

    assert (now, await router.said(), len(two.requests)) == ("one", "three", 0)


async def test_a_file_that_becomes_invalid_leaves_the_models_as_they_were_and_readiness_says_so(
    router: Started,
) -> None:
    router.file.write_text("models: [{name: small}]\n")

    async with httpx.AsyncClient(base_url=router.running.rest) as client:

        async def is_reported() -> bool:
            return "endpoints" in str((await client.get("/readyz")).json())

        await until(is_reported)

    assert await router.said("strong") == "three"


@pytest.mark.parametrize("service", ["assigner", "arbiter"])
def test_an_agent_whose_model_is_not_listed_ends_the_start_with_one_line(
    servers: Sequence[ScriptedLLM], tmp_path: Path, service: str
) -> None:
    models = write_models(tmp_path / "models.yaml", model("small", servers[0]))
    agents = tmp_path / "agents.yaml"
    agents.write_text("agents: [{id: ada, model: huge}]\n")

    done = failed_start(service, METACOG_MODELS_FILE=models, METACOG_AGENTS_FILE=agents)

    assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1)
    assert "model 'huge' of agent 'ada' is not in models.yaml; there are small" in done.stderr


def test_a_policy_that_names_a_model_which_is_not_listed_ends_the_start_with_one_line(
    servers: Sequence[ScriptedLLM], tmp_path: Path
) -> None:
    models = write_models(tmp_path / "models.yaml", model("small", servers[0]))
    policy = tmp_path / "policy.yaml"
    policy.write_text("rows: [{name: hard, strategy: cascade, escalate: huge}]\n")

    done = failed_start("router", METACOG_MODELS_FILE=models, METACOG_ROUTER_POLICY_FILE=policy)

    assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1)
    assert "row 'hard' of the policy table: the model 'huge' is not in models.yaml" in done.stderr


def test_the_command_line_checks_the_file_and_asks_each_server(servers: Sequence[ScriptedLLM], tmp_path: Path) -> None:
    right = write_models(tmp_path / "models.yaml", model("small", servers[0]))
    wrong = write_models(tmp_path / "wrong.yaml", {**model("big", servers[0]), "served_as": "huge"})

    fine = checked(right)
    missing = checked(wrong)
    offline = checked(wrong, "--offline")

    assert (fine["valid"], fine["servers"][0]["model"]) == (True, "small")
    assert missing["problems"] == [f"big at {servers[0].url}/v1: it does not serve 'huge'; it serves scripted"]
    assert offline == {"valid": True, "servers": [], "problems": []}


def test_the_command_line_finds_what_a_model_can_do(servers: Sequence[ScriptedLLM], tmp_path: Path) -> None:
    able, lacking = servers[0], servers[1]
    lacking.fault(None, ErrorReply(400, "no tools"), ErrorReply(400, "no images"), ErrorReply(400, "no schema"))
    bare = {**model("small", able), "endpoints": [{"url": able.url}]}  # as OpenAI's clients may write it
    file = write_models(tmp_path / "models.yaml", bare, model("other", lacking))

    found = {one["model"]: one["features"] for one in checked(file, "--features")["servers"]}

    assert found["small"] == {"tools": False, "images": True, "schema": False, "logprobs": True}
    assert found["other"] == {"tools": False, "images": False, "schema": False, "logprobs": True}


def checked(file: Path, *options: str) -> Body:
    """What `metacog models check` finds."""
    done = CliRunner().invoke(app, ["models", "check", "--file", str(file), "--json", *options])
    found: Body = json.loads(done.stdout)
    assert done.exit_code == (0 if found["valid"] else 1)
    return found
