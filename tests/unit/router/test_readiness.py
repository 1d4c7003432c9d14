"""Readiness of the router lists the background workers that it runs."""

from pathlib import Path

import pytest

from services.router.compose import compose
from tests.contract.fakes import router_parts
from tests.support.stack import router_settings


@pytest.mark.parametrize("days", [0, 30])
async def test_readiness_lists_retention_where_runs_are_deleted(tmp_path: Path, days: int) -> None:
    service = compose(router_settings(retention_days=days), router_parts(tmp_path))
    service.start()

    parts = (await service.health.report()).parts
    await service.close()

    workers = {"journal", "outbox", "calibration", *(["retention"] if days else [])}
    assert {name: parts.get(name) for name in workers} == dict.fromkeys(workers, "ok")
    assert ("retention" in parts) == (days > 0)


async def test_readiness_reports_retention_that_does_not_run(tmp_path: Path) -> None:
    service = compose(router_settings(retention_days=30), router_parts(tmp_path))

    parts = (await service.health.report()).parts
    await service.close()

    assert parts["retention"] == "the worker retention has not been started"
