"""Each prompt of the arbiter is one file and one typed function. What models wrote is passed on as fenced data."""

from collections.abc import Sequence

from chassis.prompts import Prompt, quoted, render
from kernel.answers import AnswerType, rules_of
from kernel.values import value

_HERE = __name__


@value
class Solution:
    """A solution is one solver as the arbiter sees it.

    Attributes:
        name: Its name in the prompt.
        trace: Its representative trace; empty when it gave no valid answer.
        answer: The answer in it.
        critique: Critique of it; empty when there is none.
    """

    name: str
    trace: str = ""
    answer: str = ""
    critique: str = ""


def solve(*, question: str, answer_type: AnswerType) -> Prompt:
    """Ask a solver for a worked answer."""
    return render(_HERE, "solve", {"question": quoted("question", question), "form": _form(answer_type)})


def program(*, question: str, answer_type: AnswerType) -> Prompt:
    """Ask for a program that prints the answer."""
    return render(_HERE, "program", {"question": quoted("question", question), "kind": rules_of(answer_type).label})


def critique(*, question: str, trace: str) -> Prompt:
    """Ask for strengths and errors of one solution, without the choice of an answer."""
    values = {"question": quoted("question", question), "solution": quoted("solution", trace)}
    return render(_HERE, "critique", values)


def arbitrate(*, question: str, solutions: Sequence[Solution], answer_type: AnswerType) -> Prompt:
    """Ask the arbiter for an answer, knowing all solutions and their critiques."""
    material = "\n\n".join(part for solution in solutions for part in _parts(solution))
    values = {
        "question": quoted("question", question),
        "material": material,
        "check": _check(answer_type),
        "form": _form(answer_type),
    }
    return render(_HERE, "arbitrate", values)


def same_meaning(*, question: str, references: Sequence[str], answers: Sequence[str]) -> Prompt:
    """Ask which reference, if any, means the same as each of the answers."""
    values = {
        "question": quoted("question", question),
        "references": "\n".join(quoted(f"reference_{place}", text) for place, text in enumerate(references, start=1)),
        "answers": "\n".join(quoted(f"answer_{place}", text) for place, text in enumerate(answers, start=1)),
        "references_count": len(references),
        "answers_count": len(answers),
    }
    return render(_HERE, "same_meaning", values)


def instructions(answer_type: AnswerType) -> Sequence[Prompt]:
    """Return the parts of prompts that depend on the type of the answer, for their digests."""
    return [render(_HERE, name, {"answer_type": answer_type.value}) for name in ("form", "check")]


def _form(answer_type: AnswerType) -> str:
    return render(_HERE, "form", {"answer_type": answer_type.value}).text


def _check(answer_type: AnswerType) -> str:
    return render(_HERE, "check", {"answer_type": answer_type.value}).text


def _parts(solution: Solution) -> Sequence[str]:
    if not solution.trace:
        return [f"{solution.name} gave no answer that could be read, so there is nothing of it to weigh."]
    parts = [quoted(solution.name.lower().replace(" ", "_"), solution.trace)]
    parts.append(quoted(f"answer_of_{solution.name.lower().replace(' ', '_')}", solution.answer))
    if solution.critique:
        parts.append(quoted(f"critique_of_{solution.name.lower().replace(' ', '_')}", solution.critique))
    return parts
