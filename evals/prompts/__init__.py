"""The prompts of items: one file and one typed function each."""

from collections.abc import Mapping

from chassis.prompts import Prompt, render
from evals.items import Item

_HERE = __name__


def question(item: Item) -> Prompt:
    """Context, question and options of `item`, and how the reply is to end."""
    if item.is_program:
        return render(_HERE, "program", {"question": item.question.strip()})
    return render(_HERE, "question", {**_parts(item), "kind": item.answer_type.value})


def task(item: Item) -> Prompt:
    """Context, question and options alone, for an API that takes the form of the answer and asks for it itself."""
    return render(_HERE, "task", _parts(item))


def proposed(item: Item, answer: str) -> Prompt:
    """Whether a proposed answer is right, for a model that sees nothing else of the conversation."""
    return render(_HERE, "proposed", {"question": task(item).text.strip(), "answer": answer})


def _parts(item: Item) -> Mapping[str, object]:
    return {"context": (item.context or "").strip(), "question": item.question.strip(), "options": item.lettered}
