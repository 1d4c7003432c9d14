"""Answers by their type: found in a text, brought into canonical form, compared, clustered and checked (SPEC 2.3).

The names below are what services use; the modules behind them hold the rules of one form each (`numbers`, `words`,
`programs`, `expressions`).
"""

from kernel.answers.canonical import canonical
from kernel.answers.clusters import (
    Agreement,
    Cluster,
    SameMeaning,
    agreement,
    candidate_pairs,
    cluster,
    entropy,
)
from kernel.answers.equality import is_right, same_answer
from kernel.answers.extraction import extract
from kernel.answers.guard import may_be_merged
from kernel.answers.inference import InferredType, inferred_type
from kernel.answers.kinds import AnswerType, Outcome
from kernel.answers.words import is_short
from kernel.answers.wrapping import without_thinking

__all__ = [
    "Agreement",
    "AnswerType",
    "Cluster",
    "InferredType",
    "Outcome",
    "SameMeaning",
    "agreement",
    "candidate_pairs",
    "canonical",
    "cluster",
    "entropy",
    "extract",
    "inferred_type",
    "is_right",
    "is_short",
    "may_be_merged",
    "same_answer",
    "without_thinking",
]
