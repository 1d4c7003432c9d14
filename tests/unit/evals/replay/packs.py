"""Small synthetic packs of recorded answers."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Line = dict[str, Any]


def line(
    number: int, answers: Mapping[str, Sequence[str | None]], right: Mapping[str, Sequence[int]], **more: object
) -> Line:
    """One question with its answers."""
    return {
        "id": f"q{number}",
        "dataset": "made",
        "question": f"What is {number} and {number * 7 % 11}?",
        "gold": "4",
        "answers": {agent: list(given) for agent, given in answers.items()},
        "right": {agent: list(judged) for agent, judged in right.items()},
        **more,
    }


def write_set(folder: Path, name: str, lines: Sequence[Line]) -> Path:
    """Write one file of a pack; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(one) + "\n" for one in lines)
    return path


def made_lines(count: int, models: Mapping[str, tuple[float, int]], *, seed: int = 0, options: int = 0) -> list[Line]:
    """Questions that each model answers rightly with its own probability; wrong answers are of three kinds.

    Args:
        count: Questions.
        models: Probability of a right answer and number of answers, by agent.
        seed: Chance.
        options: Options of each question; 0 for free answers.
    """
    rng = np.random.default_rng(seed)
    lines = []
    letters = "ABCDEFGHIJ"[: max(options, 4)]
    for number in range(count):
        ease = rng.normal(scale=1.0)
        answers, right = {}, {}
        for agent, (level, samples) in models.items():
            chance = 1 / (1 + np.exp(-(np.log(level / (1 - level)) + ease)))
            hits = rng.random(samples) < chance
            right[agent] = [int(hit) for hit in hits]
            answers[agent] = [letters[0] if hit else letters[int(rng.integers(1, 4))] for hit in hits]
        more = {"choices": [f"option {letter}" for letter in letters]} if options else {}
        lines.append(line(number, answers, right, **more))
    return lines


PANEL = {
    f"model-{name}": (level, 1) for name, level in zip("abcdefg", (0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7), strict=True)
}
SAMPLED = {"small@0.2": (0.4, 10), "small+cot@0.8": (0.5, 10), "other@0.8": (0.45, 10)}
