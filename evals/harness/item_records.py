"""The record of an item: everything that scoring needs, and not its question."""

import json
from collections.abc import Callable, Sequence
from hashlib import sha256

from evals.errors import RecordsUnusable
from evals.items import Item
from evals.records import Record

# What identifies an item whose record is older than digests.
OLDER = ("answer", "answer_type", "aliases", "choices", "dataset")
# What records hold of an item besides, where two models have answered it already.
OUTCOMES = ("weak_model", "strong_model", "weak_correct", "strong_correct")

Introduce = Callable[[Item, str], Record]
"""Records hold this of an item and its prompt."""


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


def require_same_items(items: Sequence[Item], records: Sequence[Record], introduce: Introduce = introduction) -> None:
    """Reject `items` where `records` hold other questions, or other outcomes, under their names.

    Items that were recorded without a digest are compared by what their records hold.

    Args:
        items: The items to ask about.
        records: What is recorded already.
        introduce: What records hold of an item.

    Raises:
        RecordsUnusable: When an item is not the one that was recorded; names it.
    """
    known = {record["id"]: record for record in records if record["kind"] == "item"}
    other = [item.id for item in items if item.id in known and not _is(introduce(item, ""), known[item.id])]
    if other:
        more = f" and {len(other) - 1} more" if len(other) > 1 else ""
        what = "outcome of two models" if "weak_model" in known[other[0]] else "right answer"
        raise RecordsUnusable(
            f"the records there hold another question, or another {what}, as {other[0]}{more}; take another --out"
        )


def _is(now: Record, before: Record) -> bool:
    content = ("digest",) if "digest" in before else OLDER
    return all(before[name] == now.get(name) for name in (*content, *OUTCOMES) if name in before)
