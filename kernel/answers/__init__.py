"""Answers are found in a text, brought into canonical form, compared, clustered and checked by type (papers.md 2.3).

The names below are what services use; the modules behind them hold the rules of one form each (`numbers`, `words`,
`programs`, `expressions`).
"""

from kernel.answers.answer_type_inference import InferredType, inferred_type, listed_options
from kernel.answers.answer_types import AnswerType, AnswerTypeRules, rules_of
from kernel.answers.canonical import canonical
from kernel.answers.clusters import (
    Agreement,
    Cluster,
    SameMeaning,
    agreement,
    candidate_pairs,
    cluster,
    cluster_forms,
    entropy,
)
from kernel.answers.equality import AnswerComparison, compared, is_right, same_answer, same_canonical
from kernel.answers.extraction import extract
from kernel.answers.mathematics.expressions import IN_THIS_PROCESS, Mathematics
from kernel.answers.merge_guard import may_be_merged
from kernel.answers.words import is_short
from kernel.answers.wrapping import without_thinking

__all__ = [
    "IN_THIS_PROCESS",
    "Agreement",
    "AnswerComparison",
    "AnswerType",
    "AnswerTypeRules",
    "Cluster",
    "InferredType",
    "Mathematics",
    "SameMeaning",
    "agreement",
    "candidate_pairs",
    "canonical",
    "cluster",
    "cluster_forms",
    "compared",
    "entropy",
    "extract",
    "inferred_type",
    "is_right",
    "is_short",
    "listed_options",
    "may_be_merged",
    "rules_of",
    "same_answer",
    "same_canonical",
    "without_thinking",
]
