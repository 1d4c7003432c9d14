"""The command line."""

import json
from collections.abc import Sequence

from tests.recorded.asking import Request
from tests.recorded.requests.making import cli
from tests.recorded.suite import NOBODY, TEACHER_KEY

CALM = "[rate calm] [say 42] What is 6 times 7?"
TROUBLED = "[rate troubled] [say 42|41] Shall we sell the hospital?"
SUM = "[kind math] [able alpha=90,beta=30,gamma=20] [say 42] What is 17 + 25?"
NOWHERE = ("--router", f"http://{NOBODY}")
LINES = [
    {
        "custom_id": name,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {
            "model": model,
            "max_tokens": 16,
            "seed": 1,
            "messages": [{"role": "user", "content": f"{CALM} {name}"}],
        },
    }
    for name, model in (("a", "metacog/system1"), ("b", "metacog/system1"), ("c", "gpt-nobody"))
]
TURNS = json.dumps([{"role": "user", "content": CALM}])
ASSIGNMENT = {
    "agents": [
        {"id": "a", "msv": {"correctness": 0.9}, "capacity": 3},
        {"id": "b", "msv": {"conflict": 0.8}, "capacity": 2},
    ]
}
RECORDS = "".join(
    json.dumps(
        {"msv": {"correctness": place / 40, "conflict": 1 - place / 40, "importance": 0.5}, "correct": place % 3 > 0}
    )
    + "\n"
    for place in range(40)
)

ASKING: Sequence[Request] = [
    cli("cli-version", "--version"),
    cli("cli-unknown", "nothing"),
    cli("cli-ask", "ask", CALM, "--seed", "1"),
    cli("cli-ask-json", "ask", CALM, "--seed", "1", "--json", save={"cli_run": "run_id"}),
    cli("cli-ask-explain", "ask", TROUBLED, "--strategy", "dialectic", "--seed", "1", "--explain"),
    cli("cli-ask-arbiter-explain", "ask", TROUBLED, "--strategy", "arbiter", "--seed", "1", "--explain"),
    cli("cli-ask-delegation-explain", "ask", TROUBLED, "--strategy", "delegation", "--seed", "1", "--explain"),
    cli("cli-ask-stdin", "ask", "-", "--strategy", "system1", "--seed", "1", stdin=CALM),
    cli(
        "cli-ask-messages",
        "ask",
        "--messages",
        "turns.json",
        "--strategy",
        "system1",
        "--seed",
        "1",
        files={"turns.json": TURNS},
    ),
    cli("cli-ask-msv", "ask", CALM, "--msv", "CE=0.9,CI=0.1", "--seed", "1"),
    cli("cli-ask-msv-bad", "ask", CALM, "--msv", "XX=0.9"),
    cli("cli-ask-limits", "ask", TROUBLED, "--strategy", "dialectic", "--max-generations", "7", "--seed", "1"),
    cli("cli-ask-strategy-bad", "ask", CALM, "--strategy", "prayer"),
    cli("cli-ask-nothing", "ask"),
    cli("cli-ask-unreachable", "ask", CALM, *NOWHERE),
    cli("cli-ask-key", "ask", CALM, "--router", "${guarded_url}"),
    cli(
        "cli-ask-key-good",
        "ask",
        CALM,
        "--strategy",
        "system1",
        "--seed",
        "1",
        "--router",
        "${guarded_url}",
        "--key",
        TEACHER_KEY,
    ),
    cli("cli-ask-failed", "ask", f"[fail 503] {CALM}", "--strategy", "system1", "--no-fallback"),
    cli("cli-route-msv", "route", "--msv", "CE=0.45,EM=1,CI=0.72,PI=0.85"),
    cli("cli-route-json", "route", "--msv", "CE=0.45,CI=0.72", "--json"),
    cli("cli-route-text", "route", CALM, "--seed", "1"),
    cli("cli-route-range", "route", "--msv", "CE=7"),
    cli("cli-assign", "assign", "--agent", "a*3:CE=0.9,CI=0.1", "--agent", "b*2:CI=0.8", "--terms"),
    cli("cli-assign-file", "assign", "assign.json", "--json", files={"assign.json": json.dumps(ASSIGNMENT)}),
    cli("cli-assign-infeasible", "assign", "--agent", "a:CE=0.9"),
    cli("cli-assign-bad", "assign", "--agent", "a:ZZ=0.9"),
    cli(
        "cli-arbitrate",
        "arbitrate",
        "[say 42|41|42] What is it?",
        "--type",
        "NUMBER",
        "--mode",
        "PAPER",
        "--solver-samples",
        "3",
        "--samples",
        "6",
        "--truth",
        "42",
        "--seed",
        "1",
    ),
    cli(
        "cli-arbitrate-json",
        "arbitrate",
        "[say 42] What is it?",
        "--solver-samples",
        "2",
        "--samples",
        "4",
        "--seed",
        "1",
        "--json",
    ),
    cli("cli-arbitrate-bad", "arbitrate", "What?", "--mode", "FAST"),
    cli(
        "cli-delegate",
        "delegate",
        SUM,
        "--dimension",
        "math_computation",
        "--expected",
        "42",
        "--first",
        "alpha",
        "--seed",
        "1",
    ),
    cli(
        "cli-delegate-json", "delegate", SUM, "--first", "alpha", "--seed", "1", "--json", save={"cli_task": "task_id"}
    ),
    cli("cli-delegate-assess", "delegate", SUM, "--assess-only", "--dimension", "math_computation", "--seed", "1"),
    cli("cli-delegate-unknown", "delegate", SUM, "--dimension", "cooking"),
    cli(
        "cli-batch",
        "batch",
        "lines.jsonl",
        "out.jsonl",
        "--concurrency",
        "1",
        "--attempts",
        "1",
        files={"lines.jsonl": "".join(json.dumps(line) + "\n" for line in LINES)},
        keeps=["out.jsonl"],
    ),
    cli("cli-batch-bad", "batch", "bad.jsonl", "bad-out.jsonl", files={"bad.jsonl": '{"custom_id": "a"}\n'}),
]

