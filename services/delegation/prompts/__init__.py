"""Delegation's prompts: one file and one typed function each. What users and models wrote is fenced as data."""

from collections.abc import Mapping, Sequence

from chassis.prompts import Prompt, quoted, render
from kernel.answers import AnswerType

_HERE = __name__

# What is said of the form of an answer, for the types that have one.
FORMS: Mapping[AnswerType, str] = {
    AnswerType.BOOLEAN: "The answer is true or false; end with it on a line of its own: Final Answer: true or false.",
    AnswerType.CHOICE: "The answer is one option; end with its letter on a line of its own: Final Answer: letter.",
    AnswerType.NUMBER: "The answer is a number; end with it on a line of its own: Final Answer: number.",
    AnswerType.TEXT: "End with the answer alone, as short as can be, on a line of its own: Final Answer: answer.",
    AnswerType.CODE: "The answer is Python code; give it in one code block.",
}


def self_assessment(*, task: str) -> Prompt:
    """Ask an agent how far it would be up to a task."""
    return render(_HERE, "self_assessment", {"task": quoted("task", task)})


def classification(*, task: str, dimensions: Mapping[str, str]) -> Prompt:
    """Ask which kinds of ability a task needs; `dimensions` are descriptions by identifier."""
    listed = "\n".join(f"- {name}: {about}" for name, about in dimensions.items())
    return render(_HERE, "classification", {"task": quoted("task", task), "dimensions": listed})


def solution(*, task: str, answer_type: AnswerType | None = None) -> Prompt:
    """Ask an agent to do a task."""
    form = FORMS.get(answer_type, "") if answer_type else ""
    return render(_HERE, "solution", {"task": quoted("task", task), "form": form})


def same_meaning(*, task: str, answers: Sequence[str]) -> Prompt:
    """Ask which of several answers say the same."""
    shown = "\n".join(quoted(f"answer_{place}", text) for place, text in enumerate(answers, start=1))
    return render(_HERE, "same_meaning", {"task": quoted("task", task), "answers": shown, "count": len(answers)})


def judgement(*, task: str, answer: str, criteria: str = "") -> Prompt:
    """Ask a model whether an answer is right."""
    must = quoted("criteria", criteria) if criteria.strip() else ""
    return render(
        _HERE, "judgement", {"task": quoted("task", task), "answer": quoted("answer", answer), "criteria": must}
    )
