"""What can be promised with the labels that there are, and what an exam would buy, for a terminal."""

from collections.abc import Mapping, Sequence

from metacog.router.v1.calibration_pb2 import (
    GetPromisesResponse,
    LevelTest,
    ProjectedShare,
    PromiseLevels,
    PromisePoint,
    StageLevels,
)
from rich.console import Group, RenderableType

from chassis.serving.wire import optional
from cli.terminal.output import UNKNOWN, facts, table, text

NO_LABELS = (
    "no label can prove a promise yet: it takes labels of an exam (metacog exam --arms strategy:vote), or of runs that"
    " were drawn at random (METACOG_ROUTER_LABEL_SHARE); what users volunteer proves nothing"
)


def report(found: GetPromisesResponse) -> RenderableType:
    """Draw which levels of agreement keep the promise, and what more labels would prove."""
    promised = f"at most {_percent(found.error_at_most)} errors among the answers that are given"
    if not found.version:
        return Group(facts({"promise": promised}), text(NO_LABELS))
    known = {
        "promise": promised,
        "configuration": f"{found.version}, of {len(found.versions)} with labels",
        "stronger model": found.stronger,
        "not labelled": f"{found.unlabelled} drawn votes, which count as errors" if found.unlabelled else "",
    }
    rows = [
        _row(each.kind, name, stage) for each in found.levels for name, stage in _stages(each).items() if stage.labels
    ]
    return Group(
        facts(known),
        table(["kind", "stage", "labels", "tested at", "proved from", "kept", "next at"], rows),
        *_levels(found.levels),
        text(f"kept at other promises: {_points(found.curve)}"),
        text("It holds for requests like the labelled ones."),
    )


def _stages(levels: PromiseLevels) -> Mapping[str, StageLevels]:
    return {"first stop": levels.first, "all votes": levels.went_on, "stronger model": levels.escalated}


def _row(kind: str, name: str, stage: StageLevels) -> list[str]:
    proved = [test for test in stage.tests if optional(test, "proved")]
    return [
        kind or "all others",
        name,
        str(stage.labels),
        str(stage.looked_at or UNKNOWN),
        _level(proved[-1]) if proved else "none",
        _kept(stage),
        str(stage.next_look) if stage.HasField("next_look") else "never",
    ]


def _levels(kinds: Sequence[PromiseLevels]) -> list[RenderableType]:
    """Draw the levels of the first stop of each kind, with what an exam would buy."""
    parts: list[RenderableType] = []
    for each in kinds:
        first = each.first
        if not first.labels:
            continue
        parts.append(text(f"first stop, {each.kind or 'all others'}", "bold"))
        if first.tests:
            rows = [
                [_level(test), str(test.labels), str(test.errors), _percent(test.bound), _proved(test)]
                for test in first.tests
            ]
            parts.append(table(["votes", "labels", "errors", "errors at most", ""], rows))
        bought = [f"{one.labels}: {_kept(one)}" for one in first.projection if one.HasField("kept_share")]
        if bought:
            parts.append(text(f"kept after an exam of so many questions, at these shares: {', '.join(bought)}"))
    return parts


def _kept(found: StageLevels | ProjectedShare | PromisePoint) -> str:
    return _percent(found.kept_share) if found.HasField("kept_share") else UNKNOWN


def _proved(test: LevelTest) -> str:
    return {True: "proved", False: "not proved", None: "too few labels"}[optional(test, "proved")]


def _level(test: LevelTest) -> str:
    """Describe a level of agreement.

    Example:
        >>> _level(LevelTest(agreeing=2, against=1))
        '2 to 1'
    """
    return f"{test.agreeing} to {test.against}"


def _points(curve: Sequence[PromisePoint]) -> str:
    return ", ".join(f"{_percent(point.error_at_most)}: {_kept(point)}" for point in curve)


def _percent(share: float) -> str:
    """Return a share in percent.

    Example:
        >>> _percent(0.05), _percent(0.125), _percent(0.2481)
        ('5 %', '12.5 %', '24.8 %')
    """
    return f"{round(100 * share, 1):g} %"
