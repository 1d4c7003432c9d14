"""Reads labelled decisions from the router's runs, or from a file of JSON lines."""

from collections.abc import Sequence
from itertools import islice
from math import nan
from pathlib import Path
from typing import Annotated

from metacog.common.v1.answer_pb2 import OUTCOME_ANSWERED
from metacog.router.v1.router_pb2 import Run
from pydantic import Field

from chassis.json_text import InvalidJson, loads
from chassis.serving.wire import from_plain, from_proto
from cli.terminal.client import Service
from cli.terminal.exits import UnusableInput
from kernel.activation import TERMS, pressure
from kernel.errors import MalformedRequest, MetacogError
from kernel.msv import MSV
from kernel.policy import Strategy
from kernel.statistics.samples import RIGHT
from kernel.values import value

SYSTEM_ONE = Strategy.SYSTEM_ONE.value
MAX_PAGE = 200


@value
class Case:
    """One decision.

    Attributes:
        levels: Level of each term of the activation, in the order of `TERMS` [0..1]; NaN where it is unknown.
        wrong: Whether System 1's answer was wrong; None without a label, or if System 1 did not answer.
        assessor: Assessor of the state; empty if unknown.
    """

    levels: tuple[float, ...]
    wrong: bool | None = None
    assessor: str = ""


@value
class Recorded:
    """The content of a line of a file.

    Attributes:
        msv: The state of the question.
        correct: Label or score of System 1's answer [0..1]; None without one.
    """

    msv: MSV
    correct: bool | Annotated[float, Field(ge=0, le=1)] | None = None


def read_cases(file: Path) -> Sequence[Case]:
    """Read the decisions of a file; other fields of its lines are ignored.

    Raises:
        UnusableInput: The file is invalid; the message names the line and the reason.
    """
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise UnusableInput(f"{file} cannot be read: {error.strerror}", file=str(file)) from error
    return [_case_of_line(line, f"{file}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]


def runs_of(router: Service, *, limit: int, assessor: str = "") -> Sequence[Run]:
    """Return those of the newest `limit` runs whose state was measured.

    Runs with a cached decision are left out: their state is that of an earlier turn, and their label is not.

    Raises:
        Unreachable: The router cannot be reached.
        ServiceError: The router returned an error.
    """
    pages = router.pages("/v1/runs", "runs", Run, page_size=min(limit, MAX_PAGE), assessor=assessor)
    return [run for run in (reply.message for reply in islice(pages, limit)) if _is_assessed(run)]


def case_of_run(run: Run) -> Case:
    """Return the decision of a run, with the first label that teaches."""
    labels = [each.score for each in run.feedback if each.teaches]
    has_label = bool(labels) and run.strategy == SYSTEM_ONE and run.outcome == OUTCOME_ANSWERED
    return Case(
        levels=levels_of(from_proto(run.route.msv, MSV)),
        wrong=labels[0] < RIGHT if has_label else None,
        assessor=run.route.assessor,
    )


def levels_of(msv: MSV) -> tuple[float, ...]:
    """Return the level of each term of the activation [0..1]; NaN where it is unknown."""
    levels = (pressure(msv, term) for term in TERMS)
    return tuple(nan if level is None else level for level in levels)


def _case_of_line(line: bytes, place: str) -> Case:
    try:
        document = loads(line)
        if not isinstance(document, dict):
            raise MalformedRequest("it is not an object")
        recorded = from_plain({name: document[name] for name in ("msv", "correct") if name in document}, Recorded)
    except (InvalidJson, MetacogError) as error:
        raise UnusableInput(f"{place}: {error}", place=place) from error
    return Case(
        levels=levels_of(recorded.msv),
        wrong=None if recorded.correct is None else recorded.correct < RIGHT,
        assessor=str(document.get("assessor", "")),
    )


def _is_assessed(run: Run) -> bool:
    return run.route.HasField("msv") and not run.route.cached_from
