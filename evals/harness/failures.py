"""Which failed requests are final, and which are asked again when a run is resumed. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from evals.records import Record

# Statuses that do not depend on the request: too late, too many, a failure inside a service.
TRANSIENT = frozenset({408, 429, 500, 504})

Key = tuple[str, str, int]


def error_of(record: Record) -> Mapping[str, Any] | None:
    """Return the error of a failed request, as its API reports it; None of an answer.

    Records of earlier versions call it `refusal`.

    Example:
        >>> error_of({"error": {"status": 400}}), error_of({"refusal": {"status": 400}}), error_of({"reply": {}})
        ({'status': 400}, {'status': 400}, None)
    """
    error: Mapping[str, Any] | None = record.get("error", record.get("refusal"))
    return error


def is_final(record: Record) -> bool:
    """Whether the reply in `record` is not asked for again: an answer, or an error that the request itself causes.

    Example:
        >>> is_final({"error": {"status": 400}}), is_final({"error": {"status": 504}})
        (True, False)
    """
    return (error_of(record) or {}).get("status") not in TRANSIENT


def key_of(record: Record) -> Key:
    """Item, arm and seed of a reply."""
    return record["item"], record["arm"], record["seed"]


def replies_in_force(replies: Iterable[Record]) -> Mapping[Key, Record]:
    """The reply to each request that counts: the last answer, else the last final error, else the last error.

    Example:
        >>> request = {"item": "a", "arm": "system1", "seed": 7}
        >>> [*replies_in_force([{**request, "reply": {}}, {**request, "error": {"status": 504}}]).values()]
        [{'item': 'a', 'arm': 'system1', 'seed': 7, 'reply': {}}]
    """
    in_force: dict[Key, Record] = {}
    for record in replies:
        before = in_force.setdefault(key_of(record), record)
        if _weight(record) >= _weight(before):
            in_force[key_of(record)] = record
    return in_force


def _weight(record: Record) -> tuple[bool, bool]:
    return error_of(record) is None, is_final(record)


def error_reason(problem: Mapping[str, Any]) -> str:
    """The reason of an error, as its API reports it."""
    reason = problem.get("reason") or (problem.get("error") or {}).get("code") or problem.get("status")
    return str(reason)
