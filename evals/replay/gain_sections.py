"""The section of a replay's report on the gain of System 2 by kind of question."""

from collections.abc import Sequence

from evals.markdown import gain, number, ranged, table
from evals.replay.figures import ReplayFigures
from evals.replay.gain_by_kind import COST_RATIO, DRAWS, GainByKindRow, KindRow
from evals.replay.stopping import COST_RATIOS
from kernel.learning.gain_words import DECIDING_LABELS
from kernel.learning.gains import MINIMUM_GAIN

HOW_TO_INFER = (
    "The kinds that metacog infers are not in this report: add `--encoder URL` with the address of a sentence encoder,"
    " e.g. that of a running suite."
)


def gain_section(found: ReplayFigures) -> str:
    """Return the section on the gain by kind; empty where no model answers both ways."""
    rows, inferred = found.gain_by_kind, found.gain_by_inferred_kind
    if not rows and not inferred:
        return ""
    text = [
        "## Does System 2 pay, by kind of question?\n\n"
        f"So many questions of each kind, drawn at random {DRAWS} times, are labelled for both systems. System 2 is"
        f" taken on the kinds whose gain, drawn towards the overall gain by ten pseudo-observations, is {MINIMUM_GAIN}"
        f" or more; a kind decides from {DECIDING_LABELS} labels. Figures are of the questions not labelled, and there"
        " are none where fewer than 200 would be left. Shares are of what System 2 always gives, and costs. Tokens are"
        f" counted by recorded characters; a direct answer whose length is not recorded costs 1/{COST_RATIO} of an"
        " answer with reasoning. The control is System 2 on a random part of the questions that costs as much.",
    ]
    if rows:
        text += ["Kinds: the categories of the file.", _table(rows)]
    if inferred:
        text += [
            "Kinds: those that metacog infers, the dimension of the examples nearest in meaning by the encoder.",
            _table(inferred),
            _comparison(rows, inferred),
        ]
    else:
        text.append(HOW_TO_INFER)
    for kinds, name in ((found.kinds, "category"), (found.inferred_kinds, "inferred kind")):
        if kinds:
            text += [f"The gain of each {name}, over all questions:", _kinds(kinds)]
    return "\n\n".join(part for part in text if part)


def _table(rows: Sequence[GainByKindRow]) -> str:
    head = [
        *("set", "System 2", "kinds", "labels a kind", "labelled", "left", "of the accuracy", "of the tokens"),
        *(f"tokens at 1/{ratio}" for ratio in COST_RATIOS),
        *("random, of the accuracy", "over random", "System 1 always, of the accuracy"),
    ]
    cells = [
        [
            row.set,
            row.system_two,
            str(row.kinds),
            str(row.labels),
            number(row.labelled, 0),
            number(row.left, 0),
            ranged(row.accuracy_share.value, row.accuracy_share.low, row.accuracy_share.high, 3),
            ranged(row.token_share.value, row.token_share.low, row.token_share.high, 3),
            *(number(row.token_shares[ratio], 3) for ratio in COST_RATIOS),
            number(row.random_accuracy_share.value, 3),
            gain(row.gain_over_random),
            number(row.system_one_accuracy_share.value, 3),
        ]
        for row in rows
    ]
    return table(head, cells)


def _comparison(rows: Sequence[GainByKindRow], inferred: Sequence[GainByKindRow]) -> str:
    """Return what finer categories would buy: both ways with as many labels a kind."""
    lines = []
    for coarse in inferred:
        fine = next(
            (
                row
                for row in rows
                if (row.set, row.system_two, row.labels) == (coarse.set, coarse.system_two, coarse.labels)
            ),
            None,
        )
        if fine is not None:
            lines.append(
                f"{coarse.set}, {coarse.labels} labels a kind: {fine.kinds} categories keep"
                f" {_percent(fine.accuracy_share.value)} of the accuracy for {_percent(fine.token_share.value)} of the"
                f" tokens, {coarse.kinds} inferred kinds {_percent(coarse.accuracy_share.value)} for"
                f" {_percent(coarse.token_share.value)}"
            )
    return "What finer categories would buy: " + "; ".join(lines) + "." if lines else ""


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _kinds(rows: Sequence[KindRow]) -> str:
    head = ["set", "System 2", "kind", "questions", "System 1 right", "System 2 right", "gain"]
    cells = [
        [
            row.set,
            row.system_two,
            row.kind,
            str(row.questions),
            number(row.system_one_right, 3),
            number(row.system_two_right, 3),
            gain(row.gain),
        ]
        for row in rows
    ]
    return table(head, cells)
