"""Each prompt of delegation is one file and one typed function; text of users and models is fenced as data."""

from collections.abc import Mapping, Sequence

from chassis.prompts import Prompt, quoted, render
from kernel.answers import AnswerType

_PACKAGE = __name__


def self_assessment(*, question: str) -> Prompt:
    """Return the prompt that has an agent assess itself on a task."""
    return render(_PACKAGE, "self_assessment", {"task": quoted("task", question)})


def classification(*, question: str, dimensions: Mapping[str, str]) -> Prompt:
    """Return the prompt that classifies a task; `dimensions` are descriptions by identifier."""
    listed = "\n".join(f"- {name}: {description}" for name, description in dimensions.items())
    return render(_PACKAGE, "classification", {"task": quoted("task", question), "dimensions": listed})


def solution(*, question: str, answer_type: AnswerType | None = None) -> Prompt:
    """Return the prompt that has an agent solve a task."""
    values = {"task": quoted("task", question), "answer_type": answer_type.value if answer_type else ""}
    return render(_PACKAGE, "solution", values)


def same_meaning(*, question: str, answers: Sequence[str]) -> Prompt:
    """Return the prompt that compares answers by meaning."""
    shown = "\n".join(quoted(f"answer_{number}", text) for number, text in enumerate(answers, start=1))
    return render(_PACKAGE, "same_meaning", {"task": quoted("task", question), "answers": shown, "count": len(answers)})


def judgement(*, question: str, answer: str, criteria: str = "") -> Prompt:
    """Return the prompt that has a model judge an answer."""
    fenced = quoted("criteria", criteria) if criteria.strip() else ""
    return render(
        _PACKAGE,
        "judgement",
        {"task": quoted("task", question), "answer": quoted("answer", answer), "criteria": fenced},
    )
