"""`metacog exam` has models, agents and strategies answer labelled tasks, and reports and teaches how good each is."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.terminal.client import Service
from cli.terminal.exits import INTERRUPTED, OK, PARTIAL, UnusableInput
from cli.terminal.options import AsJson, DelegationUrl, Key, RouterUrl
from cli.terminal.output import print_json, stderr

if TYPE_CHECKING:
    from cli.answers.batch_sender import SendLimits
    from cli.exam.arms import Offered
    from cli.exam.estimate import EstimatedArm
    from cli.exam.journal import ExamIdentity, ExamJournal
    from cli.exam.requests import AskLimits, ExamAnswer, ExamQuestion
    from cli.exam.taking import Services, UnsentLabel
    from cli.exam.tasks import DrawnTasks
    from evals.items import Item

DEFAULT_JOURNAL = Path("exam.journal.jsonl")


@dataclass(frozen=True)
class ExamOptions:
    """The options of `metacog exam` that its parts read."""

    per_kind: int
    seed: int
    arms: str
    max_tokens: int
    timeout: float
    concurrency: int
    attempts: int
    yes: bool
    teach: bool
    all_votes: bool
    as_json: bool


def exam(  # noqa: PLR0913 - each is an option of the command
    tasks: Annotated[
        Path | None, typer.Option(help="File of labelled tasks, one JSON object a line; `-`: standard input.")
    ] = None,
    hub: Annotated[str, typer.Option(help="Names of public data sets instead of --tasks, separated by commas.")] = "",
    kinds: Annotated[str, typer.Option(help="Kinds of tasks, separated by commas; default: all.")] = "",
    arms: Annotated[
        str,
        typer.Option(help="Who answers: models, agents, strategies, or single ones such as model:NAME, agent:ID."),
    ] = "models",
    per_kind: Annotated[int, typer.Option(min=1, max=10_000, help="Tasks of each kind.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw of the tasks, and of the requests.")] = 0,
    journal: Annotated[
        Path, typer.Option(help="File of this exam's answers; the same command continues from it.")
    ] = DEFAULT_JOURNAL,
    max_tokens: Annotated[int, typer.Option(min=0, help="Tokens of each answer; 0: the services' own limit.")] = 1024,
    timeout: Annotated[float, typer.Option(min=0.1, help="Time limit of one answer, in seconds.")] = 120.0,
    concurrency: Annotated[int, typer.Option(min=1, max=1024, help="Concurrent requests.")] = 4,
    attempts: Annotated[int, typer.Option(min=1, help="Attempts for a request that fails temporarily.")] = 3,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start without a confirmation.")] = False,
    teach: Annotated[bool, typer.Option("--teach/--no-teach", help="Send the labels to the suite.")] = True,
    all_votes: Annotated[
        bool,
        typer.Option("--all-votes", help="Ask for all votes, also where enough agree: shows what more are worth."),
    ] = False,
    router: RouterUrl = "",
    delegation: DelegationUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Have models, agents and strategies answer labelled tasks; the suite learns how good each is.

    Some tasks of each kind are drawn at random. Calls, tokens and cost are estimated before the start. Each answer is
    stored in the journal at once; after an interruption the same command continues, and asks only what has no answer.
    At the end it shows shares right by arm and kind, and the gain of System 2 over System 1, and sends the labels: of
    runs to the router, of agents to delegation. Failed requests are listed: exit status 5.
    """
    from cli.exam.arms import asks_agents
    from cli.exam.journal import ExamIdentity, open_exam
    from cli.exam.report import show_tasks
    from cli.exam.taking import Services
    from cli.exam.tasks import drawn

    options = ExamOptions(
        per_kind, seed, arms, max_tokens, timeout, concurrency, attempts, yes, teach, all_votes, as_json
    )
    chosen = drawn(_items(tasks, hub), per_kind, seed, _listed(kinds))
    identity = ExamIdentity(
        tasks=chosen.digest, per_kind=per_kind, seed=seed, arms=arms, max_tokens=max_tokens, all_votes=all_votes
    )
    at_delegation = Service("delegation", delegation, key=key) if asks_agents(_listed(arms)) else None
    services = Services(router=Service("router", router, key=key), delegation=at_delegation)
    with open_exam(journal) as opened:
        try:
            opened.check(identity)
            show_tasks(identity.name, chosen, per_kind)
            status = _take(options, chosen, identity, opened, services)
        finally:
            opened.discard_if_empty()
    raise typer.Exit(status)


def _listed(names: str) -> tuple[str, ...]:
    """Return the distinct names in a list separated by commas."""
    return tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


def _items(tasks: Path | None, hub: str) -> "Sequence[Item]":
    """Return all tasks of the file or of the public sets."""
    from cli.exam.tasks import hub_tasks, read_tasks

    if (tasks is None) == (not hub):
        raise typer.BadParameter("give either a file of tasks, or public sets with --hub", param_hint="--tasks")
    return hub_tasks(_listed(hub)) if tasks is None else read_tasks(tasks)


