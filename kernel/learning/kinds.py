"""The kind of a question is that of the examples nearest to it in meaning.

Source: MetaCogAgent III-B, a light classifier (papers.md 3.1), and ours (papers.md 5.4). The numbers are ours, chosen
on all-MiniLM-L6-v2.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float64]

# Nearest prototypes whose mean cosine is the similarity of a kind [count].
NEAREST_PROTOTYPES = 3
# Difference in cosine that makes one kind e times as likely as another.
SHARPNESS = 0.05
# What is read of a question [characters].
MOST_CHARACTERS = 8_000
# The line in which an answer ends, as a request for it names it.
_FORM = "final answer:"
_BETWEEN_PARAGRAPHS = re.compile(r"\n[ \t]*\n")


def unit_vectors(vectors: npt.ArrayLike) -> Vectors:
    """Return `vectors` scaled to length 1; vectors of zeros stay as they are.

    Args:
        vectors: A row for each vector [shape (n, dimensions), finite].

    Returns:
        The scaled vectors [length 1 or 0, shape (n, dimensions)].

    Example:
        >>> unit_vectors([[3.0, 4.0], [0.0, 0.0]]).tolist()
        [[0.6, 0.8], [0.0, 0.0]]
    """
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: Vectors = rows / np.where(lengths > 0, lengths, 1.0)
    return scaled


def classified_text(question: str) -> str:
    r"""Return what a question is classified by: the first 8,000 characters, without the form of the answer.

    A last paragraph that asks for a line `Final Answer: …` says nothing of the kind, and would draw every question
    towards numbers; an exam and the clients of its kind write one.

    Example:
        >>> classified_text('When did it end?\n\nEnd your reply with a line "Final Answer: " and the number.')
        'When did it end?'
        >>> classified_text("Final Answer: what does this line mean?")
        'Final Answer: what does this line mean?'
    """
    paragraphs = _BETWEEN_PARAGRAPHS.split(question.strip()[:MOST_CHARACTERS])
    while len(paragraphs) > 1 and _FORM in paragraphs[-1].casefold():
        paragraphs.pop()
    return "\n\n".join(paragraphs).strip()


def kind_likelihoods(cosines: Mapping[str, Sequence[float] | Vectors]) -> Mapping[str, float]:
    """Return how likely a question is of each kind, the likeliest first; of equal ones the first given.

    Args:
        cosines: Cosines of the question with the prototypes of each kind [-1..1]; a kind without one is left out.

    Returns:
        Shares that sum to 1 [0..1]: exp(s / 0.05) of each kind, where s is the mean of its three largest cosines,
        divided by the sum over all kinds. Nothing where no kind has a prototype.

    Example:
        >>> found = kind_likelihoods({"code": [0.1, 0.2, 0.3, 0.9], "sums": [0.5, 0.4, 0.3], "none": []})
        >>> {kind: round(share, 3) for kind, share in found.items()}
        {'code': 0.791, 'sums': 0.209}
    """
    similarities = {kind: _nearest_mean(own) for kind, own in cosines.items() if len(own)}
    if not similarities:
        return {}
    levels = np.exp((np.array(list(similarities.values())) - max(similarities.values())) / SHARPNESS)
    shares = dict(zip(similarities, (levels / levels.sum()).tolist(), strict=True))
    return dict(sorted(shares.items(), key=lambda each: -each[1]))


def _nearest_mean(cosines: Sequence[float] | Vectors) -> float:
    return float(np.sort(np.asarray(cosines, dtype=np.float64))[::-1][:NEAREST_PROTOTYPES].mean())
