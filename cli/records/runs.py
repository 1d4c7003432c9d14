"""`metacog runs` shows recorded runs; `metacog feedback` reports whether their answers were right."""

import uuid
from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated

import typer
from metacog.assigner.v1.assigner_pb2 import DeliberationFinished
from metacog.common.v1.answer_pb2 import OUTCOME_CANCELLED, Outcome
from metacog.common.v1.confidence_pb2 import ConfidenceState
from metacog.common.v1.msv_pb2 import MSV
from metacog.common.v1.stage_pb2 import Role, Stage
from metacog.delegation.v1.tasks_pb2 import NotLearnedReason
from metacog.delegation.v1.tasks_pb2 import SubmitFeedbackResponse as TaskFeedbackReply
from metacog.router.v1.calibration_pb2 import GetCascadesResponse, LabelledShare
from metacog.router.v1.feedback_pb2 import LabelOrigin
from metacog.router.v1.feedback_pb2 import SubmitFeedbackResponse as RunFeedbackReply
from metacog.router.v1.route_pb2 import Route
from metacog.router.v1.router_pb2 import GetRunResponse, Run, RunFeedback, Shadow, UnknownAgreement
from rich.table import Column, Table

from chassis.serving.wire import optional, word
from cli.answers import drawing
from cli.answers.deliberations import (
    show_account,
    show_citations,
    show_escalation,
    show_kept,
    show_measured_state,
)
from cli.answers.drawing_answers import promised
from cli.records.shadow import shadow
from cli.terminal.client import Service, in_path
from cli.terminal.options import AsJson, DelegationUrl, Key, RouterUrl, given
from cli.terminal.output import UNKNOWN, cost, facts, moment, number, print_json, stdout, table, text
from kernel.msv import CONFLICT_PARTS
from kernel.votes.states import marked_confidence, state_in_words

MAX_PAGE = 200
SHOWN = 20
# The origin of a label where none is stated.
VOLUNTEERED = "VOLUNTEERED"

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
    pages = Service("router", router, key=key).pages("/v1/runs", "runs", Run, page_size=min(limit, MAX_PAGE), **wanted)
    runs = list(islice(pages, limit))
    if as_json:
        print_json({"runs": [run.document for run in runs]})
    else:
        stdout.print(_table([run.message for run in runs]))


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
    found = Service("router", router, key=key).get(f"/v1/runs/{in_path(run_id)}", GetRunResponse)
    if as_json:
        print_json(found.part("run"))
        return
    run = found.message.run
    stdout.print(_facts(run))
    for turn in run.messages:
        stdout.print(text(f"{turn.role}: {turn.content}"), soft_wrap=True)
    if explain:
        _explain(run)
    show_citations(run)
    stdout.print(text(f"answer: {run.answer}" if run.answer else "the answer is not stored"), soft_wrap=True)


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
        "/v1/cascades",
        GetCascadesResponse,
        **given(since=since and since.isoformat(), until=until and until.isoformat()),
    )
    if as_json:
        print_json(found.document)
        return
    if not found.message.cascades:
        stdout.print("no vote with a stronger model behind it is recorded")
        return
    columns = ["stronger model", "votes", "answered by it", "cost", "always asking it", "right by votes", "right by it"]
    rows = [
        [
            one.model,
            str(one.runs),
            f"{one.escalated} ({one.escalated_share:.0%})",
            number(optional(one, "cost"), 4, UNKNOWN),
            number(optional(one, "always_cost"), 4, UNKNOWN),
            _share_right(one.of_votes),
            _share_right(one.of_model),
        ]
        for one in found.message.cascades
    ]
    stdout.print(table(columns, rows))


def _share_right(labels: LabelledShare) -> str:
    if not labels.HasField("share"):
        return UNKNOWN
    return f"{labels.share:.2f} [{labels.low:.2f}, {labels.high:.2f}] of {labels.labelled}"


def _explain(run: Run) -> None:
    """Print the decision and the account."""
    if run.HasField("route"):
        stdout.print(drawing.decision(run.route))
    if run.outcome == OUTCOME_CANCELLED:
        stdout.print(text(_finished(run)), soft_wrap=True)
        _print_stages(run.deliberation)
        show_kept(run)
        return
    done = run.deliberation
    if done.HasField("roles"):
        stdout.print(drawing.matrix(done.roles.optimum, done.roles.assignment))
    _print_stages(done)
    show_account(run)
    show_escalation(run)
    show_measured_state(run)


def _print_stages(done: DeliberationFinished) -> None:
    for stage in done.stages:
        by = f"{word(Stage, stage.stage)} by {word(Role, stage.role)} ".lower()
        stdout.print(text(f"{by}{stage.agent}", "bold"))
        stdout.print(text(stage.text or stage.failure), soft_wrap=True)


def _finished(run: Run) -> str:
    """Describe what a cancelled run had finished."""
    counts = {
        "assessments": len(run.deliberation.assessments) + len(run.task.assessments),
        "stages": len(run.deliberation.stages),
        "votes": len(run.vote.votes) + len(run.task.votes),
        "critiques": len(run.arbitration.critiques),
    }
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
    if task:
        of_task = Service("delegation", delegation, key=key).post("/v1/feedback", body, TaskFeedbackReply)
        print_json(of_task.document) if as_json else stdout.print(text(_task_effects(of_task.message)))
        return
    of_run = Service("router", router, key=key).post("/v1/feedback", body, RunFeedbackReply)
    print_json(of_run.document) if as_json else stdout.print(text(_run_effects(of_run.message)))


