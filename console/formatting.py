"""How numbers, names and times are told on a page. What is unknown is told as unknown."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from console.charts import calibration, series, state, tables
from console.run_view import stage_panel, stage_text

UNKNOWN = "unknown"

STRATEGIES: Mapping[str, str] = {
    "": "Let the router decide",
    "system1": "System 1: one plain answer",
    "dialectic": "Dialectic: five roles",
    "arbiter": "Arbiter: solve, criticise, arbitrate",
    "delegation": "Delegation: the agent best suited",
}
ANSWER_TYPES: Mapping[str, str] = {
    "": "inferred",
    "BOOLEAN": "yes or no",
    "CHOICE": "choice",
    "NUMBER": "number",
    "TEXT": "text",
    "CODE": "code",
}
_BECAUSE: Mapping[str, str] = {
    "requested": "you named the strategy, so nothing was measured",
    "policy": "a row of the policy table",
    "envelope": "the envelope has room for a plain call only",
    "undetermined": "fewer than two components are known",
    "cached": "the decision of an earlier turn still holds",
}
_BY_ACTIVATION: Mapping[str, str] = {
    "SYSTEM_ONE": "its activation stays below the threshold",
    "SYSTEM_TWO": "its activation reaches the threshold",
}
_HANDED: Mapping[str, str] = {
    "confident": "it is confident enough",
    "routine": "its record alone is good enough",
    "better_peer": "the first was not confident enough, and another one is",
    "no_better_peer": "it was not confident enough, and nobody else is surer",
    "nobody_confident": "nobody is confident enough alone",
    "only_agent": "there is nobody else",
    "budget": "the envelope has no room for asking others",
    "agent_failed": "whoever was to do it failed",
}
_STOPPED: Mapping[str, str] = {
    "ALL_SAMPLES": "all samples were drawn",
    "SOLVERS_AGREE": "the solvers agree",
    "LEADER_UNCATCHABLE": "the leader could not be caught any more",
    "LEADER_LIKELY": "the leader was likely to stay",
    "BUDGET": "the envelope was used up",
    "FAILURE": "of a failure",
}
_ANSWERED_BY: Mapping[str, str] = {
    "ARBITER": "the arbiter's choice",
    "CONSENSUS": "the solvers' consensus",
    "SOLVER_VOTE": "the solvers' vote",
    "SOLVER_FALLBACK": "the solvers' vote, for want of a valid arbitration",
}
_SOURCES: Mapping[str, str] = {
    "assessment": "judged after the last stage",
    "arbiter": "share of the arbiter's samples",
    "solvers": "share of the solvers' samples",
    "delegation": "the executor's combined confidence",
    "verbalized": "the assessor's rating, before the answer",
    "probe": "the agreement of short attempts, before the answer",
    "hybrid": "rating and short attempts, before the answer",
    "draft": "the check of the draft",
}


def number(level: object, digits: int = 2) -> str:
    """A number, or that it is unknown.

    Example:
        >>> number(0.5575), number(None)
        ('0.56', 'unknown')
    """
    return f"{level:.{digits}f}" if isinstance(level, int | float) else UNKNOWN


def percent(level: object, digits: int = 0) -> str:
    """A share in percent, or that it is unknown.

    Example:
        >>> percent(0.125, 1), percent(None)
        ('12.5 %', 'unknown')
    """
    return f"{level * 100:.{digits}f} %" if isinstance(level, int | float) else UNKNOWN


def duration(ms: object) -> str:
    """A time, or that it is unknown.

    Example:
        >>> duration(840), duration(12_340), duration(125_000), duration(None)
        ('840 ms', '12.3 s', '2 min 5 s', 'unknown')
    """
    if not isinstance(ms, int | float):
        return UNKNOWN
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms // 60_000:.0f} min {ms % 60_000 / 1000:.0f} s"


def count(number_: object, one: str, many: str = "") -> str:
    """A number of things.

    Example:
        >>> count(1, "run"), count(2, "run"), count(3, "hand-over", "hand-overs")
        ('1 run', '2 runs', '3 hand-overs')
    """
    return f"{number_:,} {one if number_ == 1 else many or one + 's'}" if isinstance(number_, int) else UNKNOWN


def words(name: object) -> str:
    """An identifier as words.

    Example:
        >>> words("knowledge_retrieval"), words("SOLVERS_AGREE")
        ('knowledge retrieval', 'solvers agree')
    """
    return str(name).replace("_", " ").lower()


def system(name: object) -> str:
    """Name of a system.

    Example:
        >>> system("SYSTEM_TWO"), system(None)
        ('System 2', 'no system')
    """
    return {"SYSTEM_ONE": "System 1", "SYSTEM_TWO": "System 2"}.get(str(name), "no system")


def moment(text: object) -> str:
    """A moment of the record, to the second, in UTC.

    Example:
        >>> moment("2026-11-22T05:06:07.5+00:00")
        '2026-11-22 05:06:07'
    """
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return UNKNOWN


def reason(reason: str, chosen: str = "") -> str:
    """Why a system was chosen.

    Example:
        >>> because("activation", "SYSTEM_ONE"), because("activation")
        ('its activation stays below the threshold', 'the activation')
    """
    if reason == "activation":
        return _BY_ACTIVATION.get(chosen, "the activation")
    return _BECAUSE.get(reason, words(reason))


def handed(reason: str) -> str:
    """Why a task is done by whom."""
    return _HANDED.get(reason, words(reason))


def stopped(reason: str) -> str:
    """Why no more samples were drawn."""
    return _STOPPED.get(reason, words(reason))


def answered_by(name: str) -> str:
    """Whose choice an arbitrated answer is."""
    return _ANSWERED_BY.get(name, words(name))


def source(name: str) -> str:
    """Where a confidence comes from."""
    return _SOURCES.get(name, words(name)) if name else "no source"


def excerpt(text: object, most: int = 120) -> str:
    """The beginning of a text, on one line.

    Example:
        >>> excerpt("one two three", 8)
        'one two…'
    """
    flat = " ".join(str(text).split())
    return flat if len(flat) <= most else flat[: most - 1].rstrip() + "…"


def question(run: Mapping[str, Any]) -> str:
    """What a run was asked: its last turn; empty where contents are not kept."""
    turns = run.get("messages") or ()
    return str(turns[-1]["content"]) if turns else ""


def record(run: Mapping[str, Any]) -> str:
    """A run as JSON for reading."""
    return orjson.dumps(run, option=orjson.OPT_INDENT_2).decode()


def shares(counts: Mapping[str, int]) -> dict[str, float]:
    """Share of each answer among those counted.

    Example:
        >>> shares({"12": 3, "13": 1})
        {'12': 0.75, '13': 0.25}
    """
    total = sum(counts.values())
    return {answer: many / total for answer, many in counts.items()} if total else {}


def initials(name: str) -> str:
    """Initials of a component, as the plots have them; the name itself for what is none.

    Example:
        >>> initials("correctness"), initials("incorrectness"), initials("fit")
        ('CE', '1 - CE', 'fit')
    """
    return {**state.INITIALS, "incorrectness": "1 - CE"}.get(name, words(name))


FILTERS: Mapping[str, Callable[..., Any]] = {
    "answered_by": answered_by,
    "reason": reason,
    "count_of": count,
    "duration": duration,
    "excerpt": excerpt,
    "handed": handed,
    "initials": initials,
    "moment": moment,
    "number": number,
    "percent": percent,
    "shade": tables.shade,
    "shares": shares,
    "source": source,
    "stopped": stopped,
    "stage_panel": stage_panel,
    "stage_text": stage_text,
    "system": system,
    "tojson_text": record,
    "words": words,
    "zip": zip,
}
GLOBALS: Mapping[str, Any] = {
    "ANSWER_TYPES": ANSWER_TYPES,
    "STRATEGIES": STRATEGIES,
    "across": calibration.across,
    "dict": dict,
    "evolution": series.evolution,
    "fitness_matrix": tables.fitness_matrix,
    "histogram": calibration.histogram,
    "question": question,
    "radar": state.radar,
    "reliability_marks": calibration.reliability_marks,
    "terms": state.terms,
    "upwards": calibration.upwards,
}
