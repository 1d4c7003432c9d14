"""The events of a recorded run, made again from its record, with how long each took."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from console.run_view import CHAIN, NOTE
from kernel.values import value

Data = Mapping[str, Any]

_PIECES = re.compile(r"\s*\S+\s*")


@value
class Timed:
    """One event, and the time that passes before it [ms]."""

    name: str
    data: Data
    after_ms: float = 0.0


def events(run: Data) -> list[Timed]:
    """Events that lead to `run`, in the order in which they came; what was not recorded is left out.

    A record keeps how long the decision, the stages and the whole took, not when each token came: tokens are spread
    evenly over their stage, and what no stage accounts for passes before the first one.
    """
    told = [Timed(name="run_started", data={"run_id": run["run_id"]})]
    route = run.get("route")
    if route:
        told.append(Timed(name="routed", data=route, after_ms=_ms(route.get("duration_ms"))))
    told += [Timed(name="fell_back", data=each) for each in run.get("fallbacks") or ()]
    told += _ACCOUNTS.get(run.get("strategy") or "", _plain)(run)
    spent = sum(each.after_ms for each in told)
    return [*told, Timed(name="run_finished", data={"run": run}, after_ms=max(0.0, _ms(run["duration_ms"]) - spent))]


def _plain(run: Data) -> list[Timed]:
    """One answer, spread over the time after its first token."""
    first = run.get("first_token_ms")
    begins = _ms(first if first is not None else 0.0) - _ms((run.get("route") or {}).get("duration_ms"))
    takes = max(0.0, _ms(run["duration_ms"]) - _ms(first)) if first is not None else 0.0
    return _spoken("answer_token", {}, run.get("answer") or "", takes, max(0.0, begins))


def _dialectic(run: Data) -> list[Timed]:
    account = run.get("deliberation") or {}
    stages: Sequence[Data] = account.get("stages") or ()
    measured = {each["stage"]: each for each in account.get("measurements") or ()}
    accounted = sum(_ms(each["duration_ms"]) for each in stages)
    before = max(0.0, _ms(account.get("duration_ms")) - accounted)
    told = [Timed(name="agent_assessed", data=each) for each in account.get("assessments") or ()]
    if told:
        told[0] = Timed(name=told[0].name, data=told[0].data, after_ms=before)
    if account.get("roles"):
        told.append(Timed(name="roles_assigned", data=account["roles"]))
    for stage in stages:
        told += _stage(stage)
        if stage["stage"] in measured:
            told.append(Timed(name="stage_measured", data=measured[stage["stage"]]))
    return [*told, *_note(account)]


def _note(account: Data) -> Iterator[Timed]:
    """The note; a record may hold its text without how it came to be."""
    stage = account.get("note_stage")
    if stage:
        yield from _stage(stage)
    elif account.get("note"):
        agent = ((account.get("roles") or {}).get("assignment") or {}).get("GENERALIST", "")
        head = {"stage": NOTE, "role": "GENERALIST", "agent": agent, "model": "", "attempt": 1}
        yield Timed(name="stage_started", data=head)
        yield from _spoken("stage_token", {"stage": NOTE}, account["note"], 0.0, 0.0)


def _stage(stage: Data) -> Iterator[Timed]:
    name = stage["stage"]
    head = {key: stage[key] for key in ("stage", "role", "agent", "model")}
    yield Timed(name="stage_started", data={**head, "attempt": stage["attempts"]})
    yield from _spoken("stage_token", {"stage": name}, stage["text"], _ms(stage["duration_ms"]), 0.0)
    if name == CHAIN[-1]:
        yield Timed(name="answer_token", data={"text": stage["text"]})
    yield Timed(name="stage_finished", data=stage)


def _arbiter(run: Data) -> list[Timed]:
    account = run.get("deliberation") or {}
    if not account:
        return []
    told = _drawn(account.get("solver_results") or ())
    settled = not account.get("critiques") and not account.get("arbiter")
    measures = account.get("measures") or {}
    told.append(
        Timed(
            name="solvers_finished",
            data={
                "counts": account["solver"],
                "invalid": account["solver_invalid"],
                "entropy": measures.get("entropy_solver"),
                "solver_results": account.get("solver_results") or (),
                "settled": settled,
            },
        )
    )
    for each in account.get("critiques") or ():
        told.append(Timed(name="critique_finished", data=each, after_ms=_ms(each.get("duration_ms"))))
    if account.get("arbiter"):
        told.append(_arbitrated(account, measures))
    return told


def _drawn(solvers: Sequence[Data]) -> list[Timed]:
    """The solvers' samples, counted over all of them as they were drawn; a record has no entropies on the way."""
    counts: Counter[str] = Counter()
    invalid, told = 0, []
    planned = sum(sum(each["counts"].values()) + each["invalid"] for each in solvers)
    for each in solvers:
        counts.update(each["counts"])
        invalid += each["invalid"]
        data = {
            "phase": "SOLVE",
            "solver": each["solver"],
            "drawn": sum(counts.values()) + invalid,
            "planned": planned,
            "counts": dict(counts),
            "invalid": invalid,
            "entropy": None,
        }
        told.append(Timed(name="samples_drawn", data=data))
    return told


def _arbitrated(account: Data, measures: Data) -> Timed:
    drawn = sum(account["arbiter"].values()) + account["arbiter_invalid"]
    data = {
        "phase": "ARBITRATE",
        "solver": None,
        "drawn": drawn,
        "planned": drawn,
        "counts": account["arbiter"],
        "invalid": account["arbiter_invalid"],
        "entropy": measures.get("entropy_arbiter"),
    }
    return Timed(name="samples_drawn", data=data)


def _delegation(run: Data) -> list[Timed]:
    account = run.get("deliberation") or {}
    if not account:
        return []
    decision = account.get("decision")
    told = []
    if decision:
        data = {"dimensions": account.get("dimensions") or (), "first_agent": decision["first_agent"], "dispatch": None}
        told.append(Timed(name="task_dispatched", data=data))
    for each in account.get("assessments") or ():
        told.append(Timed(name="agent_assessed", data=each, after_ms=_ms(each.get("duration_ms"))))
    if decision:
        told.append(Timed(name="mode_chosen", data=decision))
    for each in account.get("votes") or ():
        told.append(Timed(name="agent_answered", data=each, after_ms=_ms(each.get("duration_ms"))))
    if account.get("label"):
        told.append(Timed(name="answer_judged", data=account["label"]))
    return told


_ACCOUNTS = {"dialectic": _dialectic, "arbiter": _arbiter, "delegation": _delegation}


def _spoken(name: str, head: Data, text: str, takes_ms: float, begins_ms: float) -> list[Timed]:
    """`text` a word at a time."""
    pieces = _PIECES.findall(text)
    step = takes_ms / len(pieces) if pieces else 0.0
    return [
        Timed(name=name, data={**head, "text": piece}, after_ms=step + (begins_ms if place == 0 else 0.0))
        for place, piece in enumerate(pieces)
    ]


def _ms(number: object) -> float:
    return float(number) if isinstance(number, int | float) else 0.0
