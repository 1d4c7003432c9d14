"""Each model presents its own key, also where several are served at one address."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from chassis.errors import ConfigurationInvalid
from configuration.agents import AgentConfig
from configuration.suite import SuiteSettings
from inference import BackendModelClients, suite_models
from tests.integration.inference.support import call_of, read_stream, spend_of
from tests.support.hostile.raw_server import MODEL, RawServer, completion, events, http

NAMES = ("ann", "bob", "nobody")


def models_file(folder: Path, server: RawServer, **keys: str) -> Path:
    """A models.yaml of models that one address serves under one name, each with a key of its own, or with none."""
    lines = ["models:"]
    for name in NAMES:
        lines += [f"  - name: {name}", f"    served_as: {MODEL}", "    endpoints:", f"      - url: {server.url}/v1"]
        if name in keys:
            (folder / name).write_text(keys[name])
            lines.append(f"        api_key_file: {folder / name}")
    path = folder / "models.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with RawServer(replies=[http(completion("well"))]) as listening:
        yield listening


@pytest.fixture
async def clients(server: RawServer, tmp_path: Path) -> AsyncIterator[BackendModelClients]:
    settings: dict[str, Any] = {"models_file": models_file(tmp_path, server, ann="key-of-ann", bob="key-of-bob")}
    found = await suite_models(SuiteSettings(**settings))
    yield found
    await found.close()


def agent(model: str) -> AgentConfig:
    """An agent with this model."""
    return AgentConfig(id=f"agent-{model}", model=model)


EXPECTED = {"ann": "Bearer key-of-ann", "bob": "Bearer key-of-bob", "nobody": ""}


@pytest.mark.parametrize("way", ["whole", "streamed"])
async def test_agents_at_one_address_present_each_the_key_of_its_own_model(
    server: RawServer, clients: BackendModelClients, way: str
) -> None:
    presented: dict[str, set[str]] = {}
    if way == "streamed":
        server.replies = [http(events("well"))]
    for name in NAMES * 3:  # over connections that are used again
        before = len(server.requests)
        if way == "whole":
            await clients.of(agent(name)).complete(call_of(), spend_of())
        else:
            await read_stream(clients.of(agent(name)).stream(call_of(), spend_of()))
        presented.setdefault(name, set()).update(each.authorization for each in server.requests[before:])

    assert presented == {name: {key} for name, key in EXPECTED.items()}
    assert {each.authorization for each in server.listings} == set(EXPECTED.values())


async def test_agents_at_one_address_present_their_keys_at_the_same_time(
    server: RawServer, clients: BackendModelClients
) -> None:
    async with asyncio.TaskGroup() as group:
        for number, name in enumerate(NAMES * 8):
            call = call_of(messages=[{"role": "user", "content": name}], seed=number)
            group.create_task(clients.of(agent(name)).complete(call, spend_of()))

    presented = [(each.document["messages"][0]["content"], each.authorization) for each in server.requests]
    assert sorted(presented) == sorted((name, EXPECTED[name]) for name in NAMES * 8)


async def test_a_key_file_that_changes_is_read_again_and_until_it_is_valid_the_last_key_stays(
    server: RawServer, clients: BackendModelClients, tmp_path: Path
) -> None:
    async def presented() -> str:
        await clients.of(agent("ann")).complete(call_of(), spend_of())
        return server.requests[-1].authorization

    seen = [await presented()]
    for key in ("a-new-key-of-ann", ""):
        (tmp_path / "ann").write_text(key)
        seen.append(await presented())
    with pytest.raises(ConfigurationInvalid, match="ann is empty; the models read before are in use"):
        await clients.check()
    (tmp_path / "ann").write_text("the-last-key")
    seen.append(await presented())
    await clients.check()

    assert seen == ["Bearer key-of-ann", *["Bearer a-new-key-of-ann"] * 2, "Bearer the-last-key"]
