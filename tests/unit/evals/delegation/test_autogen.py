"""AutoGen's own file: its answers are stored for the team, the settings and the prompts that they were given with."""

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAIError

from configuration.agents import AgentConfig
from evals import prompts
from evals.autogen.session import ANSWERS, EARLIER_ANSWERS, PROMPTS, Team, collect, run_team, write_prompts
from evals.autogen.team import attempted, digest, run, stated
from evals.errors import RecordsUnusable
from evals.harness.item_records import introduction
from evals.records import read_records
from tests.support.evaluation_records import an_item
from tests.support.evaluation_replies import RIGHT, spent

ITEM = an_item(1)
CAST = [AgentConfig(id="alpha", system_prompt="You reckon.")]
TEAM = Team(python=Path(sys.executable), url="http://127.0.0.1:1/v1", model="m", max_tokens=64, seed=7)


def write_answer(folder: Path, **line: Any) -> None:  # noqa: ANN401
    """One answer, as an earlier start has left it, with a second one that a kill has torn."""
    cast = json.dumps([{"id": one.id, "system_prompt": one.system_prompt} for one in CAST])
    settings = {"max_tokens": 64, "temperature": 0.7, "seed": 7, "agents": digest(cast), "replies": 3}
    settings = {name: text for name, text in {**settings, **line.pop("settings", {})}.items() if text != "absent"}
    reply = {"text": RIGHT, "usage": spent(2), "duration_ms": 3.0, "model": line.pop("model", "m")}
    whole = {"id": ITEM.id, "prompt": digest(prompts.question(ITEM).text), "reply": {**reply, "settings": settings}}
    (folder / ANSWERS).write_text(json.dumps({**whole, **line}) + '\n{"id": "torn')


async def test_answers_of_the_same_team_are_not_requested_again(tmp_path: Path) -> None:
    write_answer(tmp_path)

    # Nobody answers at that address, and nobody is asked.
    [made] = read_records(await run_team([ITEM], CAST, TEAM, tmp_path))

    assert (made["item"], made["reply"]["text"]) == (ITEM.id, RIGHT)
    assert made["digest"] == introduction(ITEM, "")["digest"]


@pytest.mark.parametrize(
    ("before", "named"),
    [
        ({"model": "another"}, "model another, this run has m"),
        ({"settings": {"max_tokens": 512}}, "max_tokens 512, this run has 64"),
        ({"settings": {"seed": 8}}, "seed 8, this run has 7"),
        ({"settings": {"agents": "0123"}}, "agents 0123"),
        ({"settings": {"replies": 5}}, "replies 5, this run has 3"),
        # Earlier versions had one reply, and did not record it.
        ({"settings": {"replies": "absent"}}, "replies 1, this run has 3"),
        ({"prompt": "4567"}, "prompt 4567"),
    ],
)
async def test_answers_made_with_another_setting_are_rejected_by_name(
    tmp_path: Path, before: dict[str, Any], named: str
) -> None:
    write_answer(tmp_path, **before)

    with pytest.raises(RecordsUnusable, match=f"an answer to sums-1 with {named}.*take another --out"):
        await run_team([ITEM], CAST, TEAM, tmp_path)


async def test_answers_under_the_name_of_an_earlier_version_are_not_requested_again(tmp_path: Path) -> None:
    write_answer(tmp_path)
    (tmp_path / ANSWERS).rename(tmp_path / EARLIER_ANSWERS)

    [made] = read_records(await run_team([ITEM], CAST, TEAM, tmp_path))

    assert (made["item"], made["reply"]["text"]) == (ITEM.id, RIGHT)


async def test_a_file_that_is_older_than_recorded_agents_and_prompts_is_resumed(tmp_path: Path) -> None:
    write_answer(tmp_path, prompt=None, settings={"agents": None})

    assert len(read_records(await run_team([ITEM], CAST, TEAM, tmp_path))) == 1


