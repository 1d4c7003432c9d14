"""The delegation service's operations."""

from collections.abc import Sequence
from typing import Any

from tests.recorded.asking import Request
from tests.recorded.requests.making import call, get, post, stream

SUM = "[kind math] [able alpha=90,beta=30,gamma=20] [say 42] What is 17 + 25?"
FACT = "[kind knowledge] [able alpha=20,beta=92,gamma=10] [say Graz] [say-alpha Vienna] Where is the clock tower?"
HARD = "[kind code] [able alpha=20,beta=30,gamma=25] [say 42] [say-beta 41] What is it?"
PYTHON = "[kind code] [code] [able gamma=95] Write a Python function double."
SAME = {"seed": 1, "run_id": "recorded"}
MATH = {"dimension": "math_computation", **SAME}
RIGHT = {"expected": {"answer": "42", "answer_type": "NUMBER"}}

TASK: dict[str, Any] = {
    "executed": {"task": SUM, **MATH, "first_agent": "alpha", **RIGHT},
    "classified": {"task": SUM, **SAME, "first_agent": "alpha"},
    "delegated": {
        "task": FACT,
        **SAME,
        "first_agent": "alpha",
        "expected": {"answer": "Graz", "aliases": ["City of Graz"]},
    },
    "collaborated": {"task": HARD, **SAME, "answer_type": "NUMBER", "first_agent": "beta", **RIGHT},
    "round-robin": {"task": SUM, **MATH, "dispatch": "ROUND_ROBIN"},
    "best-profile": {"task": SUM, **MATH, "dispatch": "BEST_PROFILE"},
    "wrong": {"task": SUM, **MATH, "first_agent": "alpha", "expected": {"answer": "43", "answer_type": "NUMBER"}},
    "judged": {
        "task": f"[judge 85] {SUM}",
        **MATH,
        "first_agent": "alpha",
        "judge": {"criteria": "It must be a number."},
    },
    "judged-wrong": {"task": f"[judge 10] {SUM}", **MATH, "first_agent": "alpha", "judge": {}},
    "two-dimensions": {
        "task": SUM,
        **SAME,
        "dimensions": ["math_computation", "logical_reasoning"],
        "first_agent": "alpha",
    },
    "embedded": {"task": SUM, **SAME, "classifier": "EMBEDDING", "first_agent": "alpha"},
    "agents": {"task": SUM, **MATH, "agents": ["beta", "gamma"], "first_agent": "beta"},
    "parameters": {
        "task": SUM,
        **MATH,
        "first_agent": "beta",
        "parameters": {
            "confidence_threshold": 0.9,
            "verbalized_weight": 0.2,
            "hand_over_rule": "PAPER",
            "exploration": "NONE",
        },
    },
    "upper-bound": {
        "task": SUM,
        **MATH,
        "first_agent": "beta",
        "parameters": {"exploration": "UPPER_BOUND", "short_list_size": 1},
    },
    "baseline-single": {"task": SUM, **MATH, "baseline": "SINGLE_AGENT", **RIGHT},
    "baseline-majority": {"task": HARD, **MATH, "baseline": "MAJORITY_VOTE", "answer_type": "NUMBER"},
    "baseline-random": {"task": SUM, **MATH, "baseline": "RANDOM"},
    "baseline-skill": {"task": SUM, **MATH, "baseline": "SKILL_FIXED"},
    "baseline-round-robin": {"task": SUM, **MATH, "baseline": "ROUND_ROBIN"},
    "without-assessment": {"task": SUM, **MATH, "ablations": ["WITHOUT_SELF_ASSESSMENT"], "first_agent": "alpha"},
    "without-delegation": {"task": FACT, **MATH, "ablations": ["WITHOUT_DELEGATION"], "first_agent": "alpha"},
    "without-learning": {"task": SUM, **MATH, "ablations": ["WITHOUT_LEARNING"], "first_agent": "alpha", **RIGHT},
    "code": {"task": PYTHON, **SAME, "dimension": "code_generation", "first_agent": "gamma", "answer_type": "CODE"},
    "abstained": {
        "task": "[bare] [able alpha=90] What is it?",
        **MATH,
        "answer_type": "NUMBER",
        "first_agent": "alpha",
    },
    "unrated": {"task": "[rate junk] [say 42] What is it?", **MATH, "first_agent": "alpha"},
    "messages": {
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": SUM}],
        **MATH,
        "first_agent": "alpha",
    },
    "budget": {"task": HARD, **MATH, "first_agent": "beta", "envelope": {"max_generations": 4}},
    "budget-one": {"task": HARD, **MATH, "first_agent": "beta", "envelope": {"max_generations": 1}},
    "truncated": {"task": f"[long 50] {SUM}", **MATH, "first_agent": "alpha", "answer_max_tokens": 10},
    "request-id": {"task": SUM, **MATH, "first_agent": "alpha", "request_id": "task-1"},
    "request-id-again": {"task": SUM, **MATH, "first_agent": "alpha", "request_id": "task-1"},
    "request-id-other": {"task": FACT, **MATH, "first_agent": "alpha", "request_id": "task-1"},
    "nothing": {},
    "dimension-unknown": {"task": SUM, "dimension": "cooking"},
    "dimension-both": {"task": SUM, "dimension": "math_computation", "dimensions": ["math_computation"]},
    "agent-unknown": {"task": SUM, **MATH, "agents": ["nobody"]},
    "first-unknown": {"task": SUM, **MATH, "first_agent": "nobody"},
    "checks-two": {"task": SUM, **MATH, "expected": {"answer": "42"}, "judge": {}},
    "type-check": {"task": SUM, **MATH, "answer_type": "CODE", **RIGHT},
    "envelope": {"task": SUM, **MATH, "envelope": {"max_generations": 0}},
    "parameters-range": {"task": SUM, **MATH, "parameters": {"confidence_threshold": 3}},
    "temperature": {"task": SUM, **MATH, "temperature": 5},
    "baseline-unknown": {"task": SUM, **MATH, "baseline": "ORACLE"},
    "unknown-field": {"task": SUM, **MATH, "color": "blue"},
    "wrong-type": {"task": 7},
    "failed": {"task": f"[fail 503] {SUM}", **MATH, "agents": ["alpha"]},
    "after-failed": {"task": SUM, **MATH, "first_agent": "alpha"},
    "too-long": {"task": "word " * 5000, **MATH, "first_agent": "alpha"},
    "longest": {"task": "x" * 100_001, **MATH},
}
ASSESS: dict[str, Any] = {
    "all": {"task": SUM, **SAME},
    "agents": {"task": SUM, **MATH, "agents": ["beta"]},
    "junk": {"task": "[rate junk] What is it?", **MATH},
    "embedded": {"task": SUM, **SAME, "classifier": "EMBEDDING"},
    "agent-unknown": {"task": SUM, **MATH, "agents": ["nobody"]},
    "dimension-unknown": {"task": SUM, "dimension": "cooking"},
    "nothing": {},
}
PROFILE = {"agent": "gamma", "dimension": "logical_reasoning", "competence": 0.8, "observations": 12}

