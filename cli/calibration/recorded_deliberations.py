"""Deliberations with verdicts on their answers: from the router's runs, or from a file of JSON lines."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import Field

from chassis.errors import ConfigurationInvalid
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
    """An agent's state on the query."""

    agent: str
    msv: MSV


@value
class Given:
    """Roles as they were given, and the probability with which they were drawn."""

    assignment: Mapping[Role, str]
    propensity: Annotated[float, Field(gt=0, le=1)]
    reason: str = ""
    capacities: Mapping[str, int] | None = None


@value
class Account:
    """What a deliberation tells of itself, as far as weights are learned from it."""

    assessments: Sequence[Assessed]
    roles: Given
    degraded: bool = False


@value
class Heard:
    """Deliberations that weights can be learned from, and why others cannot teach.

    Attributes:
        deliberations: Those that teach.
        left_out: How many others there are, by the reason.
    """

    deliberations: Sequence[Deliberated]
    left_out: Mapping[str, int]


def heard_lines(file: Path) -> Heard:
    """The deliberations of a file.

    A line is a run as the router tells it, or {"deliberation": ..., "correct": true} with what `/v1/deliberations`
    answered; `correct` may be a score of 0 to 1.

    Raises:
        ConfigurationInvalid: When the file cannot be used; names the line and the reason.
    """
    try:
        lines = file.read_bytes().splitlines()
    except OSError as wrong:
        raise ConfigurationInvalid(f"{file} cannot be read: {wrong.strerror}", file=str(file)) from wrong
    return _heard(_document(line, f"{file}, line {number}") for number, line in enumerate(lines, 1) if line.strip())


def heard_runs(router: Service, *, limit: int) -> Heard:
    """The newest judged deliberations among the router's runs, at most `limit`.

    Raises:
        Unreachable: When the router cannot be reached.
        Refused: When it refuses.
    """
    runs = router.pages("/v1/runs", "runs", page_size=min(limit, MAX_PAGE), strategy="dialectic", judged=True)
    return _heard((run["run_id"], run) for run in islice(runs, limit))


def _document(line: bytes, place: str) -> tuple[str, Run]:
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError as wrong:
        raise ConfigurationInvalid(f"{place}: {wrong}", place=place) from wrong
    if not isinstance(document, dict):
        raise ConfigurationInvalid(f"{place}: it is no object", place=place)
    return place, document


def _heard(documents: Iterator[tuple[str, Run]]) -> Heard:
    deliberations, left_out = [], Counter[str]()
    for place, document in documents:
        try:
            made = _read(document)
        except (MetacogError, KeyError, ValueError) as wrong:
            raise ConfigurationInvalid(f"{place}: {wrong}", place=place) from wrong
        if isinstance(made, str):
            left_out[made] += 1
        else:
            deliberations.append(made)
    return Heard(deliberations=deliberations, left_out=dict(sorted(left_out.items())))


def _read(document: Run) -> Deliberated | str:
    """The deliberation of a run or line; else why it cannot teach."""
    told, score = document.get("deliberation"), _score(document)
    if not told or "roles" not in told:
        return "no deliberation"
    if score is None:
        return "no verdict"
    account = from_plain(_known(told), Account)
    if account.roles.reason or account.degraded:
        return "degraded, or roles given again"
    if account.roles.propensity >= 1:
        return "chance had no part in the roles"
    return _deliberated(account, score)


def _known(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parts that are learned from; what else there is may change."""
    roles = told["roles"]
    return {
        "assessments": [{"agent": each["agent"], "msv": each["msv"]} for each in told["assessments"]],
        "roles": {name: roles[name] for name in ("assignment", "propensity", "reason", "capacities") if name in roles},
        "degraded": told.get("degraded", False),
    }


def _score(document: Run) -> float | None:
    """The verdict: what a line says, else of several on a run the first that teaches."""
    said = document.get("correct")
    if said is None:
        said = next((each["score"] for each in document.get("feedback", ()) if each["teaches"]), None)
    if said is not None and (not isinstance(said, bool | int | float) or not 0 <= said <= 1):
        raise MalformedRequest(f"correct: {said!r} is neither true, false nor a score of 0 to 1")
    return None if said is None else float(said)


def _deliberated(account: Account, score: float) -> Deliberated:
    states = {each.agent: each.msv for each in account.assessments}
    agents = tuple(sorted(states))
    shares = dict(zip(agents, shared_capacities([None] * len(agents)), strict=True))
    held = account.roles.capacities or shares
    return Deliberated(
        agents=agents,
        msvs=tuple(states[agent] for agent in agents),
        capacities=tuple(held[agent] for agent in agents),
        chosen=tuple(agents.index(account.roles.assignment[role]) for role in ROLES),
        propensity=account.roles.propensity,
        score=score,
    )