KEEPING: Sequence[Request] = [
    cli("cli-runs-list", "runs", "list", "--limit", "3", pause_s=1.0, settings={"COLUMNS": "200"}),
    cli("cli-runs-list-json", "runs", "list", "--limit", "1", "--strategy", "system1", "--json"),
    cli("cli-runs-list-empty", "runs", "list", "--request-id", "nobody"),
    cli("cli-runs-show", "runs", "show", "${cli_run}"),
    cli("cli-runs-show-explain", "runs", "show", "${dialectic_run}", "--explain"),
    cli("cli-runs-show-unknown", "runs", "show", "nobody"),
    cli("cli-feedback", "feedback", "${cli_run}", "--correct", "--feedback-id", "c1"),
    cli("cli-feedback-task", "feedback", "${cli_task}", "--task", "--wrong", "--feedback-id", "c2"),
    cli("cli-feedback-nothing", "feedback", "${cli_run}"),
    cli("cli-feedback-unknown", "feedback", "nobody", "--correct", "--feedback-id", "c3"),
    cli(
        "cli-knowledge-add",
        "knowledge",
        "add",
        "fjord.md",
        "nobody.txt",
        "--label",
        "from=here",
        files={"fjord.md": "# The fjord\n\nThe fjord is two hundred metres deep.\n"},
    ),
    cli("cli-knowledge-add-one", "knowledge", "add", "fjord.md", "--json"),
    cli("cli-knowledge-list", "knowledge", "list"),
    cli("cli-knowledge-search", "knowledge", "search", "How deep is the fjord?", "--hits", "2"),
    cli("cli-knowledge-delete-unknown", "knowledge", "delete", "nobody"),
    cli("cli-agents-list", "agents", "list"),
    cli("cli-agents-flows", "agents", "flows"),
    cli("cli-agents-drift", "agents", "drift"),
    cli("cli-agents-reliability", "agents", "reliability", "--agent", "alpha"),
    cli("cli-profiles-list", "profiles", "list"),
    cli("cli-profiles-list-json", "profiles", "list", "--agent", "alpha", "--json"),
    cli("cli-profiles-freeze", "profiles", "freeze", "--agent", "gamma"),
    cli("cli-profiles-thaw", "profiles", "freeze", "--agent", "gamma", "--thaw"),
    cli("cli-profiles-export", "profiles", "export", "profiles.json", "--agent", "alpha", keeps=["profiles.json"]),
    cli("cli-profiles-export-again", "profiles", "export", "profiles.json", "--agent", "alpha"),
    cli("cli-profiles-import", "profiles", "import", "profiles.json"),
    cli("cli-profiles-reset-nothing", "profiles", "reset"),
    cli("cli-profiles-reset", "profiles", "reset", "--agent", "gamma"),
    cli("cli-calibrate", "calibrate", "--records", "records.jsonl", "--share", "0.3", files={"records.jsonl": RECORDS}),
    cli("cli-calibrate-missing", "calibrate", "--records", "nobody.jsonl"),
    cli("cli-fit-roles", "fit-roles", "--records", "records.jsonl"),
    cli("cli-config-show", "config", "show", settings={"METACOG_ROUTER_THRESHOLD": "0.5"}),
    cli("cli-config-show-bad", "config", "show", settings={"METACOG_ROUTER_THRESHOLD": "7"}),
    cli("cli-config-validate", "config", "validate", "--agents", "agents.yaml", "--keys-file", "keys.yaml"),
    cli(
        "cli-config-validate-bad",
        "config",
        "validate",
        "--agents",
        "bad.yaml",
        files={"bad.yaml": "agents:\n  - id: a b\n"},
    ),
    cli("cli-config-validate-unknown", "config", "validate", settings={"METACOG_NOBODY_KNOWS": "1"}),
    cli("cli-status", "status"),
    cli("cli-keys-twice", "keys", "new", "teacher", "--file", "keys.yaml"),
]

REQUESTS: Sequence[Request] = [*ASKING, *KEEPING]