WORKING: Sequence[Request] = [
    get("delegation", "agents-before", "/v1/agents"),
    post("delegation", "task-first", "/v1/tasks", TASK["executed"], save={"task": "task_id"}),
    post("delegation", "task-second", "/v1/tasks", TASK["classified"], save={"other_task": "task_id"}),
    *(post("delegation", f"task-{name}", "/v1/tasks", body) for name, body in TASK.items()),
    *(
        stream("delegation", f"task-{name}-events", "/v1/tasks", TASK[name])
        for name in (
            "executed",
            "delegated",
            "collaborated",
            "judged",
            "abstained",
            "agent-unknown",
            "baseline-majority",
        )
    ),
    *(post("delegation", f"self-assess-{name}", "/v1/self-assessments", body) for name, body in ASSESS.items()),
    post(
        "delegation",
        "task-feedback-known",
        "/v1/feedback",
        {"feedback_id": "t0", "task_id": "${task}", "correct": True},
    ),
    post(
        "delegation",
        "task-feedback-conflict",
        "/v1/feedback",
        {"feedback_id": "t1", "task_id": "${task}", "correct": False},
    ),
    post(
        "delegation",
        "task-feedback",
        "/v1/feedback",
        {"feedback_id": "t2", "task_id": "${other_task}", "correct": True, "note": "n"},
    ),
    post(
        "delegation",
        "task-feedback-again",
        "/v1/feedback",
        {"feedback_id": "t2", "task_id": "${other_task}", "correct": True, "note": "n"},
    ),
    post(
        "delegation",
        "task-feedback-reused",
        "/v1/feedback",
        {"feedback_id": "t2", "task_id": "${task}", "correct": True},
    ),
    post(
        "delegation",
        "task-feedback-unknown",
        "/v1/feedback",
        {"feedback_id": "t3", "task_id": "nobody", "correct": True},
    ),
    post("delegation", "task-feedback-nothing", "/v1/feedback", {}),
]

