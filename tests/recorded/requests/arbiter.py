"""The arbiter's operations."""

from collections.abc import Sequence
from typing import Any

from tests.recorded.asking import Request
from tests.recorded.requests.making import call, get, post, stream

AGREED = "[say 42] What is 6 times 7?"
SPLIT = "[say 42|41|42] What is 6 times 7?"
FEW = {"solver_samples": 3, "arbitration_samples": 6, "seed": 1, "run_id": "recorded"}
NUMBER = {"answer_type": "NUMBER"}

ARBITRATE: dict[str, Any] = {
    "paper": {"question": SPLIT, "mode": "PAPER", **FEW, **NUMBER, "truth": "42"},
    "paper-agreed": {"question": AGREED, "mode": "PAPER", **FEW, **NUMBER, "truth": "41"},
    "adaptive-agreed": {"question": AGREED, "mode": "ADAPTIVE", **FEW},
    "adaptive": {
        "question": SPLIT,
        "mode": "ADAPTIVE",
        **FEW,
        "arbitration_samples": 20,
        "adaptive": {"first_batch_samples": 3},
    },
    "adaptive-stepwise": {"question": SPLIT, "mode": "ADAPTIVE", **FEW, "adaptive": {"stepwise_solving": True}},
    "samples": {"question": SPLIT, "mode": "PAPER", **FEW, **NUMBER, "return_samples": True},
    "tie": {
        "question": "[say 42|41] What is it?",
        "mode": "PAPER",
        **FEW,
        "solver_samples": 2,
        "arbitration_samples": 4,
        **NUMBER,
    },
    "inferred": {"question": "[say Graz] Where is it?", **FEW},
    "boolean": {"question": "[say true|false|true] Is it so?", "answer_type": "BOOLEAN", "mode": "PAPER", **FEW},
    "choice": {
        "question": "[say B|A|B] Which? A) one B) two C) three",
        "answer_type": "CHOICE",
        "mode": "PAPER",
        **FEW,
    },
    "text": {"question": "[say Graz|The city of Graz] Where is it?", "answer_type": "TEXT", "mode": "PAPER", **FEW},
    "text-same": {
        "question": "[same] [say Graz|The city of Graz] Where is it?",
        "answer_type": "TEXT",
        "mode": "PAPER",
        **FEW,
    },
    "code": {"question": "[code] Write double.", "answer_type": "CODE", "mode": "PAPER", **FEW},
    "agents": {
        "question": "[say 42] [say-ben 41] What is 6 times 7?",
        "solver_agents": ["ada", "ben"],
        "critic_agent": "cleo",
        "arbiter_agent": "dan",
        "mode": "PAPER",
        **FEW,
        **NUMBER,
    },
    "solvers": {
        "question": SPLIT,
        "solvers": 3,
        "solver_agents": ["ada", "ben", "cleo"],
        "mode": "PAPER",
        **FEW,
        **NUMBER,
    },
    "majority": {"question": SPLIT, "variant": "MAJORITY_VOTE", **FEW, **NUMBER, "truth": "41"},
    "reflections": {"question": SPLIT, "variant": "REFLECTIONS", "mode": "PAPER", **FEW, **NUMBER},
    "single": {"question": SPLIT, "variant": "SINGLE_ARBITER", "mode": "PAPER", **FEW, **NUMBER},
    "consistency": {"question": SPLIT, "variant": "SELF_CONSISTENCY", **FEW, **NUMBER, "self_consistency_samples": 7},
    "invalid": {"question": "[bare] What is it?", "mode": "PAPER", **FEW, **NUMBER},
    "part-invalid": {"question": "[say 42|many|42] What is it?", "mode": "PAPER", **FEW, **NUMBER},
    "budget": {"question": SPLIT, "mode": "PAPER", **FEW, **NUMBER, "envelope": {"max_generations": 9}},
    "budget-one": {"question": SPLIT, "mode": "PAPER", **FEW, **NUMBER, "envelope": {"max_generations": 1}},
    "budget-tokens": {"question": SPLIT, "mode": "PAPER", **FEW, **NUMBER, "envelope": {"max_generated_tokens": 90}},
    "truncated": {"question": f"[long 60] {SPLIT}", "mode": "PAPER", **FEW, **NUMBER, "solver_max_tokens": 20},
    "no-embedding": {"question": SPLIT, "mode": "PAPER", **FEW, **NUMBER, "embedding_measures": False},
    "thresholds": {
        "question": SPLIT,
        "mode": "PAPER",
        **FEW,
        **NUMBER,
        "novelty_threshold": 0.1,
        "overconfidence_threshold": 0.5,
        "truth": "7",
    },
    "aliases": {
        "question": "[say Graz|Vienna] Where?",
        "answer_type": "TEXT",
        "mode": "PAPER",
        **FEW,
        "truth": "City",
        "truth_aliases": ["Graz"],
    },
    "messages": {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": SPLIT}], **FEW},
    "nothing": {},
    "solvers-range": {"question": AGREED, "solvers": 0},
    "solvers-many": {"question": AGREED, "solvers": 99},
    "samples-many": {"question": AGREED, "solver_samples": 9999},
    "temperature": {"question": AGREED, "solver_temperature": 9},
    "agent-unknown": {"question": AGREED, "solver_agents": ["nobody"]},
    "agents-number": {"question": AGREED, "solver_agents": ["ada", "ben", "cleo"]},
    "mode-unknown": {"question": AGREED, "mode": "FAST"},
    "unknown-field": {"question": AGREED, "color": "blue"},
    "truth-type": {"question": AGREED, **NUMBER, "truth": "many"},
    "too-long": {"question": "word " * 5000, "seed": 1},
    "stopping": {"question": AGREED, "mode": "ADAPTIVE", "adaptive": {"stopping_probability": 0.5}},
}
MEASURE: dict[str, Any] = {
    "plain": {**NUMBER, "solver_answers": ["12", "12", "13"], "arbiter_answers": ["12", "12"], "truth": "12"},
    "indices": {
        **NUMBER,
        "solver_answers": ["12", "12", "13", "13"],
        "solver_indices": [0, 0, 1, 1],
        "arbiter_answers": ["13"],
        "truth": "12",
    },
    "tie": {**NUMBER, "solver_answers": ["12", "13"], "arbiter_answers": ["12", "13"]},
    "invalid": {**NUMBER, "solver_answers": ["", "many"], "arbiter_answers": []},
    "texts": {
        "answer_type": "TEXT",
        "solver_answers": ["Graz", "Vienna"],
        "arbiter_answers": ["Graz"],
        "solver_traces": ["Graz is a city in Styria. It has a clock tower."],
        "critiques": ["Vienna is larger."],
        "arbiter_texts": ["Graz is a city in Styria. Nobody said so before."],
    },
    "batch": {
        "batch": [
            {"id": "one", **NUMBER, "solver_answers": ["1", "2"], "arbiter_answers": ["1"], "truth": "1"},
            {"id": "two", "solver_answers": ["yes", "no", "yes"], "arbiter_answers": ["no"], "truth": "no"},
        ]
    },
    "batch-both": {"batch": [{"id": "one", "solver_answers": ["1"]}], "solver_answers": ["1"]},
    "nothing": {},
    "indices-short": {"solver_answers": ["1", "2"], "solver_indices": [0]},
    "unknown-field": {"solver_answers": ["1"], "color": "blue"},
    "threshold": {"solver_answers": ["1"], "novelty_threshold": 7},
}
SAMPLES = [
    {"solver": place % 2, "text": f"So. Final Answer: {answer}", "answer": answer}
    for place, answer in enumerate(("1", "2", "1", "2"))
]
FINAL = [{"text": f"Final Answer: {answer}", "answer": answer} for answer in ("1", "1", "2", "1", "1", "1")]
RECORDED = {
    **NUMBER,
    "id": "q",
    "recorded_solver_samples": SAMPLES,
    "recorded_arbitration_samples": FINAL,
    "truth": "1",
}
REPLAY: dict[str, Any] = {
    "paper": {**RECORDED, "mode": "PAPER"},
    "adaptive": {**RECORDED, "mode": "ADAPTIVE", "adaptive": {"first_batch_samples": 2}},
    "seeded": {**RECORDED, "mode": "ADAPTIVE", "seed": 7},
    "majority": {**RECORDED, "variant": "MAJORITY_VOTE"},
    "short": {**RECORDED, "arbitration_samples": 50},
    "limits": {**RECORDED, "mode": "PAPER", "envelope": {"max_generations": 5}},
    "nothing": {},
}

REQUESTS: Sequence[Request] = [
    *(post("arbiter", f"arbitrate-{name}", "/v1/arbitrations", body) for name, body in ARBITRATE.items()),
    *(
        stream("arbiter", f"arbitrate-{name}-events", "/v1/arbitrations", ARBITRATE[name])
        for name in ("paper", "adaptive", "samples", "invalid", "budget", "agent-unknown")
    ),
    *(post("arbiter", f"measure-{name}", "/v1/measurements", body) for name, body in MEASURE.items()),
    *(post("arbiter", f"replay-{name}", "/v1/replays", body) for name, body in REPLAY.items()),
    get("arbiter", "arbiter-readyz", "/readyz"),
    call(
        "arbiter",
        "grpc-arbitrate-paper",
        "Arbitrate",
        {"question": SPLIT, "mode": "ARBITRATION_MODE_PAPER", "answer_type": "ANSWER_TYPE_NUMBER", **FEW},
    ),
    call("arbiter", "grpc-arbitrate-adaptive", "Arbitrate", {"question": SPLIT, **FEW}),
    call("arbiter", "grpc-arbitrate-unknown", "Arbitrate", ARBITRATE["agent-unknown"]),
    call("arbiter", "grpc-arbitrate-many", "Arbitrate", ARBITRATE["solvers-many"]),
    call("arbiter", "grpc-measure", "Measure", {**MEASURE["plain"], "answer_type": "ANSWER_TYPE_NUMBER"}),
    call("arbiter", "grpc-measure-indices", "Measure", MEASURE["indices-short"]),
    call("arbiter", "grpc-replay", "Replay", {**RECORDED, "answer_type": "ANSWER_TYPE_NUMBER"}),
    call(
        "arbiter",
        "grpc-replay-short",
        "Replay",
        {**RECORDED, "answer_type": "ANSWER_TYPE_NUMBER", "arbitration_samples": 50},
    ),
]
