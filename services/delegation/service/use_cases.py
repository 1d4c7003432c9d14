"""This module lists the use cases of the delegation service."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from services.delegation.service.categories import Categories
from services.delegation.service.experience.values import MatchExperienceResponse
from services.delegation.service.monitoring import Monitoring
from services.delegation.service.profiles import Profiles
from services.delegation.service.task_records import ListTasksResponse, StoredTask
from services.delegation.service.values import Event, SelfAssessResponse, TaskFeedbackResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationUseCases:
    """Each use case is bound to its context.

    Attributes:
        process: Processes a task.
        get_task: Returns a stored task.
        list_tasks: Returns a page of stored tasks.
        self_assess: Has agents assess themselves.
        match_experience: States how far agents have experience with a question.
        submit_feedback: Records whether a task's answer was right.
        profiles: Operations on profiles.
        monitoring: Agents, flows, reliability and drift.
        categories: Operations on discovered categories.
    """

    process: Callable[..., AsyncGenerator[Event, None]]
    get_task: Callable[..., Awaitable[StoredTask]]
    list_tasks: Callable[..., Awaitable[ListTasksResponse]]
    self_assess: Callable[..., Awaitable[SelfAssessResponse]]
    match_experience: Callable[..., Awaitable[MatchExperienceResponse]]
    submit_feedback: Callable[..., Awaitable[TaskFeedbackResponse]]
    profiles: Profiles
    monitoring: Monitoring
    categories: Categories
