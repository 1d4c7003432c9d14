"""The running router beside the replay: both on the same recorded items. Pure."""

from collections.abc import Sequence

import numpy as np

from chassis.serving.wire import from_plain
from evals.errors import RecordsUnusable
from evals.harness.arms import Arm, Plan
from evals.harness.rows import RecordedEvaluation
from evals.items import Item
from evals.recording.decisions import is_sent, mixed, systems
from evals.recording.values import ItemRecord, LiveAnswer
from evals.records import Record
from evals.replay.pack import Floats
from evals.stats.chance import seeded
from evals.stats.gains import Contrast, paired_gain
from evals.stats.shares import Share, share
from evals.strategies import named
from kernel.activation import Route
from kernel.errors import MalformedRequest
from kernel.policy import Strategy
from kernel.values import value

COMMAND, LIVE = "record", "live"
SEED = 7
SYSTEM_ONE, VOTE, AUTO = Strategy.SYSTEM_ONE.value, Strategy.VOTE.value, "auto"
ARMS = (SYSTEM_ONE, VOTE, AUTO)


@value
class LiveRow:
    """One model name on the items that it answered live and that are recorded.

    Attributes:
        arm: `system1`, `vote` or `auto` (the model name `metacog`).
        live: Share right live.
        replayed: Share right by replay of the recording, on the same items.
        difference: Live minus replayed, paired.
        alike: Share of the items on which both are right or both wrong; where a replay takes several orders, it is
            right where more than half of them are.
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


def live_answers(evaluation: RecordedEvaluation) -> Sequence[LiveAnswer]:
    """What a recording keeps of live answers; failed requests are left out."""
    return [
        LiveAnswer(
            id=row.item.id,
            arm=row.arm,
            right=row.right,
            tokens=row.said.spent.completion_tokens,
            system=row.reply.get("metacog", {}).get("system") or "",
        )
        for row in evaluation.rows
    ]


def live_records(records: Sequence[Record]) -> Sequence[LiveAnswer]:
    """The live answers of a recording; of several to an item by one model name the last.

    Raises:
        RecordsUnusable: When one of them is none.
    """
    try:
        found = [
            from_plain({name: content for name, content in record.items() if name != "kind"}, LiveAnswer)
            for record in records
            if record["kind"] == LIVE
        ]
    except MalformedRequest as error:
        raise RecordsUnusable(f"a live answer of the recording is none: {error.message}") from error
    return list({(one.arm, one.id): one for one in found}.values())


def live_rows(answers: Sequence[LiveAnswer], recorded: Sequence[ItemRecord]) -> Sequence[LiveRow]:
    """The model names, live beside the replay, on the items that both have."""
    known = {item.id: item for item in recorded}
    rows = []
    for arm in ARMS:
        live = [one for one in answers if one.arm == arm and one.id in known]
        if live:
            rows.append(_row(arm, live, [known[one.id] for one in live]))
    return rows


def _row(arm: str, live: Sequence[LiveAnswer], items: Sequence[ItemRecord]) -> LiveRow:
    both = systems(items)
    sent = {
        SYSTEM_ONE: np.zeros(len(items), dtype=np.bool_),
        VOTE: np.ones(len(items), dtype=np.bool_),
        AUTO: np.array([is_sent(item) for item in items], dtype=np.bool_),
    }[arm]
    replayed = mixed(both.first.right, both.second.right, sent)
    right: Floats = np.array([float(one.right) for one in live])
    is_known = all(one.system for one in live)
    sent_live = [one.system == Route.SYSTEM_TWO for one in live]
    return LiveRow(
        arm=arm,
        live=share(one.right for one in live),
        replayed=float(replayed.mean()),
        difference=paired_gain(replayed, right, seeded(SEED)),
        alike=share(bool(one > 0.5) == bool(other > 0.5) for one, other in zip(right, replayed, strict=True)),
        sent_live=float(np.mean(sent_live)) if is_known else None,
        sent_replayed=float(sent.mean()),
        same_choice=share(one == bool(other) for one, other in zip(sent_live, sent, strict=True)) if is_known else None,
        live_tokens=float(np.mean([one.tokens for one in live])),
        replayed_tokens=float(mixed(both.first.tokens, both.second.tokens, sent).mean()),
    )
