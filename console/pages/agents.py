"""Agents: what each is good at, who hands to whom, whose word can be trusted, and what has changed."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response

from console.charts.profiles import flow_table, profile_table
from console.errors import notice
from console.guard import session_of
from console.service_client import Face
from console.site import Part, Site, page, part
from kernel.errors import MetacogError

PAGE_SIZE = 200
MOST_PAGES = 10
DRIFT_EVENTS = 20


def add_paths(app: FastAPI, site: Site) -> None:
    """Put the page on `app`."""
    delegation = site.delegation

    @app.get("/agents")
    async def agents(request: Request, dimension: str = "") -> Response:
        key = session_of(request).key
        async with asyncio.TaskGroup() as group:
            asked = {
                "agents": group.create_task(part(_all(delegation, "/v1/agents", "agents", key))),
                "profiles": group.create_task(part(_all(delegation, "/v1/profiles", "profiles", key))),
                "flows": group.create_task(_flows(delegation, key, dimension)),
                "drift": group.create_task(
                    part(delegation.get("/v1/drift", key=key, page_size=DRIFT_EVENTS, dimension=dimension))
                ),
            }
        told: dict[str, Any] = {name: task.result() for name, task in asked.items()}
        profiles: Part[list[Mapping[str, Any]]] = told["profiles"]
        dimensions = sorted({each["dimension"] for each in profiles.told or ()})
        shown = {
            **told,
            "dimension": dimension,
            "dimensions": dimensions,
            "table": profile_table(profiles.told) if profiles.told is not None else None,
            "flow_table": flow_table(told["flows"].told["flows"]) if told["flows"].told else None,
        }
        return page(request, "agents/page.html", **shown)


async def _all(face: Face, path: str, what: str, key: str) -> list[Mapping[str, Any]]:
    """All pages of a list, as far as `MOST_PAGES`."""
    found: list[Mapping[str, Any]] = []
    token = ""
    for _ in range(MOST_PAGES):
        told = await face.get(path, key=key, page_size=PAGE_SIZE, page_token=token)
        found += told[what]
        token = told["next_page_token"]
        if not token:
            break
    return found


async def _flows(face: Face, key: str, dimension: str) -> Part[Mapping[str, Any]]:
    """Who hands to whom, all pages as one."""
    try:
        told = await face.get("/v1/flows", key=key, page_size=PAGE_SIZE, dimension=dimension)
        flows: Sequence[Mapping[str, Any]] = told["flows"]
        return Part(told={**told, "flows": flows})
    except MetacogError as refusal:
        return Part(notice=notice(refusal))
