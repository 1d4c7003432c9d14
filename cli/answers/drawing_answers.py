"""Draws the results of the arbiter and the delegation service for a terminal."""

from collections.abc import Mapping, Sequence

from metacog.arbiter.v1.arbiter_pb2 import (
    AnswerSource,
    ArbitrationFinished,
    ArbitrationMode,
    ArbitrationVariant,
    Critique,
    FailureRegime,
    Measures,
    StoppingReason,
)
from metacog.arbiter.v1.vote_pb2 import VoteCast, VoteFinished, VoteMode, VoteOutcome, VoteStop
from metacog.common.v1.answer_pb2 import OUTCOME_ANSWERED
from metacog.common.v1.confidence_pb2 import ConfidenceState
from metacog.delegation.v1.profiles_pb2 import ProfileUpdate
from metacog.delegation.v1.tasks_pb2 import (
    AnswerLabel,
    Assessment,
    Checker,
    ConfidenceSource,
    ModeChosen,
    ModeReason,
    PanelStop,
    TaskFinished,
    TaskMode,
    Vote,
)
from metacog.router.v1.knowledge_pb2 import Citation
from metacog.router.v1.router_pb2 import Escalation, EscalationReason, PromiseStage, PromiseState, Run
from rich.console import Group, RenderableType

from chassis.serving.wire import optional, word
from cli.answers.drawing import resources
from cli.terminal.output import UNKNOWN, bar, facts, number, snippet, table, text
from kernel.votes.states import ProbabilityState, marked_confidence, promise_in_words, state_in_words
from kernel.votes.votes import first_shown

MEASURES = {
    "entropy_solver": "entropy of the solvers [nats]",
    "entropy_arbiter": "entropy of the arbiter [nats]",
    "entropy_reduction": "entropy reduction [nats]",
    "compression": "compression",
    "novelty": "novelty",
    "redundancy": "redundancy",
    "semantic_share": "semantic share",
    "symbolic_share": "symbolic share",
    "untraced_share": "untraced share",
    "solver_divergence": "divergence between solvers [nats]",
}


def written(done: ArbitrationFinished, answer: str) -> str:
    """Return an answer of an arbitration as its samples write it, and not in the form in which it is compared."""
    return done.spellings.get(answer, answer)


def written_vote(vote: VoteCast | Vote) -> str | None:
    """Return the answer of a vote as it is written; None for an invalid vote."""
    return vote.written or vote.answer if vote.HasField("answer") else None


def distribution(done: ArbitrationFinished, counts: Mapping[str, int], invalid: int = 0) -> RenderableType:
    """Draw the answers of an arbitration with their frequencies, the most frequent first."""
    given = {each: count for each, count in counts.items() if count > 0}
    total = sum(given.values())
    rows = [
        [
            snippet(written(done, each), 60),
            bar(count / total, 24),
            f"{count / total:.2f}",
            str(count),
            "<" if each == done.answer else "",
        ]
        for each, count in sorted(given.items(), key=lambda item: (-item[1], item[0]))
    ]
    rows += [["(no valid answer)", "", "", str(invalid), ""]] if invalid else []
    return table(["answer", "", "share", "samples", ""], rows) if rows else text("no sample")


def arbitration(done: ArbitrationFinished) -> RenderableType:
    """Draw both distributions, the critiques, the measures, the answer and its cost."""
    parts: list[RenderableType] = [
        text("solvers", "bold"),
        distribution(done, done.solver, done.solver_invalid),
    ]
    parts += [critique(each) for each in done.critiques]
    if done.arbiter or done.arbiter_invalid:
        parts += [
            text("arbiter", "bold"),
            distribution(done, done.arbiter, done.arbiter_invalid),
        ]
    return Group(*parts, measures(done.measures), _arbitrated(done))


def critique(given: Critique) -> RenderableType:
    """Draw the critique of a solver."""
    content = given.text if given.succeeded else f"failed: {given.failure}"
    return text(f"critique of solver {given.solver} by {given.agent}: {snippet(content, 400)}")


def measures(found: Measures) -> RenderableType:
    """Draw the measures; an undefined one has its reason."""
    rows = [
        [label, number(optional(found, name), 4, UNKNOWN), found.undefined_reasons.get(name, "")]
        for name, label in MEASURES.items()
    ]
    flags = {
        "right": _yes(optional(found, "correct")),
        "overconfident error": _yes(optional(found, "overconfident_error")),
        "structured disagreement": _yes(optional(found, "structured_disagreement")),
        "failure regimes": ", ".join(word(FailureRegime, regime) for regime in found.failure_regimes),
    }
    return Group(table(["measure", "", ""], rows), facts(flags))


