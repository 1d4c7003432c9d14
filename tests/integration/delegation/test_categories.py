"""Categories are discovered among tasks with the real encoder, and adopted only on request."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from chassis.ids import new_id
from chassis.serving.auth import Keyring
from tests.support.apis import ApiError, RestApi, teaching_key
from tests.support.delegating import ScriptedAgents, delegation_at, renamed_agents
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROUTER, rating, router_at, until


@pytest.fixture(scope="module")
def database_url(new_database: Callable[[], str]) -> str:
    """Return the URL of a database of its own, since adopted categories are shared by all keys."""
    return new_database()


CHESS = [
    "Which chess opening suits a beginner who plays white?",
    "How does the knight move in a game of chess?",
    "Is it better to castle early in a chess game?",
    "What is the strongest chess piece after the queen?",
    "Can a chess pawn be promoted to a second queen?",
    "How do I win a chess endgame with a rook and a king?",
]
BREAD = [
    "How long should bread dough rest before baking?",
    "Which flour makes the lightest bread?",
    "Why did my bread dough not rise overnight?",
    "At what temperature is sourdough bread baked?",
    "How much salt goes into a loaf of bread?",
    "Can I bake bread without yeast?",
]


async def test_categories_are_proposed_and_become_dimensions_only_on_request(
    scripted: ScriptedLLM, database_url: str, encoder_url: str, api: str
) -> None:
    agents, _ = renamed_agents()
    scripted.answer = ScriptedAgents({agent.id: 90 for agent in agents}, {})
    owner, other = new_id(), new_id()
    keyring = Keyring([teaching_key(key) for key in (owner, other)])
    async with delegation_at(
        scripted, database_url, agents=agents, encoder_url=encoder_url, keyring=keyring
    ) as running:
        mine, theirs = running.api(api, owner), running.api(api, other)
        for task in (*CHESS, *BREAD):
            await mine.ask("Process", question=task, dimension="knowledge_retrieval")
        found = await mine.ask("DiscoverCategories", minimum_tasks=4)
        before = await dimensions(mine, agents[0].id)
        hidden = await theirs.ask("ListCategories", page_size=1000)
        chess = next(one for one in found["categories"] if "chess" in one["keywords"])
        name = f"chess-{owner[-8:]}"
        adopted = await mine.ask("AdoptCategory", category_id=chess["category_id"], name=name)
        after = await dimensions(theirs, agents[0].id)
        asked = await mine.ask("Process", question="Which chess piece moves diagonally?", classifier="EMBEDDING")
        with pytest.raises(ApiError) as raised:
            await theirs.ask("AdoptCategory", category_id=found["categories"][-1]["category_id"])

    assert found["tasks"] == 12
    assert {one["tasks"] for one in found["categories"]} <= {4, 5, 6}
    assert len(found["categories"]) == 2
    assert set(chess["examples"]) <= set(CHESS)
    assert chess["nearest_dimension"]
    assert name not in before
    assert chess["category_id"] not in [one["category_id"] for one in hidden["categories"]]
    assert (adopted["category"]["name"], adopted["category"]["adopted"]) == (name, True)
    assert name in after
    assert asked["dimensions"][0]["dimension"].startswith("chess-")
    assert raised.value.reason == "CATEGORY_NOT_FOUND"


async def test_an_adopted_category_is_a_kind_of_question_at_the_router_while_delegation_is_away_too(
    scripted: ScriptedLLM, database_url: str, encoder_url: str, api: str, tmp_path: Path
) -> None:
    agents, _ = renamed_agents()
    owner = new_id()
    keyring = Keyring([teaching_key(owner)])
    name = f"chess-{owner[-8:]}"
    async with AsyncExitStack() as stack:
        async with delegation_at(
            scripted, database_url, agents=agents, encoder_url=encoder_url, keyring=keyring
        ) as running:
            mine = running.api(api, owner)
            scripted.answer = ScriptedAgents({agent.id: 90 for agent in agents}, {})
            for task in CHESS:
                await mine.ask("Process", question=task, dimension="knowledge_retrieval")
            found = await mine.ask("DiscoverCategories", minimum_tasks=4)
            await mine.ask("AdoptCategory", category_id=found["categories"][0]["category_id"], name=name)
            listed = await mine.ask("ListDimensions")

            scripted.answer = lambda _: [rating(90, 80, 70, 10, 30, 20, 10)]
            router = await stack.enter_async_context(
                router_at(
                    scripted,
                    database_url,
                    tmp_path,
                    others={"delegation": running.grpc},
                    peer_key=owner,
                    encoder_url=encoder_url,
                )
            )
            rest = RestApi(router.rest, ROUTER)

            async def is_read() -> bool:
                kind = (await rest.ask("Route", question="Which chess piece moves diagonally?"))["kind"]
                return str(kind).startswith("chess-")

            await until(is_read)
            configured = (await rest.ask("Route", question="What is 17 times 24?"))["kind"]
        away = (await rest.ask("Route", question="Which chess piece is the weakest?"))["kind"]

    adopted = {each["dimension"]: each["adopted"] for each in listed["dimensions"]}
    assert (adopted[name], adopted["math_computation"]) == (True, False)
    assert {len(prototype["vector"]) for each in listed["dimensions"] for prototype in each["prototypes"]} == {384}
    assert listed["encoder"]
    assert "text" not in str(listed["dimensions"][0]["prototypes"][0].keys())  # an example is a task of one key
    assert configured == "math_computation"
    assert away.startswith("chess-")


async def dimensions(api: Any, agent: str) -> list[str]:  # noqa: ANN401
    """Return the dimensions in which an agent has a profile."""
    page = await api.ask("ListProfiles", agent=agent, page_size=1000)
    return [profile["dimension"] for profile in page["profiles"]]


async def test_a_dimension_is_found_by_its_nearest_prototypes(
    scripted: ScriptedLLM, database_url: str, encoder_url: str
) -> None:
    agents, _ = renamed_agents()
    scripted.answer = ScriptedAgents({agent.id: 90 for agent in agents}, {})
    tasks = {
        "What is 23 times 19?": "math_computation",
        "Write a Python function that sorts a list of words.": "code_generation",
        "In which year did the French Revolution begin?": "knowledge_retrieval",
    }
    async with delegation_at(scripted, database_url, agents=agents, encoder_url=encoder_url) as running:
        finished = {
            task: await running.api("rest").ask("Process", question=task, classifier="EMBEDDING") for task in tasks
        }

    for task, dimension in tasks.items():
        found = finished[task]["dimensions"]
        assert dimension in [one["dimension"] for one in found]
        assert sum(one["certainty"] for one in found) <= 1 + 1e-6
        assert "classify" not in finished[task]["usage"]["stages"]


async def test_classification_by_embedding_without_the_encoder_is_an_error(
    scripted: ScriptedLLM, database_url: str
) -> None:
    agents, _ = renamed_agents()
    async with delegation_at(scripted, database_url, agents=agents) as running:
        with pytest.raises(ApiError) as raised:
            await running.api("rest").ask(
                "Process", question="?", classifier="EMBEDDING", envelope={"timeout_ms": 1500}
            )

    assert raised.value.reason == "ENCODER_UNAVAILABLE"
