"""Redaction leaves numbers, decisions and names of a strategy's own account, and no text.

The lists name the fields that stay, not those that go: a field that is in no list is dropped.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

# Fields whose text is a name: of a task, a role, an agent, a choice, a digest, a time.
_NAMES = """
    agent answer_source answer_type applied_at arbiter_agent arbiter_model assignment_kind baseline change checker
    confidence_source confidence_state config_version created_at dimension dispatch executor exploration feedback_id
    first first_agent hand_over_rule judged_at kind limiting_dimension mode model outcome panel_stop prompt
    prompt_digest reason request_id role run_id second source_model stage stop_reason stopping_reason task_id
    variant verbalized_state weights_version
"""
NAMES = frozenset(_NAMES.split())
# The same, in lists.
LISTS_OF_NAMES = frozenset({"ablations", "beside", "failure_regimes", "panel", "shortened_inputs", "unknown"})
# Fields that give a reason, in words that may quote contents; alone or in lists.
REASONS = frozenset(
    {
        "degraded_reasons",
        "detail",
        "failure",
        "ineligible_reason",
        "invalid_reason",
        "left_out",
        "message",
        "note_reason",
        "unknown_reason",
    }
)
# Reasons by the name of a component or measure.
REASONS_BY_NAME = frozenset({"undefined_reasons", "unknown_reasons"})
# Numbers, names or more of the same, by the name of a role, agent, component or stage.
_BY_NAME = "assignment capacities fitness margins parts prompt_digests ratings stages terms weights"
BY_NAME = frozenset(_BY_NAME.split())
# Counts and weights by answer: the answers are contents.
BY_ANSWER = frozenset({"arbiter", "counts", "solver", "vote_weights"})
# Texts, which are emptied so that the account keeps its form.
TEXTS = frozenset({"answer", "answer_text", "note", "text", "winner"})
LISTS_OF_TEXTS = frozenset({"tied_answers"})
# Accounts inside the account.
_PARTS = """
    assessments critiques decision dimensions evidence greedy groups kept_apart label measurements measures msv
    note_stage optimum parameters partial profile_updates released representative roles samples short_list
    solver_results solvers stages usage votes
"""
PARTS = frozenset(_PARTS.split())
_NUMBERS = """
    agree agreeing arbiter_invalid arbiter_invalid_share asked attempts budget_exhausted certainty changed_lead
    competence_after competence_before completion_tokens compression confidence confidence_threshold conflict
    constant_verbalized correct correctness cost degraded disagreement disagreement_gain disagreement_threshold
    draft_agrees duration_ms eligible emotional_response entropy entropy_arbiter entropy_reduction entropy_solver
    estimated experience explored generations http_calls importance index invalid learning_rate log_odds
    minimum_observations models modes most novelty novelty_threshold observations options outcome
    overconfident_error planned_generations probability profile prompt_tokens propensity rank_value recalibrate
    redundancy sampling_divergence saved_generations semantic_share sequence short_list_size skip_routine solver
    solver_divergence solver_invalid solver_invalid_share stopping_error structured_disagreement succeeded
    symbolic_share threshold tie total_fitness truncated unknown_cost unknown_generations unknown_tokens untraced_share
    valid verbalized verbalized_labels verbalized_raw verbalized_weight weight won
"""
NUMBERS = frozenset(_NUMBERS.split())

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,127}")
_REASON = re.compile(r"(?:[A-Za-z0-9_-]{1,32}(?: failed)?: )?[A-Z][A-Z0-9_]{2,39}(?=:|$)")
WORDS = frozenset({"baseline", "budget", "profile", "skipped", "uninformative", "unparseable", "unparsable"})
WITHHELD = "withheld"


def without_texts(account: Mapping[str, Any]) -> dict[str, Any]:
    """Return `account` with its numbers, decisions and names, without its texts and unknown fields.

    Args:
        account: A strategy's own account of how it went, as REST spells it.

    Example:
        >>> without_texts({"task_id": "t-1", "answer": "It is Ann.", "confidence": 0.7, "votes": [{"text": "Ann!"}]})
        {'task_id': 't-1', 'answer': '', 'confidence': 0.7, 'votes': [{'text': ''}]}
    """
    redacted = {field: _redacted(field, item) for field, item in account.items()}
    return {field: item for field, item in redacted.items() if item is not _DROPPED}


def bare_reason(reason: str) -> str:
    """Return the code of a reason and the part that it is about, without what it may quote.

    Example:
        >>> bare_reason("dialectic: BACKEND_UNAVAILABLE: the backend said 'Ann is ill'")
        'dialectic: BACKEND_UNAVAILABLE'
        >>> bare_reason("Ann is ill")
        'withheld'
    """
    if not reason or reason in WORDS:
        return reason
    found = _REASON.match(reason)
    return found.group() if found else WITHHELD


def bare_reasons(reasons: Mapping[str, str]) -> dict[str, str]:
    """Return reasons by name, without what they may quote."""
    return {name: bare_reason(reason) for name, reason in reasons.items() if _NAME.fullmatch(name)}


def bare_name(name: str) -> str:
    """Return `name` if it can be a name; an empty text otherwise."""
    return name if _NAME.fullmatch(name) else ""


class _Dropped:
    """This value marks a field that is dropped."""


_DROPPED = _Dropped()


def _redacted(field: str, item: Any) -> Any:  # noqa: ANN401 - plain data is of any kind
    if item is None:
        return None if field in KNOWN else _DROPPED
    if isinstance(item, bool | int | float):
        return item if field in NUMBERS else _DROPPED
    if isinstance(item, str):
        return _redacted_text(field, item)
    return _redacted_mapping(field, item) if isinstance(item, Mapping) else _redacted_list(field, item)


def _redacted_text(field: str, text: str) -> Any:  # noqa: ANN401 - or the mark
    if field in NAMES:
        return bare_name(text)
    if field in REASONS:
        return bare_reason(text)
    return "" if field in TEXTS else _DROPPED


def _redacted_mapping(field: str, item: Mapping[str, Any]) -> Any:  # noqa: ANN401 - or the mark
    if field in BY_ANSWER:
        return {}
    if field in REASONS_BY_NAME:
        return bare_reasons(item)
    if field in BY_NAME:
        return _redacted_by_name(item)
    return without_texts(item) if field in PARTS else _DROPPED


def _redacted_by_name(item: Mapping[str, Any]) -> dict[str, Any]:
    redacted: dict[str, Any] = {}
    for name, part in item.items():
        if not _NAME.fullmatch(name):
            continue
        if isinstance(part, Mapping):
            redacted[name] = _redacted_by_name(part)
        elif isinstance(part, bool | int | float):
            redacted[name] = part
        elif isinstance(part, str):
            redacted[name] = bare_name(part)
    return redacted


def _redacted_list(field: str, items: Sequence[Any]) -> Any:  # noqa: ANN401 - or the mark
    if field in LISTS_OF_TEXTS:
        return []
    if field in PARTS:
        return [
            without_texts(item) if isinstance(item, Mapping) else item for item in items if not isinstance(item, str)
        ]
    texts = [item for item in items if isinstance(item, str)]
    if field in LISTS_OF_NAMES:
        return [text for text in texts if bare_name(text)]
    return [bare_reason(text) for text in texts] if field in REASONS else _DROPPED


KNOWN = frozenset[str]().union(
    NAMES, LISTS_OF_NAMES, REASONS, REASONS_BY_NAME, BY_NAME, BY_ANSWER, TEXTS, LISTS_OF_TEXTS, PARTS, NUMBERS
)
