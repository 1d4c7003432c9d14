"""`metacog runs shadow` shows how a shadow policy compares with what was served."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import typer
from metacog.router.v1.calibration_pb2 import (
    Comparison,
    GetShadowResponse,
    LabelledShare,
    ShadowComparison,
    ShadowCost,
    ShadowLabels,
    ShadowTime,
    ShareOfRuns,
)

from chassis.serving.wire import optional, word
from cli.terminal.client import Service
from cli.terminal.options import AsJson, Key, RouterUrl, given
from cli.terminal.output import UNKNOWN, facts, number, print_json, stdout, text


def shadow(
    since: Annotated[datetime | None, typer.Option(help="Shadow runs that began at or after this time; UTC.")] = None,
    until: Annotated[datetime | None, typer.Option(help="Shadow runs that began before this time; UTC.")] = None,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Compare each shadow policy with what was served: agreement, cost, time, who was right, and if that decides."""
    found = Service("router", router, key=key).get(
        "/v1/shadow",
        GetShadowResponse,
        **given(since=since and since.isoformat(), until=until and until.isoformat()),
    )
    if as_json:
        print_json(found.document)
        return
    if not found.message.comparisons:
        stdout.print("no shadow run is recorded")
    for comparison in found.message.comparisons:
        stdout.print(text(f"policy {comparison.policy}", "bold"))
        stdout.print(facts(described(comparison)))


def described(comparison: ShadowComparison) -> Mapping[str, str]:
    """Return the figures of one comparison in words, by what they are of."""
    cost, time, labels = comparison.cost, comparison.time, comparison.labels
    ratio = number(optional(cost, "ratio"), 2, UNKNOWN)
    shadow_ms, served_ms, slower_ms = (
        number(optional(time, name), 0, UNKNOWN) for name in ("shadow_ms", "served_ms", "difference_ms")
    )
    difference = number(optional(labels, "difference"), 3, UNKNOWN)
    return {
        "runs": f"{comparison.runs} ({_counts(comparison.runs_by_strategy)})"
        + (f", {comparison.failed} failed" if comparison.failed else "")
        + (f", and {comparison.stopped} stopped" if comparison.stopped else ""),
        "served by": _counts(comparison.served_by_strategy),
        "answered": _share(comparison.answered),
        "same answer": _share(comparison.agreement),
        "not compared": _counts(comparison.not_compared),
        "cost": f"{ratio} times the served{_between(cost)}, over {cost.pairs} pairs",
        "time": f"{shadow_ms} ms, served {served_ms} ms; difference {slower_ms} ms{_between(time, '_ms', digits=0)}",
        "right": f"{_right(labels.shadow)}, served {_right(labels.served)}",
        "difference": f"{difference}{_interval(labels.low, labels.high, digits=3)}, p {labels.p:.3f}",
        "decision": _decision(labels),
    }


def _counts(counts: Mapping[str, int]) -> str:
    """Format counts, the largest first.

    Example:
        >>> _counts({"system1": 3, "vote": 7})
        'vote 7, system1 3'
    """
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _between(found: ShadowCost | ShadowTime, unit: str = "", *, digits: int = 2) -> str:
    return _interval(optional(found, f"low{unit}"), optional(found, f"high{unit}"), digits=digits)


def _interval(low: float | None, high: float | None, *, digits: int = 2) -> str:
    return "" if low is None or high is None else f" [{low:.{digits}f}, {high:.{digits}f}]"


def _share(share: ShareOfRuns) -> str:
    if not share.HasField("share"):
        return UNKNOWN
    return f"{share.share:.1%} [{share.low:.1%}, {share.high:.1%}] of {share.runs}"


def _right(labels: LabelledShare) -> str:
    if not labels.HasField("share"):
        return UNKNOWN
    return f"{labels.share:.2f} [{labels.low:.2f}, {labels.high:.2f}] of {labels.labelled}"


def _decision(labels: ShadowLabels) -> str:
    """Return what the labels say, or how many more are needed."""
    known = {
        "BETTER": "the shadow policy is more often right",
        "WORSE": "the shadow policy is less often right",
        "SAME": "as often right, within two points",
    }
    if labels.enough:
        return known.get(word(Comparison, labels.comparison), UNKNOWN)
    needed = optional(labels, "labels_needed")
    more = "more than 100,000" if needed is None else f"about {needed}"
    return f"not enough labels: {more} more pairs with different answers need a label for both"
