"""Draws the results of the arbiter and the delegation service for a terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType

from cli.answers.drawing import resources
from cli.terminal.output import UNKNOWN, bar, facts, number, snippet, table, text
from kernel.votes.states import ProbabilityState, marked_confidence, promise_in_words, state_in_words

Body = Mapping[str, Any]

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


def written(done: Body, answer: str) -> str:
    """Return an answer of an arbitration as its samples write it, and not in the form in which it is compared."""
    return str((done.get("spellings") or {}).get(answer, answer))


def written_vote(vote: Body) -> str | None:
    """Return the answer of a vote as it is written; None for an invalid vote."""
    return None if vote["answer"] is None else str(vote.get("written") or vote["answer"])


def distribution(done: Body, counts: Mapping[str, int], invalid: int = 0) -> RenderableType:
    """Draw the answers of an arbitration with their frequencies, the most frequent first."""
    total, answer = sum(counts.values()), done["answer"]
    rows = [
        [
            snippet(written(done, each), 60),
            bar(count / total, 24),
            f"{count / total:.2f}",
            str(count),
            "<" if each == answer else "",
        ]
        for each, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    rows += [["(no valid answer)", "", "", str(invalid), ""]] if invalid else []
    return table(["answer", "", "share", "samples", ""], rows) if rows else text("no sample")


def arbitration(done: Body) -> RenderableType:
    """Draw both distributions, the critiques, the measures, the answer and its cost."""
    parts: list[RenderableType] = [
        text("solvers", "bold"),
        distribution(done, done["solver"], done["solver_invalid"]),
    ]
    for critique in done["critiques"]:
        content = critique["text"] if critique["succeeded"] else f"failed: {critique['failure']}"
        parts.append(text(f"critique of solver {critique['solver']} by {critique['agent']}: {snippet(content, 400)}"))
    if done["arbiter"] or done["arbiter_invalid"]:
        parts += [
            text("arbiter", "bold"),
            distribution(done, done["arbiter"], done["arbiter_invalid"]),
        ]
    return Group(*parts, measures(done["measures"]), _arbitrated(done))


def measures(found: Body) -> RenderableType:
    """Draw the measures; an undefined one has its reason."""
    reasons = found.get("undefined_reasons") or {}
    rows = [[label, number(found[name], 4, UNKNOWN), str(reasons.get(name, ""))] for name, label in MEASURES.items()]
    flags = {
        "right": _yes(found.get("correct")),
        "overconfident error": _yes(found.get("overconfident_error")),
        "structured disagreement": _yes(found.get("structured_disagreement")),
        "failure regimes": ", ".join(found.get("failure_regimes") or ()),
    }
    return Group(table(["measure", "", ""], rows), facts(flags))


def _stated(done: Body, source: str | None) -> str:
    """Describe a confidence that a service states itself."""
    if done["confidence"] is None:
        return UNKNOWN
    state = done.get("confidence_state") or ProbabilityState.UNCALIBRATED
    shown = marked_confidence(done["confidence"], state)
    return f"{shown} from {(source or UNKNOWN).lower()}; {state_in_words(state, 0)}"


def _arbitrated(done: Body) -> RenderableType:
    saved = f"{done['saved_generations']} of {done['planned_generations']} generations saved"
    return facts(
        {
            "answer": written(done, done["answer"])
            if done["outcome"] == "ANSWERED"
            else "none: no sample holds a valid answer",
            "confidence": _stated(done, done["answer_source"]),
            "mode": f"{done['mode'].lower()}, {done['variant'].lower()}; {saved}",
            "stopped": (done["stopping_reason"] or "").lower().replace("_", " "),
            **resources(done),
        }
    )


def votes(done: Body) -> RenderableType:
    """Draw the votes in the order in which they came, and how the vote ended."""
    rows = [
        [
            str(vote["index"] + 1),
            vote["agent"] or vote.get("source_model") or vote["model"],
            vote["mode"].lower(),
            snippet(written_vote(vote) or f"(invalid: {vote['invalid_reason']})", 60),
            "" if vote["completion_tokens"] is None else str(vote["completion_tokens"]),
            "leads" if vote["changed_lead"] else "",
        ]
        for vote in done["votes"]
    ]
    winning = done["groups"][0]["votes"] if done["groups"] else []
    winner = written_vote(done["votes"][winning[0]]) if winning else None
    valid = len(done["votes"]) - done["invalid"]
    ending = facts(
        {
            "winner": snippet(winner, 60) if winner is not None else "none: no vote is valid",
            "outcome": f"{done['outcome'].lower()}: {len(winning)} of {valid} valid votes agree",
            "stopped": (done["stop_reason"] or "").lower().replace("_", " "),
            "left out": "; ".join(done["left_out"]),
        }
    )
    return Group(table(["vote", "source", "mode", "answer", "tokens", ""], rows), ending)


def escalation(found: Body) -> RenderableType:
    """Draw what became of the stronger model behind a vote."""
    why = {
        "UNDECIDED": "too few votes agreed",
        "ABSTAINED": "no vote was valid",
        "NOT_COMPARABLE": "answers to this question cannot be compared",
        "NOT_PROVED": "labels do not prove that the votes keep the promise",
    }
    reason = found["reason"]
    return facts(
        {
            "model": found["model"],
            "called": f"yes: {why.get(reason, reason)}" if reason else "no: the votes decided",
            "answer": "given" if found["answered"] else "",
            "failed": found["error"],
        }
    )


def promised(found: Body | None) -> str:
    """Describe what became of a promise; empty where there was none."""
    if not found:
        return ""
    return promise_in_words(found["state"], found["stage"], found["error_at_most"], found["labels"], found["reason"])


def assessments(found: list[Body]) -> RenderableType:
    """Draw the self-assessments: verbalized, profile and combined confidence, and their threshold.

    `~` marks what is not a probability.
    """
    rows = [
        [
            each["agent"],
            _verbalized(each),
            f"{each['profile']:.2f} of {each['observations']}",
            number(each["disagreement"], 2, UNKNOWN),
            f"~{each['confidence']:.3f}",
            f"{each['threshold']:.3f}",
            _enough(each),
        ]
        for each in found
    ]
    return table(["agent", "verbalized", "profile", "disagreement", "confidence", "threshold", ""], rows)


def _verbalized(each: Body) -> str:
    if each["verbalized"] is None:
        return f"{UNKNOWN} ({each['unknown_reason']})"
    return marked_confidence(each["verbalized"], each.get("verbalized_state"))


def _enough(each: Body) -> str:
    if not each["eligible"]:
        return f"not eligible: {each['ineligible_reason']}"
    return "reached" if round(each["confidence"], 9) >= round(each["threshold"], 9) else "below"


def task(done: Body) -> RenderableType:
    """Draw a task: self-assessments, votes, executor, answer and label."""
    parts: list[RenderableType] = [assessments(done["assessments"])] if done["assessments"] else []
    if len(done["votes"]) > 1:
        parts.append(table(["agent", "answer", "weight", ""], [_vote(each) for each in done["votes"]]))
    return Group(*parts, _task_ending(done))


def _vote(vote: Body) -> list[str]:
    answer = vote["failure"] or written_vote(vote) or UNKNOWN
    return [vote["agent"], snippet(answer, 80), f"{vote['weight']:.3f}", "won" if vote["won"] else ""]


def chosen_mode(decision: Body) -> str:
    """Describe the executor of a task, and the reason."""
    reason = decision["reason"].replace("_", " ")
    match decision["mode"]:
        case "EXECUTED":
            return f"{decision['executor']} executes: {reason}"
        case "DELEGATED":
            return f"{decision['first_agent']} delegates to {decision['executor']}: {reason}"
        case "COLLABORATED" if decision.get("panel"):
            return f"{', '.join(decision['panel'])} answer in turn until two agree: {reason}"
        case "COLLABORATED":
            return f"all agents answer and vote: {reason}"
    return f"no agent is available: {reason}"


PANEL_STOPS = {
    "AGREED": "two agree",
    "ALL_ASKED": "all were asked and no two agree",
    "BUDGET_EXHAUSTED": "a limit of the envelope was reached and no two agree",
}


def panel_ending(done: Body) -> str:
    """Describe how many agents of a panel were asked, and why no further one was; empty without a panel."""
    if not done.get("panel_stop"):
        return ""
    return f"{len(done['votes'])} of {len(done['decision']['panel'])} asked: {PANEL_STOPS[done['panel_stop']]}"


def _task_ending(done: Body) -> RenderableType:
    return facts(
        {
            "task": done["task_id"],
            "executor": chosen_mode(done["decision"]) if done["decision"] else "",
            "dimensions": ", ".join(each["dimension"] for each in done["dimensions"]),
            "answer": next((str(written_vote(each)) for each in done["votes"] if each["won"]), done["answer"])
            if done["outcome"] == "ANSWERED"
            else "none: no agent gave a valid answer",
            "panel": panel_ending(done),
            "confidence": _stated(done, done["confidence_source"]),
            "label": label(done["label"]) if done["label"] else "",
            "learned": "; ".join(map(_learned, done["profile_updates"])),
            **resources(done),
        }
    )


def label(given: Body) -> str:
    """Format the label of an answer, with its checker."""
    right = {True: "right", False: "wrong", None: UNKNOWN}[given["correct"]]
    return f"{right}, by {(given['checker'] or UNKNOWN).lower()}: {snippet(given['detail'])}"


def _learned(update: Body) -> str:
    moved = f"{update['competence_before']:.3f} to {update['competence_after']:.3f}"
    return f"{update['agent']} in {update['dimension']}: {moved}"


def _yes(flag: bool | None) -> str:
    return "" if flag is None else ("yes" if flag else "no")
