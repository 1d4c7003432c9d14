"""What the arbiter and the delegation service did, drawn for a terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType

from cli.terminal.output import UNKNOWN, bar, cost, facts, number, snippet, table, text

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


def distribution(counts: Mapping[str, int], invalid: int = 0, answer: str = "") -> RenderableType:
    """Answers by how often they were given, the most frequent first."""
    total = sum(counts.values())
    rows = [
        [snippet(said, 60), bar(count / total, 24), f"{count / total:.2f}", str(count), "<" if said == answer else ""]
        for said, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    rows += [["(no valid answer)", "", "", str(invalid), ""]] if invalid else []
    return table(["answer", "", "share", "samples", ""], rows) if rows else text("no sample")


def arbitration(done: Body) -> RenderableType:
    """Both distributions, the critiques, the measures, the answer and what it cost."""
    parts: list[RenderableType] = [
        text("solvers", "bold"),
        distribution(done["solver"], done["solver_invalid"], done["answer"]),
    ]
    for critique in done["critiques"]:
        said = critique["text"] if critique["succeeded"] else f"failed: {critique['failure']}"
        parts.append(text(f"critique of solver {critique['solver']} by {critique['agent']}: {snippet(said, 400)}"))
    if done["arbiter"] or done["arbiter_invalid"]:
        parts += [
            text("arbiter", "bold"),
            distribution(done["arbiter"], done["arbiter_invalid"], done["answer"]),
        ]
    return Group(*parts, measures(done["measures"]), _arbitrated(done))


def measures(found: Body) -> RenderableType:
    """The measures; what is undefined says why."""
    reasons = found.get("undefined_reasons") or {}
    rows = [[label, number(found[name], 4, UNKNOWN), str(reasons.get(name, ""))] for name, label in MEASURES.items()]
    flags = {
        "right": _yes(found.get("correct")),
        "overconfident error": _yes(found.get("overconfident_error")),
        "structured disagreement": _yes(found.get("structured_disagreement")),
        "failure regimes": ", ".join(found.get("failure_regimes") or ()),
    }
    return Group(table(["measure", "", ""], rows), facts(flags))


def _arbitrated(done: Body) -> RenderableType:
    belief = number(done["confidence"], 2, UNKNOWN)
    saved = f"{done['saved_generations']} of {done['planned_generations']} generations saved"
    return facts(
        {
            "answer": done["answer"] if done["outcome"] == "ANSWERED" else "none: no sample holds a valid answer",
            "confidence": f"{belief} from {(done['answer_source'] or UNKNOWN).lower()}",
            "mode": f"{done['mode'].lower()}, {done['variant'].lower()}; {saved}",
            "stopped": (done["stopping_reason"] or "").lower().replace("_", " "),
            **_spent(done),
        }
    )


def _spent(done: Body) -> dict[str, str]:
    usage = done["usage"]
    stages = "  ".join(f"{name} {spent['completion_tokens']}" for name, spent in usage["stages"].items())
    return {
        "tokens": f"{usage['completion_tokens']} generated in {usage['generations']} generations ({stages})",
        "cost": cost(usage),
        "time": f"{done['duration_ms'] / 1000:.1f} s",
        "degraded": "; ".join(done["degraded_reasons"]),
        "limit": "a limit of the envelope was reached" if done["budget_exhausted"] else "",
    }


def assessments(found: list[Body]) -> RenderableType:
    """How agents see themselves: what they say, what their record says, and whether that does."""
    rows = [
        [
            each["agent"],
            number(each["verbalized"], 2, f"{UNKNOWN} ({each['unknown_reason']})"),
            f"{each['profile']:.2f} of {each['observations']}",
            number(each["disagreement"], 2, UNKNOWN),
            f"{each['confidence']:.3f}",
            f"{each['threshold']:.3f}",
            _enough(each),
        ]
        for each in found
    ]
    return table(["agent", "says", "record", "disagreement", "confidence", "threshold", ""], rows)


def _enough(each: Body) -> str:
    if not each["eligible"]:
        return f"may not: {each['ineligible_reason']}"
    return "sure enough" if round(each["confidence"], 9) >= round(each["threshold"], 9) else "not sure enough"


def task(done: Body) -> RenderableType:
    """Who was asked, who did it, the votes where there were any, and how it was judged."""
    parts: list[RenderableType] = [assessments(done["assessments"])] if done["assessments"] else []
    if len(done["votes"]) > 1:
        parts.append(table(["agent", "answer", "weight", ""], [_vote(each) for each in done["votes"]]))
    return Group(*parts, _task_ending(done))


def _vote(vote: Body) -> list[str]:
    said = vote["failure"] or (UNKNOWN if vote["answer"] is None else vote["answer"])
    return [vote["agent"], snippet(said, 80), f"{vote['weight']:.3f}", "won" if vote["won"] else ""]


def chosen_mode(decision: Body) -> str:
    """Who does a task, and why."""
    reason = decision["reason"].replace("_", " ")
    match decision["mode"]:
        case "EXECUTED":
            return f"{decision['executor']} does it: {reason}"
        case "DELEGATED":
            return f"{decision['first_agent']} hands it to {decision['executor']}: {reason}"
        case "COLLABORATED":
            return f"all answer and vote: {reason}"
    return f"nobody could be asked: {reason}"


def _task_ending(done: Body) -> RenderableType:
    belief = number(done["confidence"], 3, UNKNOWN)
    return facts(
        {
            "task": done["task_id"],
            "who": chosen_mode(done["decision"]) if done["decision"] else "",
            "dimensions": ", ".join(each["dimension"] for each in done["dimensions"]),
            "answer": done["answer"] if done["outcome"] == "ANSWERED" else "none: nobody gave a valid answer",
            "confidence": f"{belief} from {(done['confidence_source'] or UNKNOWN).lower()}",
            "judged": label(done["label"]) if done["label"] else "",
            "learned": "; ".join(map(_learned, done["profile_updates"])),
            **_spent(done),
        }
    )


def label(said: Body) -> str:
    """Whether an answer is right, and who says so."""
    right = {True: "right", False: "wrong", None: UNKNOWN}[said["correct"]]
    return f"{right}, by {(said['checker'] or UNKNOWN).lower()}: {snippet(said['detail'])}"


def _learned(update: Body) -> str:
    moved = f"{update['competence_before']:.3f} to {update['competence_after']:.3f}"
    return f"{update['agent']} in {update['dimension']}: {moved}"


def _yes(said: bool | None) -> str:
    return "" if said is None else ("yes" if said else "no")
