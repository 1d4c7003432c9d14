"""The basis of a component is what it rests on where that is no measurement of the question itself.

It is a part of the state, so that a reader tells a policy from a rating, and a prior from labels.
"""

from collections.abc import Mapping

# CE is a share of right System 1 answers: the prior's, that over all labelled ones, that over those of this kind.
PRIOR_SHARE, OVERALL_SHARE, KIND_SHARE = "prior_share", "overall_share", "kind_share"
# PI is a policy of the operator, and was not rated.
IMPORTANCE_BY_POLICY = "importance_by_policy"

_WORDS: Mapping[str, Mapping[str, str]] = {
    "correctness": {
        KIND_SHARE: "share right of System 1 on questions of this kind",
        OVERALL_SHARE: "share right of System 1 on all labelled questions",
        PRIOR_SHARE: "share right of the prior; no label yet",
    },
    "importance": {IMPORTANCE_BY_POLICY: "fixed by policy"},
}


def basis_in_words(component: str, parts: Mapping[str, float]) -> str:
    """Return what a component rests on, for a reader; empty where it was measured on the question.

    Args:
        component: Name of the component.
        parts: Parts of the state [0..1].

    Example:
        >>> basis_in_words("correctness", {"kind_share": 0.7, "overall_share": 0.6})
        'share right of System 1 on questions of this kind'
        >>> basis_in_words("importance", {"importance_by_policy": 0.5}), basis_in_words("conflict", {})
        ('fixed by policy', '')
    """
    return next((words for part, words in _WORDS.get(component, {}).items() if part in parts), "")
