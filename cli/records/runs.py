"""`metacog runs` shows recorded runs; `metacog feedback` reports whether their answers were right."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cli.answers import drawing
from cli.answers.deliberations import DeliberationKind, kind_of, show_deliberation, show_escalation, show_measured_state
from cli.answers.drawing_answers import promised
from cli.records.shadow import shadow
from cli.terminal.client import Service, in_path
from cli.terminal.options import AsJson, DelegationUrl, Key, RouterUrl, given
from cli.terminal.output import UNKNOWN, cost, facts, number, print_json, stdout, table, text
from kernel.learning.gain_words import gain_in_words, kind_in_words, rule_in_words
from kernel.msv import CONFLICT_PARTS
from kernel.votes.states import marked_confidence, state_in_words

MAX_PAGE = 200
SHOWN = 20

Run = Mapping[str, Any]

app = typer.Typer(help="Recorded runs.", no_args_is_help=True)
app.command("shadow")(shadow)


@app.command("list")
def list_runs(  # noqa: PLR0913 - each is an option of the command
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of runs.")] = SHOWN,
    system: Annotated[str | None, typer.Option(help="SYSTEM_ONE or SYSTEM_TWO.")] = None,
    strategy: Annotated[str | None, typer.Option(help="system1, vote, cascade and so on.")] = None,
    outcome: Annotated[str | None, typer.Option(help="ANSWERED, ABSTAINED or CANCELLED.")] = None,
    degraded: Annotated[
        bool | None, typer.Option("--degraded/--whole", help="Only degraded runs, or only others.")
    ] = None,
    judged: Annotated[bool | None, typer.Option("--judged/--unjudged", help="With or without a label.")] = None,
    assessor: Annotated[str | None, typer.Option(help="Assessor that measured the question.")] = None,
    error: Annotated[str | None, typer.Option(help="Reason of the error, e.g. BACKEND_UNAVAILABLE.")] = None,
    request_id: Annotated[str | None, typer.Option(help="Identifier that the client gave.")] = None,
    sampled: Annotated[
        bool | None, typer.Option("--sampled/--not-sampled", help="Drawn at random to be labelled, or not.")
    ] = None,
    shadow_runs: Annotated[bool, typer.Option("--shadow", help="Only shadow runs, which are left out else.")] = False,
    since: Annotated[datetime | None, typer.Option(help="Start at or after this time; UTC.")] = None,
    until: Annotated[datetime | None, typer.Option(help="Start before this time; UTC.")] = None,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    wanted = {
        "system": system,
        "strategy": strategy,
        "outcome": outcome,
        "degraded": degraded,
        "judged": judged,
        "assessor": assessor,
        "error_reason": error,
        "request_id": request_id,
        "sampled": sampled,
        "shadow": shadow_runs or None,
        "since": since and since.isoformat(),
        "until": until and until.isoformat(),
    }
    pages = Service("router", router, key=key).pages("/v1/runs", "runs", page_size=min(limit, MAX_PAGE), **wanted)
    runs = list(islice(pages, limit))
    if as_json:
        print_json({"runs": runs})
    else:
        stdout.print(_table(runs))


@app.command()
def show(
    run_id: Annotated[str, typer.Argument(help="Name of the run.")],
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the matrix, the stages and the evolution of the state.")
    ] = False,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Show one run: question, decision, answer, cost and labels."""
    run = Service("router", router, key=key).get(f"/v1/runs/{in_path(run_id)}")["run"]
    if as_json:
        print_json(run)
        return
    stdout.print(_facts(run))
    for turn in run["messages"]:
        stdout.print(text(f"{turn['role']}: {turn['content']}"), soft_wrap=True)
    if explain:
        _explain(run)
    stdout.print(text(f"answer: {run['answer']}" if run["answer"] else "the answer is not stored"), soft_wrap=True)


