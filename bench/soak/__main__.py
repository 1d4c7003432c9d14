"""`python -m bench.soak [--minutes 60]` runs the suite under mixed load, and reports what was lost and what grew.

It writes docs/evaluation/soak.json, from which `make docs` makes docs/evaluation/soak.md. Everything runs on
this machine: PostgreSQL, a model server that answers at once, the four services and the clients. The exit status is 1
where a run was lost, memory grew by 5 % or more after the warm-up, or open files or tasks became more.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.soak.load import Seen, load, summary
from bench.soak.model_server import model_server
from bench.soak.watch import Look, findings, warm_up_s, watch
from chassis.schema import migrations
from configuration.services import WITH_SCHEMA
from tests.support.hostile.suite import Suite, suite
from tests.support.stack import ROOT, Database, until

RESULTS = ROOT / "docs" / "evaluation" / "soak.json"
# Time in which all runs are stored once the load has ended [s].
STORED_WITHIN_S = 60.0


async def soak(minutes: float) -> Mapping[str, Any]:
    """Run the suite under load for so many minutes, and return the report."""
    with tempfile.TemporaryDirectory() as folder, model_server() as models, Database() as database:
        for service in WITH_SCHEMA:
            migrations.migrate(f"services.{service}", database.url)
        encoder = {"METACOG_ENCODER_URL": f"{models}/v1"}
        async with suite(models, database.url, Path(folder), **encoder) as running:
            seen, looks = await under_load(running, minutes * 60)
            lost = await lost_runs(running, set(seen.runs))
            errors = logged_errors(running)
    services = {name: findings(held, warm_up_s(minutes * 60)) for name, held in sorted(looks.items())}
    return {
        "measured_on": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores",
        "minutes": minutes,
        "warm_up_minutes": round(warm_up_s(minutes * 60) / 60, 1),
        "requests": summary(seen.requests),
        "runs": {"begun": len(seen.runs), "lost": len(lost), "lost_of": dict(Counter(seen.runs[run] for run in lost))},
        "errors_logged": errors[:10],
        "services": services,
        "passed": not lost and not errors and all(found["passed"] for found in services.values()),
    }


async def under_load(running: Suite, seconds: float) -> tuple[Seen, Mapping[str, list[Look]]]:
    """Load the suite for so many seconds, and watch it."""
    seen, stop = Seen(), asyncio.Event()
    looks: dict[str, list[Look]] = {}
    async with asyncio.TaskGroup() as group:
        group.create_task(load(running.router.rest, seen, stop))
        group.create_task(watch(running, looks, stop))
        await asyncio.sleep(seconds)
        stop.set()
    return seen, looks


def logged_errors(running: Suite) -> list[str]:
    """Return service, logger and message of what was logged as an error; tracebacks hold paths of the machine."""
    return [
        f"{name}: {line.get('logger', '')}: {line.get('message', '')}"
        for name, one in running.services.items()
        for line in one.lines
        if line.get("level") == "error"
    ]


async def lost_runs(running: Suite, begun: set[str]) -> set[str]:
    """Return the runs that are not stored a while after the load has ended."""

    async def are_stored() -> bool:
        return begun <= await running.stored_runs()

    with suppress(TimeoutError):
        async with asyncio.timeout(STORED_WITHIN_S):
            await until(are_stored)
    return begun - await running.stored_runs()


def main() -> int:
    """Run the soak, write its report, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="Run the suite under load for long.")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long the load lasts [minutes, > 0]")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the report goes")
    given = parser.parse_args()
    report = asyncio.run(soak(given.minutes))
    text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
    given.out.write_text(text)
    sys.stdout.write(text)
    return 0 if report["passed"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