def _take(
    options: ExamOptions, chosen: "DrawnTasks", identity: "ExamIdentity", journal: "ExamJournal", services: "Services"
) -> int:
    """Take the exam, or what is left of it, and report; return the exit status."""
    from cli.answers.batch_sender import SendLimits
    from cli.exam.arms import offered, resolved
    from cli.exam.requests import AskLimits, questions
    from cli.exam.taking import GRACE_S, check_programs, left_of, mark_all, send_labels

    check_programs(chosen.items)
    suite = offered(services.router, services.delegation)
    arms = journal.arms or resolved(_listed(options.arms), suite)
    left = left_of(questions(journal.journal_id, arms, chosen.items), journal)
    rows = _estimated(left, suite, options.max_tokens, services)
    if left:
        _confirm(options, rows, identity.name, begun=journal.identity is not None)
    journal.start(identity, arms)
    asked = questions(journal.journal_id, arms, chosen.items)
    limits = AskLimits(
        max_tokens=options.max_tokens,
        timeout_ms=max(1, round(options.timeout * 1000)),
        seed=options.seed,
        dimensions=suite.dimensions,
        all_votes=options.all_votes,
    )
    sending = SendLimits(
        concurrency=options.concurrency, attempts=options.attempts, timeout_s=options.timeout + GRACE_S
    )
    _ask(left_of(asked, journal), len(asked), services, limits, sending, journal)
    mark_all(asked, journal)
    unsent = send_labels(asked, journal, services, sending, identity.name) if options.teach else ()
    return _report(options, chosen, identity, journal, asked, rows, unsent)


def _estimated(
    left: "Sequence[ExamQuestion]", suite: "Offered", max_tokens: int, services: "Services"
) -> "Sequence[EstimatedArm]":
    from cli.exam.arms import ArmKind
    from cli.exam.estimate import estimated, mean_runs

    strategies = dict.fromkeys(each.arm.name for each in left if each.arm.kind is ArmKind.STRATEGY)
    return estimated(left, suite, max_tokens, mean_runs(services.router, tuple(strategies)))


def _confirm(options: ExamOptions, rows: "Sequence[EstimatedArm]", name: str, *, begun: bool) -> None:
    """Show what is left, and ask whether to start.

    Raises:
        UnusableInput: Standard input is no terminal.
        typer.Exit: The answer is no.
    """
    from cli.exam.estimate import total
    from cli.exam.report import show_estimate

    if begun:
        stderr.print(f"continuing {name}: {sum(row.questions for row in rows)} questions are left", soft_wrap=True)
    show_estimate(rows, total(rows))
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise UnusableInput("nothing was asked: standard input is not a terminal to confirm on; --yes starts the exam")
    if not typer.confirm("Start?", err=True):
        stderr.print("nothing was asked")
        raise typer.Exit(OK)


def _ask(
    left: "Sequence[ExamQuestion]",
    total: int,
    services: "Services",
    limits: "AskLimits",
    sending: "SendLimits",
    journal: "ExamJournal",
) -> None:
    """Ask what is left, with progress; an interruption keeps the answers."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from cli.exam.taking import ask

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr, transient=True) as progress:
        bar = progress.add_task("questions", total=total, completed=total - len(left))

        def answered(answer: "ExamAnswer") -> None:
            journal.answered(answer)
            progress.advance(bar)

        try:
            ask(left, services, limits, sending, answered)
        except KeyboardInterrupt:
            stderr.print(
                f"interrupted; the answers so far are in {journal.path}, and the same command continues from there",
                soft_wrap=True,
            )
            raise typer.Exit(INTERRUPTED) from None


def _report(  # noqa: PLR0913 - the parts of the report
    options: ExamOptions,
    chosen: "DrawnTasks",
    identity: "ExamIdentity",
    journal: "ExamJournal",
    asked: "Sequence[ExamQuestion]",
    rows: "Sequence[EstimatedArm]",
    unsent: "Sequence[UnsentLabel]",
) -> int:
    """Print the results; return the exit status."""
    from dataclasses import asdict

    from cli.exam import report
    from cli.exam.estimate import total
    from cli.exam.results import gain_document, gains, result_document, results

    found, gained = results(asked, journal), gains(asked, journal, options.seed)
    failed, labels = report.failed_answers(asked, journal), report.label_counts(asked, journal)
    if options.as_json:
        print_json(
            {
                "exam": identity.name,
                "journal": str(journal.path),
                "tasks": chosen.counts,
                "too_few": chosen.short,
                "estimate": report.estimate_document(rows, total(rows)),
                "results": [result_document(row) for row in found],
                "gains": [gain_document(row) for row in gained],
                "labels": labels,
                "failed": [dict(zip(("arm", "item", "error"), each, strict=True)) for each in failed],
                "unsent": [asdict(each) for each in unsent],
            }
        )
    else:
        report.show_results(found, gained)
        if options.teach:
            report.show_labels(labels, unsent)
        report.show_failed(failed)
    return PARTIAL if failed or unsent else OK
