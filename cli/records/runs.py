"""`metacog runs` and `metacog feedback`: what was asked and answered, and how right it was."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cli.answers import drawing
from cli.answers.strategy_accounts import Account, kind, show_account
from cli.terminal.client import Service, in_path
from cli.terminal.options import AsJson, DelegationUrl, Key, RouterUrl
from cli.terminal.output import cost, emit, facts, number, shown, text

MAX_PAGE = 200
SHOWN = 20

Run = Mapping[str, Any]

app = typer.Typer(help="Recorded runs.", no_args_is_help=True)


@app.command("list")
def list_runs(  # noqa: PLR0913 - each is an option of the command
    limit: Annotated[int, typer.Option(min=1, help="Runs at most; as many pages as that takes.")] = SHOWN,
    system: Annotated[str | None, typer.Option(help="SYSTEM_ONE or SYSTEM_TWO.")] = None,
    strategy: Annotated[str | None, typer.Option(help="system1, dialectic, arbiter or delegation.")] = None,
    outcome: Annotated[str | None, typer.Option(help="ANSWERED or ABSTAINED.")] = None,
    degraded: Annotated[bool | None, typer.Option("--degraded/--whole", help="Less than asked for, or not.")] = None,
    judged: Annotated[bool | None, typer.Option("--judged/--unjudged", help="With or without a verdict.")] = None,
    assessor: Annotated[str | None, typer.Option(help="Assessor that measured the query.")] = None,
    error: Annotated[str | None, typer.Option(help="Reason of the refusal, e.g. BACKEND_UNAVAILABLE.")] = None,
    request_id: Annotated[str | None, typer.Option(help="Identifier that the caller gave.")] = None,
    since: Annotated[datetime | None, typer.Option(help="Began at or after; UTC.")] = None,
    until: Annotated[datetime | None, typer.Option(help="Began before; UTC.")] = None,
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
        "since": since and since.isoformat(),
        "until": until and until.isoformat(),
    }
    pages = Service("router", router, key=key).pages("/v1/runs", "runs", page_size=min(limit, MAX_PAGE), **wanted)
    runs = list(islice(pages, limit))
    if as_json:
        emit({"runs": runs})
    else:
        shown.print(_table(runs))


@app.command()
def show(
    run_id: Annotated[str, typer.Argument(help="Name of the run.")],
    explain: Annotated[
        bool, typer.Option("--explain", help="With the matrix, the stages and how the state moved.")
    ] = False,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Show one run: what was asked, decided, answered and spent, and the verdicts on it."""
    run = Service("router", router, key=key).get(f"/v1/runs/{in_path(run_id)}")["run"]
    if as_json:
        emit(run)
        return
    shown.print(_facts(run))
    for turn in run["messages"]:
        shown.print(text(f"{turn['role']}: {turn['content']}"), soft_wrap=True)
    if explain:
        _explain(run)
    shown.print(text(f"answer: {run['answer']}" if run["answer"] else "no answer is kept"), soft_wrap=True)


def _explain(run: Run) -> None:
    """The decision, and how the strategy went about it."""
    if run["route"]:
        shown.print(drawing.decision(run["route"]))
    done = run["deliberation"] or {}
    if kind(done) is Account.DIALECTIC:
        if done["roles"]:
            shown.print(drawing.matrix(done["roles"]["optimum"], done["roles"]["assignment"]))
        for stage in done["stages"]:
            shown.print(text(f"{stage['stage'].lower()} by {stage['role'].lower()} {stage['agent']}", "bold"))
            shown.print(text(stage["text"] or stage["failure"]), soft_wrap=True)
    show_account(done)


