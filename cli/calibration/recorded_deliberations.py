"""Reads labelled deliberations from the router's runs, or from a file of JSON lines."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from chassis.errors import ConfigurationInvalid
from chassis.json_text import InvalidJson, loads
from chassis.serving.wire import from_plain
from cli.terminal.client import Service
from kernel.assignment import shared_capacities
from kernel.errors import MalformedRequest, MetacogError
from kernel.learning.contrasts import Deliberated
from kernel.msv import MSV
from kernel.roles import ROLES, Role
from kernel.values import value

MAX_PAGE = 200

Run = Mapping[str, Any]


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
    return _sample(_document(line, f"{file}, line {number}") for number, line in enumerate(lines, 1) if line.strip())


def recorded_deliberations(router: Service, *, limit: int) -> DeliberationSample:
    """Return the newest labelled deliberations among the router's runs, at most `limit`.

    Raises:
        Unreachable: The router cannot be reached.
        ServiceError: The router returned an error.
    """
    runs = router.pages("/v1/runs", "runs", page_size=min(limit, MAX_PAGE), strategy="dialectic", judged=True)
    return _sample((run["run_id"], run) for run in islice(runs, limit))


def _document(line: bytes, place: str) -> tuple[str, Run]:
    try:
        document = loads(line)
    except InvalidJson as error:
        raise ConfigurationInvalid(f"{place}: {error}", place=place) from error
    if not isinstance(document, dict):
        raise ConfigurationInvalid(f"{place}: it is not an object", place=place)
    return place, document


def _sample(documents: Iterator[tuple[str, Run]]) -> DeliberationSample:
    deliberations, left_out = [], Counter[str]()
    for place, document in documents:
        try:
            parsed = _read(document)
        except (MetacogError, KeyError, ValueError) as error:
            raise ConfigurationInvalid(f"{place}: {error}", place=place) from error
        if isinstance(parsed, str):
            left_out[parsed] += 1
        else:
            deliberations.append(parsed)
    return DeliberationSample(deliberations=deliberations, left_out=dict(sorted(left_out.items())))


def _read(document: Run) -> Deliberated | str:
    """Return the deliberation of a run or line, else the reason why it cannot be used."""
    content, score = document.get("deliberation"), _score(document)
    if not content or "roles" not in content:
        return "no deliberation"
    if score is None:
        return "no label"
    fields = from_plain(_known(content), DeliberationFields)
    if fields.roles.reason or fields.degraded:
        return "degraded, or roles reassigned"
    if fields.roles.propensity >= 1:
        return "roles not randomized"
    return _deliberated(fields, score)


def _known(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields that the weights are fitted to, without fields that may change."""
    roles = content["roles"]
    return {
        "assessments": [{"agent": each["agent"], "msv": each["msv"]} for each in content["assessments"]],
        "roles": {name: roles[name] for name in ("assignment", "propensity", "reason", "capacities") if name in roles},
        "degraded": content.get("degraded", False),
    }


def _score(document: Run) -> float | None:
    """Return the label of a line, else the first label of a run that teaches."""
    label = document.get("correct")
    if label is None:
        label = next((each["score"] for each in document.get("feedback", ()) if each["teaches"]), None)
    if label is not None and (not isinstance(label, bool | int | float) or not 0 <= label <= 1):
        raise MalformedRequest(f"correct: {label!r} is neither true, false nor a score of 0 to 1")
    return None if label is None else float(label)


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
