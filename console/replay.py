"""Reconstructs the events of a recorded run, with their durations."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from console.run_view import AUTHORS, CHAIN, NOTE
from kernel.values import value

Data = Mapping[str, Any]

_PIECES = re.compile(r"\s*\S+\s*")


@value
class Timed:
    """An event with the time before it [ms]."""

    name: str
    data: Data
    after_ms: float = 0.0


def events(run: Data) -> list[Timed]:
    """Return the events of `run` in their order, without those that a record does not contain.

    A record has the durations of the decision, the stages and the run, not the times of the tokens: the tokens are
    spread evenly over their stage, and the remaining time is before the first stage.
    """
    timed = [Timed(name="run_started", data={"run_id": run["run_id"]})]
    route = run.get("route")
    if route:
        timed.append(Timed(name="routed", data=route, after_ms=_ms(route.get("duration_ms"))))
    timed += [Timed(name="fell_back", data=each) for each in run.get("fallbacks") or ()]
    timed += _ACCOUNTS.get(run.get("strategy") or "", _system1)(run)
    spent = sum(each.after_ms for each in timed)
    return [*timed, Timed(name="run_finished", data={"run": run}, after_ms=max(0.0, _ms(run["duration_ms"]) - spent))]


def _system1(run: Data) -> list[Timed]:
    """Return the tokens of one answer, spread over the time after its first token."""
    first = run.get("first_token_ms")
    begins = _ms(first if first is not None else 0.0) - _ms((run.get("route") or {}).get("duration_ms"))
    takes = max(0.0, _ms(run["duration_ms"]) - _ms(first)) if first is not None else 0.0
    return _tokens("answer_token", {}, run.get("answer") or "", takes, max(0.0, begins))


def _dialectic(run: Data) -> list[Timed]:
    account = run.get("deliberation") or {}
    stages: Sequence[Data] = account.get("stages") or ()
    measured = {each["stage"]: each for each in account.get("measurements") or ()}
    accounted = sum(_ms(each["duration_ms"]) for each in stages)
    before = max(0.0, _ms(account.get("duration_ms")) - accounted)
    timed = [Timed(name="agent_assessed", data=each) for each in account.get("assessments") or ()]
    if timed:
        timed[0] = Timed(name=timed[0].name, data=timed[0].data, after_ms=before)
    if account.get("roles"):
        timed.append(Timed(name="roles_assigned", data=account["roles"]))
    for stage in stages:
        timed += _stage(stage)
        if stage["stage"] in measured:
            timed.append(Timed(name="stage_measured", data=measured[stage["stage"]]))
    return [*timed, *_note(account)]


def _note(account: Data) -> Iterator[Timed]:
    """Return the events of the note; a record may have its text without its stage."""
    stage = account.get("note_stage")
    if stage:
        yield from _stage(stage)
    elif account.get("note"):
        agent = ((account.get("roles") or {}).get("assignment") or {}).get(AUTHORS[NOTE], "")
        head = {"stage": NOTE, "role": AUTHORS[NOTE], "agent": agent, "model": "", "attempt": 1}
        yield Timed(name="stage_started", data=head)
        yield from _tokens("stage_token", {"stage": NOTE}, account["note"], 0.0, 0.0)


def _stage(stage: Data) -> Iterator[Timed]:
    name = stage["stage"]
    head = {key: stage[key] for key in ("stage", "role", "agent", "model")}
    yield Timed(name="stage_started", data={**head, "attempt": stage["attempts"]})
    yield from _tokens("stage_token", {"stage": name}, stage["text"], _ms(stage["duration_ms"]), 0.0)
    if name == CHAIN[-1]:
        yield Timed(name="answer_token", data={"text": stage["text"]})
    yield Timed(name="stage_finished", data=stage)


def _arbiter(run: Data) -> list[Timed]:
    account = run.get("deliberation") or {}
    if not account:
        return []
    timed = _drawn(account.get("solver_results") or ())
    settled = not account.get("critiques") and not account.get("arbiter")
    measures = account.get("measures") or {}
    timed.append(
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
        timed.append(Timed(name="critique_finished", data=each, after_ms=_ms(each.get("duration_ms"))))
    if account.get("arbiter"):
        timed.append(_arbitrated(account, measures))
    return timed


def _drawn(solvers: Sequence[Data]) -> list[Timed]:
    """Return the events of the solvers' samples, with cumulative counts; a record has no intermediate entropies."""
    counts: Counter[str] = Counter()
    invalid, timed = 0, []
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
        timed.append(Timed(name="samples_drawn", data=data))
    return timed


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
    timed = []
    if decision:
        data = {"dimensions": account.get("dimensions") or (), "first_agent": decision["first_agent"], "dispatch": None}
        timed.append(Timed(name="task_dispatched", data=data))
    for each in account.get("assessments") or ():
        timed.append(Timed(name="agent_assessed", data=each, after_ms=_ms(each.get("duration_ms"))))
    if decision:
        timed.append(Timed(name="mode_chosen", data=decision))
    for each in account.get("votes") or ():
        timed.append(Timed(name="agent_answered", data=each, after_ms=_ms(each.get("duration_ms"))))
    if account.get("label"):
        timed.append(Timed(name="answer_judged", data=account["label"]))
    return timed


_ACCOUNTS = {"dialectic": _dialectic, "arbiter": _arbiter, "delegation": _delegation}


def _tokens(name: str, head: Data, text: str, takes_ms: float, begins_ms: float) -> list[Timed]:
    """Return the tokens of `text`, one for each word."""
    pieces = _PIECES.findall(text)
    step = takes_ms / len(pieces) if pieces else 0.0
    return [
        Timed(name=name, data={**head, "text": piece}, after_ms=step + (begins_ms if place == 0 else 0.0))
        for place, piece in enumerate(pieces)
    ]


def _ms(number: object) -> float:
    return float(number) if isinstance(number, int | float) else 0.0
