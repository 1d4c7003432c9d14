"""`metacog eval routing --outcomes` scores the router on recorded outcomes of two models."""

from dataclasses import dataclass
from pathlib import Path

from cli.evaluation.common import record, show
from evals.harness.command_line import command_line, non_default


@dataclass(frozen=True)
class OutcomeOptions:
    """The options of `metacog eval routing --outcomes`."""

    files: tuple[str, ...]
    items: int
    assessors: tuple[str, ...]
    seed: int
    out: Path
    router: str
    concurrency: int
    timeout: int


def score_outcomes(options: OutcomeOptions) -> None:
    """Have the router choose the system for every question of the files, and score its choices."""
    from evals.harness.arms import Plan
    from evals.harness.session import Session
    from evals.outcomes.files import COMMAND
    from evals.outcomes.items import read_outcomes
    from evals.strategies import route_by
    from evals.suite import Addresses

    outcomes = read_outcomes([Path(file) for file in options.files], options.items)
    plan = Plan(
        items=outcomes.items,
        arms=[route_by(name) for name in options.assessors],
        seeds=(options.seed,),
        concurrency=options.concurrency,
        timeout_ms=options.timeout * 1000,
    )
    named = {"outcomes": ",".join(options.files), "assessors": ",".join(options.assessors)}
    times = non_default(concurrency=(options.concurrency, 1), timeout=(options.timeout, 600))
    again = command_line("routing", **named, items=options.items, seed=options.seed, **times)
    session = Session(command=COMMAND, typed=again, folder=options.out, asks_router=True, introduce=outcomes.introduce)
    record(plan, session, Addresses(router=options.router))
    score_again(options.out)


def score_again(place: Path) -> None:
    """Write the report again from the records."""
    from evals.harness.session import REPORT, records_in
    from evals.outcomes.files import write_report

    folder, records = records_in(place)
    show(folder, write_report(records, folder), REPORT)
