"""The router's own operations, over REST, server-sent events and gRPC."""

from collections.abc import Sequence
from typing import Any

from tests.recorded.asking import Request
from tests.recorded.requests.making import call, delete, get, post, stream

CALM = "[rate calm] [say 42] What is 6 times 7?"
TROUBLED = "[rate troubled] [say 42|41] Shall we sell the hospital?"
STATE = {"correctness": 0.45, "experience": 1.0, "conflict": 0.72, "importance": 0.85}
LOW = {"correctness": 0.95, "experience": 0.9, "conflict": 0.05, "importance": 0.1}
STRATEGIES = ("system1", "dialectic", "arbiter", "delegation")
FJORD = {
    "document_id": "depth",
    "title": "The fjord",
    "text": "The fjord is two hundred metres deep.",
    "labels": {"a": "b"},
}
LAKE = {"title": "The lake", "text": "The lake is blue and cold in winter. " * 40}
SINCE = "2020-01-01T00:00:00Z"

ASSESS: dict[str, Any] = {
    "calm": {"query": CALM, "seed": 1},
    "troubled": {"query": TROUBLED, "seed": 1},
    "verbalized": {"query": TROUBLED, "assessor": "verbalized", "seed": 1},
    "probe": {"query": f"[probe 42|42|41] {CALM}", "assessor": "probe", "seed": 1},
    "hybrid": {"query": TROUBLED, "assessor": "hybrid", "seed": 1},
    "draft": {"query": f"[probe 42|7] {CALM}", "assessor": "draft", "seed": 1},
    "junk": {"query": "[rate junk] Hm?", "assessor": "verbalized", "seed": 1},
    "messages": {
        "messages": [
            {"role": "user", "content": CALM},
            {"role": "assistant", "content": "42."},
            {"role": "user", "content": "Are you sure?"},
        ],
        "seed": 1,
    },
    "limits": {"query": CALM, "envelope": {"max_generations": 1}, "seed": 1},
    "unavailable": {"query": "[failall 503] What is it?", "assessor": "verbalized", "seed": 1},
    "emotional": {"query": "[rate calm] I am terribly afraid and furious! What shall I do?", "assessor": "verbalized"},
    "unknown-assessor": {"query": CALM, "assessor": "guess"},
    "nothing": {},
    "both": {"query": CALM, "messages": [{"role": "user", "content": CALM}]},
    "unknown-field": {"query": CALM, "nobody": 1},
    "wrong-type": {"query": 7},
    "seed-range": {"query": CALM, "seed": -1},
    "envelope-range": {"query": CALM, "envelope": {"timeout_ms": 0}},
}
ROUTE: dict[str, Any] = {
    "msv": {"msv": STATE},
    "msv-low": {"msv": LOW},
    "msv-partial": {"msv": {"correctness": 0.2, "conflict": 0.9}},
    "msv-reasons": {"msv": {"correctness": 0.2, "unknown_reasons": {"conflict": "nobody asked"}}},
    "msv-empty": {"msv": {}},
    "msv-range": {"msv": {"correctness": 2}},
    "msv-text": {"msv": {"correctness": "high"}},
    "msv-unknown": {"msv": {"courage": 0.5}},
    "query-calm": {"query": CALM, "seed": 1},
    "query-troubled": {"query": TROUBLED, "seed": 1},
    "strategy": {"msv": LOW, "strategy": "arbiter"},
    "strategy-unknown": {"msv": LOW, "strategy": "prayer"},
    "nothing": {},
    "messages-role": {"messages": [{"role": "king", "content": "x"}]},
}
ANSWER: dict[str, Any] = {
    "auto-calm": {"query": CALM, "seed": 1},
    "auto-troubled": {"query": TROUBLED, "seed": 1},
    "auto-msv": {"query": CALM, "msv": STATE, "seed": 1},
    "type": {"query": "[say true] Is 7 a prime number?", "strategy": "dialectic", "answer_type": "BOOLEAN", "seed": 1},
    "choice": {
        "query": "[say B|A] Which? A) one B) two",
        "strategy": "arbiter",
        "answer_type": "CHOICE",
        "seed": 1,
        "arbitration": {"solver_samples": 3, "arbitration_samples": 6},
    },
    "code": {
        "query": "[code] Write double in Python.",
        "strategy": "arbiter",
        "answer_type": "CODE",
        "seed": 1,
        "arbitration": {"solver_samples": 2, "arbitration_samples": 4},
    },
    "limits": {"query": TROUBLED, "strategy": "dialectic", "seed": 1, "envelope": {"max_generations": 8}},
    "tokens": {"query": TROUBLED, "strategy": "arbiter", "seed": 1, "envelope": {"max_generated_tokens": 200}},
    "fallback-off": {"query": f"[fail 503] {CALM}", "strategy": "system1", "fallback": False, "seed": 1},
    "abstain": {"query": f"[bare] {CALM}", "strategy": "delegation", "answer_type": "NUMBER", "seed": 1},
    "request-id": {"query": CALM, "strategy": "system1", "seed": 1, "request_id": "answer-1"},
    "request-id-again": {"query": CALM, "strategy": "system1", "seed": 1, "request_id": "answer-1"},
    "request-id-other": {"query": TROUBLED, "strategy": "system1", "seed": 1, "request_id": "answer-1"},
    "strategy-unknown": {"query": CALM, "strategy": "prayer"},
    "nothing": {},
    "max-tokens-range": {"query": CALM, "max_tokens": 0},
    "temperature-range": {"query": CALM, "temperature": 3},
    "stops-range": {"query": CALM, "stop": ["a", "b", "c", "d", "e"]},
    "agent-unknown": {
        "query": CALM,
        "strategy": "dialectic",
        "fallback": False,
        "seed": 1,
        "assignment_kind": "FIXED",
        "fixed_assignment": {"EXPERT": "nobody"},
    },
    "type-unknown": {"query": CALM, "answer_type": "POEM"},
    "too-long": {"query": "word " * 5000, "strategy": "system1"},
}

