"""This module serves the delegation service over gRPC."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from metacog.delegation.v1 import categories_pb2, experience_pb2, monitoring_pb2, profiles_pb2, tasks_pb2
from metacog.delegation.v1 import delegation_pb2_grpc as pb_grpc

from chassis.serving.auth import Keyring
from chassis.serving.rpc import Context, caller
from chassis.serving.wire import event_to_proto, from_proto, to_proto
from services.delegation.service.categories import (
    AdoptCategoryRequest,
    DiscoverCategoriesRequest,
    ListCategoriesRequest,
    ListDimensionsRequest,
)
from services.delegation.service.experience.values import MatchExperienceRequest
from services.delegation.service.monitoring import (
    GetFlowsRequest,
    GetReliabilityRequest,
    ListAgentsRequest,
    ListDriftEventsRequest,
)
from services.delegation.service.profiles import (
    ExportProfilesRequest,
    FreezeProfilesRequest,
    ImportProfilesRequest,
    ListProfilesRequest,
    ResetProfilesRequest,
)
from services.delegation.service.task_records import GetTaskResponse, ListTasksRequest
from services.delegation.service.use_cases import DelegationUseCases
from services.delegation.service.values import ProcessRequest, SelfAssessRequest, TaskFeedbackRequest


class DelegationServicer(pb_grpc.DelegationServiceServicer):
    """The servicer serves the delegation service over gRPC."""

    def __init__(self, use_cases: DelegationUseCases, keyring: Keyring) -> None:
        self._use_cases = use_cases
        self._keyring = keyring

    async def Process(  # noqa: N802
        self, request: tasks_pb2.ProcessRequest, context: Context
    ) -> AsyncIterator[tasks_pb2.ProcessResponse]:
        """Process a task."""
        value = from_proto(request, ProcessRequest)
        async with aclosing(self._use_cases.process(value, key=caller(context, self._keyring))) as events:
            async for event in events:
                yield event_to_proto(event, tasks_pb2.ProcessResponse)

    async def GetTask(self, request: tasks_pb2.GetTaskRequest, context: Context) -> tasks_pb2.GetTaskResponse:  # noqa: N802
        """Return one stored task."""
        task = await self._use_cases.get_task(request.task_id, key_name=caller(context, self._keyring).name)
        return to_proto(GetTaskResponse(task=task), tasks_pb2.GetTaskResponse)

    async def ListTasks(  # noqa: N802
        self, request: tasks_pb2.ListTasksRequest, context: Context
    ) -> tasks_pb2.ListTasksResponse:
        """List stored tasks, newest first."""
        wanted = from_proto(request, ListTasksRequest)
        page = await self._use_cases.list_tasks(wanted, key_name=caller(context, self._keyring).name)
        return to_proto(page, tasks_pb2.ListTasksResponse)

    async def SelfAssess(  # noqa: N802
        self, request: tasks_pb2.SelfAssessRequest, context: Context
    ) -> tasks_pb2.SelfAssessResponse:
        """Let agents assess themselves on a task."""
        response = await self._use_cases.self_assess(from_proto(request, SelfAssessRequest))
        return to_proto(response, tasks_pb2.SelfAssessResponse)

    async def SubmitFeedback(  # noqa: N802
        self, request: tasks_pb2.SubmitFeedbackRequest, context: Context
    ) -> tasks_pb2.SubmitFeedbackResponse:
        """Submit feedback on a task's answer."""
        value = from_proto(request, TaskFeedbackRequest)
        response = await self._use_cases.submit_feedback(value, key=caller(context, self._keyring))
        return to_proto(response, tasks_pb2.SubmitFeedbackResponse)

    async def MatchExperience(  # noqa: N802
        self, request: experience_pb2.MatchExperienceRequest, context: Context
    ) -> experience_pb2.MatchExperienceResponse:
        """Return how near a question is to what each agent answered right."""
        value = from_proto(request, MatchExperienceRequest)
        response = await self._use_cases.match_experience(value, key=caller(context, self._keyring))
        return to_proto(response, experience_pb2.MatchExperienceResponse)

    async def ListAgents(  # noqa: N802
        self, request: monitoring_pb2.ListAgentsRequest, context: Context
    ) -> monitoring_pb2.ListAgentsResponse:
        """Return the configured agents."""
        page = await self._use_cases.monitoring.list_agents(from_proto(request, ListAgentsRequest))
        return to_proto(page, monitoring_pb2.ListAgentsResponse)

    async def ListProfiles(  # noqa: N802
        self, request: profiles_pb2.ListProfilesRequest, context: Context
    ) -> profiles_pb2.ListProfilesResponse:
        """Return capability profiles."""
        page = await self._use_cases.profiles.page(from_proto(request, ListProfilesRequest))
        return to_proto(page, profiles_pb2.ListProfilesResponse)

    async def ResetProfiles(  # noqa: N802
        self, request: profiles_pb2.ResetProfilesRequest, context: Context
    ) -> profiles_pb2.ResetProfilesResponse:
        """Reset profiles to their start."""
        value = from_proto(request, ResetProfilesRequest)
        response = await self._use_cases.profiles.reset(value, key=caller(context, self._keyring))
        return to_proto(response, profiles_pb2.ResetProfilesResponse)

    async def FreezeProfiles(  # noqa: N802
        self, request: profiles_pb2.FreezeProfilesRequest, context: Context
    ) -> profiles_pb2.FreezeProfilesResponse:
        """Freeze profiles, or unfreeze them."""
        value = from_proto(request, FreezeProfilesRequest)
        response = await self._use_cases.profiles.freeze(value, key=caller(context, self._keyring))
        return to_proto(response, profiles_pb2.FreezeProfilesResponse)

    async def ExportProfiles(  # noqa: N802
        self, request: profiles_pb2.ExportProfilesRequest, context: Context
    ) -> profiles_pb2.ExportProfilesResponse:
        """Return profiles as they were at one moment."""
        page = await self._use_cases.profiles.export(from_proto(request, ExportProfilesRequest))
        return to_proto(page, profiles_pb2.ExportProfilesResponse)

    async def ImportProfiles(  # noqa: N802
        self, request: profiles_pb2.ImportProfilesRequest, context: Context
    ) -> profiles_pb2.ImportProfilesResponse:
        """Import exported profiles."""
        value = from_proto(request, ImportProfilesRequest)
        response = await self._use_cases.profiles.import_all(value, key=caller(context, self._keyring))
        return to_proto(response, profiles_pb2.ImportProfilesResponse)

    async def GetFlows(  # noqa: N802
        self, request: monitoring_pb2.GetFlowsRequest, context: Context
    ) -> monitoring_pb2.GetFlowsResponse:
        """Return how often each agent delegates to each other."""
        page = await self._use_cases.monitoring.get_flows(from_proto(request, GetFlowsRequest))
        return to_proto(page, monitoring_pb2.GetFlowsResponse)

    async def GetReliability(  # noqa: N802
        self, request: monitoring_pb2.GetReliabilityRequest, context: Context
    ) -> monitoring_pb2.GetReliabilityResponse:
        """Return the reliability of confidences."""
        page = await self._use_cases.monitoring.get_reliability(from_proto(request, GetReliabilityRequest))
        return to_proto(page, monitoring_pb2.GetReliabilityResponse)

    async def ListDriftEvents(  # noqa: N802
        self, request: monitoring_pb2.ListDriftEventsRequest, context: Context
    ) -> monitoring_pb2.ListDriftEventsResponse:
        """Return detected changes of competence."""
        page = await self._use_cases.monitoring.list_drift_events(from_proto(request, ListDriftEventsRequest))
        return to_proto(page, monitoring_pb2.ListDriftEventsResponse)

    async def DiscoverCategories(  # noqa: N802
        self, request: categories_pb2.DiscoverCategoriesRequest, context: Context
    ) -> categories_pb2.DiscoverCategoriesResponse:
        """Discover categories, and propose them."""
        value = from_proto(request, DiscoverCategoriesRequest)
        response = await self._use_cases.categories.discover(value, key=caller(context, self._keyring))
        return to_proto(response, categories_pb2.DiscoverCategoriesResponse)

    async def ListCategories(  # noqa: N802
        self, request: categories_pb2.ListCategoriesRequest, context: Context
    ) -> categories_pb2.ListCategoriesResponse:
        """Return discovered categories."""
        value = from_proto(request, ListCategoriesRequest)
        page = await self._use_cases.categories.page(value, key=caller(context, self._keyring))
        return to_proto(page, categories_pb2.ListCategoriesResponse)

    async def AdoptCategory(  # noqa: N802
        self, request: categories_pb2.AdoptCategoryRequest, context: Context
    ) -> categories_pb2.AdoptCategoryResponse:
        """Make a category a dimension."""
        value = from_proto(request, AdoptCategoryRequest)
        response = await self._use_cases.categories.adopt(value, key=caller(context, self._keyring))
        return to_proto(response, categories_pb2.AdoptCategoryResponse)

    async def ListDimensions(  # noqa: N802
        self, request: categories_pb2.ListDimensionsRequest, context: Context
    ) -> categories_pb2.ListDimensionsResponse:
        """Return the dimensions in force, with the vectors of their examples."""
        found = await self._use_cases.categories.in_force(from_proto(request, ListDimensionsRequest))
        return to_proto(found, categories_pb2.ListDimensionsResponse)
