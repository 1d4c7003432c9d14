"""The share of System 1 answers that are right, by kind of question, is what is known before any vote.

Only labels of answers that were drawn at random count: in an exam, or sampled from the traffic.
"""

from collections.abc import Mapping, Sequence

from kernel.learning.shrinkage import PSEUDO_OBSERVATIONS
from kernel.thresholds import DECIMALS
from kernel.values import value
from kernel.votes.states import ProbabilityState


class InvalidKindShares(ValueError):
    """The counts of labels do not fit together."""


@value
class KindRecord:
    """A kind record counts the labelled System 1 answers to questions of one kind.

    Attributes:
        kind: Kind of the question; empty: unknown.
        labels: Labelled answers [count, >= 0].
        right: Right ones among them [count, 0..labels].
    """

    kind: str
    labels: int
    right: int


@value
class KindShares:
    """These are the shares of right System 1 answers, overall and by kind.

    Attributes:
        kinds: Labelled answers, and right ones among them, by kind [count].
        overall: The same over all answers, those of unknown kind too [count].
        prior: Share right where there is no label [0..1].

    Raises:
        InvalidKindShares: On construction, for more right answers than labels, or a prior outside [0, 1].

    Source:
        Ours (papers.md 5.2).
    """

    kinds: Mapping[str, tuple[int, int]]
    overall: tuple[int, int]
    prior: float

    def __post_init__(self) -> None:
        for name, (labels, right) in (("all questions", self.overall), *self.kinds.items()):
            if not 0 <= right <= labels:
                raise InvalidKindShares(f"{name}: {right} right of {labels} labels; give 0 to {labels}")
        if not 0 <= self.prior <= 1:
            raise InvalidKindShares(f"the prior is {self.prior}; it must lie in [0, 1]")

    @property
    def overall_share(self) -> float:
        """Return the share right over all kinds [0..1], drawn towards the prior.

        Returns:
            (R + 10 q) / (N + 10), with R of N labelled answers right and the prior q, which it is without a label.

        Source:
            Ours (papers.md 5.2), as the share of a kind: the first label that comes in does not make the share 0 or 1.
        """
        return _drawn(*self.overall, towards=self.prior)

    @property
    def state(self) -> ProbabilityState:
        """Return whether the shares follow from the prior alone or from labels too."""
        return ProbabilityState.FITTED if self.overall[0] else ProbabilityState.PRIOR

    def share(self, kind: str) -> float:
        """Return the share right of a kind [0..1], drawn towards the overall share; of an unknown kind the latter.

        Returns:
            (r + 10 p) / (n + 10), with r of n labelled answers right and the overall share p.

        Example:
            >>> shares = KindShares(kinds={"sums": (10, 9), "towns": (0, 0)}, overall=(30, 15), prior=0.5)
            >>> shares.share("sums"), shares.share("towns"), shares.share("")
            (0.7, 0.5, 0.5)
        """
        if not kind:
            return self.overall_share
        return _drawn(*self.kinds.get(kind, (0, 0)), towards=self.overall_share)

    def labels(self, kind: str) -> int:
        """Return the labels that the share of `kind` rests on [count]: its own, or all for an unknown kind."""
        return self.kinds.get(kind, (0, 0))[0] if kind else self.overall[0]


def kind_shares(records: Sequence[KindRecord], prior: float) -> KindShares:
    """Return the shares that labelled System 1 answers give.

    Args:
        records: Labelled answers by kind, each kind once.
        prior: Share right where there is no label [0..1].

    Example:
        >>> records = [KindRecord(kind="sums", labels=10, right=9), KindRecord(kind="", labels=20, right=6)]
        >>> shares = kind_shares(records, prior=0.5)
        >>> shares.kinds, shares.overall
        ({'sums': (10, 9)}, (30, 15))
    """
    return KindShares(
        kinds={one.kind: (one.labels, one.right) for one in records if one.kind},
        overall=(sum(one.labels for one in records), sum(one.right for one in records)),
        prior=prior,
    )


def _drawn(labels: int, right: int, *, towards: float) -> float:
    return round((right + PSEUDO_OBSERVATIONS * towards) / (labels + PSEUDO_OBSERVATIONS), DECIMALS)
