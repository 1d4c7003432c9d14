"""Chat completions and models: the OpenAI face of the router."""

from collections.abc import Sequence

from tests.recorded.asking import Request
from tests.recorded.requests.making import chat, get, post, stream

PATH = "/v1/chat/completions"
CALM = "[rate calm] [say 42] What is 6 times 7?"
TROUBLED = "[rate troubled] [say 42|41] Shall we sell the hospital?"
TOOLS = [
    {
        "type": "function",
        "function": {"name": "lookup", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
]
MODELS = ("metacog", "metacog/system1", "metacog/dialectic", "metacog/arbiter", "metacog/delegation")
SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "x",
        "schema": {
            "type": "object",
            "properties": {"r": {"type": "array", "items": {"type": "integer", "maximum": 100}, "minItems": 3}},
        },
    },
}


def _short(model: str) -> str:
    return model.partition("/")[2] or "auto"


def _streamed(name: str, text: str, model: str = "metacog", **body: object) -> Request:
    messages = [{"role": "user", "content": text}]
    return stream("router", name, PATH, {"model": model, "messages": messages, "stream": True, **body})


PLAIN: Sequence[Request] = [
    get("router", "models", "/v1/models"),
    get("router", "model-one", "/v1/models/metacog"),
    get("lonely", "models-lonely", "/v1/models"),
    *(chat(f"chat-{_short(model)}-calm", CALM, model=model, seed=1) for model in MODELS),
    *(chat(f"chat-{_short(model)}-troubled", TROUBLED, model=model, seed=2) for model in MODELS),
    *(_streamed(f"chat-{_short(model)}-streamed", CALM, model, seed=3) for model in MODELS),
    _streamed("chat-auto-troubled-streamed", TROUBLED, seed=4, stream_options={"include_usage": True}),
    _streamed("chat-system1-usage-streamed", CALM, "metacog/system1", stream_options={"include_usage": True}),
    _streamed("chat-dialectic-events-streamed", CALM, "metacog/dialectic", seed=4, metacog={"stage_events": True}),
    _streamed("chat-system1-logprobs-streamed", CALM, "metacog/system1", logprobs=True, top_logprobs=2),
    _streamed("chat-system1-tool-streamed", f"[tool lookup] {CALM}", "metacog/system1", tools=TOOLS),
    _streamed("chat-stop-streamed", "[say one two three] Count.", "metacog/dialectic", seed=1, stop=["two"]),
    _streamed("chat-bad-model-streamed", CALM, "nobody"),
    _streamed("chat-fail-streamed", f"[fail 503] {CALM}", "metacog/system1"),
    chat("chat-alias", CALM, model="gpt-4o", seed=1),
    chat("chat-backend-model", CALM, model="scripted", seed=1),
    chat("chat-unknown-model", CALM, model="gpt-nobody"),
    chat("chat-unknown-strategy", CALM, model="metacog/nothing"),
    chat("chat-no-model", CALM, model=""),
]

