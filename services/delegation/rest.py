"""This module serves the delegation service over REST."""

from collections.abc import AsyncIterator

from fastapi import FastAPI, Request
from fastapi.responses import Response

from chassis.serving.rest import Json, caller, query, query_parameters, until_disconnect, wants_events
from chassis.serving.sse import event_stream
from services.delegation.service.categories import (
    AdoptCategoryRequest,
    AdoptCategoryResponse,
    DiscoverCategoriesRequest,
    DiscoverCategoriesResponse,
    ListCategoriesRequest,
    ListCategoriesResponse,
    ListDimensionsRequest,
    ListDimensionsResponse,
)
from services.delegation.service.experience.values import MatchExperienceRequest, MatchExperienceResponse
from services.delegation.service.monitoring import (
    GetFlowsRequest,
    GetFlowsResponse,
    GetReliabilityRequest,
    GetReliabilityResponse,
    ListAgentsRequest,
    ListAgentsResponse,
    ListDriftEventsRequest,
    ListDriftEventsResponse,
)
from services.delegation.service.profiles import (
    ExportProfilesRequest,
    ExportProfilesResponse,
    FreezeProfilesRequest,
    FreezeProfilesResponse,
    ImportProfilesRequest,
    ImportProfilesResponse,
    ListProfilesRequest,
    ListProfilesResponse,
    ResetProfilesRequest,
    ResetProfilesResponse,
)
from services.delegation.service.task_records import GetTaskResponse, ListTasksRequest, ListTasksResponse
from services.delegation.service.use_cases import DelegationUseCases
from services.delegation.service.values import (
    Event,
    ProcessRequest,
    SelfAssessRequest,
    SelfAssessResponse,
    TaskFeedbackRequest,
    TaskFeedbackResponse,
    TaskFinished,
)


def add_task_paths(app: FastAPI, use_cases: DelegationUseCases) -> None:
    """Put tasks, self-assessment and feedback on `app`."""

    @app.post("/v1/tasks", response_model=TaskFinished)
    async def tasks(body: ProcessRequest, request: Request) -> Response:
        """Process a task; server-sent events when asked for, else the finished task."""
        events = use_cases.process(body, key=caller(request))
        if wants_events(request):
            return await until_disconnect(request, event_stream(events))
        return Json(await until_disconnect(request, last(events)))

    @app.get("/v1/tasks/{task_id}", response_model=GetTaskResponse)
    async def task(task_id: str, request: Request) -> Response:
        """Return one stored task."""
        return Json(GetTaskResponse(task=await use_cases.get_task(task_id, key_name=caller(request).name)))

    @app.get("/v1/tasks", response_model=ListTasksResponse, openapi_extra=query_parameters(ListTasksRequest))
    async def listed(request: Request) -> Response:
        """List stored tasks, newest first."""
        wanted = query(request, ListTasksRequest)
        return Json(await use_cases.list_tasks(wanted, key_name=caller(request).name))

    @app.post("/v1/self-assessments", response_model=SelfAssessResponse)
    async def self_assessments(body: SelfAssessRequest, request: Request) -> Response:
        """Let agents assess themselves on a task, without a solution."""
        return Json(await until_disconnect(request, use_cases.self_assess(body)))

    @app.post("/v1/feedback", response_model=TaskFeedbackResponse)
    async def feedback(body: TaskFeedbackRequest, request: Request) -> Response:
        """Submit feedback on whether a task's answer was right; the profiles of its agents learn."""
        return Json(await use_cases.submit_feedback(body, key=caller(request)))

    @app.post("/v1/experience:match", response_model=MatchExperienceResponse)
    async def experience(body: MatchExperienceRequest, request: Request) -> Response:
        """Return how near a question is to what each agent answered right; no model is called."""
        return Json(await until_disconnect(request, use_cases.match_experience(body, key=caller(request))))