def _task_effects(reply: TaskFeedbackReply) -> str:
    """Describe the effects of feedback on a task."""
    changes = [
        f"{each.agent} in {each.dimension} from {each.competence_before:.3f} to {each.competence_after:.3f}"
        for each in reply.profile_updates
    ]
    reason = word(NotLearnedReason, reply.not_learned_reason).replace("_", " ")
    return f"{reply.feedback_id}: stored; profiles learned: {'; '.join(changes) or f'nothing ({reason})'}"


def _table(runs: Sequence[Run]) -> Table:
    listing = Table(Column("run", no_wrap=True, min_width=36), box=None, pad_edge=False, header_style="bold")
    for name in ("began", "by", "activation", "ended", "confidence", "label", "tokens", "time"):
        listing.add_column(name)
    for run in runs:
        listing.add_row(*(text(cell) for cell in _cells(run)))
    return listing


def _cells(run: Run) -> list[str]:
    return [
        run.run_id,
        moment(optional(run, "created_at")),
        run.strategy,
        number(optional(run.route.activation, "value")),
        _ended(run),
        marked_confidence(optional(run, "confidence"), _state(run)),
        ", ".join(f"{each.score:g}" for each in run.feedback),
        str(run.usage.completion_tokens),
        f"{run.duration_ms / 1000:.2f} s",
    ]


def _state(run: Run) -> str | None:
    return word(ConfidenceState, run.confidence_state) or None


def _ended(run: Run) -> str:
    ended = run.error_reason or word(Outcome, run.outcome).lower() or UNKNOWN
    return f"{ended}{' (degraded)' if run.degraded else ''}"


def _facts(run: Run) -> Table:
    route = run.route
    state = state_in_words(_state(run), run.confidence_labels)
    source = f" ({run.confidence_source}{'; ' if state else ''}{state})" if run.confidence_source else ""
    reason = f" ({run.confidence_unknown_reason})" if run.confidence_unknown_reason else ""
    spent = drawing.tokens_by_stage(run.usage)
    known = {
        "run": run.run_id,
        "began": moment(optional(run, "created_at")),
        "decision": f"{word(Route, route.system)} {route.strategy}, reason: {route.reason}",
        **drawing.rule(route),
        "activation": number(optional(route.activation, "value")),
        "answered by": f"{run.strategy} {run.catalogue_name or run.model}",
        "ended": _ended(run),
        "confidence": marked_confidence(optional(run, "confidence"), _state(run)) + (reason or source),
        "measured state": _measured(run.state) if run.HasField("state") else "",
        "degraded": "; ".join(run.degraded_reasons),
        "promise": promised(run),
        "cost guard": drawing.guarded(run),
        "tokens": " ".join(f"{stage}: {tokens}" for stage, tokens in spent.items()),
        "cost": cost(optional(run.usage, "cost")),
        "shadow of": _shadow_of(run.shadow) if run.HasField("shadow") else "",
        "time": f"{run.duration_ms:.0f} ms",
        "labels": "; ".join(_label(each) for each in run.feedback),
    }
    return facts(known)


def _measured(state: MSV) -> str:
    """Return CE and CI as the votes measured them, with the parts of CI.

    Example:
        >>> _measured(MSV(correctness=0.8, conflict=0.25, parts={"source_disagreement": 0.5}))
        'CE 0.80, CI 0.25 (internal inconsistency unknown, source disagreement 0.50, instability unknown)'
    """
    levels = [f"{name.replace('_', ' ')} {number(state.parts.get(name), 2, UNKNOWN)}" for name in CONFLICT_PARTS]
    correctness, conflict = (number(optional(state, name), 2, UNKNOWN) for name in ("correctness", "conflict"))
    return f"CE {correctness}, CI {conflict} ({', '.join(levels)})"


def _label(label: RunFeedback) -> str:
    """Describe a label: the score, how it came about unless it was volunteered, and the remark.

    Example:
        >>> _label(RunFeedback(score=1.0, note="checked", origin=LabelOrigin.LABEL_ORIGIN_EXAM))
        '1 (exam) checked'
        >>> _label(RunFeedback(score=0.5))
        '0.5'
    """
    origin = word(LabelOrigin, label.origin) or VOLUNTEERED
    marked = "" if origin == VOLUNTEERED else f"({origin.lower()})"
    return " ".join(part for part in (f"{label.score:g}", marked, label.note) if part)


def _shadow_of(shadow: Shadow) -> str:
    """Return which served run a shadow run is of, and whether both agree.

    Example:
        >>> _shadow_of(Shadow(shadow_of="r-1", policy="p-2", agrees=True))
        'r-1 by policy p-2, the same answer'
    """
    reason = word(UnknownAgreement, shadow.not_compared)
    agreement = {True: "the same answer", False: "another answer", None: f"not compared: {reason}"}
    return f"{shadow.shadow_of} by policy {shadow.policy}, {agreement[optional(shadow, 'agrees')]}"


def _run_effects(reply: RunFeedbackReply) -> str:
    """Describe the effects of feedback on a run."""
    if not reply.teaches:
        return f"{reply.feedback_id}: stored; this key may not teach, so the suite does not learn from it"
    tasks = reply.delegation_tasks
    uses = [
        *(["calibration"] if reply.calibrates else []),
        *(["experience"] if reply.becomes_experience else []),
        *([f"{tasks} delegation task{'s' * (tasks > 1)}"] if tasks else []),
    ]
    return f"{reply.feedback_id}: stored; used by: {', '.join(uses) or 'none'}"
