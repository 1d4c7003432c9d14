"""What labelled votes teach, kept in memory and fitted again as labels come in.

Source: ours (papers.md 5.1, 5.2). The probability that the answer of a vote is right is the shipped prior before the
first label; the competences of the sources are unknown until then. The shares of right System 1 answers are the prior's
too.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from kernel.learning.gains import NO_GAINS, GainsByKind, LabelledPair, gains_by_kind
from kernel.learning.kind_shares import KindRecord, KindShares, kind_shares
from kernel.votes.competence import SourceRecord, recorded_competences
from kernel.votes.prior import SHIPPED_PRIOR
from kernel.votes.probability import LabelCount, ProbabilityModel, probability_model
from kernel.votes.votes import VoteSource
from services.router.metrics import LABELLED_PAIRS, VOTE_CURVE, VOTE_LABELS


class VoteLabels(Protocol):
    """This store holds labelled votes; it may raise `DatabaseUnavailable`."""

    async def vote_labels(self) -> Sequence[LabelCount]:
        """Return the newest labelled votes, counted by their evidence."""

    async def source_records(self) -> Sequence[SourceRecord]:
        """Return how often each source of votes was right."""

    async def system_one_records(self, model: str, /) -> Sequence[KindRecord]:
        """Return how often System 1 was right on each kind of question, by labels of answers drawn at random."""

    async def labelled_pairs(self, system_two: Sequence[str], model: str, /) -> Sequence[LabelledPair]:
        """Return the newest questions that are labelled for System 1 and for one of these strategies."""


class VoteProbability:
    """The probability model and the competences in force in this process.

    Args:
        store: Holds the labelled votes.
        system_two: Strategies whose labels say what System 2 of this router is worth.
        system_one: Returns the name of System 1's model in the catalogue; empty without a catalogue.

    Attributes:
        model: The probability model.
        gains: Gains of System 2 by kind of question.
        competences: Sources with their competence; `model` is the `source_name`, empty for the default model.
        shares: Shares of right System 1 answers, by kind of question.
    """

    def __init__(
        self, store: VoteLabels, system_two: Sequence[str] = (), system_one: Callable[[], str] = lambda: ""
    ) -> None:
        self._store = store
        self._system_one = system_one
        self._system_two = system_two
        self.model: ProbabilityModel = probability_model(SHIPPED_PRIOR)
        self.competences: Sequence[VoteSource] = ()
        self.shares: KindShares = kind_shares((), SHIPPED_PRIOR.share_right)
        self.gains: GainsByKind = NO_GAINS

    async def refresh(self) -> None:
        """Fit the model to the labels there are.

        Raises:
            DatabaseUnavailable: When the database is away; the model stays as it is.
        """
        model = self._system_one()
        self.model = probability_model(SHIPPED_PRIOR, await self._store.vote_labels())
        self.competences = recorded_competences(await self._store.source_records())
        self.shares = kind_shares(await self._store.system_one_records(model), SHIPPED_PRIOR.share_right)
        self.gains = gains_by_kind(await self._store.labelled_pairs(self._system_two, model))
        LABELLED_PAIRS.set(self.gains.overall.labels)
        VOTE_LABELS.set(self.model.labels)
        VOTE_CURVE.set(self.model.curve is not None)