DECIDING: Sequence[Request] = [
    *(post("router", f"assess-{name}", "/v1/assess", body) for name, body in ASSESS.items()),
    post("lonely", "assess-lonely", "/v1/assess", ASSESS["calm"]),
    *(post("router", f"route-{name}", "/v1/route", body) for name, body in ROUTE.items()),
    post("router", "route-not-json", "/v1/route", raw="{"),
    post("router", "route-list", "/v1/route", []),
    get("router", "route-get", "/v1/route"),
    get("router", "path-unknown", "/v1/nowhere"),
    get("router", "healthz", "/healthz"),
    get("router", "readyz", "/readyz"),
    get("lonely", "readyz-lonely", "/readyz"),
    call("router", "grpc-assess-calm", "Assess", ASSESS["calm"]),
    call("router", "grpc-assess-troubled", "Assess", ASSESS["verbalized"]),
    call("router", "grpc-assess-unknown", "Assess", ASSESS["unknown-assessor"]),
    call("router", "grpc-assess-nothing", "Assess", {}),
    call("router", "grpc-route-msv", "Route", ROUTE["msv"]),
    call("router", "grpc-route-partial", "Route", ROUTE["msv-partial"]),
    call("router", "grpc-route-range", "Route", ROUTE["msv-range"]),
    call("router", "grpc-route-strategy", "Route", ROUTE["strategy-unknown"]),
]