FIELDS: Sequence[Request] = [
    chat("chat-tools", f"[tool lookup] {CALM}", tools=TOOLS, seed=1),
    chat("chat-tools-dialectic", f"[tool lookup] {CALM}", model="metacog/dialectic", tools=TOOLS, seed=1),
    chat("chat-n", "[say 42|41|40] What is it?", model="metacog/system1", n=3, seed=1),
    chat("chat-n-auto", "[rate troubled] [say 42|41|40] What is it?", n=3, seed=1),
    chat("chat-n-dialectic", CALM, model="metacog/dialectic", n=2),
    chat("chat-n-zero", CALM, model="metacog/system1", n=0),
    chat("chat-stop", "[say one two three] Count.", model="metacog/system1", stop="two"),
    chat("chat-stop-dialectic", "[say one two three] Count.", model="metacog/dialectic", stop=["two"], seed=1),
    chat("chat-stop-many", CALM, model="metacog/dialectic", stop=["a", "b", "c", "d", "e"]),
    chat("chat-logprobs", CALM, model="metacog/system1", logprobs=True, top_logprobs=2),
    chat("chat-logprobs-arbiter", CALM, model="metacog/arbiter", logprobs=True),
    chat("chat-response-format", "Rate it.", model="metacog/system1", response_format=SCHEMA),
    chat("chat-response-format-delegation", "Rate it.", model="metacog/delegation", response_format=SCHEMA),
    chat("chat-max-tokens", f"[long 40] {CALM}", model="metacog/system1", max_tokens=5),
    chat("chat-max-completion-tokens", f"[long 40] {CALM}", model="metacog/dialectic", max_completion_tokens=6, seed=1),
    chat("chat-max-tokens-zero", CALM, max_tokens=0),
    chat("chat-temperature-high", CALM, model="metacog/dialectic", temperature=7),
    chat("chat-temperature-text", CALM, temperature="warm"),
    chat("chat-top-p", CALM, model="metacog/arbiter", top_p=3),
    chat("chat-seed-negative", CALM, model="metacog/system1", seed=-5),
    chat("chat-seed-text", CALM, seed="one"),
    chat("chat-unknown-field", CALM, model="metacog/system1", seed=1, nobody_knows_this={"a": 1}),
    chat("chat-null-fields", CALM, model="metacog/system1", stop=None, temperature=None, seed=1),
    chat("chat-reasoning", f"[reason] {CALM}", model="metacog/system1", seed=1),
    chat(
        "chat-system-turn",
        model="metacog/dialectic",
        seed=1,
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": CALM}],
    ),
    chat(
        "chat-parts", model="metacog/system1", messages=[{"role": "user", "content": [{"type": "text", "text": CALM}]}]
    ),
    chat(
        "chat-image-dialectic",
        model="metacog/dialectic",
        messages=[
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}
        ],
    ),
    chat(
        "chat-tool-turns",
        model="metacog/dialectic",
        seed=1,
        messages=[
            {"role": "user", "content": CALM},
            {
                "role": "assistant",
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        ],
    ),
    chat("chat-no-messages", messages=[]),
    chat("chat-messages-text", messages="hello"),
    chat("chat-role-unknown", messages=[{"role": "king", "content": "Hello."}]),
    chat("chat-empty-content", messages=[{"role": "user", "content": ""}]),
    chat("chat-stream-text", CALM, stream="yes"),
    chat("chat-tools-text", CALM, tools="hammer"),
    chat("chat-user-prompt-too-long", "word " * 5000, model="metacog/system1"),
    chat("chat-dialectic-too-long", "word " * 5000, model="metacog/dialectic"),
    post("router", "chat-not-json", PATH, raw="{no json"),
    post("router", "chat-list-body", PATH, [1, 2]),
    post("router", "chat-empty-body", PATH, raw=""),
    post("router", "chat-text-type", PATH, raw="{}", headers={"content-type": "text/plain"}),
    post("router", "chat-too-large", PATH, raw='{"model": "metacog", "messages": "' + "x" * 1_100_000 + '"}'),
    get("router", "chat-get", PATH),
]

