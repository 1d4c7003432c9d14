"""The page of the agents: profiles, delegations, calibration of self-assessments, and drift."""

import asyncio
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response

from console.charts.profiles import flow_table, profile_table
from console.guard import session_of
from console.service_client import ServiceClient
from console.site import Part, Site, page, part

PAGE_SIZE = 200
MOST_PAGES = 10
DRIFT_EVENTS = 20


def add_paths(app: FastAPI, site: Site) -> None:
    """Add the page to `app`."""
    delegation = site.delegation

    @app.get("/agents")
    async def agents(request: Request, dimension: str = "") -> Response:
        key = session_of(request).key
        async with asyncio.TaskGroup() as group:
            asked = {
                "agents": group.create_task(part(_all(delegation, "/v1/agents", "agents", key))),
                "profiles": group.create_task(part(_all(delegation, "/v1/profiles", "profiles", key))),
                "flows": group.create_task(
                    part(delegation.get("/v1/flows", key=key, page_size=PAGE_SIZE, dimension=dimension))
                ),
                "drift": group.create_task(
                    part(delegation.get("/v1/drift", key=key, page_size=DRIFT_EVENTS, dimension=dimension))
                ),
            }
        parts: dict[str, Any] = {name: task.result() for name, task in asked.items()}
        profiles: Part[list[Mapping[str, Any]]] = parts["profiles"]
        dimensions = sorted({each["dimension"] for each in profiles.content or ()})
        shown = {
            **parts,
            "dimension": dimension,
            "dimensions": dimensions,
            "table": profile_table(profiles.content) if profiles.content is not None else None,
            "flow_table": flow_table(parts["flows"].content["flows"]) if parts["flows"].content else None,
        }
        return page(request, "agents/page.html", **shown)


async def _all(service: ServiceClient, path: str, field: str, key: str) -> list[Mapping[str, Any]]:
    """Return all pages of a list, at most `MOST_PAGES`."""
    found: list[Mapping[str, Any]] = []
    token = ""
    for _ in range(MOST_PAGES):
        reply = await service.get(path, key=key, page_size=PAGE_SIZE, page_token=token)
        found += reply[field]
        token = reply["next_page_token"]
        if not token:
            break
    return found
