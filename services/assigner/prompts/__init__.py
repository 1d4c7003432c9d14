"""The assigner's prompts: one file and one typed function each. What models wrote is passed on as fenced data."""

from collections.abc import Mapping

from chassis.prompts import Prompt, quoted, render
from kernel.answers import AnswerType

_HERE = __name__


def thesis(*, question: str, draft: str = "", answer_type: AnswerType | None = None) -> Prompt:
    """Ask the expert for a first answer; `draft` is a quick one that was made before and is doubted."""
    earlier = quoted("quick_answer", draft) if draft.strip() else ""
    values = {"question": quoted("question", question), "draft": earlier, "answer_type": _named(answer_type)}
    return render(_HERE, "thesis", values)


def antithesis(*, question: str, thesis: str) -> Prompt:
    """Ask the critic for a challenge."""
    values = {"question": quoted("question", question), "thesis": quoted("first_answer", thesis)}
    return render(_HERE, "antithesis", values)


def resolution(*, question: str, thesis: str, antithesis: str) -> Prompt:
    """Ask the evaluator to weigh both."""
    return render(_HERE, "resolution", _chain(question, thesis, antithesis))


def synthesis(
    *, question: str, thesis: str, antithesis: str, resolution: str, answer_type: AnswerType | None = None
) -> Prompt:
    """Ask the synthesizer for the final answer."""
    values = _chain(question, thesis, antithesis) | {"resolution": quoted("weighing", resolution)}
    return render(_HERE, "synthesis", values | {"answer_type": _named(answer_type)})


def note(*, question: str, stages: Mapping[str, str], answer: str) -> Prompt:
    """Ask the generalist for an annotation; `stages` are the texts of the chain by name."""
    discussion = "\n\n".join(quoted(name, text) for name, text in stages.items())
    values = {"question": quoted("question", question), "stages": discussion, "answer": quoted("answer", answer)}
    return render(_HERE, "note", values)


def self_assessment(*, question: str) -> Prompt:
    """Ask an agent to rate the answer it would give."""
    return render(_HERE, "self_assessment", {"question": quoted("question", question)})


def text_assessment(*, question: str, others: Mapping[str, str], text: str) -> Prompt:
    """Ask the assessor to rate a text beside the others; it is not told which stage wrote which."""
    beside = "\n\n".join(quoted("other_text", other) for other in others.values())
    values = {"question": quoted("question", question), "others": beside, "text": quoted("text_to_judge", text)}
    return render(_HERE, "text_assessment", values)


def _named(answer_type: AnswerType | None) -> str:
    return answer_type.value if answer_type else ""


def _chain(question: str, thesis: str, antithesis: str) -> dict[str, str]:
    return {
        "question": quoted("question", question),
        "thesis": quoted("first_answer", thesis),
        "antithesis": quoted("challenge", antithesis),
    }
