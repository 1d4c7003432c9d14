"""The calibration page: the reliability of the confidence, the activations, promises, cascades, and shadow policies."""

import asyncio
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from metacog.router.v1.calibration_pb2 import (
    GetActivationsResponse,
    GetCalibrationResponse,
    GetCascadesResponse,
    GetPromisesResponse,
    GetShadowResponse,
)

from console.guard import session_of
from console.site import Site, page, part

BINS = 20
MOST_STRATEGIES = 50


def add_paths(app: FastAPI, site: Site) -> None:
    """Add the page to `app`."""
    router = site.router

    @app.get("/calibration")
    async def calibration(request: Request, since: str = "", strategy: str = "", error_at_most: str = "") -> Response:
        key = session_of(request).key
        async with asyncio.TaskGroup() as group:
            reliability = group.create_task(
                part(
                    router.get(
                        "/v1/calibration",
                        GetCalibrationResponse,
                        key=key,
                        since=since,
                        strategy=strategy,
                        page_size=MOST_STRATEGIES,
                    )
                )
            )
            activations = group.create_task(
                part(router.get("/v1/activations", GetActivationsResponse, key=key, since=since, bins=BINS))
            )
            cascades = group.create_task(part(router.get("/v1/cascades", GetCascadesResponse, key=key, since=since)))
            promises = group.create_task(
                part(router.get("/v1/promises", GetPromisesResponse, key=key, error_at_most=error_at_most))
            )
            shadow = group.create_task(part(router.get("/v1/shadow", GetShadowResponse, key=key, since=since)))
        shown: dict[str, Any] = {
            "reliability": reliability.result(),
            "activations": activations.result(),
            "cascades": cascades.result(),
            "promises": promises.result(),
            "shadow": shadow.result(),
        }
        return page(request, "calibration/page.html", since=since, strategy=strategy, **shown)
