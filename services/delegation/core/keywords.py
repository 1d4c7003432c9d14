"""The skill-fixed baseline routes by keywords.

Source: MetaCogAgent Table II (papers.md 3.5).
"""

import re
from collections.abc import Mapping, Sequence


def keyword_dimension(question: str, keywords: Mapping[str, Sequence[str]]) -> str | None:
    """Return the dimension whose keywords occur most often in the question as whole words; None when none does.

    Ties go to the dimension that is configured first.

    Example:
        >>> keyword_dimension("Write a Python function.", {"math": ["sum"], "code": ["python", "function"]})
        'code'
    """
    counts = {dimension: sum(_occurrences(word, question) for word in words) for dimension, words in keywords.items()}
    best = max(counts, key=lambda dimension: counts[dimension], default=None)
    return best if best is not None and counts[best] else None


def skilled_agent(dimension: str | None, skills: Mapping[str, Sequence[str]]) -> str:
    """Return the first agent that has a dimension among its skills (its tags), else the first agent.

    Example:
        >>> skilled_agent("code", {"alpha": ["math"], "gamma": ["code"]})
        'gamma'
    """
    return next((agent for agent, tags in skills.items() if dimension in tags), next(iter(skills)))


def _occurrences(word: str, question: str) -> int:
    return len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", question, re.IGNORECASE))