LEARNED: Sequence[Request] = [
    get("delegation", "agents", "/v1/agents"),
    get("delegation", "agents-page", "/v1/agents", {"page_size": "1"}, save={"agents_page": "next_page_token"}),
    get("delegation", "agents-next", "/v1/agents", {"page_size": "1", "page_token": "${agents_page}"}),
    get("delegation", "agents-token", "/v1/agents", {"page_token": "nonsense"}),
    get("delegation", "profiles", "/v1/profiles"),
    get("delegation", "profiles-agent", "/v1/profiles", {"agent": "alpha", "dimension": "math_computation"}),
    get("delegation", "profiles-unknown", "/v1/profiles", {"agent": "nobody"}),
    get("delegation", "profiles-token", "/v1/profiles", {"page_token": "nonsense"}),
    get("delegation", "profiles-page-size", "/v1/profiles", {"page_size": "0"}),
    get("delegation", "profiles-export", "/v1/profiles:export", {"agent": "alpha", "include_history": "true"}),
    get("delegation", "profiles-export-unknown", "/v1/profiles:export", {"dimension": "cooking"}),
    post("delegation", "profiles-freeze", "/v1/profiles:freeze", {"agent": "beta", "frozen": True}),
    get("delegation", "profiles-frozen", "/v1/profiles", {"agent": "beta"}),
    post(
        "delegation",
        "task-frozen",
        "/v1/tasks",
        {"task": FACT, **SAME, "first_agent": "beta", "expected": {"answer": "Graz"}},
    ),
    post("delegation", "profiles-thaw", "/v1/profiles:freeze", {"agent": "beta", "frozen": False}),
    post("delegation", "profiles-freeze-nothing", "/v1/profiles:freeze", {}),
    post("delegation", "profiles-freeze-unknown", "/v1/profiles:freeze", {"agent": "nobody", "frozen": True}),
    post(
        "delegation", "profiles-import", "/v1/profiles:import", {"profiles": [{"profile": PROFILE}], "rule": "REPLACE"}
    ),
    post(
        "delegation",
        "profiles-import-keep",
        "/v1/profiles:import",
        {"profiles": [{"profile": {**PROFILE, "competence": 0.1}}], "rule": "KEEP"},
    ),
    post(
        "delegation",
        "profiles-import-bad",
        "/v1/profiles:import",
        {"profiles": [{"profile": {**PROFILE, "competence": 7}}]},
    ),
    post(
        "delegation",
        "profiles-import-agent",
        "/v1/profiles:import",
        {"profiles": [{"profile": {**PROFILE, "agent": "nobody"}}]},
    ),
    post("delegation", "profiles-import-nothing", "/v1/profiles:import", {"profiles": []}),
    get("delegation", "profiles-imported", "/v1/profiles", {"agent": "gamma"}),
    post("delegation", "profiles-reset", "/v1/profiles:reset", {"agent": "gamma", "dimension": "logical_reasoning"}),
    post(
        "delegation", "profiles-reset-again", "/v1/profiles:reset", {"agent": "gamma", "dimension": "logical_reasoning"}
    ),
    post("delegation", "profiles-reset-unknown", "/v1/profiles:reset", {"dimension": "cooking"}),
    get("delegation", "flows", "/v1/flows"),
    get("delegation", "flows-dimension", "/v1/flows", {"dimension": "knowledge_retrieval"}),
    get("delegation", "flows-baseline", "/v1/flows", {"baseline": "MAJORITY_VOTE"}),
    get("delegation", "flows-unknown", "/v1/flows", {"dimension": "cooking"}),
    get("delegation", "reliability", "/v1/reliability", {"bins": "4"}),
    get("delegation", "reliability-source", "/v1/reliability", {"confidence_source": "COMBINED", "agent": "alpha"}),
    get("delegation", "reliability-bins", "/v1/reliability", {"bins": "0"}),
    get("delegation", "drift", "/v1/drift"),
    get("delegation", "drift-token", "/v1/drift", {"page_token": "nonsense"}),
    get("delegation", "drift-since", "/v1/drift", {"since": "yesterday"}),
    post("delegation", "categories-discover", "/v1/categories:discover", {"tasks": 20, "minimum_tasks": 3}),
    post("delegation", "categories-discover-range", "/v1/categories:discover", {"tasks": 1}),
    get("delegation", "categories", "/v1/categories"),
    post("delegation", "categories-adopt-unknown", "/v1/categories:adopt", {"category_id": "nobody"}),
    post("delegation", "categories-adopt-nothing", "/v1/categories:adopt", {}),
    get("delegation", "delegation-readyz", "/readyz"),
    get("delegation", "delegation-path-unknown", "/v1/nowhere"),
]

