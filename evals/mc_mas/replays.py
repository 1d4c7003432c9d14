"""Recordings that were made elsewhere, replayed at the arbiter: measures and ablations without a model call. Pure."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from evals.errors import RecordsUnusable
from evals.harness.arms import Arm, Call, Plan, Replies
from evals.items import Item
from evals.mc_mas.arms import REPLAYS
from evals.mc_mas.questions import lines_of
from evals.records import Record
from kernel.answers import AnswerType

REPLAY_FULL = "replay-full"
VARIANTS: Mapping[str, Mapping[str, Any]] = {REPLAY_FULL: {"variant": "FULL", "mode": "PAPER"}, **REPLAYS}
# The one replay whose novelty no table has.
WITHOUT_MEANING = "replay-adaptive"


def replay_plan(file: Path, concurrency: int = 1, timeout_ms: int = 600_000) -> Plan:
    """Every recording of `file`, as a whole, by its ablations and in the adaptive mode.

    Args:
        file: Recordings, one JSON object a line, in the fields that replays take.
        concurrency: Recordings at a time [count, >= 1].
        timeout_ms: Time that each request may take [ms].

    Raises:
        RecordsUnusable: When the file cannot be read, or a line holds no recording.
    """
    lines = lines_of(file)
    try:
        by_id = {line["id"]: line for _, line in lines}
        items = [_item(line) for line in by_id.values()]
    except (KeyError, ValueError) as error:
        raise RecordsUnusable(f"{file}: no recording: {error!r}") from error
    arms = [Arm(name=name, call=partial(_call, by_id, name), settings=variant) for name, variant in VARIANTS.items()]
    return Plan(items=items, arms=arms, seeds=(0,), concurrency=concurrency, timeout_ms=timeout_ms)


def _item(line: Record) -> Item:
    return Item(
        id=line["id"],
        dataset=line["id"].partition("-")[0],
        question=line.get("question") or "",
        answer=line["truth"],
        answer_type=AnswerType(line["answer_type"]),
        aliases=tuple(line.get("truth_aliases") or ()),
    )


def _call(by_id: Mapping[str, Record], name: str, item: Item, _: int, __: Replies) -> Call:
    line = by_id[item.id]
    per_solver = [sample["solver"] for sample in line["recorded_solver_samples"]]
    sizes = {
        "solver_samples": max(per_solver.count(solver) for solver in set(per_solver)),
        "arbitration_samples": max(1, len(line["recorded_arbitration_samples"])),
    }
    body = {"question": "", **line, **VARIANTS[name], **sizes, "embedding_measures": name != WITHOUT_MEANING}
    return Call(service="arbiter", path="/v1/replays", body=body)
