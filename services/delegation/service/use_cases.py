"""What the delegation service can do."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from services.delegation.service.categories import Categories
from services.delegation.service.monitoring import Monitoring
from services.delegation.service.profiles import Profiles
from services.delegation.service.values import Event, SelfAssessResponse, TaskFeedbackResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCases:
    """The use cases, each bound to what it needs from the world.

    Attributes:
        process: Process a task.
        self_assess: Let agents assess themselves.
        submit_feedback: Say whether a task's answer was right.
        profiles: What there is to do with profiles.
        watching: What there is to see.
        categories: What there is to do with discovered categories.
    """

    process: Callable[..., AsyncGenerator[Event, None]]
    self_assess: Callable[..., Awaitable[SelfAssessResponse]]
    submit_feedback: Callable[..., Awaitable[TaskFeedbackResponse]]
    profiles: Profiles
    watching: Monitoring
    categories: Categories
