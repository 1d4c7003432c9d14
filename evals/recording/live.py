"""The running router beside the replay: both on the same recorded items. Pure but for `live_plan`'s requests."""

from collections.abc import Sequence

import numpy as np

from evals.harness.arms import Arm, Plan
from evals.harness.rows import RecordedEvaluation, Row
from evals.items import Item
from evals.recording.decisions import is_sent, mixed, systems
from evals.recording.values import ItemRecord
from evals.replay.pack import Floats
from evals.stats.chance import seeded
from evals.stats.gains import Contrast, paired_gain
from evals.stats.shares import Share, share
from evals.strategies import named
from kernel.activation import Route
from kernel.values import value

COMMAND = "record"
SEED = 7
SYSTEM_ONE, VOTE, AUTO = "system1", "vote", "auto"
ARMS = (SYSTEM_ONE, VOTE, AUTO)


@value
class LiveRow:
    """One model name on the items that it answered live and that are recorded.

    Attributes:
        arm: `system1`, `vote` or `auto` (the model name `metacog`).
        live: Share right live.
        replayed: Share right by replay of the recording, on the same items.
        difference: Live minus replayed, paired.
        alike: Share of the items on which both are right or both wrong; where a replay takes several orders, both by
            more than half of them.
        sent_live: Share of the items on which the router chose System 2 live [0..1]; None where replies do not say.
        sent_replayed: The same by replay [0..1].
        same_choice: Share of the items with the same choice; None where replies do not say.
        live_tokens: Tokens generated live, in the mean [count]; those of deciding are among them.
        replayed_tokens: Tokens of the replayed answers, in the mean [count].
    """

    arm: str
    live: Share
    replayed: float
    difference: Contrast
    alike: Share
    sent_live: float | None
    sent_replayed: float
    same_choice: Share | None
    live_tokens: float
    replayed_tokens: float


def live_items(items: Sequence[Item], recorded: Sequence[ItemRecord], many: int) -> Sequence[Item]:
    """The first `many` recorded items, as their data set has them, in the order of the recording."""
    known = {item.id: item for item in items}
    return [known[one.id] for one in recorded if one.id in known][:many]


def live_plan(items: Sequence[Item], concurrency: int, timeout_ms: int) -> Plan:
    """Each of the model names is asked about each item."""
    arms: list[Arm] = [named(name) for name in ARMS]
    return Plan(items=items, arms=arms, seeds=(SEED,), concurrency=concurrency, timeout_ms=timeout_ms)


def live_rows(evaluation: RecordedEvaluation, recorded: Sequence[ItemRecord]) -> Sequence[LiveRow]:
    """The model names, live beside the replay, on the items that both have."""
    known = {item.id: item for item in recorded}
    rows = []
    for arm in ARMS:
        live = [row for row in evaluation.of(arm) if row.item.id in known]
        if live:
            rows.append(_row(arm, live, [known[row.item.id] for row in live]))
    return rows


def _row(arm: str, live: Sequence[Row], items: Sequence[ItemRecord]) -> LiveRow:
    both = systems(items)
    sent = {
        SYSTEM_ONE: np.zeros(len(items), dtype=np.bool_),
        VOTE: np.ones(len(items), dtype=np.bool_),
        AUTO: np.array([is_sent(item) for item in items], dtype=np.bool_),
    }[arm]
    replayed = mixed(both.first.right, both.second.right, sent)
    right: Floats = np.array([float(row.right) for row in live])
    chosen = [row.reply.get("metacog", {}).get("system") for row in live]
    is_known = all(chosen)
    sent_live = [system == Route.SYSTEM_TWO for system in chosen]
    return LiveRow(
        arm=arm,
        live=share(row.right for row in live),
        replayed=float(replayed.mean()),
        difference=paired_gain(replayed, right, seeded(SEED)),
        alike=share(bool(one > 0.5) == bool(other > 0.5) for one, other in zip(right, replayed, strict=True)),
        sent_live=float(np.mean(sent_live)) if is_known else None,
        sent_replayed=float(sent.mean()),
        same_choice=share(one == bool(other) for one, other in zip(sent_live, sent, strict=True)) if is_known else None,
        live_tokens=float(np.mean([row.said.spent.completion_tokens for row in live])),
        replayed_tokens=float(mixed(both.first.tokens, both.second.tokens, sent).mean()),
    )
