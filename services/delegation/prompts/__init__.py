"""Delegation's prompts: one file and one typed function each. What users and models wrote is fenced as data."""

from collections.abc import Mapping, Sequence

from chassis.prompts import Prompt, quoted, render
from kernel.answers import AnswerType

_HERE = __name__


def self_assessment(*, question: str) -> Prompt:
    """Ask an agent how far it would be up to a task."""
    return render(_HERE, "self_assessment", {"task": quoted("task", question)})


def classification(*, question: str, dimensions: Mapping[str, str]) -> Prompt:
    """Ask which kinds of ability a task needs; `dimensions` are descriptions by identifier."""
    listed = "\n".join(f"- {name}: {about}" for name, about in dimensions.items())
    return render(_HERE, "classification", {"task": quoted("task", question), "dimensions": listed})


def solution(*, question: str, answer_type: AnswerType | None = None) -> Prompt:
    """Ask an agent to do a task."""
    values = {"task": quoted("task", question), "answer_type": answer_type.value if answer_type else ""}
    return render(_HERE, "solution", values)


def same_meaning(*, question: str, answers: Sequence[str]) -> Prompt:
    """Ask which of several answers say the same."""
    shown = "\n".join(quoted(f"answer_{place}", text) for place, text in enumerate(answers, start=1))
    return render(_HERE, "same_meaning", {"task": quoted("task", question), "answers": shown, "count": len(answers)})


def judgement(*, question: str, answer: str, criteria: str = "") -> Prompt:
    """Ask a model whether an answer is right."""
    must = quoted("criteria", criteria) if criteria.strip() else ""
    return render(
        _HERE, "judgement", {"task": quoted("task", question), "answer": quoted("answer", answer), "criteria": must}
    )