@app.command("cascades")
def cascades(
    since: Annotated[datetime | None, typer.Option(help="Runs that began at or after this time; UTC.")] = None,
    until: Annotated[datetime | None, typer.Option(help="Runs that began before this time; UTC.")] = None,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Show how often votes were escalated to a stronger model, what that cost, and who was right."""
    found = Service("router", router, key=key).get(
        "/v1/cascades", **given(since=since and since.isoformat(), until=until and until.isoformat())
    )
    if as_json:
        print_json(found)
        return
    if not found["cascades"]:
        stdout.print("no vote with a stronger model behind it is recorded")
        return
    columns = ["stronger model", "votes", "answered by it", "cost", "always asking it", "right by votes", "right by it"]
    rows = [
        [
            one["model"],
            str(one["runs"]),
            f"{one['escalated']} ({one['escalated_share']:.0%})",
            number(one["cost"], 4, UNKNOWN),
            number(one["always_cost"], 4, UNKNOWN),
            _share_right(one["of_votes"]),
            _share_right(one["of_model"]),
        ]
        for one in found["cascades"]
    ]
    stdout.print(table(columns, rows))


def _share_right(labels: Run) -> str:
    if not labels["labelled"]:
        return UNKNOWN
    return f"{labels['share']:.2f} [{labels['low']:.2f}, {labels['high']:.2f}] of {labels['labelled']}"


def _explain(run: Run) -> None:
    """Print the decision and the deliberation."""
    if run["route"]:
        stdout.print(drawing.decision(run["route"]))
    done = run["deliberation"] or {}
    if run["outcome"] == "CANCELLED":
        stdout.print(text(_finished(done)), soft_wrap=True)
        return
    if kind_of(done) is DeliberationKind.DIALECTIC:
        if done["roles"]:
            stdout.print(drawing.matrix(done["roles"]["optimum"], done["roles"]["assignment"]))
        for stage in done["stages"]:
            stdout.print(text(f"{stage['stage'].lower()} by {stage['role'].lower()} {stage['agent']}", "bold"))
            stdout.print(text(stage["text"] or stage["failure"]), soft_wrap=True)
    show_deliberation(done)
    show_escalation(run)
    show_measured_state(run)


def _finished(done: Run) -> str:
    """Describe what a cancelled run had finished."""
    counts = {name: len(done.get(name) or ()) for name in ("assessments", "stages", "votes", "critiques")}
    texts = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return f"the caller went away; finished until then: {texts or 'nothing'}"


def feedback(  # noqa: PLR0913 - each is an option of the command
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="Identifier of the run, or of the task with --task.")],
    correct: Annotated[bool | None, typer.Option("--correct/--wrong", help="Whether the answer was right.")] = None,
    score: Annotated[float | None, typer.Option(min=0, max=1, help="How right it was, 0 to 1; for runs only.")] = None,
    note: Annotated[str, typer.Option(help="A remark, stored with the run.")] = "",
    feedback_id: Annotated[str, typer.Option(help="Repeated feedback with it counts once; default: a new one.")] = "",
    origin: Annotated[
        str, typer.Option(help="How it came to be labelled: EXAM, SAMPLED or VOLUNTEERED (the default); for runs only.")
    ] = "",
    task: Annotated[bool, typer.Option("--task", help="The identifier is that of a delegated task.")] = False,
    router: RouterUrl = "",
    delegation: DelegationUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Report whether the answer of a run, or of a delegated task, was right; the suite learns from it."""
    if (correct is None) == (score is None) or (task and correct is None):
        raise typer.BadParameter("give either --correct, --wrong or (for runs) --score", param_hint="--correct")
    if task and origin:
        raise typer.BadParameter("the label of a task has no origin", param_hint="--origin")
    label = {**({"correct": correct} if score is None else {"score": score}), **given(origin=origin)}
    name = feedback_id or str(uuid.uuid4())
    body = {"feedback_id": name, "task_id" if task else "run_id": run_id, "note": note, **label}
    service = Service("delegation", delegation, key=key) if task else Service("router", router, key=key)
    reply = service.post("/v1/feedback", body)
    if as_json:
        print_json(reply)
    else:
        stdout.print(text(_task_effects(reply) if task else _run_effects(reply)))


def _task_effects(reply: Run) -> str:
    """Describe the effects of feedback on a task."""
    changes = [
        f"{each['agent']} in {each['dimension']} from {each['competence_before']:.3f} to {each['competence_after']:.3f}"
        for each in reply["profile_updates"]
    ]
    reason = (reply["not_learned_reason"] or "").replace("_", " ")
    return f"{reply['feedback_id']}: stored; profiles learned: {'; '.join(changes) or f'nothing ({reason})'}"


def _table(runs: Sequence[Run]) -> Table:
    listing = Table(Column("run", no_wrap=True, min_width=36), box=None, pad_edge=False, header_style="bold")
    for name in ("began", "by", "activation", "ended", "confidence", "label", "tokens", "time"):
        listing.add_column(name)
    for run in runs:
        listing.add_row(*(text(cell) for cell in _cells(run)))
    return listing


def _cells(run: Run) -> list[str]:
    return [
        run["run_id"],
        run["created_at"][:19].replace("T", " "),
        run["strategy"],
        number(((run["route"] or {}).get("activation") or {}).get("value")),
        _ended(run),
        marked_confidence(run["confidence"], run.get("confidence_state")),
        ", ".join(f"{each['score']:g}" for each in run["feedback"]),
        str(run["usage"]["completion_tokens"]),
        f"{run['duration_ms'] / 1000:.2f} s",
    ]


def _ended(run: Run) -> str:
    return f"{run['error_reason'] or run['outcome'].lower()}{' (degraded)' if run['degraded'] else ''}"


def _facts(run: Run) -> Table:
    route = run["route"] or {}
    state = state_in_words(run.get("confidence_state"), run.get("confidence_labels", 0))
    source = f" ({run['confidence_source']}{'; ' if state else ''}{state})" if run["confidence_source"] else ""
    known = {
        "run": run["run_id"],
        "began": run["created_at"],
        "decision": f"{route.get('system', '')} {route.get('strategy', '')}, reason: {route.get('reason', '')}",
        "decided by": rule_in_words(route.get("decided_by")),
        "kind": kind_in_words(route),
        "gain of System 2": gain_in_words(route),
        "activation": number((route.get("activation") or {}).get("value")),
        "answered by": f"{run['strategy']} {run.get('catalogue_name') or run['model']}",
        "ended": _ended(run),
        "confidence": marked_confidence(run["confidence"], run.get("confidence_state")) + source,
        "measured state": _measured(run.get("state")),
        "degraded": "; ".join(run["degraded_reasons"]),
        "promise": promised(run.get("promise")),
        "tokens": " ".join(f"{stage}: {spent['completion_tokens']}" for stage, spent in run["usage"]["stages"].items()),
        "cost": cost(run["usage"]),
        "shadow of": _shadow_of(run),
        "time": f"{run['duration_ms']:.0f} ms",
        "labels": "; ".join(_label(each) for each in run["feedback"]),
    }
    return facts(known)


def _measured(state: Run | None) -> str:
    """Return CE and CI as the votes measured them, with the parts of CI; empty without votes.

    Example:
        >>> _measured({"correctness": 0.8, "conflict": 0.25, "parts": {"source_disagreement": 0.5}})
        'CE 0.80, CI 0.25 (internal inconsistency unknown, source disagreement 0.50, instability unknown)'
    """
    if not state:
        return ""
    levels = [f"{name.replace('_', ' ')} {number(state['parts'].get(name), 2, UNKNOWN)}" for name in CONFLICT_PARTS]
    correctness, conflict = (number(state[name], 2, UNKNOWN) for name in ("correctness", "conflict"))
    return f"CE {correctness}, CI {conflict} ({', '.join(levels)})"


def _label(label: Run) -> str:
    """Describe a label: the score, how it came about unless it was volunteered, and the remark.

    Example:
        >>> _label({"score": 1.0, "note": "checked", "origin": "EXAM"}), _label({"score": 0.5, "note": ""})
        ('1 (exam) checked', '0.5')
    """
    origin = label.get("origin") or "VOLUNTEERED"
    marked = "" if origin == "VOLUNTEERED" else f"({origin.lower()})"
    return " ".join(part for part in (f"{label['score']:g}", marked, label["note"]) if part)


def _shadow_of(run: Run) -> str:
    """Return which served run a shadow run is of, and whether both agree; empty for a served run."""
    shadowed = run.get("shadow")
    if not shadowed:
        return ""
    agreement = {True: "the same answer", False: "another answer", None: f"not compared: {shadowed['unknown_reason']}"}
    return f"{shadowed['shadow_of']} by policy {shadowed['policy']}, {agreement[shadowed['agrees']]}"


def _run_effects(reply: Mapping[str, Any]) -> str:
    """Describe the effects of feedback on a run."""
    if not reply["teaches"]:
        return f"{reply['feedback_id']}: stored; this key may not teach, so the suite does not learn from it"
    tasks = reply["delegation_tasks"]
    uses = [
        *(["calibration"] if reply["calibrates"] else []),
        *(["experience"] if reply["becomes_experience"] else []),
        *([f"{tasks} delegation task{'s' * (tasks > 1)}"] if tasks else []),
    ]
    return f"{reply['feedback_id']}: stored; used by: {', '.join(uses) or 'none'}"
