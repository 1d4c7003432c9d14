"""This module makes the report of the soak in docs/evaluation/soak.md from what `make soak` measured."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docs.generating.sections import replaced

RESULTS = Path("docs", "evaluation", "soak.json")
PAGE = Path("docs", "evaluation", "soak.md")
BEGIN, END = "<!-- soak: made by `make docs` -->", "<!-- end of soak -->"
SERVICES = "| service | memory [MiB] | growth | open files | tasks |\n|---|---|---|---|---|\n"
REQUESTS = "| requests | how they ended |\n|---|---|\n"


def page(root: Path) -> str:
    """Return the page with the report as it was measured last.

    Raises:
        ValueError: When the page does not have the place of the report.
    """
    measured = json.loads((root / RESULTS).read_text())
    return replaced(str(PAGE), (root / PAGE).read_text(), BEGIN, END, report(measured))


def report(measured: Mapping[str, Any]) -> str:
    """Return the report.

    Example:
        >>> print(report({"measured_on": "2026-11-25", "machine": "2 cores", "minutes": 60.0, "warm_up_minutes": 15.0,
        ...     "requests": {"stream": {"answered": 1200, "cut off": 1}}, "runs": {"begun": 1201, "lost": 0},
        ...     "errors_logged": [], "passed": True, "services": {"router": {"rss_mib": [200.0, 204.0],
        ...     "rss_growth": 0.02, "open_files": [40, 41], "tasks": [30, 30], "passed": True}}}))
        Passed: 60 minutes on 2026-11-25, on a machine with 2 cores; 0 of 1,201 runs lost, 0 errors logged.
        <BLANKLINE>
        | service | memory [MiB] | growth | open files | tasks |
        |---|---|---|---|---|
        | router | 200 → 204 | 2.0 % | 40 → 41 | 30 → 30 |
        <BLANKLINE>
        The figures are medians: over the first quarter after a warm-up of 15 minutes, and over the last quarter.
        <BLANKLINE>
        | requests | how they ended |
        |---|---|
        | stream | answered 1,200, cut off 1 |
        <BLANKLINE>
    """
    services = "".join(_service(name, found) for name, found in measured["services"].items())
    requests = "".join(_requests(kind, ends) for kind, ends in measured["requests"].items())
    runs, errors = measured["runs"], len(measured["errors_logged"])
    result = "Passed" if measured["passed"] else "Failed"
    return (
        f"{result}: {measured['minutes']:g} minutes on {measured['measured_on']}, on a machine with"
        f" {measured['machine']}; {runs['lost']:,} of {runs['begun']:,} runs lost, {errors} errors logged.\n\n"
        f"{SERVICES}{services}\nThe figures are medians: over the first quarter after a warm-up of"
        f" {measured['warm_up_minutes']:g} minutes, and over the last quarter.\n\n{REQUESTS}{requests}"
    )


def _service(name: str, found: Mapping[str, Any]) -> str:
    memory, files, tasks = (_pair(found[figure]) for figure in ("rss_mib", "open_files", "tasks"))
    return f"| {name} | {memory} | {found['rss_growth']:.1%} | {files} | {tasks} |\n".replace("% |", " % |")


def _requests(kind: str, ends: Mapping[str, int]) -> str:
    counts = sorted(ends.items(), key=lambda end: -end[1])
    return f"| {kind} | {', '.join(f'{end} {count:,}' for end, count in counts)} |\n"


def _pair(figures: list[float]) -> str:
    return f"{figures[0]:.0f} → {figures[1]:.0f}"
