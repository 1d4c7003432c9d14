"""Categories are discovered as clusters of the vectors of tasks, with the words that distinguish them.

Source: ours (papers.md 3.6). Average linkage on cosines: tasks of a cluster are similar on average, and a chain of
neighbours does not join two kinds. The cut depends on the encoder; for all-MiniLM-L6-v2 unrelated texts lie about 0.04.
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage

from kernel.values import value

Vectors = npt.NDArray[np.float64]

# Least mean cosine between two parts of a cluster [-1..1].
MIN_SIMILARITY = 0.35
EXAMPLES = 3
KEYWORDS = 6
_WORD = re.compile(r"[a-zA-Z]{3,}")
_COMMON = frozenset({
    "about", "all", "also", "and", "any", "are", "but", "can", "could", "did", "does", "each", "every", "find",
    "for", "from", "get", "give", "had", "has", "have", "her", "his", "how", "into", "its", "many", "more",
    "most", "much", "not", "one", "only", "other", "our", "out", "please", "some", "than", "that", "the", "their",
    "them", "then", "there", "they", "this", "was", "what", "when", "where", "which", "who", "why", "will",
    "with", "would", "write", "yet", "you", "your",
})  # fmt: skip


@value
class DiscoveredCategory:
    """A discovered category is a cluster of similar tasks.

    Attributes:
        name: Name made of its keywords.
        keywords: The words that distinguish it, the most distinctive first.
        members: Indexes of its tasks, those nearest to its centroid first [0..tasks - 1].
        centroid: Its centroid [length 1, shape (dimensions,)].
        cohesion: Mean cosine of its tasks with its centroid [-1..1].
    """

    name: str
    keywords: Sequence[str]
    members: Sequence[int]
    centroid: Sequence[float]
    cohesion: float


def discovered(
    texts: Sequence[str], vectors: Vectors, *, minimum: int, similarity: float = MIN_SIMILARITY
) -> list[DiscoveredCategory]:
    """Return clusters of at least `minimum` tasks, the largest first.

    Args:
        texts: The tasks.
        vectors: A vector for each task [shape (tasks, dimensions), length 1].
        minimum: Tasks that make a category [count, >= 2].
        similarity: Mean cosine from which on two parts are one cluster [-1..1].
    """
    if len(texts) < max(2, minimum):
        return []
    labels = fcluster(linkage(vectors, method="average", metric="cosine"), t=1.0 - similarity, criterion="distance")
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    large = sorted((group for group in groups if len(group) >= minimum), key=lambda group: (-len(group), group[0]))
    total_counts = Counter(word for text in texts for word in _words(text))
    return [_category(group, texts, vectors, total_counts) for group in large]


def _category(
    group: npt.NDArray[np.intp], texts: Sequence[str], vectors: Vectors, total_counts: Counter[str]
) -> DiscoveredCategory:
    centroid = vectors[group].mean(axis=0)
    centroid = centroid / np.linalg.norm(centroid)
    cosines = vectors[group] @ centroid
    own_counts = Counter(word for index in group for word in _words(texts[index]))
    # The tasks of the group that hold the word, weighted by their share among all tasks that hold it.
    ranked = sorted(own_counts, key=lambda word: (-own_counts[word] * own_counts[word] / total_counts[word], word))
    keywords = [word for word in ranked if own_counts[word] > 1][:KEYWORDS] or ranked[:1]
    order = group[np.argsort(-cosines, kind="stable")]
    return DiscoveredCategory(
        name="_".join(keywords[:2]) or "tasks",
        keywords=keywords,
        members=[int(index) for index in order],
        centroid=[float(part) for part in centroid],
        cohesion=round(float(cosines.mean()), 9),
    )


def _words(text: str) -> set[str]:
    return {word for word in map(str.lower, _WORD.findall(text)) if word not in _COMMON}
