"""Each prompt of the assigner is one file. What models wrote is passed on as fenced data."""

from collections.abc import Mapping
from types import MappingProxyType

from chassis.prompts import Prompt, quoted, render
from kernel.answers import AnswerType
from kernel.roles import FINAL_STAGE, Stage
from services.assigner.core.stages import STAGES

_HERE = __name__


def stage(
    stage: Stage,
    *,
    question: str,
    texts: Mapping[Stage, str] = MappingProxyType({}),
    draft: str = "",
    answer_type: AnswerType | None = None,
) -> Prompt:
    """Ask for the text of one stage.

    Args:
        stage: The stage; its prompt is the file of its name.
        question: The question.
        texts: Texts of the earlier stages, in order.
        draft: A quick answer that is doubted; only the thesis reads it.
        answer_type: Form of the answer, where it is known.
    """
    fenced = {name.lower(): quoted(STAGES[name].label, text) for name, text in texts.items()}
    discussion = [quoted(name.lower(), text) for name, text in texts.items() if name is not FINAL_STAGE]
    values = {
        "question": quoted("question", question),
        "draft": quoted("quick_answer", draft) if draft.strip() else "",
        "answer_type": answer_type.value if answer_type else "",
        "stages": "\n\n".join(discussion),
        "answer": fenced.get(FINAL_STAGE.lower(), ""),
    }
    return render(_HERE, stage.lower(), {**values, **fenced})


def self_assessment(*, question: str) -> Prompt:
    """Ask an agent to rate the answer it would give."""
    return render(_HERE, "self_assessment", {"question": quoted("question", question)})


def text_assessment(*, question: str, others: Mapping[str, str], text: str) -> Prompt:
    """Ask the assessor to rate a text beside the others; the prompt does not name the stages."""
    beside = "\n\n".join(quoted("other_text", other) for other in others.values())
    values = {"question": quoted("question", question), "others": beside, "text": quoted("text_to_judge", text)}
    return render(_HERE, "text_assessment", values)
