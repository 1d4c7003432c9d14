"""The report on a recording, with the running router beside it where that was asked."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

from evals import markdown
from evals.commit import made_by
from evals.markdown import UNKNOWN, gain, number, ranged, table
from evals.recording.decisions import DecisionRow
from evals.recording.figures import OpinionRow, RecordingFigures, SourceRow, StopRow
from evals.recording.live import LiveRow
from evals.recording.recorder import HEADING, MADE_WITH
from evals.records import Record
from evals.stats.detectable import items_needed
from evals.stats.gains import Contrast, conclusion

FIGURES, REPORT = "figures.json", "report.md"

READING = (
    "Each answer was asked for once, through the APIs of the running suite, and judged against the known answer; what"
    " follows is replay by the rules of the product. Intervals are 95 %: Wilson's for shares right, DeLong's for areas,"
    " by bootstrap over items for the rest. A gain whose interval holds 0 is no gain."
)


def write_recording_report(
    records: Sequence[Record], found: RecordingFigures, live: Sequence[LiveRow], folder: Path, typed: str
) -> str:
    """Write `report.md` and `figures.json` into `folder`; returns the report.

    Args:
        records: The records that the figures are of.
        found: The figures.
        live: The running router beside the replay; empty where it was not asked.
        folder: The folder; it is made where it does not exist.
        typed: The command that makes them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = report_files(records, found, live, made_by(typed))
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    return files[REPORT]


def report_files(
    records: Sequence[Record], found: RecordingFigures, live: Sequence[LiveRow], made: str
) -> Mapping[str, str]:
    """Return the report and the figures as JSON, by the name of their file; `made` says by what, for the head."""
    parts = [
        _head(records, found, made),
        _sources(found.sources),
        _stopping(found.stopping),
        _opinions(found.opinions, found.alone_over_inside),
        _decisions(found.decisions),
        _live(live),
    ]
    text = "\n\n".join(part for part in parts if part) + "\n"
    document = {"recording": found, "live": list(live)}
    figures = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
    return {REPORT: text, FIGURES: figures}


def detectable_line(items: int, least: float) -> str:
    """The sentence on the smallest gain that so many items can show.

    Example:
        >>> detectable_line(24, 0.163)
        '24 paired items can show a gain of 16.3 points or more, where one in six differs.'
    """
    return f"{items} paired items can show a gain of {number(100 * least, 1)} points or more, where one in six differs."


def _head(records: Sequence[Record], found: RecordingFigures, made: str) -> str:
    headings = [record for record in records if record["kind"] == HEADING]
    models = list(
        dict.fromkeys(model for record in records if record["kind"] == MADE_WITH for model in record["models"])
    )
    lines = {
        "models": ", ".join(models),
        "described": ", ".join(dict.fromkeys(str(one["described"]) for one in headings if one["described"])),
        "items": f"{found.items}: " + ", ".join(f"{name} {many}" for name, many in found.sets.items()),
        "recorded": ", ".join(dict.fromkeys(str(one["time"])[:10] for one in headings)),
        "recorded at commit": ", ".join(dict.fromkeys(str(one["commit"]) for one in headings)),
        "seed": ", ".join(dict.fromkeys(str(one["seed"]) for one in headings)),
        "prompts": ", ".join(f"`{name}` {digest[:12]}" for name, digest in _digests(records).items()),
    }
    shown = "\n".join(f"- {name}: {text}" for name, text in lines.items() if text)
    return (
        "# What the suite answers, recorded and replayed\n\n"
        f"Made by {made}.\n\n"
        f"**{detectable_line(found.items, found.detectable)}** A gain of 5 points needs about"
        f" {number(items_needed(0.05), 0)} of them, one of 2 points about {number(items_needed(0.02), 0)}.\n\n"
        f"{shown}\n\n{READING}"
    )


