"""The probability that the answer of a vote is right, kept in memory and fitted again as labels come in.

Source: SPEC 5.2. Before the first label it is the prior that ships.
"""

from collections.abc import Sequence
from typing import Protocol

from kernel.votes.prior import SHIPPED_PRIOR
from kernel.votes.probability import LabelCount, ProbabilityModel, probability_model
from services.router.metrics import VOTE_CURVE, VOTE_LABELS


class VoteLabels(Protocol):
    """This store holds labelled votes; it may raise `DatabaseUnavailable`."""

    async def vote_labels(self) -> Sequence[LabelCount]:
        """Return the newest labelled votes, counted by their evidence."""


class VoteProbability:
    """The probability model in force in this process.

    Args:
        store: Holds the labelled votes.
    """

    def __init__(self, store: VoteLabels) -> None:
        self._store = store
        self.model: ProbabilityModel = probability_model(SHIPPED_PRIOR)

    async def refresh(self) -> None:
        """Fit the model to the labels there are.

        Raises:
            DatabaseUnavailable: When the database is away; the model stays as it is.
        """
        self.model = probability_model(SHIPPED_PRIOR, await self._store.vote_labels())
        VOTE_LABELS.set(self.model.labels)
        VOTE_CURVE.set(self.model.curve is not None)
