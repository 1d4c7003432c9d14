"""What records keep of an item: everything that scoring needs, and not its question."""

from evals.items import Item
from evals.records import Record


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
    }