def add_profile_paths(app: FastAPI, use_cases: DelegationUseCases) -> None:
    """Put capability profiles on `app`."""
    profiles = use_cases.profiles

    @app.get("/v1/profiles", response_model=ListProfilesResponse, openapi_extra=query_parameters(ListProfilesRequest))
    async def listed(request: Request) -> Response:
        """Return capability profiles by agent and dimension."""
        return Json(await profiles.page(query(request, ListProfilesRequest)))

    @app.post("/v1/profiles:reset", response_model=ResetProfilesResponse)
    async def reset(body: ResetProfilesRequest, request: Request) -> Response:
        """Reset profiles to their start; their history is kept."""
        return Json(await profiles.reset(body, key=caller(request)))

    @app.post("/v1/profiles:freeze", response_model=FreezeProfilesResponse)
    async def freeze(body: FreezeProfilesRequest, request: Request) -> Response:
        """Freeze profiles, so that they do not learn from outcomes, or unfreeze them."""
        return Json(await profiles.freeze(body, key=caller(request)))

    @app.get(
        "/v1/profiles:export",
        response_model=ExportProfilesResponse,
        openapi_extra=query_parameters(ExportProfilesRequest),
    )
    async def export(request: Request) -> Response:
        """Return profiles, with their history if requested."""
        return Json(await profiles.export(query(request, ExportProfilesRequest)))

    @app.post("/v1/profiles:import", response_model=ImportProfilesResponse)
    async def import_all(body: ImportProfilesRequest, request: Request) -> Response:
        """Import exported profiles, all or none."""
        return Json(await profiles.import_all(body, key=caller(request)))


def add_monitoring_paths(app: FastAPI, use_cases: DelegationUseCases) -> None:
    """Put agents, flows, reliability and drift on `app`."""
    monitoring = use_cases.monitoring

    @app.get("/v1/agents", response_model=ListAgentsResponse, openapi_extra=query_parameters(ListAgentsRequest))
    async def agents(request: Request) -> Response:
        """Return the configured agents, each with the trust in its self-assessments."""
        wanted = query(request, ListAgentsRequest)
        return Json(await until_disconnect(request, monitoring.list_agents(wanted)))

    @app.get("/v1/flows", response_model=GetFlowsResponse, openapi_extra=query_parameters(GetFlowsRequest))
    async def flows(request: Request) -> Response:
        """Return how often each agent delegates to each other, and the share of right answers."""
        wanted = query(request, GetFlowsRequest)
        return Json(await until_disconnect(request, monitoring.get_flows(wanted)))

    @app.get(
        "/v1/reliability",
        response_model=GetReliabilityResponse,
        openapi_extra=query_parameters(GetReliabilityRequest),
    )
    async def reliability(request: Request) -> Response:
        """Return the reliability of confidences by agent, dimension and source."""
        wanted = query(request, GetReliabilityRequest)
        return Json(await until_disconnect(request, monitoring.get_reliability(wanted)))

    @app.get(
        "/v1/drift", response_model=ListDriftEventsResponse, openapi_extra=query_parameters(ListDriftEventsRequest)
    )
    async def drift(request: Request) -> Response:
        """Return detected changes of competence, newest first."""
        wanted = query(request, ListDriftEventsRequest)
        return Json(await until_disconnect(request, monitoring.list_drift_events(wanted)))


def add_category_paths(app: FastAPI, use_cases: DelegationUseCases) -> None:
    """Put discovered categories on `app`."""
    categories = use_cases.categories

    @app.post("/v1/categories:discover", response_model=DiscoverCategoriesResponse)
    async def discover(body: DiscoverCategoriesRequest, request: Request) -> Response:
        """Discover categories among the tasks of the key, and propose them; none is adopted."""
        return Json(await until_disconnect(request, categories.discover(body, key=caller(request))))

    @app.get(
        "/v1/categories", response_model=ListCategoriesResponse, openapi_extra=query_parameters(ListCategoriesRequest)
    )
    async def listed(request: Request) -> Response:
        """Return discovered categories, newest first."""
        wanted = query(request, ListCategoriesRequest)
        return Json(await categories.page(wanted, key=caller(request)))

    @app.get(
        "/v1/dimensions", response_model=ListDimensionsResponse, openapi_extra=query_parameters(ListDimensionsRequest)
    )
    async def dimensions(request: Request) -> Response:
        """Return the dimensions in force, with the vectors of their examples."""
        wanted = query(request, ListDimensionsRequest)
        return Json(await until_disconnect(request, categories.in_force(wanted)))

    @app.post("/v1/categories:adopt", response_model=AdoptCategoryResponse)
    async def adopt(body: AdoptCategoryRequest, request: Request) -> Response:
        """Make a category a dimension."""
        return Json(await categories.adopt(body, key=caller(request)))


async def last(events: AsyncIterator[Event]) -> Event | None:
    """Return the last event; None without events."""
    finished: Event | None = None
    async for event in events:
        finished = event
    return finished
