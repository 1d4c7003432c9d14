"""The record that opens a run: what the run is made with; and whether a run can be resumed."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from chassis.prompts import template
from evals import prompts
from evals.commit import commit
from evals.errors import RecordsUnusable
from evals.harness.arms import Plan
from evals.harness.commands import command_of
from evals.records import Record
from evals.suite import RoutingFacts

TEMPLATES = ("question", "task", "program")
# What stays the same over a run that is resumed; arms, seeds and items may be added.
FIXED = ("timeout_ms", "prompt_digests", "suite", "seeding")
# Each request derives its seed from the run's and the item: with one seed for all items a server draws the same random
# numbers at the same place of each answer, so that short answers are right or wrong together.
SEEDING = "by item"


def heading(plan: Plan, command: str, data: Mapping[str, Any], facts: RoutingFacts) -> Record:
    """The opening record.

    Args:
        plan: What is asked.
        command: Name of the evaluation, e.g. `mc-mas`.
        data: Where the items come from.
        facts: What the suite reports of itself, where it is asked: the router's model and configuration.
    """
    return {
        "kind": "run",
        "command": command,
        "time": current_time(),
        "commit": commit(),
        "data": dict(data),
        "items": len(plan.items),
        "seeds": list(plan.seeds),
        "seeding": SEEDING,
        "arms": {arm.name: dict(arm.settings) for arm in plan.arms},
        "concurrency": plan.concurrency,
        "timeout_ms": plan.timeout_ms,
        "prompt_digests": prompt_digests(TEMPLATES),
        "suite": dict(facts.suite),
        "spent": dict(facts.spent),
    }


def current_time() -> str:
    """The time at which a run starts, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def prompt_digests(names: Sequence[str]) -> Mapping[str, str]:
    """The digest of each of the evaluation's own prompts."""
    return {name: template(prompts.__name__, name)[1] for name in names}


def require_resumable(opening: Record, records: Sequence[Record], fixed: Sequence[str] = FIXED) -> None:
    """Reject records that were made differently.

    Args:
        opening: The heading of the run that starts.
        records: What is recorded already.
        fixed: Fields of the heading that must stay the same, beside the command and the arms that both have.

    Raises:
        RecordsUnusable: When what must stay the same does not; names it.
    """
    arms = opening.get("arms", {})
    for before in (record for record in records if record["kind"] == "run"):
        _require_same("command", command_of(before), command_of(opening))
        for name in fixed:
            _require_same(name, before.get(name), opening[name])
        for name, settings in before.get("arms", {}).items():
            if name in arms:
                _require_same(f"{name} as", settings, arms[name])


def _require_same(name: str, before: object, now: object) -> None:
    if before != now:
        raise RecordsUnusable(
            f"the records there were made with {name} {before}, this run has {now}; take another --out"
        )
