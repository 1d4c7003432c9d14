"""AutoGen from our side: prompts out, its environment's process, replies in, programs checked in our sandbox."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from configuration.agents import AgentConfig
from evals import prompts
from evals.autogen.team import digest
from evals.delegation.arms import AUTOGEN
from evals.errors import NotInstalled, RecordsUnusable
from evals.harness.item_records import content_digest
from evals.harness.plan_recorder import checked_reply
from evals.harness.recorder import reply_record
from evals.items import Item
from evals.program_checks import ProgramChecker
from evals.records import Record
from kernel.values import value

TEAM = Path(__file__).with_name("team.py")
PROMPTS, ANSWERS, RECORDS = "prompts.jsonl", "answers.jsonl", "autogen.jsonl"
# The name of the answers in earlier versions.
EARLIER_ANSWERS = "said.jsonl"
# Replies of a conversation: one for each agent of the paper's team. Earlier versions had one, and did not record it.
REPLIES, EARLIER_REPLIES = 3, 1


@value
class Team:
    """Settings of the AutoGen team.

    Attributes:
        python: The interpreter of AutoGen's environment.
        url: OpenAI-compatible server, with its /v1.
        model: Model to ask there.
        max_tokens: Tokens of a reply [count].
        seed: Seed of every call.
        replies: Replies of a conversation [count, >= 1].
    """

    python: Path
    url: str
    model: str
    max_tokens: int = 512
    seed: int = 7
    replies: int = REPLIES


async def run_team(items: Sequence[Item], agents: Sequence[AgentConfig], team: Team, folder: Path) -> Path:
    """Have the team answer every item; returns the file of records. What is answered already is not asked again.

    An item at which the team failed is recorded as an error, and asked again at the next start.

    Raises:
        NotInstalled: When the environment lacks AutoGen.
        RecordsUnusable: When the folder holds answers of another team, or of this one with other settings or
            otherwise; when the team ends before it is done; and when it has failed at every item.
    """
    _rename_earlier_answers(folder)
    require_same_team(items, agents, team, folder)
    write_prompts(items, folder)
    command = _command(agents, team, folder)
    try:
        process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL, stdout=sys.stderr)
    except OSError as missing:
        message = f"{team.python} cannot be run: {missing.strerror}; evals/autogen/install.sh makes the environment"
        raise NotInstalled(message, package="autogen-agentchat") from missing
    status = await process.wait()
    if status:
        raise RecordsUnusable(f"AutoGen ended with status {status}; its answers are in {folder / ANSWERS}")
    answers = _answers(folder)
    if answers and not any("reply" in one for one in answers):
        raise RecordsUnusable(f"AutoGen has answered nothing: {answers[-1]['failure']}")
    return await collect(items, folder)


def _rename_earlier_answers(folder: Path) -> None:
    """Give the answers of an earlier version the name of this one, so that they are not requested again."""
    earlier, answers = folder / EARLIER_ANSWERS, folder / ANSWERS
    if earlier.exists() and not answers.exists():
        earlier.rename(answers)


def require_same_team(items: Sequence[Item], agents: Sequence[AgentConfig], team: Team, folder: Path) -> None:
    """Reject answers that were made with other settings; what an older file does not report is not compared.

    Raises:
        RecordsUnusable: When a setting, or a prompt, is another one; names it.
    """
    prompt_digests = {item.id: digest(prompts.question(item).text) for item in items}
    cast = digest(_cast(agents))
    now = {"model": team.model, "max_tokens": team.max_tokens, "seed": team.seed, "agents": cast}
    now["replies"] = team.replies
    for one in (one for one in _answers(folder) if "reply" in one):
        made_with = {"replies": EARLIER_REPLIES, **one["reply"].get("settings", {})}
        before = {"model": one["reply"].get("model"), **made_with, "prompt": one.get("prompt")}
        wanted = {**now, "prompt": prompt_digests.get(one["id"])}
        for name, setting in wanted.items():
            if setting is not None and before.get(name) not in (None, setting):
                raise RecordsUnusable(
                    f"{folder / ANSWERS} has an answer to {one['id']} with {name} {before[name]}, this run has "
                    f"{setting}; take another --out"
                )


def _answers(folder: Path) -> Sequence[Mapping[str, Any]]:
    """The team's answers so far, without a last line that a kill has cut off."""
    file = folder / ANSWERS
    *whole, _ = file.read_text(encoding="utf-8").split("\n") if file.exists() else [""]
    return [json.loads(line) for line in whole]


def write_prompts(items: Sequence[Item], folder: Path) -> None:
    """Write what the team is to be asked."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [orjson.dumps({"id": item.id, "prompt": prompts.question(item).text}) + b"\n" for item in items]
    (folder / PROMPTS).write_bytes(b"".join(lines))


async def collect(items: Sequence[Item], folder: Path) -> Path:
    """Write the team's answers and failures as records; returns their file."""
    lines = _answers(folder)
    failures = {one["id"]: one for one in lines if "failure" in one}
    replies = {one["id"]: one["reply"] for one in lines if "reply" in one}
    checker = ProgramChecker() if any(item.is_program for item in items) else None
    answered = [await _record(item, replies[item.id], checker) for item in items if item.id in replies]
    unanswered = [item for item in items if item.id in failures.keys() - replies.keys()]
    made = [*answered, *(_failure(item, failures[item.id]) for item in unanswered)]
    (folder / RECORDS).write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in made))
    return folder / RECORDS


async def _record(item: Item, reply: Mapping[str, Any], checker: ProgramChecker | None) -> Record:
    outcome = await checked_reply(item, AUTOGEN, reply, checker)
    return reply_record(_names(item, reply.get("settings", {}).get("seed", 7)), outcome, reply["duration_ms"])


def _failure(item: Item, failed: Mapping[str, Any]) -> Record:
    """A failure as the record of a failed request, under the name of its error."""
    message = failed["failure"]
    error = {"reason": message.partition(":")[0], "detail": message}
    return reply_record(_names(item, failed.get("seed", 7)), {"error": error}, None)


def _names(item: Item, seed: int) -> Record:
    return {"item": item.id, "arm": AUTOGEN, "seed": seed, "path": AUTOGEN, "digest": content_digest(item)}


def _command(agents: Sequence[AgentConfig], team: Team, folder: Path) -> Sequence[str]:
    answers = {"url": team.url, "model": team.model, "max-tokens": team.max_tokens, "seed": team.seed}
    options = {**answers, "replies": team.replies, "agents": _cast(agents)}
    named = [word for name, answers in options.items() for word in (f"--{name}", str(answers))]
    return [str(team.python), str(TEAM), str(folder / PROMPTS), str(folder / ANSWERS), *named]


def _cast(agents: Sequence[AgentConfig]) -> str:
    return json.dumps([{"id": agent.id, "system_prompt": agent.system_prompt} for agent in agents])
