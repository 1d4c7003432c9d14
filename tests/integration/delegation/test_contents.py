"""Whose words delegation keeps, and who gets to see them."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
import yaml
from grpc import aio
from metacog.delegation.v1 import categories_pb2, delegation_pb2_grpc
from sqlalchemy import make_url

from chassis.ids import new_id
from chassis.serving.auth import OWNER, Keyring
from configuration.keys import read_keys
from tests.support.apis import RestApi, RpcApi
from tests.support.delegating import Delegation, ScriptedAgents, delegation_at, renamed_agents
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROUTER, router_at, until

CHESS = [f"Ann Petrov asks: in chess, how does the {piece} move?" for piece in ("pawn", "rook", "queen", "king")]
COOKING = [f"Bob Miller asks: how long do I cook {what}?" for what in ("rice", "beans", "pasta", "eggs")]


@pytest.fixture
def names() -> Sequence[str]:
    """Holders of keys that no other test uses: Ann, Bob, and the suite itself."""
    mark = new_id()[-10:]
    return f"ann-{mark}", f"bob-{mark}", "suite"


@pytest.fixture
def keyring(names: Sequence[str], tmp_path: Path) -> Keyring:
    """The keys of a file as it is written; the key of a holder is its name."""
    path = tmp_path / "keys.yaml"
    entries = [{"name": name, "sha256": sha256(name.encode()).hexdigest()} for name in names]
    path.write_text(yaml.safe_dump({"keys": entries}))
    return read_keys(path)


def rows(url: str, query: str, *values: object) -> list[Any]:
    """The first column of what a query of the database returns."""
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection:
        return [row[0] for row in connection.execute(query, values).fetchall()]


async def asked_through_the_router(
    llm: ScriptedLLM, url: str, folder: Path, keyring: Keyring, delegation: Delegation, questions: dict[str, list[str]]
) -> dict[str, list[str]]:
    """Ask questions by key at a router with the same keys, which presents the suite's; return the runs by key."""
    runs: dict[str, list[str]] = {}
    others = {"delegation": delegation.grpc}
    async with router_at(llm, url, folder, others=others, keyring=keyring, peer_key="suite") as router:
        for name, own in questions.items():
            api = RestApi(router.rest, ROUTER, {"authorization": f"Bearer {name}"})
            for question in own:
                run = (await api.ask("Answer", question=question, strategy="delegation"))["run"]
                assert (run["strategy"], run["degraded"]) == ("delegation", False), run["fallbacks"]
                runs.setdefault(name, []).append(run["run_id"])
    return runs


async def test_a_task_that_comes_through_the_router_belongs_to_the_key_of_its_caller(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, names: Sequence[str], keyring: Keyring
) -> None:
    ann, bob, suite = names
    agents, _ = renamed_agents()
    scripted.answer = ScriptedAgents({agent.id: 90 for agent in agents}, {})
    async with delegation_at(scripted, database_url, agents=agents, keyring=keyring) as delegation:
        questions = {ann: CHESS[:1], bob: COOKING[:1], suite: ["Who am I?"]}
        runs = await asked_through_the_router(scripted, database_url, tmp_path, keyring, delegation, questions)

    owner = "SELECT key_name FROM delegation.tasks WHERE document->'finished'->>'run_id' = %s"
    assert {name: rows(database_url, owner, own[0]) for name, own in runs.items()} == {name: [name] for name in names}


