"""Tasks are read later, by their key alone: one, and a list of the newest first."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from chassis.ids import new_id
from chassis.serving.auth import Keyring
from tests.integration.delegation.support import RIGHT, TASK
from tests.support.apis import ApiError, RestApi, RpcApi, teaching_key
from tests.support.delegating import (
    Delegation,
    ScriptedAgents,
    delegation_at,
    delegation_settings,
    renamed_agents,
)
from tests.support.models.scripted_llm import ScriptedLLM

Client = RestApi | RpcApi


@pytest.fixture
def holders() -> tuple[str, str]:
    """Holders of keys that no other test uses; the key of a holder is its name."""
    mark = new_id()[-10:]
    return f"ann-{mark}", f"bob-{mark}"


@pytest.fixture
async def service(scripted: ScriptedLLM, database_url: str, holders: tuple[str, str]) -> AsyncIterator[Delegation]:
    agents, _ = renamed_agents()
    scripted.answer = ScriptedAgents({agent.id: 90 for agent in agents}, {})
    keyring = Keyring([teaching_key(name) for name in holders])
    async with delegation_at(scripted, database_url, agents=agents, keyring=keyring) as service:
        yield service


async def processed(client: Client, count: int, **more: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    return [await client.ask("Process", **{**TASK, **more}) for _ in range(count)]


async def listed(client: Client, **wanted: Any) -> list[str]:  # noqa: ANN401
    return [task["finished"]["task_id"] for task in (await client.ask("ListTasks", **wanted))["tasks"]]


def execute(url: str, statement: str, *values: object) -> None:
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection:
        connection.execute(statement, values)


async def test_a_task_is_returned_as_it_ended_with_its_question_and_its_label(
    service: Delegation, holders: tuple[str, str], api: str
) -> None:
    ann = service.api(api, holders[0])
    [finished] = await processed(ann, 1, expected={**RIGHT, "answer": "4"})

    task = (await ann.ask("GetTask", task_id=finished["task_id"]))["task"]

    assert task == {"question": TASK["question"], "finished": finished, "label": finished["label"]}
    assert task["label"]["correct"] is True


async def test_feedback_since_is_the_label_of_a_stored_task(
    service: Delegation, holders: tuple[str, str], api: str
) -> None:
    ann = service.api(api, holders[0])
    [finished] = await processed(ann, 1)
    before = (await ann.ask("GetTask", task_id=finished["task_id"]))["task"]

    given = await ann.ask("SubmitFeedback", feedback_id=new_id(), task_id=finished["task_id"], correct=False)
    after = (await ann.ask("GetTask", task_id=finished["task_id"]))["task"]

    assert (before["label"], after["finished"]["label"]) == (None, None)
    assert after["label"] == given["label"]
    assert (after["label"]["correct"], after["label"]["checker"]) == (False, "FEEDBACK")


async def test_a_task_is_for_its_own_key_alone(service: Delegation, holders: tuple[str, str], api: str) -> None:
    ann, bob = (service.api(api, name) for name in holders)
    [of_ann] = await processed(ann, 1)
    [of_bob] = await processed(bob, 1)

    with pytest.raises(ApiError) as raised:
        await bob.ask("GetTask", task_id=of_ann["task_id"])

    assert (raised.value.code, raised.value.reason) == ("NOT_FOUND", "TASK_NOT_FOUND")
    assert (await listed(ann), await listed(bob)) == ([of_ann["task_id"]], [of_bob["task_id"]])


async def test_tasks_are_listed_page_by_page_newest_first_and_by_time(
    service: Delegation, holders: tuple[str, str], database_url: str, api: str
) -> None:
    ann = service.api(api, holders[0])
    names = [task["task_id"] for task in await processed(ann, 3)]
    yesterday = datetime.now(UTC) - timedelta(days=1)
    execute(database_url, "UPDATE delegation.tasks SET created_at = %s WHERE task_id = %s", yesterday, names[0])
    hour_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()

    first = await ann.ask("ListTasks", page_size=2)
    second = await ann.ask("ListTasks", page_size=2, page_token=first["next_page_token"])

    pages = [[task["finished"]["task_id"] for task in page["tasks"]] for page in (first, second)]
    assert pages == [[names[2], names[1]], [names[0]]]
    assert (second["next_page_token"], second["unreadable"]) == ("", 0)
    assert await listed(ann, since=hour_ago) == [names[2], names[1]]
    assert await listed(ann, until=hour_ago) == [names[0]]


async def test_a_task_of_another_version_hides_only_itself(
    service: Delegation, holders: tuple[str, str], database_url: str, api: str
) -> None:
    ann = service.api(api, holders[0])
    names = [task["task_id"] for task in await processed(ann, 2)]
    execute(database_url, "UPDATE delegation.tasks SET document = '[]' WHERE task_id = %s", names[0])

    page = await ann.ask("ListTasks")
    with pytest.raises(ApiError) as raised:
        await ann.ask("GetTask", task_id=names[0])

    assert [task["finished"]["task_id"] for task in page["tasks"]] == [names[1]]
    assert page["unreadable"] == 1
    assert raised.value.reason == "RECORD_UNREADABLE"


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"page_size": 0}, "MALFORMED_REQUEST"),
        ({"page_size": 201}, "MALFORMED_REQUEST"),
        ({"page_token": "made-up"}, "INVALID_PAGE_TOKEN"),
    ],
)
async def test_what_is_no_page_is_a_named_error(
    service: Delegation, holders: tuple[str, str], api: str, wanted: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ApiError) as raised:
        await service.api(api, holders[0]).ask("ListTasks", **wanted)

    assert raised.value.reason == reason


async def test_without_contents_a_stored_task_has_its_decision_and_no_word(
    scripted: ScriptedLLM, database_url: str, api: str
) -> None:
    agents, _ = renamed_agents()
    scripted.answer = ScriptedAgents({agent.id: 90 for agent in agents}, {})
    settings = delegation_settings(keep_contents=False)
    async with delegation_at(scripted, database_url, agents=agents, settings=settings) as service:
        [finished] = await processed(service.api(api), 1)
        task = (await service.api(api).ask("GetTask", task_id=finished["task_id"]))["task"]

    assert (task["question"], task["finished"]["answer"], task["finished"]["answer_text"]) == ("", "", "")
    assert task["finished"]["decision"] == finished["decision"]
    assert finished["answer"] == "4"
