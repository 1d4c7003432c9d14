"""The page of the agents: profiles, delegations, calibration of self-assessments, and drift."""

import asyncio
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import Response
from metacog.delegation.v1.monitoring_pb2 import (
    AgentStatus,
    GetFlowsResponse,
    ListAgentsResponse,
    ListDriftEventsResponse,
)
from metacog.delegation.v1.profiles_pb2 import CapabilityProfile, ListProfilesResponse

from console.charts.profiles import flow_table, profile_table
from console.guard import session_of
from console.replies.service_client import ServiceClient
from console.site import Site, page, part

P = TypeVar("P", ListAgentsResponse, ListProfilesResponse)

PAGE_SIZE = 200
MOST_PAGES = 10
DRIFT_EVENTS = 20


def add_paths(app: FastAPI, site: Site) -> None:
    """Add the page to `app`."""
    delegation = site.delegation

    @app.get("/agents")
    async def agents_page(request: Request, dimension: str = "") -> Response:
        key = session_of(request).key
        async with asyncio.TaskGroup() as group:
            agents = group.create_task(part(_agents(delegation, key)))
            profiles = group.create_task(part(_profiles(delegation, key)))
            flows = group.create_task(
                part(delegation.get("/v1/flows", GetFlowsResponse, key=key, page_size=PAGE_SIZE, dimension=dimension))
            )
            drift = group.create_task(
                part(
                    delegation.get(
                        "/v1/drift", ListDriftEventsResponse, key=key, page_size=DRIFT_EVENTS, dimension=dimension
                    )
                )
            )
        found, moved = profiles.result().content, flows.result().content
        shown: dict[str, Any] = {
            "agents": agents.result(),
            "profiles": profiles.result(),
            "flows": flows.result(),
            "drift": drift.result(),
            "dimension": dimension,
            "dimensions": sorted({each.dimension for each in found or ()}),
            "table": None if found is None else profile_table(found),
            "flow_table": None if moved is None else flow_table(moved.flows),
        }
        return page(request, "agents/page.html", **shown)


async def _agents(service: ServiceClient, key: str) -> list[AgentStatus]:
    return [agent for reply in await _pages(service, "/v1/agents", ListAgentsResponse, key) for agent in reply.agents]


async def _profiles(service: ServiceClient, key: str) -> list[CapabilityProfile]:
    replies = await _pages(service, "/v1/profiles", ListProfilesResponse, key)
    return [profile for reply in replies for profile in reply.profiles]


async def _pages(service: ServiceClient, path: str, kind: type[P], key: str) -> list[P]:
    """Return all pages of a list, at most `MOST_PAGES`."""
    found: list[P] = []
    token = ""
    for _ in range(MOST_PAGES):
        found.append(await service.get(path, kind, key=key, page_size=PAGE_SIZE, page_token=token))
        token = found[-1].next_page_token
        if not token:
            break
    return found
