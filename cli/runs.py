"""`metacog runs` and `metacog feedback`: what was asked and answered, and how right it was."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from chassis.ids import new_id
from cli.router import ROUTER, AsJson, Router, RouterUrl, in_path

MAX_PAGE = 200
SHOWN = 20

Run = Mapping[str, Any]

app = typer.Typer(help="Recorded runs.", no_args_is_help=True)
shown = Console(highlight=False)


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
    router: RouterUrl = ROUTER,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first. The key is taken from METACOG_API_KEY."""
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
    runs = list(islice(_pages(Router(router), wanted, min(limit, MAX_PAGE)), limit))
    if as_json:
        _echo({"runs": runs})
    else:
        shown.print(_table(runs))


@app.command()
def show(
    run_id: Annotated[str, typer.Argument(help="Name of the run.")], router: RouterUrl = ROUTER, as_json: AsJson = False
) -> None:
    """Show one run: what was asked, decided, answered and spent, and the verdicts on it."""
    run = Router(router).get(f"/v1/runs/{in_path(run_id)}")["run"]
    if as_json:
        _echo(run)
        return
    shown.print(_facts(run))
    for turn in run["messages"]:
        shown.print(_text(f"{turn['role']}: {turn['content']}"))
    shown.print(_text(f"answer: {run['answer']}" if run["answer"] else "no answer is kept"))


def feedback(  # noqa: PLR0913 - each is an option of the command
    run_id: Annotated[str, typer.Argument(help="Name of the run.")],
    correct: Annotated[bool | None, typer.Option("--correct/--wrong", help="Whether the answer was right.")] = None,
    score: Annotated[float | None, typer.Option(min=0, max=1, help="How right it was, 0 to 1.")] = None,
    note: Annotated[str, typer.Option(help="A remark, kept with the run.")] = "",
    feedback_id: Annotated[str, typer.Option(help="Repeating it counts once; default: a new one.")] = "",
    router: RouterUrl = ROUTER,
    as_json: AsJson = False,
) -> None:
    """Say how right a run's answer was. The key is taken from METACOG_API_KEY."""
    if (correct is None) == (score is None):
        raise typer.BadParameter("say either --correct, --wrong or --score", param_hint="--correct")
    verdict = {"correct": correct} if score is None else {"score": score}
    name = feedback_id or new_id()
    told = Router(router).post("/v1/feedback", {"feedback_id": name, "run_id": run_id, "note": note, **verdict})
    if as_json:
        _echo(told)
    else:
        shown.print(_text(_learned(told)))


def _pages(router: Router, wanted: Mapping[str, object], page_size: int) -> Iterator[Run]:
    token: str | None = None
    while token != "":
        page = router.get("/v1/runs", page_size=page_size, page_token=token, **wanted)
        yield from page["runs"]
        token = page["next_page_token"]


def _table(runs: Sequence[Run]) -> Table:
    table = Table("began", Column("run", no_wrap=True, min_width=36), "by", "activation", "ended")
    for name in ("confidence", "verdict", "tokens", "time"):
        table.add_column(name)
    for run in runs:
        table.add_row(*(_text(cell) for cell in _cells(run)))
    return table


def _cells(run: Run) -> list[str]:
    return [
        run["created_at"][:19].replace("T", " "),
        run["run_id"],
        run["strategy"],
        _number(((run["route"] or {}).get("activation") or {}).get("value")),
        _ended(run),
        _number(run["confidence"]),
        ", ".join(f"{said['score']:g}" for said in run["feedback"]),
        str(run["usage"]["completion_tokens"]),
        f"{run['duration_ms'] / 1000:.2f} s",
    ]


def _ended(run: Run) -> str:
    return f"{run['error_reason'] or run['outcome'].lower()}{' (degraded)' if run['degraded'] else ''}"


def _facts(run: Run) -> Table:
    route, table = run["route"] or {}, Table(show_header=False, box=None)
    source = f" ({run['confidence_source']})" if run["confidence_source"] else ""
    facts = {
        "run": run["run_id"],
        "began": run["created_at"],
        "decided": f"{route.get('system', '')} {route.get('strategy', '')}, because: {route.get('because', '')}",
        "activation": _number((route.get("activation") or {}).get("value")),
        "answered by": f"{run['strategy']} {run['model']}",
        "ended": _ended(run),
        "confidence": _number(run["confidence"]) + source,
        "degraded": "; ".join(run["degraded_reasons"]),
        "tokens": " ".join(f"{stage}: {spent['completion_tokens']}" for stage, spent in run["usage"]["stages"].items()),
        "time": f"{run['duration_ms']:.0f} ms",
        "verdicts": "; ".join(f"{said['score']:g} {said['note']}".strip() for said in run["feedback"]),
    }
    for name, fact in facts.items():
        if fact.strip():
            table.add_row(name, _text(fact))
    return table


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


def _number(item: float | None) -> str:
    return "" if item is None else f"{item:.2f}"


def _text(said: str) -> Text:
    """`said` as it is: no markup, and nothing that would steer the terminal."""
    return Text("".join(sign if sign.isprintable() or sign in "\n\t" else "\N{REPLACEMENT CHARACTER}" for sign in said))


def _echo(document: object) -> None:
    typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
