"""This module lists the use cases of the arbiter."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from chassis.calls.records import Calls
from services.arbiter.service.values import (
    Event,
    MeasureRequest,
    MeasureResponse,
    ReplayRequest,
    ReplayResponse,
    StoredArbitration,
)
from services.arbiter.service.voting.values import StoredVote, VoteEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbiterUseCases:
    """Each use case is bound to its context.

    Attributes:
        arbitrate: Has models solve, criticise and arbitrate a question.
        measure: Measures samples that exist.
        replay: Runs a recorded question through either mode.
        vote: Asks until enough answers agree.
        arbitrations: The stored arbitrations.
        votes: The stored votes.
    """

    arbitrate: Callable[..., AsyncGenerator[Event, None]]
    measure: Callable[[MeasureRequest], Awaitable[MeasureResponse]]
    replay: Callable[[ReplayRequest], Awaitable[ReplayResponse]]
    vote: Callable[..., AsyncGenerator[VoteEvent, None]]
    arbitrations: Calls[StoredArbitration]
    votes: Calls[StoredVote]
