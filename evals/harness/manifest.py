"""The record that opens a run: with what it is made; and whether a run can be gone on with."""

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
# What stays the same over a run that is resumed; arms, seeds and items may join.
FIXED = ("command", "timeout_ms", "prompt_digests", "suite")


def heading(plan: Plan, command: str, data: Mapping[str, Any], facts: RoutingFacts) -> Record:
    """The opening record.

    Args:
        plan: What is to be asked.
        command: Name of the evaluation, e.g. `mc-mas`.
        data: Where the items come from.
        facts: What the suite says of itself, where it is asked: the router's model and configuration.
    """
    return {
        "kind": "run",
        "command": command,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "data": dict(data),
        "items": len(plan.items),
        "seeds": list(plan.seeds),
        "arms": {arm.name: dict(arm.settings) for arm in plan.arms},
        "concurrency": plan.concurrency,
        "timeout_ms": plan.timeout_ms,
        "prompt_digests": {name: template(prompts.__name__, name)[1] for name in TEMPLATES},
        "suite": dict(facts.suite),
        "spent": dict(facts.spent),
    }


def resumable(opening: Record, records: Sequence[Record]) -> None:
    """Refuse to go on with records that were made otherwise.

    Raises:
        RecordsUnusable: When what must stay the same does not; names it.
    """
    for before in (record for record in records if record["kind"] == "run"):
        for name in FIXED:
            _demand_same(name, {**before, "command": command_of(before)}.get(name), opening[name])
        for name, settings in before["arms"].items():
            if name in opening["arms"]:
                _demand_same(f"{name} as", settings, opening["arms"][name])


def _demand_same(name: str, before: object, now: object) -> None:
    if before != now:
        raise RecordsUnusable(
            f"the records there were made with {name} {before}, this run has {now}; take another --out"
        )
