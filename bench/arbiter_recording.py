"""Records paper-mode samples of a running arbiter, for replays: one line a question, as `/v1/replays` takes it.

    python -m bench.arbiter_recording --data FOLDER --sets gsm8k,boolq --each 20 --out recordings.jsonl
        [--url http://127.0.0.1:8082] [--concurrency 4] [--timeout 600]

A file that exists is continued without the questions in it. A file beside it holds the settings of the recording.
"""

import argparse
import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from evals.commit import commit
from evals.items import Item, read_sets
from evals.mc_mas.questions import about

# What is kept of a critique: its text is not, its tokens are.
CRITIQUE = ("solver", "succeeded", "usage")
ENVELOPE_GENERATIONS = 62
ENVELOPE_TOKENS = 65_536
SEED = 1


async def record(arguments: argparse.Namespace) -> None:
    """Ask for every item that is not recorded yet."""
    items, known = read_sets(arguments.data, arguments.sets.split(","), arguments.each), _known(arguments.out)
    free = asyncio.Semaphore(arguments.concurrency)
    client = httpx.AsyncClient(base_url=arguments.url, timeout=arguments.timeout + 30)
    async with client, asyncio.TaskGroup() as group:
        for item in items:
            if item.id not in known:
                group.create_task(_one(item, client, free, arguments))


def _known(file: Path) -> set[str]:
    return {json.loads(line)["id"] for line in file.read_text().splitlines()} if file.exists() else set()


async def _one(item: Item, client: httpx.AsyncClient, free: asyncio.Semaphore, arguments: argparse.Namespace) -> None:
    async with free:
        reply = await client.post("/v1/arbitrations", json=_request(item, arguments.timeout))
    if reply.status_code != 200:
        sys.stderr.write(f"{item.id}: {reply.status_code} {reply.text[:200]}\n")
        return
    end = reply.json()
    if end["stopping_reason"] != "ALL_SAMPLES":
        sys.stderr.write(f"{item.id}: left out, {end['stopping_reason']} {end['degraded_reasons']}\n")
        return
    if not about(arguments.out).exists():
        about(arguments.out).write_text(json.dumps(_made_with(end), indent=1) + "\n")
    with arguments.out.open("a") as file:
        file.write(json.dumps(_recording(item, end)) + "\n")
    sys.stderr.write(f"{item.id}: {end['answer']} ({item.answer}), {end['duration_ms'] / 1000:.1f} s\n")


def _request(item: Item, timeout_s: float) -> dict[str, Any]:
    return {
        "question": _question(item),
        "answer_type": item.answer_type,
        "mode": "PAPER",
        "embedding_measures": False,
        "return_samples": True,
        "truth": item.answer,
        "truth_aliases": list(item.aliases or ()),
        "seed": SEED,
        "run_id": item.id,
        "envelope": {
            "max_generations": ENVELOPE_GENERATIONS,
            "max_generated_tokens": ENVELOPE_TOKENS,
            "timeout_ms": int(timeout_s * 1000),
        },
    }


def _question(item: Item) -> str:
    """Context, question and options; the arbiter's prompt says how the reply ends."""
    options = "\n".join(f"{letter}. {text}" for letter, text in item.lettered)
    return "\n\n".join(part for part in ((item.context or "").strip(), item.question.strip(), options) if part)


def _made_with(end: dict[str, Any]) -> dict[str, Any]:
    """The settings of the recordings, for the head of a report on them."""
    models = dict.fromkeys([*(solver["model"] for solver in end["solver_results"]), end["arbiter_model"]])
    return {
        "model": ", ".join(model for model in models if model),
        "commit": commit(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": SEED,
        "configuration": f"{len(end['solver_results'])} solvers, {end['planned_generations']} samples of a question",
        "prompt_digests": end["prompt_digests"],
    }


def _recording(item: Item, end: dict[str, Any]) -> dict[str, Any]:
    """The recording, without the texts of critiques, which no replay needs."""
    return {
        "id": item.id,
        "answer_type": end["answer_type"],
        "recorded_solver_samples": [sample for sample in end["samples"] if sample["solver"] is not None],
        "recorded_arbitration_samples": [sample for sample in end["samples"] if sample["solver"] is None],
        "recorded_critiques": [{name: critique[name] for name in CRITIQUE} for critique in end["critiques"]],
        "truth": item.answer,
        "truth_aliases": list(item.aliases or ()),
    }


def run() -> None:
    """Read the arguments and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", required=True)
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--url", default="http://127.0.0.1:8082")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--timeout", type=float, default=600)
    asyncio.run(record(parser.parse_args()))


if __name__ == "__main__":
    run()
