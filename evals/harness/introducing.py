"""What records keep of an item: everything that scoring needs, and not its question."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from evals.errors import RecordsUnusable
from evals.items import Item
from evals.records import Record

# What an item that was introduced before digests came is known by.
OLDER = ("answer", "answer_type", "aliases", "choices", "dataset")


def introduction(item: Item, prompt: str) -> Record:
    """The record of an item that was asked about with `prompt`."""
    return {
        "kind": "item",
        "id": item.id,
        "dataset": item.dataset,
        "dimension": item.dimension,
        "difficulty": item.difficulty,
        "answer": item.answer,
        "answer_type": item.answer_type.value,
        "aliases": list(item.aliases or ()),
        "choices": list(item.choices or ()),
        "prompt_characters": len(prompt),
        "dimensions": list(item.takes),
        "proxy": item.proxy or "",
        "digest": content_digest(item),
    }


def content_digest(item: Item) -> str:
    """SHA-256 of what is asked and of what is right [64 hex digits]; the item's name is not in it."""
    content = [
        *(item.question, item.context or "", list(item.choices or ())),
        *(item.answer, item.answer_type.value, list(item.aliases or ())),
        *(item.tests or "", item.entry_point or ""),
    ]
    return sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()


def same_items(items: Sequence[Item], records: Sequence[Record]) -> None:
    """Refuse to ask about `items` where `records` hold other questions under their names.

    Items that were recorded without a digest are compared by what was kept of them.

    Raises:
        RecordsUnusable: When an item is not the one that was recorded; names it.
    """
    known = {record["id"]: record for record in records if record["kind"] == "item"}
    other = [item.id for item in items if item.id in known and not _is(item, known[item.id])]
    if other:
        more = f" and {len(other) - 1} more" if len(other) > 1 else ""
        raise RecordsUnusable(
            f"the records there hold another question, or another right answer, as {other[0]}{more}; take another --out"
        )


def _is(item: Item, before: Record) -> bool:
    if "digest" in before:
        return bool(before["digest"] == content_digest(item))
    now: Mapping[str, Any] = introduction(item, "")
    return all(before[name] == now[name] for name in OLDER if name in before)
