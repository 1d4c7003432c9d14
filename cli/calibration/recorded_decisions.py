"""Decisions with what came of them: from the router's runs, or from a file of JSON lines."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import nan
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import Field

from chassis.serving.wire import from_plain
from cli.terminal.client import Service
from cli.terminal.exits import UnusableInput
from kernel.errors import MalformedRequest, MetacogError
from kernel.msv import MSV
from kernel.statistics.samples import RIGHT
from kernel.values import value

# Order of the weights; correctness and experience count as 1 - value.
TERMS = ("correctness", "conflict", "importance", "experience")
LOWERS = ("correctness", "experience")
SYSTEM_ONE = "system1"
MAX_PAGE = 200

Run = Mapping[str, Any]


@value
class Case:
    """One decision.

    Attributes:
        levels: How much each term asks for deliberation, in the order of `TERMS` [0..1]; NaN where it is unknown.
        wrong: Whether System 1's answer was wrong; None where nobody said or System 1 did not answer.
        assessor: Who measured the state; empty where nobody says.
    """

    levels: tuple[float, ...]
    wrong: bool | None = None
    assessor: str = ""


@value
class Recorded:
    """What a line of a file says.

    Attributes:
        msv: The state of the query.
        correct: Whether System 1's answer was right, or how right it was [0..1]; None where nobody said.
    """

    msv: MSV
    correct: bool | Annotated[float, Field(ge=0, le=1)] | None = None


def read_cases(file: Path) -> Sequence[Case]:
    """The decisions of a file; what else its lines say is not looked at.

    Raises:
        UnusableInput: When the file cannot be used; names the line and the reason.
    """
    try:
        lines = file.read_bytes().splitlines()
    except OSError as wrong:
        raise UnusableInput(f"{file} cannot be read: {wrong.strerror}", file=str(file)) from wrong
    return [_case_of_line(line, f"{file}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]


def runs_of(router: Service, *, limit: int, assessor: str = "") -> Sequence[Run]:
    """The newest runs whose state was measured, at most `limit` of all runs looked at.

    Turns that kept the decision of an earlier one are left out: their state is that turn's, and their verdict is not.

    Raises:
        Unreachable: When the router cannot be reached.
        Refused: When it refuses.
    """
    return [run for run in islice(_pages(router, min(limit, MAX_PAGE), assessor), limit) if _is_assessed(run)]


def case_of_run(run: Run) -> Case:
    """The decision of a run; of several verdicts the first that teaches."""
    msv = from_plain(_state(run), MSV)
    labels = [said["score"] for said in run["feedback"] if said["teaches"]]
    judged = bool(labels) and run["strategy"] == SYSTEM_ONE and run["outcome"] == "ANSWERED"
    return Case(
        levels=levels_of(msv),
        wrong=labels[0] < RIGHT if judged else None,
        assessor=run["route"]["assessor"],
    )


def levels_of(msv: MSV) -> tuple[float, ...]:
    """How much each term of a state asks for deliberation [0..1]; NaN where it is unknown."""
    return tuple(_level(getattr(msv, term), lowers=term in LOWERS) for term in TERMS)


def _level(known: float | None, *, lowers: bool) -> float:
    if known is None:
        return nan
    return 1 - known if lowers else known


def _case_of_line(line: bytes, place: str) -> Case:
    try:
        document = orjson.loads(line)
        if not isinstance(document, dict):
            raise MalformedRequest("it is no object")
        said = from_plain({name: document[name] for name in ("msv", "correct") if name in document}, Recorded)
    except (orjson.JSONDecodeError, MetacogError) as wrong:
        raise UnusableInput(f"{place}: {wrong}", place=place) from wrong
    return Case(
        levels=levels_of(said.msv),
        wrong=None if said.correct is None else said.correct < RIGHT,
        assessor=str(document.get("assessor", "")),
    )


def _pages(router: Service, page_size: int, assessor: str) -> Iterable[Run]:
    return router.pages("/v1/runs", "runs", page_size=page_size, assessor=assessor)


def _is_assessed(run: Run) -> bool:
    return bool(_state(run)) and not run["route"].get("cached_from")


def _state(run: Run) -> Mapping[str, Any] | None:
    state: Mapping[str, Any] | None = (run["route"] or {}).get("msv")
    return state
