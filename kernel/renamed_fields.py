"""Fields of the first contract have other names now; an error about an old name states the new one."""

from collections.abc import Mapping

RENAMED_FIELDS: Mapping[str, str] = {
    "query": "question",
    "task": "question",
    "because": "reason",
    "verdict": "label",
    "kept_from": "cached_from",
    "stepwise_solving": "stop",
}
