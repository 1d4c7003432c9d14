"""Redaction leaves decisions, numbers and names of a task where contents are not stored."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from metacog.delegation.v1 import tasks_pb2

from chassis.redaction import messages
from kernel.redaction.texts import bare_reason
from services.delegation.service.values import AnswerLabel


def without_contents(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the document of a task without any word of question, answers or checks; only this reaches the database.

    Example:
        >>> without_contents({"question": "Is Ann ill?", "finished": {"answer": "Yes", "confidence": 0.7}})
        {'question': '', 'finished': {'answer': '', 'confidence': 0.7}}
    """
    return {
        "question": "",
        "finished": messages.without_contents(document["finished"], tasks_pb2.TaskFinished.DESCRIPTOR),
    }


def without_detail(label: AnswerLabel | None) -> AnswerLabel | None:
    """Return a label with the code of its detail alone, since the detail may quote an answer."""
    return None if label is None else replace(label, detail=bare_reason(label.detail))