CALLS: Sequence[Request] = [
    call(
        "delegation",
        "grpc-process-executed",
        "Process",
        {
            "task": SUM,
            **MATH,
            "first_agent": "alpha",
            "expected": {"answer": "42", "answer_type": "ANSWER_TYPE_NUMBER"},
        },
        save={"grpc_task": "task_id"},
    ),
    call("delegation", "grpc-process-delegated", "Process", TASK["delegated"]),
    call(
        "delegation", "grpc-process-baseline", "Process", {"task": HARD, **MATH, "baseline": "BASELINE_MAJORITY_VOTE"}
    ),
    call("delegation", "grpc-process-unknown", "Process", TASK["agent-unknown"]),
    call("delegation", "grpc-process-nothing", "Process", {}),
    call("delegation", "grpc-self-assess", "SelfAssess", ASSESS["all"]),
    call("delegation", "grpc-self-assess-unknown", "SelfAssess", ASSESS["dimension-unknown"]),
    call(
        "delegation",
        "grpc-task-feedback",
        "SubmitFeedback",
        {"feedback_id": "t9", "task_id": "${grpc_task}", "correct": True},
    ),
    call(
        "delegation",
        "grpc-task-feedback-unknown",
        "SubmitFeedback",
        {"feedback_id": "t10", "task_id": "nobody", "correct": True},
    ),
    call("delegation", "grpc-agents", "ListAgents", {"page_size": 2}),
    call("delegation", "grpc-profiles", "ListProfiles", {"agent": "alpha"}),
    call("delegation", "grpc-profiles-token", "ListProfiles", {"page_token": "nonsense"}),
    call("delegation", "grpc-profiles-export", "ExportProfiles", {"agent": "beta", "include_history": True}),
    call(
        "delegation",
        "grpc-profiles-import",
        "ImportProfiles",
        {"profiles": [{"profile": PROFILE}], "rule": "IMPORT_RULE_REPLACE"},
    ),
    call("delegation", "grpc-profiles-freeze", "FreezeProfiles", {"agent": "gamma", "frozen": True}),
    call("delegation", "grpc-profiles-thaw", "FreezeProfiles", {"agent": "gamma", "frozen": False}),
    call("delegation", "grpc-profiles-reset", "ResetProfiles", {"agent": "gamma"}),
    call("delegation", "grpc-flows", "GetFlows", {"dimension": "math_computation"}),
    call("delegation", "grpc-reliability", "GetReliability", {"bins": 2, "agent": "alpha"}),
    call("delegation", "grpc-drift", "ListDriftEvents", {"agent": "alpha"}),
    call("delegation", "grpc-categories", "ListCategories", {}),
    call("delegation", "grpc-categories-discover", "DiscoverCategories", {"tasks": 20, "minimum_tasks": 3}),
    call("delegation", "grpc-categories-adopt", "AdoptCategory", {"category_id": "nobody"}),
]

REQUESTS: Sequence[Request] = [*WORKING, *LEARNED, *CALLS]
