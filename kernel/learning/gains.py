"""The gain of System 2 over System 1 by kind of question.

Source: ours (papers.md 5.4).
"""

from collections.abc import Mapping, Sequence

from kernel.learning.gain_words import DECIDING_LABELS
from kernel.learning.shrinkage import PSEUDO_OBSERVATIONS
from kernel.thresholds import DECIMALS, reaches
from kernel.values import value

# Gain from which System 2 is worth its price on a kind: the default of the operator's setting [-1..1].
MINIMUM_GAIN = 0.15


@value
class LabelledPair:
    """A labelled pair is one question that is labelled for both systems.

    Attributes:
        kind: Kind of the question.
        system_one: How right the answer of System 1 was [0..1].
        system_two: How right the answer of System 2 was [0..1].
    """

    kind: str
    system_one: float
    system_two: float


@value
class Gain:
    """A gain is how many more answers System 2 has right.

    Attributes:
        labels: Questions labelled for both [count].
        system_one: Share right of System 1 on them [0..1]; None without any.
        system_two: Share right of System 2 [0..1]; None without any.
        gain: The difference [-1..1]; None without any.
        shrunk: The gain drawn towards the overall gain [-1..1]; None without any label of any kind.
    """

    labels: int = 0
    system_one: float | None = None
    system_two: float | None = None
    gain: float | None = None
    shrunk: float | None = None

    @property
    def decides(self) -> bool:
        """Whether there are enough labels for the gain to decide (papers.md 5.4)."""
        return self.labels >= DECIDING_LABELS

    def pays(self, minimum: float = MINIMUM_GAIN) -> bool | None:
        """Return whether System 2 pays on this kind; None where there are too few labels to say.

        Args:
            minimum: Least gain, drawn towards the overall gain, that System 2 is worth [-1..1].

        Source:
            Ours (papers.md 5.4).

        Example:
            >>> [Gain(labels=labels, shrunk=0.15).pays() for labels in (20, 19)], Gain(labels=20, shrunk=0.14).pays()
            ([True, None], False)
        """
        if not self.decides or self.shrunk is None:
            return None
        return reaches(self.shrunk, minimum)


@value
class GainsByKind:
    """These are the gains over all questions, and by kind.

    Attributes:
        overall: The gain over all questions.
        kinds: The gain of each kind.
    """

    overall: Gain
    kinds: Mapping[str, Gain]

    def of(self, kind: str) -> Gain | None:
        """Return the gain of a kind; None for an unknown kind, or one without a question labelled for both."""
        return self.kinds.get(kind) if kind else None


NO_GAINS = GainsByKind(overall=Gain(), kinds={})


def gains_by_kind(pairs: Sequence[LabelledPair]) -> GainsByKind:
    """Return the gain of System 2 by kind, drawn towards the overall gain by ten pseudo-observations.

    Returns:
        Of each kind with n questions and gain g, (n g + 10 G) / (n + 10), where G is the overall gain.

    Source:
        Ours (papers.md 5.4).

    Example:
        >>> found = gains_by_kind([
        ...     *[LabelledPair(kind="a", system_one=0, system_two=1)] * 10,
        ...     *[LabelledPair(kind="b", system_one=1, system_two=1)] * 10,
        ... ])
        >>> found.overall.gain, found.kinds["a"].shrunk, found.kinds["b"].shrunk
        (0.5, 0.75, 0.25)
    """
    overall = _gain(pairs, None)
    by_kind: dict[str, list[LabelledPair]] = {}
    for pair in pairs:
        by_kind.setdefault(pair.kind, []).append(pair)
    kinds = {kind: _gain(own, overall.gain) for kind, own in sorted(by_kind.items())}
    return GainsByKind(overall=overall, kinds=kinds)


def _gain(pairs: Sequence[LabelledPair], overall: float | None) -> Gain:
    """Return the gain on some questions; `overall` is None where they are all questions."""
    if not pairs:
        return Gain()
    labels = len(pairs)
    one, two = sum(pair.system_one for pair in pairs), sum(pair.system_two for pair in pairs)
    gain = (two - one) / labels
    drawn = gain if overall is None else (two - one + PSEUDO_OBSERVATIONS * overall) / (labels + PSEUDO_OBSERVATIONS)
    return Gain(
        labels=labels,
        system_one=round(one / labels, DECIMALS),
        system_two=round(two / labels, DECIMALS),
        gain=round(gain, DECIMALS),
        shrunk=round(drawn, DECIMALS),
    )
