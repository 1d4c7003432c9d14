"""Emotional response (ER) of a dialectic's texts by several analysers, beside that of the measured states. Pure.

Source: MSV, state vector (papers.md 1.1): the poster takes the NRC lexicon, and VADER is the default here.
"""

from collections.abc import Mapping, Sequence

from configuration.affect import NRC_LICENCE
from evals.dialectic.evolution import FIRST, LAST, STAGES
from evals.errors import RecordsUnusable
from evals.harness.rows import Row
from evals.markdown import estimate, gain, table
from evals.publishing.records import DIGEST, is_wordless
from evals.records import Record
from evals.stats.chance import Chance
from evals.stats.gains import mean_interval, paired_gain
from kernel.msv.affect import AffectAnalyser

AFFECT = "affect"
STATED = "in the state"
READING = (
    "**ER by several analysers.** The same texts, by the analyser that the services used (`in the state`) and by those "
    "that were asked for here; the poster takes the NRC lexicon. A text that is an answer alone "
    "has no ER."
)

# Level of each stage's text [0..1], by item and seed.
Levels = Mapping[tuple[str, int], Mapping[str, float]]


def affect_records(
    records: Sequence[Record], rows: Sequence[Row], analysers: Mapping[str, AffectAnalyser]
) -> Sequence[Record]:
    """Return a record of the ER of the texts of each deliberation and analyser that `records` do not hold yet.

    Args:
        records: Raw records.
        rows: The deliberations.
        analysers: The analysers by name.

    Raises:
        RecordsUnusable: When the texts are not in the records, because these are published.
    """
    known = {(each["analyser"], each["item"], each["seed"]) for each in records if each["kind"] == AFFECT}
    return [
        {
            "kind": AFFECT,
            "analyser": name,
            "item": row.item.id,
            "seed": row.seed,
            "levels": {stage: analyse(text)["intensity"] for stage, text in _texts(row).items()},
        }
        for name, analyse in analysers.items()
        for row in rows
        if (name, row.item.id, row.seed) not in known
    ]


def affect_section(records: Sequence[Record], rows: Sequence[Row], chance: Chance) -> str:
    """Return the section on ER by several analysers; empty where none was asked for."""
    asked = [each for each in records if each["kind"] == AFFECT]
    if not asked:
        return ""
    columns: dict[str, Levels] = {STATED: _stated(rows)}
    for name in dict.fromkeys(each["analyser"] for each in asked):
        columns[name] = {(one["item"], one["seed"]): one["levels"] for one in asked if one["analyser"] == name}
    lines = [
        [stage.lower(), *(estimate(mean_interval(_of_items(levels, stage), chance)) for levels in columns.values())]
        for stage in STAGES
    ]
    lines.append(["synthesis less thesis", *(_moved(levels, chance) for levels in columns.values())])
    notice = f"\n\n`nrc`: {NRC_LICENCE}." if "nrc" in columns else ""
    return f"{READING}\n\n{table(['text', *columns], lines)}{notice}"


def _texts(row: Row) -> Mapping[str, str]:
    """Return the texts by stage; without those that hold no words but an answer, whose ER is unknown."""
    texts = {each["stage"]: each["text"] for each in row.reply["stages"] if each["text"]}
    if any(text.startswith(DIGEST) for text in texts.values()):
        raise RecordsUnusable(
            f"the texts of {row.item.id} are not in the records, which are published: measure ER with --affect before "
            "`metacog eval publish`"
        )
    return {stage: text for stage, text in texts.items() if not is_wordless(text)}


def _stated(rows: Sequence[Row]) -> Levels:
    return {
        (row.item.id, row.seed): {
            each["stage"]: level
            for each in row.reply["measurements"]
            if (level := (each["msv"] or {}).get("emotional_response")) is not None
        }
        for row in rows
    }


def _of_items(levels: Levels, stage: str) -> Sequence[float]:
    """Return the level of each item: the mean over its seeds."""
    found: dict[str, list[float]] = {}
    for (item, _), of_stages in levels.items():
        if stage in of_stages:
            found.setdefault(item, []).append(of_stages[stage])
    return [sum(some) / len(some) for some in found.values()]


def _moved(levels: Levels, chance: Chance) -> str:
    whole = {key: of_stages for key, of_stages in levels.items() if FIRST in of_stages and LAST in of_stages}
    return gain(paired_gain(_of_items(whole, FIRST), _of_items(whole, LAST), chance))
