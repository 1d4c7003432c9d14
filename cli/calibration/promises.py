"""What can be promised with the labels that there are, and what an exam would buy, for a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType

from cli.terminal.output import UNKNOWN, facts, table, text

Body = Mapping[str, Any]

STAGES = {"first": "first stop", "went_on": "all votes", "escalated": "stronger model"}
NO_LABELS = (
    "no label can prove a promise yet: it takes labels of an exam (metacog exam --arms strategy:vote), or of runs that"
    " were drawn at random (METACOG_ROUTER_LABEL_SHARE); what users volunteer proves nothing"
)


def report(found: Body) -> RenderableType:
    """Draw which levels of agreement keep the promise, and what more labels would prove."""
    promised = f"at most {_percent(found['error_at_most'])} errors among the answers that are given"
    if not found["version"]:
        return Group(facts({"promise": promised}), text(NO_LABELS))
    known = {
        "promise": promised,
        "configuration": f"{found['version']}, of {len(found['versions'])} with labels",
        "stronger model": found["stronger"],
        "not labelled": f"{found['unlabelled']} drawn votes, which count as errors" if found["unlabelled"] else "",
    }
    rows = [_row(kind, name, kind[name]) for kind in found["levels"] for name in STAGES if kind[name]["labels"]]
    return Group(
        facts(known),
        table(["kind", "stage", "labels", "tested at", "proved from", "kept", "next at"], rows),
        *_levels(found["levels"]),
        text(f"kept at other promises: {_points(found['curve'])}"),
        text("It holds for requests like the labelled ones."),
    )


def _row(kind: Body, name: str, stage: Body) -> list[str]:
    proved = [test for test in stage["tests"] if test["proved"]]
    return [
        kind["kind"] or "all others",
        STAGES[name],
        str(stage["labels"]),
        str(stage["looked_at"] or UNKNOWN),
        _level(proved[-1]) if proved else "none",
        _kept(stage["kept_share"]),
        "never" if stage["next_look"] is None else str(stage["next_look"]),
    ]


def _levels(kinds: Sequence[Body]) -> list[RenderableType]:
    """Draw the levels of the first stop of each kind, with what an exam would buy."""
    parts: list[RenderableType] = []
    for kind in kinds:
        first = kind["first"]
        if not first["labels"]:
            continue
        parts.append(text(f"first stop, {kind['kind'] or 'all others'}", "bold"))
        if first["tests"]:
            rows = [
                [_level(test), str(test["labels"]), str(test["errors"]), _percent(test["bound"]), _proved(test)]
                for test in first["tests"]
            ]
            parts.append(table(["votes", "labels", "errors", "errors at most", ""], rows))
        bought = [
            f"{one['labels']}: {_percent(one['kept_share'])}"
            for one in first["projection"]
            if one["kept_share"] is not None
        ]
        if bought:
            parts.append(text(f"kept after an exam of so many questions, at these shares: {', '.join(bought)}"))
    return parts


def _kept(share: float | None) -> str:
    return UNKNOWN if share is None else _percent(share)


def _proved(test: Body) -> str:
    return {True: "proved", False: "not proved", None: "too few labels"}[test["proved"]]


def _level(test: Body) -> str:
    """Describe a level of agreement.

    Example:
        >>> _level({"agreeing": 2, "against": 1})
        '2 to 1'
    """
    return f"{test['agreeing']} to {test['against']}"


def _points(curve: Sequence[Body]) -> str:
    return ", ".join(f"{_percent(point['error_at_most'])}: {_kept(point['kept_share'])}" for point in curve)


def _percent(share: float) -> str:
    """Return a share in percent.

    Example:
        >>> _percent(0.05), _percent(0.125), _percent(0.2481)
        ('5 %', '12.5 %', '24.8 %')
    """
    return f"{round(100 * share, 1):g} %"