async def test_categories_of_one_key_show_another_no_word_of_its_tasks(
    scripted: ScriptedLLM, database_url: str, encoder_url: str, tmp_path: Path, names: Sequence[str], keyring: Keyring
) -> None:
    ann, bob, _ = names
    agents, _ = renamed_agents()
    scripted.answer = ScriptedAgents({agent.id: 90 for agent in agents}, {})
    async with delegation_at(
        scripted, database_url, agents=agents, encoder_url=encoder_url, keyring=keyring
    ) as delegation:
        await asked_through_the_router(
            scripted, database_url, tmp_path, keyring, delegation, {ann: CHESS, bob: COOKING}
        )
        of_ann, of_bob, of_suite = (delegation.api("rest", name) for name in names)
        found = {
            name: await api.ask("DiscoverCategories", minimum_tasks=4)
            for name, api in (("ann", of_ann), ("bob", of_bob))
        }
        category = found["ann"]["categories"][0]["category_id"]
        await of_ann.ask("AdoptCategory", category_id=category, name=f"board-{ann[-6:]}")
        seen = {
            name: next(
                (each for each in (await api.ask("ListCategories"))["categories"] if each["category_id"] == category),
                None,
            )
            for name, api in (("ann", of_ann), ("bob", of_bob), ("suite", of_suite))
        }

    assert "Petrov" in str(found["ann"])
    assert "Miller" not in str(found["ann"])
    assert "Petrov" not in str(found["bob"])
    assert (found["ann"]["tasks"], found["bob"]["tasks"]) == (4, 4)
    assert set(seen["ann"]["examples"]) <= set(CHESS)  # type: ignore[index]
    assert seen["ann"]["examples"]  # type: ignore[index]
    for name in ("bob", "suite"):
        shown = seen[name]
        assert shown is not None
        assert (shown["name"], shown["examples"], shown["keywords"]) == (f"board-{ann[-6:]}", [], [])


async def test_only_the_suites_own_key_may_act_for_another(
    scripted: ScriptedLLM, database_url: str, names: Sequence[str], keyring: Keyring
) -> None:
    ann, bob, suite = names
    agents, _ = renamed_agents()
    listing = categories_pb2.ListCategoriesRequest()

    async def called(secret: str, owner: bytes) -> grpc.StatusCode:
        metadata = (("authorization", f"Bearer {secret}"), (OWNER, owner))
        try:
            await stub.ListCategories(listing, metadata=metadata, timeout=60)
        except aio.AioRpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    async with (
        delegation_at(scripted, database_url, agents=agents, keyring=keyring) as delegation,
        aio.insecure_channel(delegation.grpc) as channel,
    ):
        stub = delegation_pb2_grpc.DelegationServiceStub(channel)
        codes = [
            await called(secret, owner)
            for secret, owner in [(suite, ann.encode()), (bob, ann.encode()), ("guess", ann.encode()), (suite, b"\xff")]
        ]

    assert [code.name for code in codes] == ["OK", "PERMISSION_DENIED", "UNAUTHENTICATED", "INVALID_ARGUMENT"]


async def test_feedback_on_a_run_reaches_the_task_of_its_key_and_no_other_key_labels_it(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, names: Sequence[str], keyring: Keyring
) -> None:
    ann, bob, _ = names
    agents, _ = renamed_agents()
    scripted.answer = ScriptedAgents({agent.id: 90 for agent in agents}, {})
    labelled = "SELECT correct FROM delegation.tasks WHERE document->'finished'->>'run_id' = %s"
    task_of = "SELECT task_id FROM delegation.tasks WHERE document->'finished'->>'run_id' = %s"
    async with (
        delegation_at(scripted, database_url, agents=agents, keyring=keyring) as delegation,
        router_at(
            scripted, database_url, tmp_path, others={"delegation": delegation.grpc}, keyring=keyring, peer_key="suite"
        ) as router,
    ):
        api = RpcApi(router.grpc, ROUTER, (("authorization", f"Bearer {ann}"),))
        run = (await api.ask("Answer", question=CHESS[0], strategy="delegation"))["run"]["run_id"]
        [task] = rows(database_url, task_of, run)
        with pytest.raises(Exception, match="there is no task"):
            await delegation.api("rest", bob).ask("SubmitFeedback", feedback_id=new_id(), task_id=task, correct=False)
        await api.ask("SubmitFeedback", feedback_id=new_id(), run_id=run, correct=True)

        async def is_labelled() -> bool:
            return rows(database_url, labelled, run) == [True]

        await until(is_labelled)
