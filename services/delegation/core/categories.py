"""Kinds of tasks, discovered among the tasks themselves: clusters of their vectors, with words that set them apart.

Source: SPEC 3.6. Average linkage on cosines: a cluster is what is alike on average, and no chain of near ones joins two
kinds. The similarity at which it is cut belongs to the encoder; for all-MiniLM-L6-v2 unrelated texts lie about 0.04.
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage

from kernel.values import value

Vectors = npt.NDArray[np.float64]

# Mean cosine between two parts of a cluster, at least [-1..1].
ALIKE = 0.35
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
    """A kind of task.

    Attributes:
        name: Name made of the words that set it apart.
        keywords: Those words, the most telling first.
        members: Places of its tasks, those nearest to its middle first.
        middle: Its middle, of length 1.
        cohesion: Mean cosine of its tasks with its middle [-1..1].
    """

    name: str
    keywords: Sequence[str]
    members: Sequence[int]
    middle: Sequence[float]
    cohesion: float


def discovered(texts: Sequence[str], vectors: Vectors, *, least: int, alike: float = ALIKE) -> list[DiscoveredCategory]:
    """Clusters of at least `least` tasks, the largest first.

    Args:
        texts: The tasks.
        vectors: Their vectors, of length 1 each.
        least: Tasks that make a category [count, >= 2].
        alike: Mean cosine from which on two parts are one cluster [-1..1].
    """
    if len(texts) < max(2, least):
        return []
    labels = fcluster(linkage(vectors, method="average", metric="cosine"), t=1.0 - alike, criterion="distance")
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    large = sorted((group for group in groups if len(group) >= least), key=lambda group: (-len(group), group[0]))
    everywhere = Counter(word for text in texts for word in _words(text))
    return [_found(group, texts, vectors, everywhere) for group in large]


def _found(
    group: npt.NDArray[np.intp], texts: Sequence[str], vectors: Vectors, everywhere: Counter[str]
) -> DiscoveredCategory:
    middle = vectors[group].mean(axis=0)
    middle = middle / np.linalg.norm(middle)
    cosines = vectors[group] @ middle
    inside = Counter(word for place in group for word in _words(texts[place]))
    # Tasks of the group that hold the word, weighed by how much of all that hold it lie here.
    telling = sorted(inside, key=lambda word: (-inside[word] * inside[word] / everywhere[word], word))
    keywords = [word for word in telling if inside[word] > 1][:KEYWORDS] or telling[:1]
    order = group[np.argsort(-cosines, kind="stable")]
    return DiscoveredCategory(
        name="_".join(keywords[:2]) or "tasks",
        keywords=keywords,
        members=[int(place) for place in order],
        middle=[float(part) for part in middle],
        cohesion=round(float(cosines.mean()), 9),
    )


def _words(text: str) -> set[str]:
    return {word for word in map(str.lower, _WORD.findall(text)) if word not in _COMMON}
