"""REST face of the delegation service."""

from collections.abc import AsyncIterator

from fastapi import FastAPI, Request
from fastapi.responses import Response

from chassis.serving.rest import Json, caller, query_parameters, until_disconnect, wants_events
from chassis.serving.sse import event_stream
from chassis.serving.wire import from_plain
from services.delegation.service.categories import (
    AdoptCategoryRequest,
    AdoptCategoryResponse,
    DiscoverCategoriesRequest,
    DiscoverCategoriesResponse,
    ListCategoriesRequest,
    ListCategoriesResponse,
)
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
from services.delegation.service.use_cases import UseCases
from services.delegation.service.values import (
    Event,
    ProcessRequest,
    SelfAssessRequest,
    SelfAssessResponse,
    TaskFeedbackRequest,
    TaskFeedbackResponse,
    TaskFinished,
)


def add_task_paths(app: FastAPI, use: UseCases) -> None:
    """Put processing, self-assessment and feedback on `app`."""

    @app.post("/v1/tasks", response_model=TaskFinished)
    async def tasks(ask: ProcessRequest, request: Request) -> Response:
        """Process a task; server-sent events when asked for, else the finished task."""
        events = use.process(ask, key=caller(request))
        if wants_events(request):
            return await until_disconnect(request, event_stream(events))
        return Json(await until_disconnect(request, last(events)))

    @app.post("/v1/self-assessments", response_model=SelfAssessResponse)
    async def self_assessments(ask: SelfAssessRequest, request: Request) -> Response:
        """Let agents assess themselves on a task, without anybody solving it."""
        return Json(await until_disconnect(request, use.self_assess(ask)))

    @app.post("/v1/feedback", response_model=TaskFeedbackResponse)
    async def feedback(ask: TaskFeedbackRequest, request: Request) -> Response:
        """Say whether a task's answer was right; the profiles of those who gave it learn."""
        return Json(await use.submit_feedback(ask, key=caller(request)))


def add_profile_paths(app: FastAPI, use: UseCases) -> None:
    """Put capability profiles on `app`."""
    profiles = use.profiles

    @app.get("/v1/profiles", response_model=ListProfilesResponse, openapi_extra=query_parameters(ListProfilesRequest))
    async def listed(request: Request) -> Response:
        """Capability profiles, by agent and dimension."""
        return Json(await profiles.page(from_plain(dict(request.query_params), ListProfilesRequest)))

    @app.post("/v1/profiles:reset", response_model=ResetProfilesResponse)
    async def reset(ask: ResetProfilesRequest, request: Request) -> Response:
        """Put profiles back to where they start; their history is kept."""
        return Json(await profiles.reset(ask, key=caller(request)))

    @app.post("/v1/profiles:freeze", response_model=FreezeProfilesResponse)
    async def freeze(ask: FreezeProfilesRequest, request: Request) -> Response:
        """Freeze profiles, so that outcomes teach them nothing, or thaw them."""
        return Json(await profiles.freeze(ask, key=caller(request)))

    @app.get(
        "/v1/profiles:export",
        response_model=ExportProfilesResponse,
        openapi_extra=query_parameters(ExportProfilesRequest),
    )
    async def export(request: Request) -> Response:
        """Profiles, with the history that made them if asked for."""
        return Json(await profiles.export(from_plain(dict(request.query_params), ExportProfilesRequest)))

    @app.post("/v1/profiles:import", response_model=ImportProfilesResponse)
    async def import_all(ask: ImportProfilesRequest, request: Request) -> Response:
        """Import exported profiles, all or none."""
        return Json(await profiles.import_all(ask, key=caller(request)))


def add_watching_paths(app: FastAPI, use: UseCases) -> None:
    """Put agents, flows, reliability and drift on `app`."""
    watching = use.watching

    @app.get("/v1/agents", response_model=ListAgentsResponse, openapi_extra=query_parameters(ListAgentsRequest))
    async def agents(request: Request) -> Response:
        """The configured agents, and how far the self-assessment of each deserves trust."""
        ask = from_plain(dict(request.query_params), ListAgentsRequest)
        return Json(await until_disconnect(request, watching.list_agents(ask)))

    @app.get("/v1/flows", response_model=GetFlowsResponse, openapi_extra=query_parameters(GetFlowsRequest))
    async def flows(request: Request) -> Response:
        """Who hands tasks to whom, how often and how well."""
        ask = from_plain(dict(request.query_params), GetFlowsRequest)
        return Json(await until_disconnect(request, watching.flows(ask)))

    @app.get(
        "/v1/reliability",
        response_model=GetReliabilityResponse,
        openapi_extra=query_parameters(GetReliabilityRequest),
    )
    async def reliability(request: Request) -> Response:
        """How far confidence can be trusted, by agent, dimension and source."""
        ask = from_plain(dict(request.query_params), GetReliabilityRequest)
        return Json(await until_disconnect(request, watching.reliability(ask)))

    @app.get(
        "/v1/drift", response_model=ListDriftEventsResponse, openapi_extra=query_parameters(ListDriftEventsRequest)
    )
    async def drift(request: Request) -> Response:
        """Detected changes of competence, newest first."""
        ask = from_plain(dict(request.query_params), ListDriftEventsRequest)
        return Json(await until_disconnect(request, watching.drift(ask)))


def add_category_paths(app: FastAPI, use: UseCases) -> None:
    """Put discovered categories on `app`."""
    categories = use.categories

    @app.post("/v1/categories:discover", response_model=DiscoverCategoriesResponse)
    async def discover(ask: DiscoverCategoriesRequest, request: Request) -> Response:
        """Look for kinds of tasks among the tasks of the key, and propose them; adopts none."""
        return Json(await until_disconnect(request, categories.discover(ask, key=caller(request))))

    @app.get(
        "/v1/categories", response_model=ListCategoriesResponse, openapi_extra=query_parameters(ListCategoriesRequest)
    )
    async def listed(request: Request) -> Response:
        """Discovered categories, newest first."""
        ask = from_plain(dict(request.query_params), ListCategoriesRequest)
        return Json(await categories.page(ask, key=caller(request)))

    @app.post("/v1/categories:adopt", response_model=AdoptCategoryResponse)
    async def adopt(ask: AdoptCategoryRequest, request: Request) -> Response:
        """Make a category a dimension."""
        return Json(await categories.adopt(ask, key=caller(request)))


async def last(events: AsyncIterator[Event]) -> Event | None:
    """The last event."""
    finished: Event | None = None
    async for event in events:
        finished = event
    return finished