ANSWERING: Sequence[Request] = [
    *(
        post(
            "router",
            f"answer-{name}",
            "/v1/answers",
            {"query": CALM, "strategy": name, "seed": 1},
            save={f"{name}_run": "run.run_id"},
        )
        for name in STRATEGIES
    ),
    *(
        stream("router", f"answer-{name}-events", "/v1/answers", {"query": CALM, "strategy": name, "seed": 2})
        for name in STRATEGIES
    ),
    *(
        stream(
            "router", f"answer-{name}-troubled-events", "/v1/answers", {"query": TROUBLED, "strategy": name, "seed": 3}
        )
        for name in STRATEGIES
    ),
    *(post("router", f"answer-{name}", "/v1/answers", body) for name, body in ANSWER.items()),
    stream("router", "answer-refused-events", "/v1/answers", {"query": ""}),
    stream(
        "router",
        "answer-failed-events",
        "/v1/answers",
        {"query": f"[fail 503] {CALM}", "strategy": "system1", "seed": 1},
    ),
    stream("lonely", "answer-lonely-events", "/v1/answers", {"query": TROUBLED, "strategy": "dialectic", "seed": 1}),
    post("lonely", "answer-lonely-alone", "/v1/answers", {"query": CALM, "strategy": "arbiter", "fallback": False}),
    *(
        call("router", f"grpc-answer-{name}", "Answer", {"query": TROUBLED, "strategy": name, "seed": 4})
        for name in STRATEGIES
    ),
    call("router", "grpc-answer-auto", "Answer", {"query": CALM, "seed": 4}),
    call("router", "grpc-answer-unknown", "Answer", {"query": CALM, "strategy": "prayer"}),
    call(
        "router", "grpc-answer-deadline", "Answer", {"query": f"[slow 3] {CALM}", "strategy": "system1"}, timeout_s=0.5
    ),
    call("lonely", "grpc-answer-lonely", "Answer", {"query": CALM, "strategy": "delegation", "fallback": False}),
]

KEEPING: Sequence[Request] = [
    get("router", "run-system1", "/v1/runs/${system1_run}", pause_s=1.0),
    get("router", "run-dialectic", "/v1/runs/${dialectic_run}"),
    get("router", "run-arbiter", "/v1/runs/${arbiter_run}"),
    get("router", "run-delegation", "/v1/runs/${delegation_run}"),
    get("router", "run-unknown", "/v1/runs/nobody"),
    get("router", "run-unknown-id", "/v1/runs/01890000-0000-7000-8000-000000000000"),
    get("router", "runs-page", "/v1/runs", {"page_size": "2"}, save={"runs_page": "next_page_token"}),
    get("router", "runs-next-page", "/v1/runs", {"page_size": "2", "page_token": "${runs_page}"}),
    get("router", "runs-bad-token", "/v1/runs", {"page_token": "nonsense"}),
    get("router", "runs-page-size-range", "/v1/runs", {"page_size": "1000"}),
    get("router", "runs-page-size-text", "/v1/runs", {"page_size": "many"}),
    get("router", "runs-system", "/v1/runs", {"page_size": "2", "system": "SYSTEM_TWO"}),
    get("router", "runs-system-unknown", "/v1/runs", {"system": "SYSTEM_THREE"}),
    get("router", "runs-strategy", "/v1/runs", {"page_size": "2", "strategy": "arbiter"}),
    get("router", "runs-outcome", "/v1/runs", {"page_size": "3", "outcome": "ABSTAINED"}),
    get("router", "runs-degraded", "/v1/runs", {"page_size": "2", "degraded": "true"}),
    get("router", "runs-request-id", "/v1/runs", {"request_id": "answer-1"}),
    get("router", "runs-error", "/v1/runs", {"page_size": "2", "error_reason": "BACKEND_UNAVAILABLE"}),
    get("router", "runs-assessor", "/v1/runs", {"page_size": "1", "assessor": "verbalized"}),
    get("router", "runs-since", "/v1/runs", {"until": SINCE}),
    get("router", "runs-since-text", "/v1/runs", {"since": "yesterday"}),
    get("router", "runs-unknown-field", "/v1/runs", {"color": "blue"}),
    call("router", "grpc-run", "GetRun", {"run_id": "${system1_run}"}),
    call("router", "grpc-run-dialectic", "GetRun", {"run_id": "${dialectic_run}"}),
    call("router", "grpc-run-unknown", "GetRun", {"run_id": "nobody"}),
    call("router", "grpc-runs", "ListRuns", {"page_size": 2, "strategy": "system1"}),
    call("router", "grpc-runs-bad-token", "ListRuns", {"page_token": "nonsense"}),
    call("router", "grpc-runs-page-size", "ListRuns", {"page_size": -1}),
    post(
        "router",
        "feedback",
        "/v1/feedback",
        {"feedback_id": "f1", "run_id": "${system1_run}", "correct": True, "note": "yes"},
    ),
    post(
        "router",
        "feedback-again",
        "/v1/feedback",
        {"feedback_id": "f1", "run_id": "${system1_run}", "correct": True, "note": "yes"},
    ),
    post(
        "router",
        "feedback-reused",
        "/v1/feedback",
        {"feedback_id": "f1", "run_id": "${dialectic_run}", "correct": True},
    ),
    post(
        "router",
        "feedback-contradicting",
        "/v1/feedback",
        {"feedback_id": "f2", "run_id": "${system1_run}", "correct": False},
    ),
    post("router", "feedback-score", "/v1/feedback", {"feedback_id": "f3", "run_id": "${arbiter_run}", "score": 0.75}),
    post(
        "router", "feedback-score-range", "/v1/feedback", {"feedback_id": "f4", "run_id": "${arbiter_run}", "score": 7}
    ),
    post(
        "router",
        "feedback-delegation",
        "/v1/feedback",
        {"feedback_id": "f5", "run_id": "${delegation_run}", "correct": True},
    ),
    post("router", "feedback-unknown-run", "/v1/feedback", {"feedback_id": "f6", "run_id": "nobody", "correct": True}),
    post("router", "feedback-nothing", "/v1/feedback", {}),
    post("router", "feedback-no-verdict", "/v1/feedback", {"feedback_id": "f7", "run_id": "${system1_run}"}),
    post(
        "router",
        "feedback-unknown-field",
        "/v1/feedback",
        {"feedback_id": "f8", "run_id": "x", "correct": True, "stars": 5},
    ),
    call(
        "router",
        "grpc-feedback",
        "SubmitFeedback",
        {"feedback_id": "f9", "run_id": "${dialectic_run}", "correct": False},
    ),
    call(
        "router", "grpc-feedback-unknown", "SubmitFeedback", {"feedback_id": "f10", "run_id": "nobody", "correct": True}
    ),
    get("router", "run-judged", "/v1/runs/${system1_run}", pause_s=3.0),
    get("router", "runs-judged", "/v1/runs", {"judged": "true"}),
]

