"""This module lists the use cases of the assigner."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from chassis.calls.records import Calls
from services.assigner.service.values import AssignRequest, AssignResponse, Event, StoredDeliberation


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignerUseCases:
    """Each use case is bound to its context.

    Attributes:
        assign: Gives roles to agents.
        deliberate: Runs the five-role dialectic.
        deliberations: The stored deliberations.
    """

    assign: Callable[[AssignRequest], Awaitable[AssignResponse]]
    deliberate: Callable[..., AsyncGenerator[Event, None]]
    deliberations: Calls[StoredDeliberation]