def _stated(done: ArbitrationFinished | TaskFinished, source: str) -> str:
    """Describe a confidence that a service states itself."""
    confidence = optional(done, "confidence")
    if confidence is None:
        return UNKNOWN
    state = word(ConfidenceState, done.confidence_state) or ProbabilityState.UNCALIBRATED
    return f"{marked_confidence(confidence, state)} from {(source or UNKNOWN).lower()}; {state_in_words(state, 0)}"


def _arbitrated(done: ArbitrationFinished) -> RenderableType:
    mode = f"{word(ArbitrationMode, done.mode) or UNKNOWN}, {word(ArbitrationVariant, done.variant) or UNKNOWN}".lower()
    saved = f"{done.saved_generations} of {done.planned_generations} generations saved"
    return facts(
        {
            "answer": written(done, done.answer)
            if done.outcome == OUTCOME_ANSWERED
            else "none: no sample holds a valid answer",
            "confidence": _stated(done, word(AnswerSource, done.answer_source)),
            "mode": f"{mode}; {saved}",
            "stopped": _in_words(word(StoppingReason, done.stopping_reason)),
            **resources(done),
        }
    )


def votes(done: VoteFinished) -> RenderableType:
    """Draw the votes in the order in which they came, and how the vote ended."""
    winning = done.groups[0].votes if done.groups else ()
    winner = _written_winner(done)
    valid = len(done.votes) - done.invalid
    outcome = _in_words(word(VoteOutcome, done.outcome)) or UNKNOWN
    ending = facts(
        {
            "winner": "none: no vote is valid" if winner is None else snippet(winner, 60),
            "outcome": f"{outcome}: {len(winning)} of {valid} valid votes agree",
            "stopped": _in_words(word(VoteStop, done.stop_reason)),
            "left out": "; ".join(done.left_out),
        }
    )
    return Group(cast(done.votes), ending)


def _written_winner(done: VoteFinished) -> str | None:
    """Return the winner as the vote that answers for it writes it; None where no vote is valid."""
    if not done.groups:
        return None
    winning = done.groups[0]
    programs = [vote.index for vote in done.votes if vote.mode == VoteMode.VOTE_MODE_PROGRAM]
    shown = first_shown(winning.votes, programs=programs, without_unit=winning.without_unit)
    return next((written_vote(vote) for vote in done.votes if vote.index == shown), None)


def cast(given: Sequence[VoteCast]) -> RenderableType:
    """Draw votes in the order in which they came."""
    return table(["vote", "source", "mode", "answer", "tokens", ""], [_cast(vote) for vote in given])


def _cast(vote: VoteCast) -> list[str]:
    tokens = optional(vote, "completion_tokens")
    return [
        str(vote.index + 1),
        vote.agent or vote.source_model or vote.model,
        word(VoteMode, vote.mode).lower() or UNKNOWN,
        snippet(written_vote(vote) or f"(invalid: {vote.invalid_reason})", 60),
        "" if tokens is None else str(tokens),
        "leads" if vote.changed_lead else "",
    ]


def escalation(found: Escalation) -> RenderableType:
    """Draw what became of the stronger model behind a vote."""
    why = {
        "UNDECIDED": "too few votes agreed",
        "ABSTAINED": "no vote was valid",
        "NOT_COMPARABLE": "answers to this question cannot be compared",
        "NOT_PROVED": "labels do not prove that the votes keep the promise",
    }
    reason = word(EscalationReason, found.reason)
    called = bool(reason or found.answered or found.error)
    return facts(
        {
            "model": found.model,
            "called": f"yes: {why.get(reason, reason) or UNKNOWN}" if called else "no: the votes decided",
            "answer": "given" if found.answered else "",
            "failed": found.error,
        }
    )


def citation(found: Citation) -> str:
    """Describe a passage that an answer could use.

    Example:
        >>> citation(Citation(number=1, document_id="depth", chunk=0, passage="Two hundred metres."))
        '[1] depth, chunk 1: Two hundred metres.'
        >>> citation(Citation(number=2, document_id="depth", title="The fjord"))
        '[2] The fjord (depth)'
    """
    named = f"{found.title} ({found.document_id})" if found.title else found.document_id
    chunk = f", chunk {found.chunk + 1}" if found.HasField("chunk") else ""
    passage = f": {snippet(found.passage, 400)}" if found.passage else ""
    return f"[{found.number}] {named}{chunk}{passage}"


def promised(run: Run) -> str:
    """Describe what became of the promise of a run; empty where there was none."""
    if not run.HasField("promise"):
        return ""
    found = run.promise
    state, stage = word(PromiseState, found.state), word(PromiseStage, found.stage)
    return promise_in_words(state, stage or None, found.error_at_most, found.labels, found.reason)


