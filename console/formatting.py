"""Formats numbers, names and times for the pages; an unknown value is shown as unknown."""

from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from metacog.arbiter.v1.vote_pb2 import VoteFinished, VoteMode
from metacog.common.v1.confidence_pb2 import ConfidenceState
from metacog.common.v1.msv_pb2 import MSV
from metacog.router.v1.router_pb2 import (
    CostGuardOutcome,
    DecisionRule,
    PromiseOutcome,
    PromiseStage,
    PromiseState,
    RouteResponse,
    Run,
)

from chassis.serving.wire import optional, word
from console.charts import calibration, series, state, tables
from console.replies.fields import component
from console.run_view import NOTE, stage_panel, stage_text
from kernel.answers.answer_types import AnswerType, rules_of
from kernel.guard_words import guard_in_words
from kernel.learning.gain_words import gain_in_words, kind_in_words, rule_in_words
from kernel.msv import ABBREVIATIONS, CONFLICT_PARTS
from kernel.msv.basis import basis_in_words
from kernel.policy import Strategy
from kernel.votes.states import marked_confidence, promise_in_words, state_in_words
from kernel.votes.votes import first_shown

UNKNOWN = "unknown"

_STRATEGY_TITLES: Mapping[str, str] = {
    "system1": "System 1: a single-pass answer",
    "vote": "Vote: ask until answers agree",
    "cascade": "Cascade: a stronger model where they do not",
    "dialectic": "Dialectic: one agent for each role",
    "arbiter": "Arbiter: solve, criticize, arbitrate",
    "delegation": "Delegation: the best suited agent",
}
_ESCALATION_REASONS: Mapping[str, str] = {
    "UNDECIDED": "Too few votes agreed",
    "ABSTAINED": "No vote was valid",
    "NOT_COMPARABLE": "Answers to this question cannot be compared",
    "NOT_PROVED": "Labels do not prove that the votes keep the promise",
}
_ROUTING_REASONS: Mapping[str, str] = {
    "promise": "a promise is asked for, which only votes can keep",
    "requested": "you chose the strategy, so no assessor ran",
    "policy": "a row of the policy table",
    "envelope": "the envelope allows a single-pass call only",
    "undetermined": "fewer than two components are known",
    "cached": "the decision of an earlier turn still applies",
}
_BY_GAIN: Mapping[str, str] = {
    "SYSTEM_ONE": "System 2 does not gain enough on questions of this kind",
    "SYSTEM_TWO": "System 2 gains enough on questions of this kind",
}
_BY_ACTIVATION: Mapping[str, str] = {
    "SYSTEM_ONE": "its activation is below the threshold",
    "SYSTEM_TWO": "its activation reaches the threshold",
}
_PANEL_STOPS: Mapping[str, str] = {
    "AGREED": "two agree",
    "ALL_ASKED": "all were asked and no two agree",
    "BUDGET_EXHAUSTED": "a limit of the envelope was reached and no two agree",
}
_MODE_REASONS: Mapping[str, str] = {
    "confident": "its confidence is sufficient",
    "routine": "its profile alone is sufficient",
    "better_peer": "the confidence of the first agent is not sufficient, and that of another is",
    "no_better_peer": "its confidence is not sufficient, and no other agent has more",
    "no_agent_confident": "no agent alone has sufficient confidence",
    "only_agent": "there is no other agent",
    "budget": "the envelope does not allow asking other agents",
    "agent_failed": "the chosen agent failed",
}
_STOPPING_REASONS: Mapping[str, str] = {
    "ALL_SAMPLES": "all samples were drawn",
    "SOLVERS_AGREE": "the solvers agree",
    "LEADER_UNCATCHABLE": "no other answer could overtake the leader",
    "LEADER_LIKELY": "the leader was unlikely to change",
    "BUDGET": "the envelope was exhausted",
    "FAILURE": "of a failure",
}
_ANSWER_SOURCES: Mapping[str, str] = {
    "ARBITER": "the arbiter's choice",
    "CONSENSUS": "the solvers' consensus",
    "SOLVER_VOTE": "the solvers' vote",
    "SOLVER_FALLBACK": "the solvers' vote, as no arbitration sample is valid",
}
_CONFIDENCE_SOURCES: Mapping[str, str] = {
    "assessment": "assessed after the last stage",
    "arbiter": "share of the arbiter's samples",
    "solvers": "share of the solvers' samples",
    "delegation": "the executor's combined confidence",
    "votes": "the agreement of the votes",
    "answers": "how often System 1 is right on questions of this kind, before the answer",
    "verbalized": "the assessor's rating, before the answer",
    "probe": "the agreement of short samples, before the answer",
    "hybrid": "rating and short samples, before the answer",
    "draft": "the check of the draft",
}


