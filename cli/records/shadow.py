"""`metacog runs shadow` shows how a shadow policy compares with what was served."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from cli.terminal.client import Service
from cli.terminal.options import AsJson, Key, RouterUrl, given
from cli.terminal.output import UNKNOWN, facts, number, print_json, stdout, text

Figures = Mapping[str, Any]


def shadow(
    since: Annotated[datetime | None, typer.Option(help="Shadow runs that began at or after this time; UTC.")] = None,
    until: Annotated[datetime | None, typer.Option(help="Shadow runs that began before this time; UTC.")] = None,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Compare each shadow policy with what was served: agreement, cost, time, who was right, and if that decides."""
    found = Service("router", router, key=key).get(
        "/v1/shadow", **given(since=since and since.isoformat(), until=until and until.isoformat())
    )
    if as_json:
        print_json(found)
        return
    if not found["comparisons"]:
        stdout.print("no shadow run is recorded")
    for comparison in found["comparisons"]:
        stdout.print(text(f"policy {comparison['policy']}", "bold"))
        stdout.print(facts(described(comparison)))


def described(comparison: Figures) -> Mapping[str, str]:
    """Return the figures of one comparison in words, by what they are of."""
    cost, time, labels = comparison["cost"], comparison["time"], comparison["labels"]
    stopped, failed = comparison["stopped"], comparison["failed"]
    return {
        "runs": f"{comparison['runs']} ({_counts(comparison['runs_by_strategy'])})"
        + (f", {failed} failed" if failed else "")
        + (f", and {stopped} stopped" if stopped else ""),
        "served by": _counts(comparison["served_by_strategy"]),
        "answered": _share(comparison["answered"]),
        "same answer": _share(comparison["agreement"]),
        "not compared": _counts(comparison["not_compared"]),
        "cost": f"{number(cost['ratio'], 2, UNKNOWN)} times the served{_interval(cost['low'], cost['high'])}, over"
        f" {cost['pairs']} pairs",
        "time": f"{number(time['shadow_ms'], 0, UNKNOWN)} ms, served {number(time['served_ms'], 0, UNKNOWN)} ms;"
        f" difference {number(time['difference_ms'], 0, UNKNOWN)} ms"
        f"{_interval(time['low_ms'], time['high_ms'], digits=0)}",
        "right": f"{_right(labels['shadow'])}, served {_right(labels['served'])}",
        "difference": f"{number(labels['difference'], 3, UNKNOWN)}"
        f"{_interval(labels['low'], labels['high'], digits=3)}, p {labels['p']:.3f}",
        "decision": _decision(labels),
    }


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _interval(low: float | None, high: float | None, *, digits: int = 2) -> str:
    return "" if low is None or high is None else f" [{low:.{digits}f}, {high:.{digits}f}]"


def _share(share: Figures) -> str:
    if not share["runs"]:
        return UNKNOWN
    return f"{share['share']:.1%} [{share['low']:.1%}, {share['high']:.1%}] of {share['runs']}"


def _right(labels: Figures) -> str:
    if not labels["labelled"]:
        return UNKNOWN
    return f"{labels['share']:.2f} [{labels['low']:.2f}, {labels['high']:.2f}] of {labels['labelled']}"


def _decision(labels: Figures) -> str:
    """Return what the labels say, or how many more are needed."""
    known: Sequence[tuple[str, str]] = (
        ("BETTER", "the shadow policy is more often right"),
        ("WORSE", "the shadow policy is less often right"),
        ("SAME", "as often right, within two points"),
    )
    if labels["enough"]:
        return dict(known)[labels["comparison"]]
    needed = labels["labels_needed"]
    more = "more than 100,000" if needed is None else f"about {needed}"
    return f"not enough labels: {more} more pairs with different answers need a label for both"
