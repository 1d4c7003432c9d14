"""Replies of the suite's APIs, read into one form. Pure.

Each API spells a reply in its own way; figures need the text that is judged, the confidence, and what was spent.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from evals.errors import RecordsUnusable
from evals.records import Record
from kernel.envelope import StageUsage
from kernel.values import value

Reply = Mapping[str, Any]


@value
class ArmAnswer:
    """The answer of an arm.

    Attributes:
        text: The text that is judged; empty where it gave none.
        confidence: Its confidence in that [0..1]; None when unknown.
        spent: Generations, calls and tokens, over all stages.
        duration_ms: Time that it took by the service's own clock [ms].
        models: Names of the models that took part, as far as they are reported.
        digests: Prompt digests by name, as far as they are reported.
        degraded: Whether something failed on the way.
        configuration: Version of the configuration in force; empty where it is not reported.
    """

    text: str
    confidence: float | None
    spent: StageUsage
    duration_ms: float
    models: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    degraded: bool = False
    configuration: str = ""


NO_ANSWER = ArmAnswer(text="", confidence=None, spent=StageUsage(), duration_ms=0.0)


def read_answer(record: Record) -> ArmAnswer | None:
    """The answer in the reply of `record`; None for an error.

    Raises:
        RecordsUnusable: When it lacks what its API always returns.
    """
    reply = record.get("reply")
    if reply is None:
        return None
    try:
        return _READERS[record["path"]](reply)
    except (KeyError, TypeError, IndexError) as error:
        raise RecordsUnusable(f"the reply to {record['item']} by {record['arm']} lacks {error}") from error


def texts(path: str, reply: Reply) -> Mapping[str, str]:
    """The texts of a reply that can be judged, by who wrote them; `answer` is the one that is given."""
    votes = {f"vote:{vote['agent']}": vote["text"] for vote in reply.get("votes") or ()}
    return {"answer": _READERS[path](reply).text, **votes}


def read_usage(usage: Reply) -> StageUsage:
    """Return what was spent, as an API reports it."""
    return StageUsage(
        generations=usage["generations"],
        http_calls=usage["http_calls"],
        prompt_tokens=usage["prompt_tokens"],
        completion_tokens=usage["completion_tokens"],
        estimated=bool(usage.get("estimated")),
    )


def _chat(reply: Reply) -> ArmAnswer:
    metacog = reply["metacog"]
    stages = metacog.get("stages") or ()
    abstained = metacog["outcome"] == "ABSTAINED"
    return ArmAnswer(
        text="" if abstained else reply["choices"][0]["message"]["content"] or "",
        confidence=metacog["confidence"],
        spent=read_usage(metacog["usage"]),
        duration_ms=metacog["duration_ms"],
        models=_named(*(stage["model"] for stage in stages), *(() if stages else (reply.get("model"),))),
        digests={stage["stage"]: stage["prompt_digest"] for stage in stages},
        degraded=metacog["degraded"],
    )


def _arbitration(reply: Reply) -> ArmAnswer:
    solvers = [solver["model"] for solver in reply["solver_results"]]
    return ArmAnswer(
        text=reply["answer_text"] if reply["outcome"] == "ANSWERED" else "",
        confidence=reply["confidence"],
        spent=read_usage(reply["usage"]),
        duration_ms=reply["duration_ms"],
        models=_named(*solvers, reply["arbiter_model"]),
        digests=reply["prompt_digests"],
        degraded=reply["degraded"],
    )


def _deliberation(reply: Reply) -> ArmAnswer:
    return ArmAnswer(
        text=reply["answer"],
        confidence=_last_correctness(reply),
        spent=read_usage(reply["usage"]),
        duration_ms=reply["duration_ms"],
        models=_named(*(stage["model"] for stage in reply["stages"])),
        digests={stage["stage"]: stage["prompt_digest"] for stage in reply["stages"]},
        degraded=reply["degraded"],
    )


def _last_correctness(reply: Reply) -> float | None:
    """Correctness of the final text as its assessor rated it; None when that is unknown."""
    measured = reply["measurements"]
    return (measured[-1]["msv"] or {}).get("correctness") if measured else None


def _task(reply: Reply) -> ArmAnswer:
    return ArmAnswer(
        text=reply["answer_text"] if reply["outcome"] == "ANSWERED" else "",
        confidence=reply["confidence"],
        spent=read_usage(reply["usage"]),
        duration_ms=reply["duration_ms"],
        models=_named(*(vote["model"] for vote in reply["votes"])),
        digests=reply["prompt_digests"],
        degraded=reply["degraded"],
        configuration=reply.get("config_version") or "",
    )


def _decision(reply: Reply) -> ArmAnswer:
    return ArmAnswer(
        text="",
        confidence=None,
        spent=read_usage(reply["usage"]),
        duration_ms=reply["duration_ms"],
        digests=reply.get("prompt_digests") or {},
    )


def _by_others(reply: Reply) -> ArmAnswer:
    """Return what a system that is not the suite's answered, in the few fields that its script records."""
    return ArmAnswer(
        text=reply["text"],
        confidence=None,
        spent=read_usage(reply["usage"]),
        duration_ms=reply["duration_ms"],
        models=_named(reply.get("model")),
    )


def _named(*models: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(model for model in models if model))


_READERS: Mapping[str, Callable[[Reply], ArmAnswer]] = {
    "/v1/chat/completions": _chat,
    "/v1/arbitrations": _arbitration,
    "/v1/replays": lambda reply: _arbitration(reply["arbitration"]),
    "/v1/deliberations": _deliberation,
    "/v1/tasks": _task,
    "/v1/route": _decision,
    "/v1/self-assessments": _decision,
    "autogen": _by_others,
}