EXTRAS: Sequence[Request] = [
    chat(
        "chat-msv-calm",
        CALM,
        seed=1,
        metacog={"msv": {"correctness": 0.9, "experience": 0.9, "conflict": 0.1, "importance": 0.1}},
    ),
    chat(
        "chat-msv-troubled",
        TROUBLED,
        seed=1,
        metacog={"msv": {"correctness": 0.2, "experience": 0.1, "conflict": 0.9, "importance": 0.9}},
    ),
    chat("chat-msv-range", CALM, metacog={"msv": {"correctness": 2}}),
    chat(
        "chat-envelope-generations",
        TROUBLED,
        model="metacog/dialectic",
        seed=1,
        metacog={"envelope": {"max_generations": 7}},
    ),
    chat(
        "chat-envelope-one", TROUBLED, model="metacog/dialectic", seed=1, metacog={"envelope": {"max_generations": 1}}
    ),
    chat(
        "chat-envelope-tokens",
        f"[long 30] {CALM}",
        model="metacog/system1",
        metacog={"envelope": {"max_generated_tokens": 8}},
    ),
    chat("chat-envelope-cost", CALM, model="metacog/system1", max_tokens=20, metacog={"envelope": {"max_cost": 0.5}}),
    chat("chat-envelope-cost-low", CALM, model="metacog/system1", metacog={"envelope": {"max_cost": 1e-9}}),
    chat("chat-envelope-time", f"[slow 3] {CALM}", model="metacog/system1", metacog={"envelope": {"timeout_ms": 400}}),
    chat("chat-envelope-negative", CALM, metacog={"envelope": {"max_generations": -1}}),
    chat("chat-envelope-text", CALM, metacog={"envelope": "much"}),
    chat("chat-extra-unknown", CALM, metacog={"nobody": 1}),
    chat("chat-extra-text", CALM, metacog="yes"),
    chat("chat-assessor-verbalized", CALM, seed=1, metacog={"assessor": "verbalized"}),
    chat("chat-assessor-unknown", CALM, metacog={"assessor": "guess"}),
    chat("chat-request-id", CALM, model="metacog/system1", seed=1, metacog={"request_id": "chat-1"}),
    chat("chat-request-id-again", CALM, model="metacog/system1", seed=1, metacog={"request_id": "chat-1"}),
    chat("chat-request-id-other", TROUBLED, model="metacog/system1", seed=1, metacog={"request_id": "chat-1"}),
    chat("chat-answer-type", CALM, model="metacog/dialectic", seed=1, metacog={"answer_type": "NUMBER"}),
    chat("chat-answer-type-unknown", CALM, model="metacog/dialectic", metacog={"answer_type": "POEM"}),
    chat("chat-note", TROUBLED, model="metacog/dialectic", seed=1, metacog={"note": True}),
    chat("chat-greedy", TROUBLED, model="metacog/dialectic", seed=1, metacog={"assignment_kind": "GREEDY"}),
    chat(
        "chat-random",
        TROUBLED,
        model="metacog/dialectic",
        seed=1,
        metacog={"assignment_kind": "RANDOM", "assignment_seed": 7},
    ),
    chat(
        "chat-fixed",
        TROUBLED,
        model="metacog/dialectic",
        seed=1,
        metacog={
            "assignment_kind": "FIXED",
            "fixed_assignment": {
                "EXPERT": "ada",
                "CRITIC": "ben",
                "EVALUATOR": "cleo",
                "SYNTHESIZER": "dan",
                "GENERALIST": "eve",
            },
            "stage_max_tokens": 9,
        },
    ),
    chat(
        "chat-arbitration-options",
        TROUBLED,
        model="metacog/arbiter",
        seed=1,
        metacog={
            "arbitration": {"mode": "ADAPTIVE", "solvers": 2, "solver_samples": 2, "arbitration_samples": 4},
        },
    ),
    chat("chat-arbitration-bad", TROUBLED, model="metacog/arbiter", metacog={"arbitration": {"solvers": 0}}),
    chat("chat-abstain-arbiter", f"[bare] {CALM}", model="metacog/arbiter", seed=1, metacog={"answer_type": "NUMBER"}),
    chat(
        "chat-abstain-delegation",
        f"[bare] {CALM}",
        model="metacog/delegation",
        seed=1,
        metacog={"answer_type": "NUMBER"},
    ),
    chat("chat-empty-system1", f"[empty] {CALM}", model="metacog/system1", seed=1),
    chat("chat-empty-dialectic", f"[empty] {CALM}", model="metacog/dialectic", seed=1),
    chat("chat-junk-rating", "[rate junk] What is it?", seed=1),
    chat("chat-fail-503", f"[fail 503] {CALM}", model="metacog/system1"),
    chat("chat-after-fail-1", CALM, model="metacog/system1"),
    chat("chat-fail-429", f"[fail 429] {CALM}", model="metacog/system1"),
    chat("chat-after-fail-2", CALM, model="metacog/system1"),
    chat("chat-fail-400", f"[fail 400] {CALM}", model="metacog/system1"),
    chat("chat-fail-401", f"[fail 401] {CALM}", model="metacog/system1"),
    chat("chat-after-fail-3", CALM, model="metacog/system1"),
    *(chat(f"chat-lonely-{_short(model)}", TROUBLED, model=model, to="lonely", seed=1) for model in MODELS),
    *(
        chat(
            f"chat-lonely-{_short(model)}-alone",
            TROUBLED,
            model=model,
            to="lonely",
            seed=1,
            metacog={"fallback": False},
        )
        for model in MODELS[2:]
    ),
]

REQUESTS: Sequence[Request] = [*PLAIN, *FIELDS, *EXTRAS]