@pytest.mark.parametrize(
    ("replies", "place"),
    [(["Final Answer: 4", "I agree."], 0), (["Final Answer: 4", "No.\nfinal answer: 5"], 1), (["Hm.", "I agree."], 1)],
)
def test_the_answer_of_a_conversation_is_the_last_one_that_it_states(replies: list[str], place: int) -> None:
    said = [Namespace(content=text) for text in replies]

    assert stated(said) is said[place]


class Scripted:
    """A team that fails at the prompts that it is told to, and remembers what it was asked."""

    def __init__(self, *failing: str) -> None:
        self.asked: list[str] = []
        self._failing = failing

    async def __call__(self, prompt: str, options: Namespace) -> dict[str, Any]:
        self.asked.append(prompt)
        if prompt in self._failing:
            raise ValueError("the prompt is too long")
        return {"text": RIGHT, "usage": spent(2), "duration_ms": 3.0, "model": "m", "settings": {"seed": options.seed}}


async def test_a_task_at_which_the_team_fails_is_recorded_as_an_error_and_asked_again_and_ends_no_run(
    tmp_path: Path,
) -> None:
    items = [an_item(1), an_item(2), an_item(3)]
    asked = [prompts.question(item).text for item in items]
    write_prompts(items, tmp_path)
    options = Namespace(prompts=tmp_path / PROMPTS, answers=tmp_path / ANSWERS, seed=8)

    await run(options, Scripted(asked[1]))
    first, third, lost = read_records(await collect(items, tmp_path))
    again = Scripted()
    await run(options, again)
    whole = read_records(await collect(items, tmp_path))

    assert [one["item"] for one in (first, third, lost)] == ["sums-1", "sums-3", "sums-2"]
    assert lost["error"] == {"reason": "ValueError", "detail": "ValueError: the prompt is too long"}
    assert (lost["seed"], first["seed"]) == (8, 8)
    assert again.asked == [asked[1]]
    assert [one["reply"]["text"] for one in whole] == [RIGHT] * 3


@pytest.mark.parametrize("error", [OpenAIError("the server is away"), RuntimeError("BadRequestError: too long")])
async def test_errors_of_autogen_and_its_client_are_failures_of_a_task(error: Exception) -> None:
    async def failing(prompt: str, options: Namespace) -> dict[str, Any]:
        raise error

    made = await attempted("1 + 1?", Namespace(seed=7), failing)

    assert made == {"failure": f"{type(error).__name__}: {error}", "seed": 7}


async def test_a_mistake_in_the_script_ends_the_run() -> None:
    async def mistaken(prompt: str, options: Namespace) -> dict[str, Any]:
        raise AttributeError("no such field")

    with pytest.raises(AttributeError):
        await attempted("1 + 1?", Namespace(seed=7), mistaken)


async def test_a_failure_of_an_earlier_start_is_no_answer_made_with_other_settings(tmp_path: Path) -> None:
    write_answer(tmp_path)
    file = tmp_path / ANSWERS
    file.write_text('{"id": "sums-2", "failure": "ValueError: x"}\n' + file.read_text())

    made = read_records(await run_team([ITEM], CAST, TEAM, tmp_path))

    assert [one["item"] for one in made] == [ITEM.id]


async def test_a_team_that_fails_at_everything_is_reported(tmp_path: Path) -> None:
    (tmp_path / ANSWERS).write_text('{"id": "sums-1", "failure": "APIConnectionError: nobody is there"}\n')

    # Without anything to ask nobody is asked.
    with pytest.raises(RecordsUnusable, match="AutoGen has answered nothing: APIConnectionError: nobody is there"):
        await run_team([], CAST, TEAM, tmp_path)


async def test_without_autogen_the_run_ends_and_no_task_is_recorded_as_failed(tmp_path: Path) -> None:
    async def missing(prompt: str, options: Namespace) -> dict[str, Any]:
        raise ModuleNotFoundError("autogen_agentchat")

    write_prompts([ITEM], tmp_path)

    with pytest.raises(ModuleNotFoundError):
        await run(Namespace(prompts=tmp_path / PROMPTS, answers=tmp_path / ANSWERS, seed=7), missing)

    assert (tmp_path / ANSWERS).read_text() == ""
