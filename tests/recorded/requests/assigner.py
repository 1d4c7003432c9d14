"""The assigner's operations."""

from collections.abc import Sequence
from typing import Any

from tests.recorded.asking import Request
from tests.recorded.requests.making import call, get, post, stream

CALM = "[rate calm] [say 42] What is 6 times 7?"
TROUBLED = "[rate troubled] [say 42|41] Shall we sell the hospital?"
TWO = [
    {"id": "a", "msv": {"correctness": 0.9, "importance": 0.2}, "capacity": 3},
    {"id": "b", "msv": {"conflict": 0.8}, "capacity": 2},
]
FIVE = [
    {
        "id": name,
        "msv": {
            "correctness": level,
            "experience": 1 - level,
            "conflict": level / 2,
            "importance": 0.5,
            "emotional_response": 0.1,
        },
    }
    for name, level in (("a", 0.9), ("b", 0.7), ("c", 0.5), ("d", 0.3), ("e", 0.1))
]
ROLES = ("EXPERT", "CRITIC", "EVALUATOR", "SYNTHESIZER", "GENERALIST")
READY = {role: {"a": 0.1 * place, "b": 1 - 0.1 * place} for place, role in enumerate(ROLES)}

ASSIGN: dict[str, Any] = {
    "two": {"agents": TWO},
    "five": {"agents": FIVE},
    "brief": {"agents": FIVE, "brief": True},
    "ready": {"agents": [{"id": "a", "capacity": 3}, {"id": "b", "capacity": 3}], "fitness": READY},
    "pins": {"agents": FIVE, "pins": {"EXPERT": "e"}},
    "forbidden": {"agents": FIVE, "forbidden": [{"role": "CRITIC", "agent": "a"}]},
    "weights": {"agents": FIVE, "weights": {"EXPERT": {"correctness": 1.0, "experience": 0.0}}},
    "weights-bad": {"agents": FIVE, "weights": {"EXPERT": {"courage": 1.0}}},
    "infeasible": {"agents": FIVE[:3]},
    "pin-and-forbid": {"agents": FIVE, "pins": {"EXPERT": "a"}, "forbidden": [{"role": "EXPERT", "agent": "a"}]},
    "pin-unknown": {"agents": FIVE, "pins": {"EXPERT": "nobody"}},
    "role-unknown": {"agents": FIVE, "pins": {"KING": "a"}},
    "nobody": {"agents": []},
    "twice": {"agents": [FIVE[0], FIVE[0]]},
    "capacity": {"agents": [{"id": "a", "capacity": 0}]},
    "range": {"agents": [{"id": "a", "msv": {"correctness": 2}, "capacity": 5}]},
    "unknown-field": {"agents": FIVE, "color": "blue"},
    "wrong-type": {"agents": "all"},
    "fitness-missing": {"agents": TWO, "fitness": {"EXPERT": {"a": 1.0}}},
}
DELIBERATE: dict[str, Any] = {
    "calm": {"question": CALM, "seed": 1},
    "troubled": {"question": TROUBLED, "seed": 1},
    "with-state": {
        "question": CALM,
        "seed": 1,
        "msv": {"experience": 0.1, "importance": 0.9, "emotional_response": 0.4},
    },
    "messages": {"messages": [{"role": "user", "content": CALM}], "seed": 1},
    "draft": {"question": CALM, "draft": "It is 41.", "seed": 1},
    "unmeasured": {"question": CALM, "measure_stages": False, "seed": 1},
    "greedy": {"question": TROUBLED, "assignment_kind": "GREEDY", "seed": 1},
    "random": {"question": TROUBLED, "assignment_kind": "RANDOM", "assignment_seed": 3, "seed": 1},
    "fixed": {"question": CALM, "assignment_kind": "FIXED", "seed": 1, "fixed_assignment": dict.fromkeys(ROLES, "ada")},
    "fixed-part": {"question": CALM, "assignment_kind": "FIXED", "seed": 1, "fixed_assignment": {"EXPERT": "ada"}},
    "agents": {"question": CALM, "agents": ["ada", "ben"], "seed": 1},
    "agents-unknown": {"question": CALM, "agents": ["nobody"]},
    "type": {"question": CALM, "answer_type": "NUMBER", "stage_max_tokens": 20, "answer_max_tokens": 6, "seed": 1},
    "truncated": {"question": f"[long 50] {CALM}", "stage_max_tokens": 10, "seed": 1},
    "limits": {"question": TROUBLED, "envelope": {"max_generations": 7}, "seed": 1},
    "limits-one": {"question": TROUBLED, "envelope": {"max_generations": 1}, "seed": 1},
    "junk": {"question": "[rate junk] [say 42] What is it?", "seed": 1},
    "empty": {"question": f"[empty] {CALM}", "seed": 1},
    "nothing": {},
    "range": {"question": CALM, "stage_max_tokens": 0},
    "unknown-field": {"question": CALM, "color": "blue"},
    "too-long": {"question": "word " * 5000, "seed": 1},
}

REQUESTS: Sequence[Request] = [
    *(post("assigner", f"assign-{name}", "/v1/assignments", body) for name, body in ASSIGN.items()),
    *(post("assigner", f"deliberate-{name}", "/v1/deliberations", body) for name, body in DELIBERATE.items()),
    *(
        stream("assigner", f"deliberate-{name}-events", "/v1/deliberations", DELIBERATE[name])
        for name in ("calm", "troubled", "limits", "agents-unknown")
    ),
    get("assigner", "assigner-readyz", "/readyz"),
    get("assigner", "assigner-path-unknown", "/v1/nowhere"),
    *(
        call("assigner", f"grpc-assign-{name}", "Assign", ASSIGN[name])
        for name in ("five", "brief", "infeasible", "range", "nobody")
    ),
    call(
        "assigner",
        "grpc-assign-forbidden",
        "Assign",
        {"agents": FIVE, "forbidden": [{"role": "ROLE_CRITIC", "agent": "a"}]},
    ),
    *(
        call("assigner", f"grpc-deliberate-{name}", "Deliberate", DELIBERATE[name])
        for name in ("calm", "troubled", "agents-unknown")
    ),
    call(
        "assigner",
        "grpc-deliberate-greedy",
        "Deliberate",
        {"question": TROUBLED, "assignment_kind": "ASSIGNMENT_KIND_GREEDY", "seed": 1},
    ),
]