def assessments(found: Sequence[Assessment]) -> RenderableType:
    """Draw the self-assessments: verbalized, profile and combined confidence, and their threshold.

    `~` marks what is not a probability.
    """
    rows = [
        [
            each.agent,
            _verbalized(each),
            f"{each.profile:.2f} of {each.observations}",
            number(optional(each, "disagreement"), 2, UNKNOWN),
            f"~{each.confidence:.3f}",
            f"{each.threshold:.3f}",
            _enough(each),
        ]
        for each in found
    ]
    return table(["agent", "verbalized", "profile", "disagreement", "confidence", "threshold", ""], rows)


def _verbalized(each: Assessment) -> str:
    if not each.HasField("verbalized"):
        return f"{UNKNOWN} ({each.unknown_reason})"
    return marked_confidence(each.verbalized, word(ConfidenceState, each.verbalized_state) or None)


def _enough(each: Assessment) -> str:
    if not each.eligible:
        return f"not eligible: {each.ineligible_reason}"
    return "reached" if round(each.confidence, 9) >= round(each.threshold, 9) else "below"


def task(done: TaskFinished) -> RenderableType:
    """Draw a task: self-assessments, votes, executor, answer and label."""
    parts: list[RenderableType] = [assessments(done.assessments)] if done.assessments else []
    if len(done.votes) > 1:
        parts.append(agents_votes(done.votes))
    return Group(*parts, _task_ending(done))


def agents_votes(given: Sequence[Vote]) -> RenderableType:
    """Draw the answers of agents to a task."""
    return table(["agent", "answer", "weight", ""], [_vote(each) for each in given])


def _vote(vote: Vote) -> list[str]:
    answer = vote.failure or written_vote(vote) or UNKNOWN
    return [vote.agent, snippet(answer, 80), f"{vote.weight:.3f}", "won" if vote.won else ""]


def chosen_mode(decision: ModeChosen) -> str:
    """Describe the executor of a task, and the reason."""
    reason = word(ModeReason, decision.reason).replace("_", " ")
    match word(TaskMode, decision.mode):
        case "EXECUTED":
            return f"{decision.executor} executes: {reason}"
        case "DELEGATED":
            return f"{decision.first_agent} delegates to {decision.executor}: {reason}"
        case "COLLABORATED" if decision.panel:
            return f"{', '.join(decision.panel)} answer in turn until two agree: {reason}"
        case "COLLABORATED":
            return f"all agents answer and vote: {reason}"
    return f"no agent is available: {reason}"


PANEL_STOPS = {
    "AGREED": "two agree",
    "ALL_ASKED": "all were asked and no two agree",
    "BUDGET_EXHAUSTED": "a limit of the envelope was reached and no two agree",
}


def panel_ending(done: TaskFinished) -> str:
    """Describe how many agents of a panel were asked, and why no further one was; empty without a panel."""
    stop = word(PanelStop, done.panel_stop)
    return f"{len(done.votes)} of {len(done.decision.panel)} asked: {PANEL_STOPS[stop]}" if stop else ""


def _task_ending(done: TaskFinished) -> RenderableType:
    return facts(
        {
            "task": done.task_id,
            "executor": chosen_mode(done.decision) if done.HasField("decision") else "",
            "dimensions": ", ".join(each.dimension for each in done.dimensions),
            "answer": _answer(done) if done.outcome == OUTCOME_ANSWERED else "none: no agent gave a valid answer",
            "panel": panel_ending(done),
            "confidence": _stated(done, word(ConfidenceSource, done.confidence_source)),
            "label": label(done.label) if done.HasField("label") else "",
            "learned": "; ".join(map(_learned, done.profile_updates)),
            **resources(done),
        }
    )


def _answer(done: TaskFinished) -> str:
    """Return the answer of a task as the first vote that won writes it, of those that state its unit."""
    won = [place for place, each in enumerate(done.votes) if each.won]
    without_unit = [place for place in won if done.votes[place].unit_assumed]
    shown = written_vote(done.votes[first_shown(won, without_unit=without_unit)]) if won else None
    return shown or done.answer


def label(given: AnswerLabel) -> str:
    """Format the label of an answer, with its checker."""
    right = {True: "right", False: "wrong", None: UNKNOWN}[optional(given, "correct")]
    return f"{right}, by {(word(Checker, given.checker) or UNKNOWN).lower()}: {snippet(given.detail)}"


def _learned(update: ProfileUpdate) -> str:
    moved = f"{update.competence_before:.3f} to {update.competence_after:.3f}"
    return f"{update.agent} in {update.dimension}: {moved}"


def _in_words(reason: str) -> str:
    return reason.lower().replace("_", " ")


def _yes(flag: bool | None) -> str:
    return "" if flag is None else ("yes" if flag else "no")