def _digests(records: Sequence[Record]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for record in records:
        if record["kind"] == HEADING:
            found |= record["prompt_digests"]
        if record["kind"] == MADE_WITH:
            found |= record["digests"]
    return dict(sorted(found.items()))


def _sources(rows: Sequence[SourceRow]) -> str:
    head = ["set", "source", "answers", "share right", "unreadable", "tokens", "seconds"]
    cells = [
        [
            row.set,
            row.source,
            str(row.right.of),
            markdown.share(row.right),
            f"{100 * row.unread:.0f} %",
            number(row.tokens, 0),
            number(row.seconds, 1),
        ]
        for row in rows
    ]
    return (
        "## What was recorded\n\n"
        "`draft` is the System 1 answer, `reasoned` and `program` are votes of the same model, `other` is a reasoned"
        " vote of the smaller one. Seconds are those of a busy machine; of a draft they hold its assessment too.\n\n"
        + table(head, cells)
    )


def _stopping(rows: Sequence[StopRow]) -> str:
    if not rows:
        return ""
    head = ["order of votes", "rule", "votes", "tokens", "share right", "over System 1", "over a fixed number"]
    cells = [
        [
            row.order,
            row.rule,
            number(row.votes),
            number(row.tokens, 0),
            ranged(row.right.value, row.right.low, row.right.high, 3),
            _concluded(row.over_system_one),
            gain(row.over_fixed),
        ]
        for row in rows
    ]
    return (
        "## When to stop\n\n`agree_2` asks in the order given until two answers agree. `over a fixed number` is against"
        " as many votes in the mean in the same order, a random mix of the two next whole numbers.\n\n"
        + table(head, cells)
    )


def _concluded(found: Contrast) -> str:
    return f"{gain(found)}: {conclusion(found)}"


def _opinions(rows: Sequence[OpinionRow], difference: Contrast | None) -> str:
    if not rows:
        return ""
    head = ["signal", "items", "wrong", "AUROC", "tokens"]
    cells = [
        [
            row.signal,
            str(row.area.positives + row.area.negatives),
            str(row.area.positives),
            markdown.area(row.area),
            number(row.tokens, 0),
        ]
        for row in rows
    ]
    text = (
        "## What tells that the System 1 answer is wrong\n\nTokens are those generated beyond the System 1 answer. A"
        " `~` marks an interval that is not DeLong's.\n\n" + table(head, cells)
    )
    if difference is None:
        return text
    return (
        f"{text}\n\nThe check in a fresh message over the check inside the conversation, on the same items:"
        f" {_concluded(difference)}."
    )


def _decisions(rows: Sequence[DecisionRow]) -> str:
    if not rows:
        return ""
    head = ["who decides", "labels a kind", "kinds", "sent", "share right", "tokens", "over System 1", "over votes"]
    cells = [
        [
            row.name,
            str(row.labels or "-"),
            str(row.kinds or "-"),
            f"{100 * row.sent:.0f} %",
            ranged(row.right.value, row.right.low, row.right.high, 3),
            number(row.tokens, 0),
            _concluded(row.over_system_one) if row.over_system_one else "-",
            _concluded(row.over_votes) if row.over_votes else "-",
        ]
        for row in rows
    ]
    return (
        "## The default model name, by replay\n\n`metacog` decides by the activation where nothing is labelled: CE is"
        " the shipped prior's share right, PI as it was rated, CI and EM are unknown. With labels the gain by kind"
        " decides; its rows are means over 200 draws of labels, on the items that were not drawn, with the range of 95"
        " % of the draws. Tokens are those of the answers, without the rating of importance.\n\n" + table(head, cells)
    )


def _live(rows: Sequence[LiveRow]) -> str:
    if not rows:
        return ""
    head = ["model name", "items", "right live", "right by replay", "difference", "alike", "sent live", "by replay",
            "same choice", "tokens live", "by replay"]  # fmt: skip
    cells = [
        [
            row.arm,
            str(row.live.of),
            markdown.share(row.live),
            f"{100 * row.replayed:.0f} %",
            _concluded(row.difference),
            markdown.share(row.alike),
            UNKNOWN if row.sent_live is None else f"{100 * row.sent_live:.0f} %",
            f"{100 * row.sent_replayed:.0f} %",
            UNKNOWN if row.same_choice is None else markdown.share(row.same_choice),
            number(row.live_tokens, 0),
            number(row.replayed_tokens, 0),
        ]
        for row in rows
    ]
    return (
        "## Live and replayed, side by side\n\nThe running router answered recorded items anew, with other seeds:"
        " `auto` is the model name `metacog`. `alike`: both right or both wrong; answers are sampled, so that not all"
        " can be. Live tokens hold those of deciding.\n\n" + table(head, cells)
    )