KNOWING: Sequence[Request] = [
    post("router", "knowledge-add", "/v1/knowledge", {"documents": [FJORD, LAKE]}),
    stream(
        "router",
        "knowledge-add-events",
        "/v1/knowledge",
        {"documents": [{**FJORD, "title": "The deep fjord"}], "chunk_characters": 20, "chunk_overlap_characters": 5},
    ),
    post("router", "knowledge-add-nothing", "/v1/knowledge", {"documents": []}),
    post("router", "knowledge-add-no-text", "/v1/knowledge", {"documents": [{"title": "x"}]}),
    post(
        "router",
        "knowledge-add-overlap",
        "/v1/knowledge",
        {"documents": [FJORD], "chunk_characters": 5, "chunk_overlap_characters": 5},
    ),
    post("router", "knowledge-add-many", "/v1/knowledge", {"documents": [{"text": "x"}] * 1001}),
    post("router", "knowledge-add-unknown-field", "/v1/knowledge", {"documents": [{"text": "x", "color": "blue"}]}),
    post("lonely", "knowledge-add-lonely", "/v1/knowledge", {"documents": [FJORD]}),
    get("router", "knowledge-list", "/v1/knowledge"),
    get(
        "router", "knowledge-list-page", "/v1/knowledge", {"page_size": "1"}, save={"knowledge_page": "next_page_token"}
    ),
    get("router", "knowledge-list-next", "/v1/knowledge", {"page_size": "1", "page_token": "${knowledge_page}"}),
    get("router", "knowledge-list-token", "/v1/knowledge", {"page_token": "nonsense"}),
    get("router", "knowledge-list-title", "/v1/knowledge", {"title_contains": "LAKE"}),
    post("router", "knowledge-search", "/v1/knowledge:search", {"query": "How deep is the fjord?", "page_size": 3}),
    post("router", "knowledge-search-kind", "/v1/knowledge:search", {"query": CALM, "kind": "EXPERIENCE"}),
    post("router", "knowledge-search-minimum", "/v1/knowledge:search", {"query": "lake", "minimum_similarity": 0.9}),
    post("router", "knowledge-search-range", "/v1/knowledge:search", {"query": "lake", "minimum_similarity": 9}),
    post("router", "knowledge-search-nothing", "/v1/knowledge:search", {}),
    post("router", "knowledge-search-token", "/v1/knowledge:search", {"query": "lake", "page_token": "nonsense"}),
    post("lonely", "knowledge-search-lonely", "/v1/knowledge:search", {"query": "lake"}),
    post("router", "assess-known", "/v1/assess", {"query": "[rate calm] How deep is the fjord?", "seed": 1}),
    call(
        "router",
        "grpc-knowledge-add",
        "AddKnowledge",
        {"documents": [{"document_id": "sea", "text": "The sea is wide."}]},
    ),
    call("router", "grpc-knowledge-list", "ListKnowledge", {"page_size": 1}),
    call("router", "grpc-knowledge-search", "SearchKnowledge", {"query": "How wide is the sea?", "page_size": 1}),
    call("router", "grpc-knowledge-delete", "DeleteKnowledge", {"document_id": "sea"}),
    call("router", "grpc-knowledge-delete-again", "DeleteKnowledge", {"document_id": "sea"}),
    delete("router", "knowledge-delete", "/v1/knowledge/depth"),
    delete("router", "knowledge-delete-again", "/v1/knowledge/depth"),
    get("router", "calibration", "/v1/calibration"),
    get("router", "calibration-strategy", "/v1/calibration", {"strategy": "system1", "bins": "4"}),
    get("router", "calibration-bins", "/v1/calibration", {"bins": "0"}),
    get("lonely", "calibration-lonely", "/v1/calibration"),
    post(
        "router",
        "calibration-rollback",
        "/v1/calibration:rollback",
        {"strategy": "system1", "confidence_source": "draft", "none": True},
    ),
    post(
        "router",
        "calibration-rollback-version",
        "/v1/calibration:rollback",
        {"strategy": "system1", "confidence_source": "draft", "version": "nobody"},
    ),
    post("router", "calibration-rollback-nothing", "/v1/calibration:rollback", {}),
    call("router", "grpc-calibration", "GetCalibration", {}),
    call(
        "router",
        "grpc-calibration-rollback",
        "RollbackCalibration",
        {"strategy": "system1", "confidence_source": "x", "version": "y"},
    ),
    get("router", "activations", "/v1/activations", {"bins": "5"}, pause_s=0.5),
    get("router", "activations-assessor", "/v1/activations", {"assessor": "verbalized", "since": SINCE}),
    get("router", "activations-bins", "/v1/activations", {"bins": "1000"}),
    get("router", "activations-until", "/v1/activations", {"until": SINCE}),
    call("router", "grpc-activations", "GetActivations", {"bins": 4}),
    call("router", "grpc-activations-bins", "GetActivations", {"bins": 1000}),
]

# A conversation keeps its decision while its task has not changed.
TURNS = [{"role": "user", "content": TROUBLED}]
LATER = [*TURNS, {"role": "assistant", "content": "No."}, {"role": "user", "content": "Why not?"}]
CACHED: Sequence[Request] = [
    post("router", "kept-first", "/v1/answers", {"messages": TURNS, "seed": 9, "msv": STATE}),
    post(
        "router",
        "kept-first-measured",
        "/v1/answers",
        {"messages": [{"role": "user", "content": f"{TROUBLED} Soon?"}], "seed": 9},
    ),
    post(
        "router",
        "kept-later",
        "/v1/answers",
        {
            "messages": [
                {"role": "user", "content": f"{TROUBLED} Soon?"},
                {"role": "assistant", "content": "No."},
                {"role": "user", "content": "Why not?"},
            ],
            "seed": 9,
        },
        pause_s=0.5,
    ),
    post("router", "kept-route", "/v1/route", {"messages": LATER, "seed": 9}),
]

REQUESTS: Sequence[Request] = [*DECIDING, *ANSWERING, *KEEPING, *KNOWING, *CACHED]
