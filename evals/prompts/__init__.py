"""How an item is put to the model: one file and one typed function each."""

from chassis.prompts import Prompt, render
from evals.items import Item

_HERE = __name__


def question(item: Item) -> Prompt:
    """Context, question and options of `item`, and how the reply is to end."""
    values = {
        "context": (item.context or "").strip(),
        "question": item.question.strip(),
        "options": item.lettered,
        "kind": item.answer_type.value,
    }
    return render(_HERE, "question", values)
