"""Which refusals stand, and which are asked about again when a run is taken up again. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from evals.records import Record

# Statuses that say nothing of the request itself: too late, too many, something that went wrong inside.
PASSING = frozenset({408, 429, 500, 504})

Key = tuple[str, str, int]


def is_final(record: Record) -> bool:
    """Whether the reply in `record` is not asked for again: an answer, or a refusal of the request for what it is.

    Example:
        >>> is_final({"refusal": {"status": 400}}), is_final({"refusal": {"status": 504}})
        (True, False)
    """
    return (record.get("refusal") or {}).get("status") not in PASSING


def key_of(record: Record) -> Key:
    """Item, arm and seed of a reply."""
    return record["item"], record["arm"], record["seed"]


def standing(replies: Iterable[Record]) -> Mapping[Key, Record]:
    """The reply to each request that counts: the last answer, else the last refusal that stands, else the last one.

    Example:
        >>> asked = {"item": "a", "arm": "system1", "seed": 7}
        >>> [*standing([{**asked, "reply": {}}, {**asked, "refusal": {"status": 504}}]).values()]
        [{'item': 'a', 'arm': 'system1', 'seed': 7, 'reply': {}}]
    """
    kept: dict[Key, Record] = {}
    for record in replies:
        before = kept.setdefault(key_of(record), record)
        if _weight(record) >= _weight(before):
            kept[key_of(record)] = record
    return kept


def _weight(record: Record) -> tuple[bool, bool]:
    return "refusal" not in record, is_final(record)


def reason(problem: Mapping[str, Any]) -> str:
    """The name of a refusal, as its face tells it."""
    named = problem.get("reason") or (problem.get("error") or {}).get("code") or problem.get("status")
    return str(named)
