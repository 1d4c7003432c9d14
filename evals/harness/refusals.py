"""Which refusals stand, and which are asked about again when a run is taken up again. Pure."""

from collections.abc import Mapping
from typing import Any

from evals.records import Record

# Statuses that say nothing of the request itself: too late, too many, away.
PASSING = frozenset({408, 429})
SERVERS = 500


def is_final(record: Record) -> bool:
    """Whether the reply in `record` is not asked for again: an answer, or a refusal of the request for what it is.

    Example:
        >>> is_final({"refusal": {"status": 400}}), is_final({"refusal": {"status": 504}})
        (True, False)
    """
    status = (record.get("refusal") or {}).get("status")
    return not isinstance(status, int) or (status < SERVERS and status not in PASSING)


def reason(problem: Mapping[str, Any]) -> str:
    """The name of a refusal, as its face tells it."""
    named = problem.get("reason") or (problem.get("error") or {}).get("code") or problem.get("status")
    return str(named)