def feedback(  # noqa: PLR0913 - each is an option of the command
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="Name of the run, or of the task with --task.")],
    correct: Annotated[bool | None, typer.Option("--correct/--wrong", help="Whether the answer was right.")] = None,
    score: Annotated[float | None, typer.Option(min=0, max=1, help="How right it was, 0 to 1; for runs only.")] = None,
    note: Annotated[str, typer.Option(help="A remark, kept with the run.")] = "",
    feedback_id: Annotated[str, typer.Option(help="Repeating it counts once; default: a new one.")] = "",
    task: Annotated[bool, typer.Option("--task", help="It is a task of the delegation service.")] = False,
    router: RouterUrl = "",
    delegation: DelegationUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Say how right the answer of a run, or of a delegated task, was; the suite learns from it."""
    if (correct is None) == (score is None) or (task and correct is None):
        raise typer.BadParameter("say either --correct, --wrong or (for runs) --score", param_hint="--correct")
    label = {"correct": correct} if score is None else {"score": score}
    name = feedback_id or str(uuid.uuid4())
    body = {"feedback_id": name, "task_id" if task else "run_id": run_id, "note": note, **label}
    service = Service("delegation", delegation, key=key) if task else Service("router", router, key=key)
    said = service.post("/v1/feedback", body)
    if as_json:
        emit(said)
    else:
        shown.print(text(_taught(said) if task else _learned(said)))


def _taught(said: Run) -> str:
    """What profiles learned of a verdict on a task."""
    moved = [
        f"{each['agent']} in {each['dimension']} from {each['competence_before']:.3f} to {each['competence_after']:.3f}"
        for each in said["profile_updates"]
    ]
    why = (said["not_learned_reason"] or "").replace("_", " ")
    return f"{said['feedback_id']}: kept; profiles learned: {'; '.join(moved) or f'nothing ({why})'}"


def _table(runs: Sequence[Run]) -> Table:
    made = Table(Column("run", no_wrap=True, min_width=36), box=None, pad_edge=False, header_style="bold")
    for name in ("began", "by", "activation", "ended", "confidence", "label", "tokens", "time"):
        made.add_column(name)
    for run in runs:
        made.add_row(*(text(cell) for cell in _cells(run)))
    return made


def _cells(run: Run) -> list[str]:
    return [
        run["run_id"],
        run["created_at"][:19].replace("T", " "),
        run["strategy"],
        number(((run["route"] or {}).get("activation") or {}).get("value")),
        _ended(run),
        number(run["confidence"]),
        ", ".join(f"{said['score']:g}" for said in run["feedback"]),
        str(run["usage"]["completion_tokens"]),
        f"{run['duration_ms'] / 1000:.2f} s",
    ]


def _ended(run: Run) -> str:
    return f"{run['error_reason'] or run['outcome'].lower()}{' (degraded)' if run['degraded'] else ''}"


def _facts(run: Run) -> Table:
    route = run["route"] or {}
    source = f" ({run['confidence_source']})" if run["confidence_source"] else ""
    known = {
        "run": run["run_id"],
        "began": run["created_at"],
        "decided": f"{route.get('system', '')} {route.get('strategy', '')}, because: {route.get('reason', '')}",
        "activation": number((route.get("activation") or {}).get("value")),
        "answered by": f"{run['strategy']} {run['model']}",
        "ended": _ended(run),
        "confidence": number(run["confidence"]) + source,
        "degraded": "; ".join(run["degraded_reasons"]),
        "tokens": " ".join(f"{stage}: {spent['completion_tokens']}" for stage, spent in run["usage"]["stages"].items()),
        "cost": cost(run["usage"]),
        "time": f"{run['duration_ms']:.0f} ms",
        "verdicts": "; ".join(f"{said['score']:g} {said['note']}".strip() for said in run["feedback"]),
    }
    return facts(known)


def _learned(told: Mapping[str, Any]) -> str:
    if not told["teaches"]:
        return f"{told['feedback_id']}: kept; this key may not teach, so nothing learns from it"
    tasks = told["delegation_tasks"]
    learners = [
        *(["calibration"] if told["calibrates"] else []),
        *(["experience"] if told["becomes_experience"] else []),
        *([f"{tasks} delegation task{'s' * (tasks > 1)}"] if tasks else []),
    ]
    return f"{told['feedback_id']}: kept; learns from it: {', '.join(learners) or 'nobody'}"
