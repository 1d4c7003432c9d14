"""Runs in AutoGen's own environment: a team of prompted agents talks about each task; a model selects each speaker.

    ENVIRONMENT/bin/python evals/autogen/team.py PROMPTS ANSWERS --url URL --model NAME --agents AGENTS [--replies N]

PROMPTS has one JSON object a line with `id` and `prompt`; AGENTS is a JSON list with `id` and `system_prompt`. New
lines are appended to ANSWERS, and a task that is answered there is not asked again; the caller compares the settings
that its answers name. A task that fails has a line with its `failure`, and is asked again at the next start. It
needs nothing of the project.
"""

import argparse
import asyncio
import hashlib
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

# What the team assumes of any model: it needs no more than text.
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


async def answered(prompt: str, options_given: argparse.Namespace) -> dict[str, Any]:
    """The team's answer to one task, and what it spent."""
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.conditions import MaxMessageTermination
    from autogen_agentchat.teams import SelectorGroupChat
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    options = {"max_tokens": options_given.max_tokens, "temperature": 0.7, "seed": options_given.seed}
    client = OpenAIChatCompletionClient(
        model=options_given.model, base_url=options_given.url, api_key="unused", model_info=MODEL_INFO, **options
    )
    calls = counted(client)
    cast = [(one["id"], one["system_prompt"]) for one in json.loads(options_given.agents)]
    members = [AssistantAgent(name, model_client=client, system_message=text, description=text) for name, text in cast]
    # The task is the first message; each reply sees those before it.
    ends = MaxMessageTermination(1 + options_given.replies)
    team = SelectorGroupChat(members, model_client=client, termination_condition=ends)
    began = time.monotonic()
    try:
        result = await team.run(task=prompt)
    finally:
        await client.close()
    usage, last = client.total_usage(), stated([one for one in result.messages if one.source != "user"])
    return {
        "text": str(last.content),
        "agent": last.source,
        "model": options_given.model,
        "settings": {
            "package": f"autogen-agentchat {version('autogen-agentchat')}",
            "team": "SelectorGroupChat",
            "agents": digest(options_given.agents),
            "replies": options_given.replies,
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


def stated(replies: Sequence[Any]) -> Any:  # noqa: ANN401 - AutoGen's own messages
    """Return the last of `replies` that states an answer or has a program; else the last."""
    found = [one for one in replies if "final answer" in str(one.content).lower() or "```" in str(one.content)]
    return (found or replies)[-1]


def digest(text: str) -> str:
    """Return what a text is known by [12 hex digits of SHA-256]."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def answered_in(file: Path) -> set[str]:
    """Names of the tasks that `file` holds an answer to; a last line that a kill has torn is dropped from it."""
    if not file.exists():
        return set()
    options_given = file.read_bytes()
    whole = options_given[: options_given.rfind(b"\n") + 1]
    if whole != options_given:
        file.write_bytes(whole)
    return {one["id"] for one in map(json.loads, whole.splitlines()) if "reply" in one}


def errors_of_a_task() -> tuple[type[Exception], ...]:
    """Return the errors of AutoGen and its client that concern one task; any other error ends the run.

    The client raises its own errors; a team raises RuntimeError in place of an error of an agent, and ValueError for
    messages and replies that it cannot use.
    """
    from openai import OpenAIError

    return OpenAIError, RuntimeError, ValueError


async def attempted(prompt: str, options_given: argparse.Namespace, ask: Ask) -> dict[str, Any]:
    """Return the team's answer to one task, or its failure: one prompt that is too long ends no run."""
    try:
        return {"prompt": digest(prompt), "reply": await ask(prompt, options_given)}
    except errors_of_a_task() as error:
        return {"failure": f"{type(error).__name__}: {error}"[:LONGEST], "seed": options_given.seed}


async def run(options_given: argparse.Namespace, ask: Ask = answered) -> None:
    """Every task that was not answered yet."""
    known = answered_in(options_given.answers)
    with options_given.answers.open("a") as answers:
        for line in options_given.prompts.read_text().splitlines():
            task = json.loads(line)
            if task["id"] in known:
                continue
            outcome = await attempted(task["prompt"], options_given, ask)
            answers.write(json.dumps({"id": task["id"], **outcome}) + "\n")
            answers.flush()
            sys.stderr.write(f"{task['id']} {outcome.get('failure', '')}".rstrip() + "\n")


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompts", type=Path)
    parser.add_argument("answers", type=Path)
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--agents", required=True)
    parser.add_argument("--max-tokens", type=int, default=512)
    parser.add_argument("--replies", type=int, default=3)
    parser.add_argument("--seed", type=int, default=7)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
