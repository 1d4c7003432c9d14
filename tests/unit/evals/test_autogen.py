"""AutoGen's own file: what it said is kept for the team, the settings and the prompts that it was said with."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from chassis.agents import AgentConfig
from evals import prompts
from evals.autogen.running import SAID, Team, run_team
from evals.autogen.team import digest
from evals.errors import RecordsUnusable
from evals.harness.introducing import introduction
from evals.records import read_records
from tests.support.evaluating import RIGHT, spent
from tests.support.evaluation import an_item

ITEM = an_item(1)
CAST = [AgentConfig(id="alpha", system_prompt="You reckon.")]
TEAM = Team(python=Path(sys.executable), url="http://127.0.0.1:1/v1", model="m", max_tokens=64, seed=7)


def said(folder: Path, **line: Any) -> None:  # noqa: ANN401
    """One answer, as an earlier start has left it, with a second one that a kill has torn."""
    cast = json.dumps([{"id": one.id, "system_prompt": one.system_prompt} for one in CAST])
    settings = {"max_tokens": 64, "temperature": 0.7, "seed": 7, "agents": digest(cast), **line.pop("settings", {})}
    reply = {"text": RIGHT, "usage": spent(2), "duration_ms": 3.0, "model": line.pop("model", "m")}
    whole = {"id": ITEM.id, "prompt": digest(prompts.question(ITEM).text), "reply": {**reply, "settings": settings}}
    (folder / SAID).write_text(json.dumps({**whole, **line}) + '\n{"id": "torn')


async def test_what_the_same_team_has_said_is_not_asked_again(tmp_path: Path) -> None:
    said(tmp_path)

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
        ({"prompt": "4567"}, "prompt 4567"),
    ],
)
async def test_what_was_said_with_something_else_is_refused_by_name(
    tmp_path: Path, before: dict[str, Any], named: str
) -> None:
    said(tmp_path, **before)

    with pytest.raises(RecordsUnusable, match=f"an answer to sums-1 with {named}.*take another --out"):
        await run_team([ITEM], CAST, TEAM, tmp_path)


async def test_a_file_from_before_agents_and_prompts_were_told_is_gone_on_with(tmp_path: Path) -> None:
    said(tmp_path, prompt=None, settings={"agents": None})

    assert len(read_records(await run_team([ITEM], CAST, TEAM, tmp_path))) == 1
