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
from tests.support.apis import ApiError, RestApi, RpcApi
from tests.support.delegating import (
    AGENTS,
    CONTRACT,
    Delegation,
    ScriptedAgents,
    delegation_at,
    delegation_settings,
    renamed_agents,
)
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROUTER, process, router_at, until

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
    scripted: ScriptedLLM,
    own_database_url: str,
    encoder_url: str,
    tmp_path: Path,
    names: Sequence[str],
    keyring: Keyring,
) -> None:
    ann, bob, _ = names
    agents, _ = renamed_agents()
    scripted.answer = ScriptedAgents({agent.id: 90 for agent in agents}, {})
    async with delegation_at(
        scripted, own_database_url, agents=agents, encoder_url=encoder_url, keyring=keyring
    ) as delegation:
        await asked_through_the_router(
            scripted, own_database_url, tmp_path, keyring, delegation, {ann: CHESS, bob: COOKING}
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


# Contents that are not stored


def stored(url: str, word: str) -> list[str]:
    """The tables of delegation in which a word stands."""
    tables = rows(url, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'delegation'")
    found = "SELECT count(*) FROM delegation.{} AS t WHERE row_to_json(t)::text ILIKE %s"
    return [table for table in tables if rows(url, found.format(table), f"%{word}%") != [0]]


@pytest.mark.parametrize("keeps", [True, False], ids=["kept", "not kept"])
async def test_without_contents_no_word_of_a_task_reaches_the_database_and_the_caller_has_it_all(
    scripted: ScriptedLLM, database_url: str, keeps: bool
) -> None:
    agents, _ = renamed_agents()
    mark = new_id()[-10:]
    answers = {agent.id: f"She told tell{mark}.\nFinal Answer: gold{mark}" for agent in agents}
    scripted.answer = ScriptedAgents({agent.id: 30 for agent in agents}, answers, judge=20)
    settings = delegation_settings(keep_contents=keeps)
    async with delegation_at(scripted, database_url, agents=agents, settings=settings) as delegation:
        api = delegation.api("rest")
        asked = {
            "question": f"What did Ann hide{mark}?",
            "dimension": "knowledge_retrieval",
            "expected": {"answer": f"silver{mark}", "answer_type": "TEXT"},
            "request_id": f"r-{mark}",
        }
        task = await api.ask("Process", **asked)
        again = await api.ask("Process", **asked)
        open_task = await api.ask("Process", question=f"And whom hide{mark}?", dimension="knowledge_retrieval")
        note = await api.ask(
            "SubmitFeedback",
            feedback_id=new_id(),
            task_id=open_task["task_id"],
            correct=True,
            note=f"Bob note{mark} it.",
        )

    words = {word: stored(database_url, f"{word}{mark}") for word in ("hide", "tell", "gold", "silver", "note")}
    assert f"tell{mark}" in task["answer_text"]
    assert [vote["agent"] for vote in task["votes"]]
    assert (task["label"]["correct"], note["label"]["correct"]) == (False, True)
    assert again == task
    if keeps:
        assert {word for word, tables in words.items() if tables} >= {"hide", "tell", "gold", "note"}
    else:
        assert words == {word: [] for word in words}
        [document] = rows(database_url, "SELECT document FROM delegation.tasks WHERE task_id = %s", task["task_id"])
        assert (document["question"], document["finished"]["answer"]) == ("", "")
        assert document["finished"]["decision"]["mode"] == task["mode"]
        assert len(document["finished"]["votes"]) == len(task["votes"])
        assert stored(database_url, task["task_id"])


@pytest.mark.parametrize("api", ["rest", "rpc"])
async def test_without_contents_a_repeated_request_is_the_same_task_also_after_a_restart(
    scripted: ScriptedLLM, database_url: str, api: str
) -> None:
    agents, _ = renamed_agents()
    scripted.answer = ScriptedAgents({agent.id: 90 for agent in agents}, {})
    settings = delegation_settings(keep_contents=False)
    asked = {"question": CHESS[0], "dimension": "knowledge_retrieval", "request_id": new_id()}
    replies: list[Any] = []
    calls: list[int] = []
    for _ in range(2):
        async with delegation_at(scripted, database_url, agents=agents, settings=settings) as delegation:
            for _ in range(2):
                replies.append(await delegation.api(api).ask("Process", **asked))
                calls.append(len(scripted.bodies))
            with pytest.raises(ApiError) as raised:
                await delegation.api(api).ask("Process", **{**asked, "question": CHESS[1]})

    first, again, later, _ = replies
    assert again == first
    assert first["answer_text"]
    assert calls == [calls[0]] * 4
    assert [one["task_id"] for one in replies] == [first["task_id"]] * 4
    assert (later["outcome"], later["answer_text"], later["mode"]) == ("ANSWERED", "", first["mode"])
    assert [one["degraded_reasons"] for one in replies] == [[], [], [WITHOUT_CONTENTS], [WITHOUT_CONTENTS]]
    assert (first["degraded"], later["degraded"]) == (False, True)
    assert raised.value.reason == "REQUEST_ID_REUSED"


WITHOUT_CONTENTS = "CONTENTS_NOT_STORED: the task was answered before, and its contents are not stored"


@pytest.mark.parametrize("api", ["rest", "rpc"])
async def test_without_contents_an_identifier_that_was_freed_and_used_elsewhere_is_the_task_of_the_other_replica(
    scripted: ScriptedLLM, database_url: str, api: str
) -> None:
    agents, _ = renamed_agents()
    scripted.answer = ScriptedAgents({agent.id: 90 for agent in agents}, {})
    settings = delegation_settings(keep_contents=False)
    asked = {"question": CHESS[0], "dimension": "knowledge_retrieval", "request_id": new_id()}
    async with (
        delegation_at(scripted, database_url, agents=agents, settings=settings) as one,
        delegation_at(scripted, database_url, agents=agents, settings=settings) as other,
    ):
        old = await one.api(api).ask("Process", **asked)
        execute(database_url, f"DELETE FROM delegation.requests WHERE request_id = '{asked['request_id']}'")
        new = await other.api(api).ask("Process", **asked)
        again = await one.api(api).ask("Process", **asked)

    assert new["task_id"] != old["task_id"]
    assert (again["task_id"], again["answer_text"]) == (new["task_id"], "")
    assert again["degraded_reasons"] == [WITHOUT_CONTENTS]


async def test_without_contents_no_question_becomes_experience_or_a_category(
    scripted: ScriptedLLM, database_url: str, encoder_url: str, names: Sequence[str], keyring: Keyring
) -> None:
    ann, *_ = names
    agents, _ = renamed_agents()
    scripted.answer = ScriptedAgents({agent.id: 90 for agent in agents}, {})
    kept, not_kept = (delegation_settings(keep_contents=keeps) for keeps in (True, False))
    experiences = "SELECT count(*) FROM delegation.agent_experiences WHERE key_name = %s"
    found = []
    for settings in (not_kept, kept):
        async with delegation_at(
            scripted, database_url, agents=agents, encoder_url=encoder_url, keyring=keyring, settings=settings
        ) as delegation:
            api = delegation.api("rest", ann)
            for question in CHESS:
                expected = {"answer": "4", "answer_type": "NUMBER"}
                await api.ask("Process", question=question, dimension="knowledge_retrieval", expected=expected)
            categories = (await api.ask("DiscoverCategories", minimum_tasks=4))["categories"]
            found.append((len(categories), rows(database_url, experiences, ann)[0]))

    assert found == [(0, 0), (1, 4)]


async def test_old_tasks_go_with_their_feedback_and_examples_and_young_ones_and_numbers_stay(
    scripted: ScriptedLLM, own_database_url: str, encoder_url: str
) -> None:
    scripted.answer = ScriptedAgents({agent.id: 90 for agent in AGENTS}, {})
    settings = delegation_settings(retention_days=30)
    async with delegation_at(scripted, own_database_url, encoder_url=encoder_url, settings=settings) as delegation:
        api = delegation.api("rest")
        tasks = {}
        for question in (*CHESS, *COOKING[:1]):
            reply = await api.ask("Process", question=question, dimension="math_computation", request_id=new_id())
            tasks[question] = reply["task_id"]
            await api.ask(
                "SubmitFeedback", feedback_id=new_id(), task_id=reply["task_id"], correct=True, note=f"{question} Yes."
            )
        adopted = (await api.ask("DiscoverCategories", minimum_tasks=4))["categories"][0]
        await api.ask("AdoptCategory", category_id=adopted["category_id"], name="board")
        await api.ask("DiscoverCategories", minimum_tasks=4)
    age = "now() - interval '31 days'"
    for statement in (
        f"UPDATE delegation.tasks SET created_at = {age} WHERE document->>'question' LIKE 'Ann%'",
        f"UPDATE delegation.categories SET discovered_at = {age}",
        f"UPDATE delegation.requests SET expires_at = {age} WHERE task_id = '{tasks[CHESS[0]]}'",
    ):
        execute(own_database_url, statement)

    async with delegation_at(
        scripted, own_database_url, encoder_url=encoder_url, settings=settings, recalibrating=True
    ) as delegation:  # its background workers run

        async def is_clean() -> bool:
            return stored(own_database_url, "Petrov asks") == []

        await until(is_clean)
        left = await delegation.api("rest").ask("ListCategories")
        profiles = await delegation.api("rest").ask("ListProfiles")

    assert [each["name"] for each in left["categories"]] == ["board"]
    assert rows(own_database_url, "SELECT task_id FROM delegation.tasks") == [tasks[COOKING[0]]]
    assert rows(own_database_url, "SELECT task_id FROM delegation.feedback") == [tasks[COOKING[0]]]
    assert rows(own_database_url, "SELECT count(*) FROM delegation.requests") == [4]
    assert sum(profile["observations"] for profile in profiles["profiles"]) >= 5


def execute(url: str, statement: str) -> None:
    """Change the database."""
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection:
        connection.execute(statement)


async def test_what_the_router_keeps_is_what_delegation_keeps_unless_it_is_told_otherwise(
    scripted: ScriptedLLM, database_url: str
) -> None:
    scripted.answer = ScriptedAgents({agent.id: 90 for agent in AGENTS}, {})
    mark = new_id()[-10:]
    base = {"METACOG_INFERENCE_URL": scripted.url, "METACOG_DATABASE_URL": database_url}
    told = {"none": {}, "router": {"METACOG_ROUTER_KEEP_CONTENTS": "false"}}
    told["both"] = {**told["router"], "METACOG_DELEGATION_KEEP_CONTENTS": "true"}
    for name, settings in told.items():
        async with process("delegation", **base, **settings) as running:
            await RestApi(running.rest, CONTRACT).ask(
                "Process", question=f"Is it {name}{mark}?", dimension="knowledge_retrieval"
            )

    kept = {name: bool(stored(database_url, f"{name}{mark}")) for name in told}
    assert kept == {"none": True, "router": False, "both": True}
