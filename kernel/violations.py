"""What is wrong with a field of a request, or of a file, is said in one plain sentence for each kind of violation."""

from collections.abc import Mapping
from typing import Any

# Fields of the first contract that have other names now.
RENAMED_FIELDS: Mapping[str, str] = {
    "query": "question",
    "task": "question",
    "because": "reason",
    "verdict": "label",
    "kept_from": "cached_from",
    "stepwise_solving": "stop",
}

# What a checker of types calls a field that the value does not have.
UNKNOWN_FIELD = frozenset({"unexpected_keyword_argument", "extra_forbidden"})
NO_SUCH_FIELD = "there is no such field"
OTHER = "this is not what the field takes; the reference of the operation describes it"

_MISSING = "it is missing, and must be given"
_LIST, _OBJECT, _TEXT, _TRUTH = "give a list", "give an object", "give a text", "give true or false"
_WHOLE, _NUMBER, _TIME = "give a whole number", "give a number", "give a time, e.g. 2026-01-31T12:00:00Z"

# Sentences by the kind's name; braces stand for what the kind states.
_SENTENCES: Mapping[str, str] = {
    **dict.fromkeys(("missing", "missing_argument", "missing_keyword_only_argument"), _MISSING),
    **dict.fromkeys(UNKNOWN_FIELD, NO_SUCH_FIELD),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), _WHOLE),
    "int_parsing_size": "give a whole number with fewer digits",
    **dict.fromkeys(("float_type", "float_parsing"), _NUMBER),
    "finite_number": "give a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), _TRUTH),
    **dict.fromkeys(("string_type", "string_sub_type", "string_unicode", "path_type"), _TEXT),
    "string_too_short": "give a text of at least {min_length} characters",
    "string_too_long": "give a text of at most {max_length} characters",
    "string_pattern_mismatch": "give a text that matches {pattern}",
    "greater_than_equal": "give a number of at least {ge}",
    "greater_than": "give a number above {gt}",
    "less_than_equal": "give a number of at most {le}",
    "less_than": "give a number below {lt}",
    **dict.fromkeys(("literal_error", "enum"), "give {expected}"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"), _LIST),
    **dict.fromkeys(("sequence_str", "is_instance_of"), _LIST),
    "too_short": "give at least {min_length} entries",
    "too_long": "give at most {max_length} entries",
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "dataclass_type", "arguments_type"), _OBJECT),
    **dict.fromkeys(("model_attributes_type", "dataclass_exact_type"), _OBJECT),
    **dict.fromkeys(
        ("datetime_type", "datetime_parsing", "datetime_from_date_parsing", "datetime_object_invalid"), _TIME
    ),
    "timezone_aware": "give the time with its zone, e.g. 2026-01-31T12:00:00Z",
    "none_required": "leave it out",
}
# Kinds whose sentence is that of a check of our own.
_OWN_CHECKS = frozenset({"value_error", "assertion_error"})


def violation(complaint: Mapping[str, Any]) -> str:
    """Return what is wrong with a field, and what to do; for a renamed field its new name.

    Args:
        complaint: A complaint of pydantic: its kind (`type`), its place (`loc`), and what the kind states (`ctx`).

    Example:
        >>> violation({"type": "greater_than_equal", "loc": ("vote", "most"), "ctx": {"ge": 1}})
        'give a number of at least 1'
        >>> violation({"type": "unexpected_keyword_argument", "loc": ("verdict",)})
        'it is called `label` now'
    """
    kind, stated = complaint["type"], {name: _plain(item) for name, item in (complaint.get("ctx") or {}).items()}
    field = str(complaint["loc"][-1]) if complaint["loc"] else ""
    if kind in UNKNOWN_FIELD and field in RENAMED_FIELDS:
        return f"it is called `{RENAMED_FIELDS[field]}` now"
    if kind in _OWN_CHECKS:
        return str(stated.get("error", "")) or OTHER
    sentence = _SENTENCES.get(kind)
    if sentence is None:
        return OTHER
    try:
        return sentence.format_map(stated)
    except KeyError:
        return OTHER


def _plain(item: object) -> object:
    """Return a limit as it is written: a whole number without a fraction."""
    return int(item) if isinstance(item, float) and item.is_integer() else item
