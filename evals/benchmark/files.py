"""The benchmark as a file: one task a line, in the schema of every other data set."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from evals.benchmark.tasks import summary
from evals.items import Item
from evals.markdown import table


def write_tasks(tasks: Sequence[Item], file: Path) -> str:
    """Write `tasks`; returns the digest of the file [sha256, hexadecimal]."""
    file.parent.mkdir(parents=True, exist_ok=True)
    whole = b"".join(orjson.dumps(line_of(item)) + b"\n" for item in tasks)
    file.write_bytes(whole)
    return sha256(whole).hexdigest()


def line_of(item: Item) -> Mapping[str, Any]:
    """One line, as `read_items` takes it."""
    contents = {field.name: getattr(item, field.name) for field in fields(item)}
    return {**contents, "answer_type": item.answer_type.value.lower()}


def overview(tasks: Sequence[Item], digest: str, seed: int) -> str:
    """Return how many tasks of each kind there are, and from where."""
    rows = [[name, *(str(count) for count in levels.values()), str(sum(levels.values()))] for name, levels in
            summary(tasks).items()]  # fmt: skip
    sets = sorted({item.dataset for item in tasks})
    counted = table(["dimension", "easy", "medium", "hard", "all"], rows)
    return f"{len(tasks)} tasks, seed {seed}, sha256 {digest[:16]}\n\n{counted}\n\nfrom {', '.join(sets)}"
