"""What a strategy had finished, and what that cost, is read from its events where a run ends without its last one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernel.envelope import NO_USAGE, StageUsage

Event = tuple[str, Mapping[str, Any]]

# Field of a strategy's account that lists the contents of these events.
_LISTS = {
    "agent_assessed": "assessments",
    "stage_finished": "stages",
    "stage_measured": "measurements",
    "critique_finished": "critiques",
    "vote_cast": "votes",
    "agent_answered": "votes",
}
# Field that holds the content of the last of these events.
_SINGLE = {"roles_assigned": "roles", "mode_chosen": "decision"}
# Events of something that is finished.
FINISHED = frozenset({*_LISTS, *_SINGLE, "samples_drawn", "solvers_finished"})

# Names under which the services book what such an event is about.
_STAGES = {"agent_assessed": "assess", "stage_measured": "measure", "agent_answered": "answer"}


def partial_account(events: Iterable[Event]) -> dict[str, Any]:
    """Return what had been finished, as the account of a strategy spells it; empty where nothing had.

    Args:
        events: Names and contents of the events, as they came.

    Example:
        >>> partial_account([("stage_finished", {"stage": "THESIS"}), ("stage_token", {"text": "But"})])
        {'stages': [{'stage': 'THESIS'}]}
    """
    account: dict[str, Any] = {}
    for name, data in events:
        if name in _LISTS:
            account.setdefault(_LISTS[name], []).append(data)
        elif name in _SINGLE:
            account[_SINGLE[name]] = data
        elif name == "solvers_finished":
            account |= {
                "solver": data["counts"],
                "solver_invalid": data["invalid"],
                "solver_results": data["solver_results"],
            }
        elif name == "samples_drawn":
            phase = "arbiter" if data["phase"] == "ARBITRATE" else "solver"
            account |= {phase: data["counts"], f"{phase}_invalid": data["invalid"]}
    return account


def spent_by(name: str, data: Mapping[str, Any]) -> Mapping[str, StageUsage]:
    """Return what is known to be spent by the content of an event, by stage; empty where nothing is.

    Example:
        >>> spent = spent_by("vote_cast", {"mode": "REASONED", "completion_tokens": 7})
        >>> spent["vote"].generations, spent["vote"].completion_tokens
        (1, 7)
    """
    if name == "vote_cast":
        own = data["mode"] != "DRAFT"  # a draft may have been given
        return {"vote": StageUsage(generations=1, completion_tokens=data["completion_tokens"] or 0)} if own else {}
    if name == "samples_drawn":
        stage = "arbitrate" if data["phase"] == "ARBITRATE" else "solve"
        return {stage: StageUsage(generations=data["batch"], completion_tokens=_tokens(data["samples"]))}
    usage = data.get("usage") if name in _LISTS else None
    if not usage:
        return {}
    stage = _STAGES.get(name) or str(data.get("stage") or "critique").lower()
    return {stage: StageUsage(**usage)}


def with_spent(known: Mapping[str, StageUsage], more: Mapping[str, StageUsage]) -> dict[str, StageUsage]:
    """Return the sum of both, by stage."""
    return {**known, **{stage: known.get(stage, NO_USAGE).plus(usage) for stage, usage in more.items()}}


def _tokens(samples: Sequence[Mapping[str, Any]]) -> int:
    return sum(sample["completion_tokens"] or 0 for sample in samples)
