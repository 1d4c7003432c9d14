"""Reads labelled deliberations from the router's runs, or from a file of JSON lines."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated

from metacog.assigner.v1.assigner_pb2 import DeliberationFinished
from metacog.router.v1.router_pb2 import Run
from pydantic import Field

from chassis.errors import ConfigurationInvalid
from chassis.json_text import loads
from chassis.serving.wire import from_plain, from_proto, from_rest
from cli.terminal.client import Service
from kernel.assignment import shared_capacities
from kernel.errors import MalformedRequest, MetacogError
from kernel.learning.contrasts import Deliberated
from kernel.msv import MSV
from kernel.roles import ROLES, Role
from kernel.values import value

MAX_PAGE = 200


@value
class Assessed:
    """The state of one agent on the question."""

    agent: str
    msv: MSV


@value
class GivenRoles:
    """The assigned roles, with the probability of the assignment."""

    assignment: Mapping[Role, str]
    propensity: Annotated[float, Field(gt=0, le=1)]
    reason: str = ""
    capacities: Mapping[str, int] | None = None


@value
class DeliberationFields:
    """The fields of a deliberation that the weights are fitted to."""

    assessments: Sequence[Assessed]
    roles: GivenRoles
    degraded: bool = False


@value
class DeliberationSample:
    """The deliberations that weights are fitted to.

    Attributes:
        deliberations: Usable deliberations.
        left_out: Number of the others, by reason [count].
    """

    deliberations: Sequence[Deliberated]
    left_out: Mapping[str, int]


def read_deliberations(file: Path) -> DeliberationSample:
    """Read the deliberations of a file.

    A line is a run of the router, or {"deliberation": ..., "correct": true} with a reply of `/v1/deliberations`;
    `correct` may be a score of 0 to 1.

    Raises:
        ConfigurationInvalid: The file is invalid; the message names the line and the reason.
    """
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise ConfigurationInvalid(f"{file} cannot be read: {error.strerror}", file=str(file)) from error
    return _sample(_of_line(line, f"{file}, line {number}") for number, line in enumerate(lines, 1) if line.strip())


def recorded_deliberations(router: Service, *, limit: int) -> DeliberationSample:
    """Return the newest labelled deliberations among the router's runs, at most `limit`.

    Raises:
        Unreachable: The router cannot be reached.
        ServiceError: The router returned an error.
    """
    pages = router.pages("/v1/runs", "runs", Run, page_size=min(limit, MAX_PAGE), strategy="dialectic", judged=True)
    return _sample((run.run_id, _of_run(run)) for run in (reply.message for reply in islice(pages, limit)))


@dataclass(frozen=True)
class _Labelled:
    """A deliberation with its label, before it is checked."""

    done: DeliberationFinished | None
    score: float | None


def _of_run(run: Run) -> _Labelled:
    """Return the deliberation of a run with the first label that teaches."""
    score = next((each.score for each in run.feedback if each.teaches), None)
    return _Labelled(done=run.deliberation if run.HasField("deliberation") else None, score=score)


def _of_line(line: bytes, place: str) -> tuple[str, _Labelled]:
    try:
        document = loads(line)
        if not isinstance(document, dict):
            raise MalformedRequest("it is not an object")
        written = _of_run(from_rest(document, Run))
        label = document.get("correct")
        if label is not None and (not isinstance(label, bool | int | float) or not 0 <= label <= 1):
            raise MalformedRequest(f"correct: {label!r} is neither true, false nor a score of 0 to 1")
    except (MetacogError, ValueError) as error:
        raise ConfigurationInvalid(f"{place}: {error}", place=place) from error
    return place, written if label is None else replace(written, score=float(label))


def _sample(labelled: Iterator[tuple[str, _Labelled]]) -> DeliberationSample:
    deliberations, left_out = [], Counter[str]()
    for place, each in labelled:
        try:
            parsed = _read(each)
        except (MetacogError, KeyError, ValueError) as error:
            raise ConfigurationInvalid(f"{place}: {error}", place=place) from error
        if isinstance(parsed, str):
            left_out[parsed] += 1
        else:
            deliberations.append(parsed)
    return DeliberationSample(deliberations=deliberations, left_out=dict(sorted(left_out.items())))


def _read(labelled: _Labelled) -> Deliberated | str:
    """Return the deliberation of a run or line, else the reason why it cannot be used."""
    done, score = labelled.done, labelled.score
    if done is None or not done.HasField("roles"):
        return "no deliberation"
    if score is None:
        return "no label"
    fields = from_plain(_known(done), DeliberationFields)
    if fields.roles.reason or fields.degraded:
        return "degraded, or roles reassigned"
    if fields.roles.propensity >= 1:
        return "roles not randomized"
    return _deliberated(fields, score)


def _known(done: DeliberationFinished) -> Mapping[str, object]:
    """Return the fields that the weights are fitted to."""
    roles = done.roles
    return {
        "assessments": [{"agent": each.agent, "msv": from_proto(each.msv, MSV)} for each in done.assessments],
        "roles": {
            "assignment": dict(roles.assignment),
            "propensity": roles.propensity,
            "reason": roles.reason,
            "capacities": dict(roles.capacities) or None,
        },
        "degraded": done.degraded,
    }


def _deliberated(fields: DeliberationFields, score: float) -> Deliberated:
    states = {each.agent: each.msv for each in fields.assessments}
    agents = tuple(sorted(states))
    shares = dict(zip(agents, shared_capacities([None] * len(agents)), strict=True))
    held = fields.roles.capacities or shares
    return Deliberated(
        agents=agents,
        msvs=tuple(states[agent] for agent in agents),
        capacities=tuple(held[agent] for agent in agents),
        chosen=tuple(agents.index(fields.roles.assignment[role]) for role in ROLES),
        propensity=fields.roles.propensity,
        score=score,
    )
