"""Runs in AutoGen's own environment: a team of prompted agents whose speaker a model selects; one reply for each task.

    ENVIRONMENT/bin/python evals/autogen/team.py PROMPTS SAID --url URL --model NAME --agents AGENTS [--max-tokens N]

PROMPTS has one JSON object a line with `id` and `prompt`; AGENTS is a JSON list with `id` and `system_prompt`. SAID is
appended to, and what is answered in it is not asked again: that it was made with the same settings is for the caller to
see, who finds them there. A task that fails has a line with its `failure`, and is asked again at the next start. It
needs nothing of the project.
"""

import argparse
import asyncio
import hashlib
import json
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

# What the team is told of any model: it needs no more than text.
MODEL_INFO = {
    "vision": False, "function_calling": False, "json_output": False, "structured_output": False,
    "multiple_system_messages": True, "family": "unknown",
}  # fmt: skip
# A failure's text is cut there [characters].
LONGEST = 500

Ask = Callable[[str, argparse.Namespace], Awaitable[dict[str, Any]]]
"""From a prompt and the settings to a reply."""


def counted(client: Any) -> list[float]:  # noqa: ANN401 - AutoGen's own client
    """The times of the client's calls, one for each, as they are made."""
    calls: list[float] = []
    inner = client.create

    async def create(*words: Any, **more: Any) -> Any:  # noqa: ANN401
        calls.append(time.monotonic())
        return await inner(*words, **more)

    client.create = create
    return calls


async def answered(prompt: str, told: argparse.Namespace) -> dict[str, Any]:
    """What the team says to one task, and what it spent."""
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.conditions import MaxMessageTermination
    from autogen_agentchat.teams import SelectorGroupChat
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    options = {"max_tokens": told.max_tokens, "temperature": 0.7, "seed": told.seed}
    client = OpenAIChatCompletionClient(
        model=told.model, base_url=told.url, api_key="unused", model_info=MODEL_INFO, **options
    )
    calls = counted(client)
    cast = [(one["id"], one["system_prompt"]) for one in json.loads(told.agents)]
    members = [AssistantAgent(name, model_client=client, system_message=said, description=said) for name, said in cast]
    # The task is the first message, the reply of the selected agent the second.
    team = SelectorGroupChat(members, model_client=client, termination_condition=MaxMessageTermination(2))
    began = time.monotonic()
    try:
        result = await team.run(task=prompt)
    finally:
        await client.close()
    usage, last = client.total_usage(), result.messages[-1]
    return {
        "text": str(last.content),
        "agent": last.source,
        "model": told.model,
        "settings": {
            "package": f"autogen-agentchat {version('autogen-agentchat')}",
            "team": "SelectorGroupChat",
            "agents": digest(told.agents),
            **options,
        },
        "usage": {
            "generations": len(calls),
            "http_calls": len(calls),
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
        },
        "duration_ms": round((time.monotonic() - began) * 1000, 3),
    }


def digest(text: str) -> str:
    """What a text is known by [12 hex digits of SHA-256]."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def answered_in(file: Path) -> set[str]:
    """Names of the tasks that `file` holds an answer to; a last line that a kill has torn is dropped from it."""
    if not file.exists():
        return set()
    told = file.read_bytes()
    whole = told[: told.rfind(b"\n") + 1]
    if whole != told:
        file.write_bytes(whole)
    return {one["id"] for one in map(json.loads, whole.splitlines()) if "reply" in one}


async def attempted(prompt: str, told: argparse.Namespace, ask: Ask) -> dict[str, Any]:
    """What the team says to one task, or how it failed at it: one prompt that is too long ends no run."""
    try:
        return {"prompt": digest(prompt), "reply": await ask(prompt, told)}
    except ImportError:
        raise
    except Exception as wrong:  # noqa: BLE001 - whatever AutoGen and its client raise
        return {"failure": f"{type(wrong).__name__}: {wrong}"[:LONGEST], "seed": told.seed}


async def run(told: argparse.Namespace, ask: Ask = answered) -> None:
    """Every task that was not answered yet."""
    known = answered_in(told.said)
    with told.said.open("a") as said:
        for line in told.prompts.read_text().splitlines():
            task = json.loads(line)
            if task["id"] in known:
                continue
            outcome = await attempted(task["prompt"], told, ask)
            said.write(json.dumps({"id": task["id"], **outcome}) + "\n")
            said.flush()
            sys.stderr.write(f"{task['id']} {outcome.get('failure', '')}".rstrip() + "\n")


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompts", type=Path)
    parser.add_argument("said", type=Path)
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--agents", required=True)
    parser.add_argument("--max-tokens", type=int, default=512)
    parser.add_argument("--seed", type=int, default=7)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