def number(level: object, digits: int = 2) -> str:
    """Format a number; `unknown` for None.

    Example:
        >>> number(0.5575), number(None)
        ('0.56', 'unknown')
    """
    return f"{level:.{digits}f}" if isinstance(level, int | float) else UNKNOWN


def percent(level: object, digits: int = 0) -> str:
    """Format a share in percent; `unknown` for None.

    Example:
        >>> percent(0.125, 1), percent(None)
        ('12.5 %', 'unknown')
    """
    return f"{level * 100:.{digits}f} %" if isinstance(level, int | float) else UNKNOWN


def duration(ms: object) -> str:
    """Format a duration; `unknown` for None.

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
    """Format a number with its noun.

    Example:
        >>> count(1, "run"), count(2, "run"), count(3, "agent has", "agents have")
        ('1 run', '2 runs', '3 agents have')
    """
    return f"{number_:,} {one if number_ == 1 else many or one + 's'}" if isinstance(number_, int) else UNKNOWN


def words(name: object) -> str:
    """Format an identifier as words; `unknown` for None, as which a word of a newer service arrives.

    Example:
        >>> words("knowledge_retrieval"), words("SOLVERS_AGREE"), words(None)
        ('knowledge retrieval', 'solvers agree', 'unknown')
    """
    return UNKNOWN if name is None else str(name).replace("_", " ").lower()


def system(name: object) -> str:
    """Format the name of a system.

    Example:
        >>> system("SYSTEM_TWO"), system(None)
        ('System 2', 'no system')
    """
    return {"SYSTEM_ONE": "System 1", "SYSTEM_TWO": "System 2"}.get(str(name), "no system")


def moment(time: Timestamp | None) -> str:
    """Format a time to the second, in UTC; `unknown` for None.

    Example:
        >>> moment(Timestamp(seconds=1_795_323_967, nanos=500_000_000)), moment(None)
        ('2026-11-22 05:06:07', 'unknown')
    """
    return UNKNOWN if time is None else time.ToDatetime(tzinfo=UTC).strftime("%Y-%m-%d %H:%M:%S")


def reason(reason: str, chosen: str = "") -> str:
    """Format the reason for the choice of a system.

    Example:
        >>> reason("activation", "SYSTEM_ONE"), reason("activation")
        ('its activation is below the threshold', 'the activation')
        >>> reason("gain", "SYSTEM_TWO")
        'System 2 gains enough on questions of this kind'
    """
    if reason == "activation":
        return _BY_ACTIVATION.get(chosen, "the activation")
    if reason == "gain":
        return _BY_GAIN.get(chosen, "the gain on this kind of question")
    return _ROUTING_REASONS.get(reason, words(reason))


def panel_stop(reason: str | None) -> str:
    """Return why no further agent of a panel was asked."""
    return _PANEL_STOPS.get(reason or "", words(reason))


def escalation_reason(reason: str | None) -> str:
    """Return why a stronger model was asked.

    Example:
        >>> escalation_reason("ABSTAINED"), escalation_reason(None)
        ('No vote was valid', 'Reason unknown')
    """
    return _ESCALATION_REASONS.get(reason, words(reason)) if reason else "Reason unknown"


def winner(account: VoteFinished) -> str:
    """Return the winner of votes as the vote that answers for it writes it; empty where no vote is valid."""
    if not account.groups:
        return ""
    winning = account.groups[0]
    programs = [vote.index for vote in account.votes if vote.mode == VoteMode.VOTE_MODE_PROGRAM]
    shown = first_shown(winning.votes, programs=programs, without_unit=winning.without_unit)
    return next((vote.written for vote in account.votes if vote.index == shown), "") or account.winner


def mode_reason(reason: str | None) -> str:
    """Format the reason for the executor of a task."""
    return _MODE_REASONS.get(reason or "", words(reason))


def stopping_reason(reason: str | None) -> str:
    """Format the reason for the end of the sampling."""
    return _STOPPING_REASONS.get(reason or "", words(reason))


def answer_source(name: str | None) -> str:
    """Format the source of an arbitrated answer."""
    return _ANSWER_SOURCES.get(name or "", words(name))


def source(name: str) -> str:
    """Format the source of a confidence."""
    return _CONFIDENCE_SOURCES.get(name, words(name)) if name else "no source"


def confidence_state(run: Run) -> str:
    """Return what the confidence of a run is; empty where it has none."""
    return state_in_words(word(ConfidenceState, run.confidence_state), run.confidence_labels)


def decision_rule(route: RouteResponse) -> tuple[str, str, str]:
    """Return the rule that decided, the kind of the question, and the gain of System 2 on it; empty where unknown."""
    decided_by = word(DecisionRule, route.decided_by)
    gain = gain_in_words(route.kind, decided_by, route.gain if route.HasField("gain") else None)
    return rule_in_words(decided_by), kind_in_words(route.kind, route.kind_unknown_reason), gain


def promise(found: PromiseOutcome) -> str:
    """Return what became of a promise."""
    state, stage = word(PromiseState, found.state), word(PromiseStage, found.stage)
    return promise_in_words(state, stage, found.error_at_most, found.labels, found.reason).capitalize()


def cost_guard(found: CostGuardOutcome) -> str:
    """Return what a cost guard allowed."""
    draft = optional(found, "draft_tokens")
    words = guard_in_words(found.times_system1, draft, found.max_generated_tokens, found.reason)
    return f"Cost guard: {words}"


def confidence(run: Run) -> str:
    """Format the confidence of a run, with a mark where it is not a probability."""
    return marked_confidence(optional(run, "confidence"), word(ConfidenceState, run.confidence_state) or None)


def excerpt(text: object, most: int = 120) -> str:
    """Return the beginning of a text, on one line.

    Example:
        >>> excerpt("one two three", 8)
        'one two…'
    """
    flat = " ".join(str(text).split())
    return flat if len(flat) <= most else flat[: most - 1].rstrip() + "…"


def question(run: Run) -> str:
    """Return the question of a run, its last message; empty if contents are not stored."""
    return run.messages[-1].content if run.messages else ""


def shares(counts: Mapping[str, int]) -> dict[str, float]:
    """Return the share of each answer.

    Example:
        >>> shares({"12": 3, "13": 1})
        {'12': 0.75, '13': 0.25}
    """
    total = sum(counts.values())
    return {answer: many / total for answer, many in counts.items()} if total else {}


def initials(name: str) -> str:
    """Return the initials of a component; for other names the name as words.

    Example:
        >>> initials("correctness"), initials("incorrectness"), initials("fit")
        ('CE', '1 - CE', 'fit')
    """
    return {**ABBREVIATIONS, "incorrectness": "1 - CE"}.get(name, words(name))


def bases(msv: MSV | None) -> str:
    """Describe what the components of a state rest on that were not measured on the question; empty for none.

    Example:
        >>> bases(MSV(parts={"prior_share": 0.5545, "importance_by_policy": 0.2}))
        'CE: share right of the prior; no label yet. PI: fixed by policy.'
    """
    found = {name: basis_in_words(name, msv.parts) for name in ABBREVIATIONS} if msv is not None else {}
    return " ".join(f"{initials(name)}: {basis}." for name, basis in found.items() if basis)


STRATEGIES: Mapping[str, str] = {
    "": "The router decides",
    **{name: _STRATEGY_TITLES.get(name, words(name).capitalize()) for name in Strategy},
}
ANSWER_TYPES: Mapping[str, str] = {
    "": "inferred",
    **{kind.value: rules_of(kind).label for kind in AnswerType},
}
FILTERS: Mapping[str, Callable[..., Any]] = {
    "answer_source": answer_source,
    "bases": bases,
    "component": component,
    "decision_rule": decision_rule,
    "reason": reason,
    "count_of": count,
    "duration": duration,
    "excerpt": excerpt,
    "mode_reason": mode_reason,
    "panel_stop": panel_stop,
    "escalation_reason": escalation_reason,
    "promise": promise,
    "cost_guard": cost_guard,
    "initials": initials,
    "moment": moment,
    "number": number,
    "percent": percent,
    "shade": tables.shade,
    "shares": shares,
    "source": source,
    "confidence": confidence,
    "confidence_state": confidence_state,
    "marked": marked_confidence,
    "stopping_reason": stopping_reason,
    "stage_panel": stage_panel,
    "stage_text": stage_text,
    "system": system,
    "winner": winner,
    "words": words,
    "zip": zip,
}
GLOBALS: Mapping[str, Any] = {
    "ANSWER_TYPES": ANSWER_TYPES,
    "COMPONENTS": state.COMPONENTS,
    "CONFLICT_PARTS": CONFLICT_PARTS,
    "NOTE": NOTE,
    "STRATEGIES": STRATEGIES,
    "STRATEGY_NAMES": tuple(Strategy),
    "across": calibration.across,
    "dict": dict,
    "evolution": series.evolution,
    "fitness_matrix": tables.fitness_matrix,
    "histogram": calibration.histogram,
    "promise_curve": calibration.promise_curve,
    "question": question,
    "radar": state.radar,
    "reliability_marks": calibration.reliability_marks,
    "terms": state.terms,
    "upwards": calibration.upwards,
}
