"""Routing by keyword, as a baseline: skill-fixed.

Source: SPEC 3.5, Table II.
"""

import re
from collections.abc import Mapping, Sequence


def keyword_dimension(task: str, keywords: Mapping[str, Sequence[str]]) -> str | None:
    """The dimension whose keywords stand most often in the task as whole words; None when none does.

    Ties go to the dimension that was configured first.

    Example:
        >>> keyword_dimension("Write a Python function.", {"math": ["sum"], "code": ["python", "function"]})
        'code'
    """
    counts = {dimension: sum(_times(word, task) for word in words) for dimension, words in keywords.items()}
    best = max(counts, key=lambda dimension: counts[dimension], default=None)
    return best if best is not None and counts[best] else None


def skilled_agent(dimension: str | None, skills: Mapping[str, Sequence[str]]) -> str:
    """The first agent that has a dimension among its skills (its tags), else the first agent.

    Example:
        >>> skilled_agent("code", {"alpha": ["math"], "gamma": ["code"]})
        'gamma'
    """
    return next((agent for agent, tags in skills.items() if dimension in tags), next(iter(skills)))


def _times(word: str, task: str) -> int:
    return len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", task, re.IGNORECASE))
