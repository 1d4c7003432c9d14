"""Requests where keys are needed."""

from collections.abc import Sequence

from tests.recorded.asking import Request
from tests.recorded.requests.making import PUPIL, STRANGER, TEACHER, call, chat, get, post, stream

CALM = "[rate calm] [say 42] What is 6 times 7?"
SUM = "[kind math] [able alpha=90] [say 42] What is 17 + 25?"
TASK = {"task": SUM, "dimension": "math_computation", "first_agent": "alpha", "seed": 1}
FJORD = {"document_id": "depth", "text": "The fjord is deep."}
OTHER = "guarded-delegation"

REQUESTS: Sequence[Request] = [
    get("guarded", "guarded-models", "/v1/models"),
    get("guarded", "guarded-models-key", "/v1/models", headers=TEACHER),
    chat("guarded-chat", CALM, to="guarded"),
    chat("guarded-chat-stranger", CALM, to="guarded", more={"headers": STRANGER}),
    chat("guarded-chat-key", CALM, to="guarded", model="metacog/system1", more={"headers": TEACHER}),
    post("guarded", "guarded-route", "/v1/route", {"msv": {"correctness": 0.5}}),
    post("guarded", "guarded-route-stranger", "/v1/route", {"msv": {"correctness": 0.5}}, headers=STRANGER),
    post(
        "guarded",
        "guarded-route-basic",
        "/v1/route",
        {"msv": {"correctness": 0.5}},
        headers={"authorization": "Basic eDp5"},
    ),
    post("guarded", "guarded-route-key", "/v1/route", {"msv": {"correctness": 0.5}}, headers=TEACHER),
    stream("guarded", "guarded-answer-events", "/v1/answers", {"query": CALM}),
    post(
        "guarded",
        "guarded-answer",
        "/v1/answers",
        {"query": CALM, "strategy": "system1", "seed": 1},
        headers=TEACHER,
        save={"guarded_run": "run.run_id"},
    ),
    get("guarded", "guarded-run", "/v1/runs/${guarded_run}", headers=TEACHER, pause_s=1.0),
    get("guarded", "guarded-run-pupil", "/v1/runs/${guarded_run}", headers=PUPIL),
    get("guarded", "guarded-runs-pupil", "/v1/runs", headers=PUPIL),
    post(
        "guarded",
        "guarded-feedback-pupil",
        "/v1/feedback",
        {"feedback_id": "g1", "run_id": "${guarded_run}", "correct": True},
        headers=PUPIL,
    ),
    post(
        "guarded",
        "guarded-feedback",
        "/v1/feedback",
        {"feedback_id": "g2", "run_id": "${guarded_run}", "correct": True},
        headers=TEACHER,
    ),
    post("guarded", "guarded-knowledge-pupil", "/v1/knowledge", {"documents": [FJORD]}, headers=PUPIL),
    post("guarded", "guarded-knowledge", "/v1/knowledge", {"documents": [FJORD]}, headers=TEACHER),
    post(
        "guarded",
        "guarded-rollback-pupil",
        "/v1/calibration:rollback",
        {"strategy": "system1", "confidence_source": "draft", "none": True},
        headers=PUPIL,
    ),
    get("guarded", "guarded-readyz", "/readyz"),
    get("guarded", "guarded-metrics", "/v1/nowhere"),
    call("guarded", "grpc-guarded-route", "Route", {"msv": {"correctness": 0.5}}),
    call("guarded", "grpc-guarded-route-stranger", "Route", {"msv": {"correctness": 0.5}}, headers=STRANGER),
    call("guarded", "grpc-guarded-route-key", "Route", {"msv": {"correctness": 0.5}}, headers=TEACHER),
    call("guarded", "grpc-guarded-delete-pupil", "DeleteKnowledge", {"document_id": "depth"}, headers=PUPIL),
    post(OTHER, "guarded-task", "/v1/tasks", TASK),
    post(OTHER, "guarded-task-key", "/v1/tasks", TASK, headers=TEACHER, save={"guarded_task": "task_id"}),
    post(
        OTHER,
        "guarded-task-feedback-pupil",
        "/v1/feedback",
        {"feedback_id": "g3", "task_id": "${guarded_task}", "correct": True},
        headers=PUPIL,
    ),
    post(OTHER, "guarded-reset-pupil", "/v1/profiles:reset", {"agent": "alpha"}, headers=PUPIL),
    call(OTHER, "grpc-guarded-freeze-pupil", "FreezeProfiles", {"frozen": True}, headers=PUPIL),
]
