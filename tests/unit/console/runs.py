"""Runs as the router records them, small enough to read."""

from typing import Any

from google.protobuf.message import Message
from metacog.router.v1.router_pb2 import AnswerResponse, Run

from chassis.serving.wire import from_rest

Body = dict[str, Any]
USAGE: Body = {"generations": 1, "prompt_tokens": 5, "completion_tokens": 4, "estimated": False}


def stage(name: str, text: str, *, role: str, ms: float = 1000.0) -> Body:
    """A finished stage."""
    return {
        "stage": name,
        "role": role,
        "agent": role.lower(),
        "model": "m",
        "text": text,
        "prompt": "",
        "prompt_digest": "",
        "usage": USAGE,
        "duration_ms": ms,
        "truncated": False,
        "shortened_inputs": [],
        "attempts": 1,
        "succeeded": True,
        "failure": "",
    }


CHAIN = [
    stage("THESIS", "one two", role="EXPERT"),
    stage("ANTITHESIS", "three four", role="CRITIC"),
    stage("RESOLUTION", "five six", role="EVALUATOR"),
    stage("SYNTHESIS", "seven eight nine ten", role="SYNTHESIZER"),
]
MSV: Body = {name: 0.5 for name in ("emotional_response", "correctness", "experience", "conflict", "importance")}
ROLES: Body = {
    "assignment_kind": "OPTIMAL",
    "assignment": {each["role"]: each["agent"] for each in CHAIN},
    "total_fitness": 2.0,
    "propensity": 1.0,
    "optimum": None,
    "reason": "",
}


def event(name: str, data: Body) -> tuple[str, Message]:
    """An event that REST sends, as the console's client has it."""
    said = from_rest({name: data}, AnswerResponse)
    known = said.WhichOneof("event")
    assert known is not None, name
    return known, getattr(said, known)


def route(strategy: str, **more: Any) -> Body:  # noqa: ANN401
    """A decision that took half a second."""
    return {
        "system": "SYSTEM_ONE" if strategy == "system1" else "SYSTEM_TWO",
        "strategy": strategy,
        "activation": None,
        "msv": None,
        "reason": "requested",
        "assessor": "",
        "duration_ms": 500.0,
        **more,
    }


def run(strategy: str, **more: Any) -> Run:  # noqa: ANN401
    """A recorded run that took ten seconds."""
    return from_rest(run_body(strategy, **more), Run)


def run_body(strategy: str, **more: Any) -> Body:  # noqa: ANN401
    """The same run as REST has it."""
    return {
        "run_id": "r1",
        "created_at": "2026-11-22T05:00:00+00:00",
        "messages": [{"role": "user", "content": "Why?"}],
        "route": route(strategy),
        "strategy": strategy,
        "answer": "seven eight nine ten",
        "outcome": "ANSWERED",
        "confidence": None,
        "confidence_raw": None,
        "confidence_source": "",
        "calibration_version": "",
        "deliberation": None,
        "usage": USAGE,
        "envelope": {"max_generations": 1, "max_generated_tokens": 10, "timeout_ms": 1000},
        "degraded": False,
        "degraded_reasons": [],
        "fallbacks": [],
        "budget_exhausted": False,
        "finish_reason": "stop",
        "error_reason": "",
        "duration_ms": 10_000.0,
        "first_token_ms": 2_000.0,
        "config_version": "paper",
        "model": "m",
        "key_name": "",
        "feedback": [],
        **more,
    }


def deliberated(*, confidence: float | None = None, **more: Any) -> Run:  # noqa: ANN401
    """A run of the dialectic, with more in its account."""
    account = {
        "answer": "seven eight nine ten",
        "note": "",
        "note_reason": "nothing crossed fields",
        "stages": CHAIN,
        "measurements": [{"stage": each["stage"], "msv": MSV} for each in CHAIN],
        "assessments": [{"agent": "expert", "model": "m", "msv": MSV}],
        "roles": ROLES,
        "duration_ms": 6_000.0,
        **more,
    }
    return run("dialectic", deliberation=account, confidence=confidence)


def arbitrated() -> Run:
    """A run of the arbiter."""
    solver = {"agent": "s", "model": "m", "invalid": 0, "entropy": 0.5, "representative": None}
    account = {
        "answer": "4",
        "solver": {"4": 3, "5": 2},
        "arbiter": {"4": 9, "5": 1},
        "solver_invalid": 0,
        "arbiter_invalid": 1,
        "solver_results": [{**solver, "solver": 0, "counts": {"4": 3}}, {**solver, "solver": 1, "counts": {"5": 2}}],
        "critiques": [{"solver": 0, "text": "c", "succeeded": True, "duration_ms": 100.0}],
        "measures": {"entropy_solver": 0.67, "entropy_arbiter": 0.33},
    }
    return run("arbiter", deliberation=account)


def delegated() -> Run:
    """A run of delegation, handed over."""
    asked = {"agent": "beta", "profile": 0.5, "confidence": 0.7, "threshold": 0.5, "duration_ms": 50.0}
    account = {
        "decision": {"mode": "DELEGATED", "first_agent": "alpha", "executor": "beta", "reason": "better_peer"},
        "dimensions": [{"dimension": "math_computation", "certainty": 0.9}],
        "assessments": [asked],
        "votes": [{"agent": "beta", "answer": "40", "duration_ms": 80.0}],
        "label": None,
    }
    return run("delegation", deliberation=account)
