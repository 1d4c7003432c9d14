"""The figures of a recording: the rules of the product, replayed on what the suite answered. Pure."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from evals.recording.calls import DRAFT, OTHER, PROGRAM, REASONED, SOURCES
from evals.recording.columns import (
    PRODUCT,
    REASONED_ONLY,
    WITH_OTHER,
    Cell,
    Flags,
    Played,
    complete,
    differs,
    orders_of,
    played,
)
from evals.recording.decisions import DecisionRow, decision_rows
from evals.recording.values import ItemRecord
from evals.replay.pack import Floats
from evals.replay.stopping import agree_rule, at_equal_cost, fixed_rule
from evals.stats.bootstrap_means import percentile_estimate, resampled_means
from evals.stats.chance import Chance, seeded
from evals.stats.detectable import least_gain
from evals.stats.gains import Contrast, mean_interval, paired_gain
from evals.stats.separation import area_gain
from evals.stats.shares import Share, share
from kernel.statistics.bootstrap import Estimate
from kernel.statistics.discrimination import Discrimination, auroc
from kernel.values import value

SEED = 7
ALL = "all"
ORDERS: Mapping[str, Sequence[Cell]] = {
    "draft, reasoned, program": PRODUCT,
    "draft, reasoned, other model": WITH_OTHER,
    "reasoned only": REASONED_ONLY,
}
INSIDE, ALONE = "check inside the conversation", "check in a fresh message"


@value
class SourceRow:
    """How often one source is right in one set, and what it takes.

    Attributes:
        set: Name of the set, or `all`.
        source: The source.
        right: Share right of its answers; of several answers to an item each counts.
        unread: Share of its answers that could not be read [0..1].
        tokens: Tokens of an answer, in the mean [count]; None where none are reported.
        seconds: Seconds of an answer, in the mean [s].
    """

    set: str
    source: str
    right: Share
    unread: float
    tokens: float | None
    seconds: float


@value
class StopRow:
    """One rule that stops, on one order of votes.

    Attributes:
        order: The order, in words.
        rule: `agree_2`, `agree_3` or `fixed_K`.
        votes: Votes, in the mean [count].
        tokens: Tokens of these, in the mean [count].
        right: Share right.
        over_system_one: How much more often it is right than the System 1 answer.
        over_fixed: Share right minus that of a fixed number of votes in the same order with as many in the mean.
    """

    order: str
    rule: str
    votes: float
    tokens: float
    right: Estimate
    over_system_one: Contrast
    over_fixed: Estimate


@value
class OpinionRow:
    """How well one signal tells that the System 1 answer is wrong.

    Attributes:
        signal: What it is.
        area: Area under its receiver operating characteristic.
        tokens: Tokens that it takes beyond the System 1 answer, in the mean [count]; None where they are not recorded.
    """

    signal: str
    area: Discrimination
    tokens: float | None


@value
class RecordingFigures:
    """All figures of a recording.

    Attributes:
        items: Items with every source [count].
        sets: Items by set [count].
        detectable: Smallest gain that so many items can show [0..1].
        sources: Share right by set and source.
        stopping: Rules that stop.
        opinions: Signals that the System 1 answer is wrong.
        alone_over_inside: How much larger the area of the check in a fresh message is than inside the conversation.
        decisions: The default model name, replayed.
    """

    items: int
    sets: Mapping[str, int]
    detectable: float
    sources: Sequence[SourceRow]
    stopping: Sequence[StopRow]
    opinions: Sequence[OpinionRow]
    alone_over_inside: Contrast | None
    decisions: Sequence[DecisionRow]


def recording_figures(items: Sequence[ItemRecord]) -> RecordingFigures:
    """The figures of a recording, the same ones every time; items without an answer of some source are left out."""
    has_other = any(item.answers.get(OTHER) for item in items)
    whole = complete(items, [source for source in SOURCES if source != OTHER or has_other])
    orders = {name: order for name, order in ORDERS.items() if has_other or order is not WITH_OTHER}
    names = list(dict.fromkeys(item.dataset for item in whole))
    return RecordingFigures(
        items=len(whole),
        sets={name: sum(item.dataset == name for item in whole) for name in names},
        detectable=least_gain(max(len(whole), 1)),
        sources=[row for name in (*names, ALL) for row in _source_rows(name, whole)],
        stopping=[row for name, order in orders.items() for row in _stop_rows(name, order, whole)] if whole else [],
        opinions=_opinion_rows(whole, has_other),
        alone_over_inside=_alone_over_inside(whole),
        decisions=decision_rows(whole, seeded(SEED)) if whole else [],
    )


def wrong_drafts(items: Sequence[ItemRecord]) -> Flags:
    """Whether the System 1 answer of each item is wrong."""
    return np.array([not item.answers[DRAFT][0].right for item in items], dtype=np.bool_)


def _source_rows(name: str, items: Sequence[ItemRecord]) -> Sequence[SourceRow]:
    own = [item for item in items if name in (ALL, item.dataset)]
    rows = []
    for source in SOURCES:
        answers = [one for item in own for one in item.answers.get(source, ())]
        if answers:
            tokens = [one.tokens for one in answers if one.tokens is not None]
            rows.append(
                SourceRow(
                    set=name,
                    source=source,
                    right=share(one.right for one in answers),
                    unread=float(np.mean([one.answer is None for one in answers])),
                    tokens=float(np.mean(tokens)) if tokens else None,
                    seconds=float(np.mean([one.seconds for one in answers])),
                )
            )
    return rows


def _stop_rows(name: str, order: Sequence[Cell], items: Sequence[ItemRecord]) -> Sequence[StopRow]:
    chance = seeded(SEED)
    orders = orders_of(items, order)
    most = len(order)
    fixed = [played(fixed_rule(size), orders) for size in range(1, most + 1)]
    rules = {f"agree_{agree}": played(agree_rule(agree, most), orders) for agree in (2, 3) if agree < most}
    kept = {f"fixed_{size}": fixed[size - 1] for size in sorted({1, min(3, most), most})}
    return [
        _stop_row(name, rule, found, [one.right for one in fixed], items, chance)
        for rule, found in {**rules, **kept}.items()
    ]


def _stop_row(
    order: str, rule: str, found: Played, fixed: Sequence[Floats], items: Sequence[ItemRecord], chance: Chance
) -> StopRow:
    columns = np.stack([*fixed, found.right, found.votes])
    drawn, seen = resampled_means(columns, chance), columns.mean(axis=1)
    many = len(fixed)
    gains = drawn[:, many] - at_equal_cost(drawn[:, :many], drawn[:, many + 1])
    gain = seen[many] - at_equal_cost(seen[None, :many], seen[None, many + 1])[0]
    first: Floats = np.where(wrong_drafts(items), 0.0, 1.0)
    return StopRow(
        order=order,
        rule=rule,
        votes=float(found.votes.mean()),
        tokens=float(found.tokens.mean()),
        right=mean_interval(found.right, chance),
        over_system_one=paired_gain(first, found.right, chance),
        over_fixed=percentile_estimate(float(gain), gains, len(items)),
    )


def _opinion_rows(items: Sequence[ItemRecord], has_other: bool) -> Sequence[OpinionRow]:
    rows = []
    for name, source in (("other model", OTHER), ("program", PROGRAM), ("one more sample", REASONED)):
        if items and (source != OTHER or has_other):
            rows.append(
                OpinionRow(
                    signal=f"{name} answers differently",
                    area=auroc(differs(items, source, [0])[0], wrong_drafts(items)),
                    tokens=_tokens(items, source, 1),
                )
            )
    if items:
        votes = differs(items, REASONED, [0, 1, 2])
        all_of = [*votes.values(), differs(items, PROGRAM, [0])[0]]
        all_of += [differs(items, OTHER, [0])[0]] if has_other else []
        spent = (
            _tokens(items, REASONED, 3) + _tokens(items, PROGRAM, 1) + (_tokens(items, OTHER, 1) if has_other else 0)
        )
        level = np.mean(np.stack(all_of), axis=0)
        rows += [
            OpinionRow(
                signal="share of three more samples that differ",
                area=auroc(np.mean(np.stack(list(votes.values())), axis=0), wrong_drafts(items)),
                tokens=_tokens(items, REASONED, 3),
            ),
            OpinionRow(signal="share of all others that differ", area=auroc(level, wrong_drafts(items)), tokens=spent),
        ]
    for name, read in _SIGNALS.items():
        known = [item for item in items if read(item) is not None]
        if known:
            levels = [float(read(item) or 0.0) for item in known]
            rows.append(
                OpinionRow(signal=name, area=auroc(levels, wrong_drafts(known)), tokens=_SIGNAL_TOKENS.get(name))
            )
    return rows


_SIGNALS: Mapping[str, Callable[[ItemRecord], float | None]] = {
    INSIDE: lambda item: None if item.checks.inside is None else 1 - item.checks.inside,
    ALONE: lambda item: None if item.checks.alone is None else 1 - item.checks.alone,
    "likelihood of the answer": lambda item: (
        None if "draft_likelihood" not in item.parts else 1 - item.parts["draft_likelihood"]
    ),
    "rated importance": lambda item: item.state.get("importance"),
    "length of the prompt (control)": lambda item: item.prompt_characters,
}
_SIGNAL_TOKENS = {INSIDE: 1.0, ALONE: 1.0, "likelihood of the answer": 0.0, "length of the prompt (control)": 0.0}


def _tokens(items: Sequence[ItemRecord], source: str, many: int) -> float:
    return many * float(np.mean([one.tokens or 0 for item in items for one in item.answers[source]]))


def _alone_over_inside(items: Sequence[ItemRecord]) -> Contrast | None:
    both = [item for item in items if item.checks.inside is not None and item.checks.alone is not None]
    wrong = wrong_drafts(both)
    if not both or wrong.all() or not wrong.any():
        return None
    inside = np.array([1 - (item.checks.inside or 0.0) for item in both])
    alone = np.array([1 - (item.checks.alone or 0.0) for item in both])
    return area_gain(inside, alone, wrong, seeded(SEED))
