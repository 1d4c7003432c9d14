"""`metacog eval routing --outcomes`: the router scored on recorded outcomes of two models."""

from dataclasses import dataclass
from pathlib import Path

from cli.evaluation.common import record, show, typed, unusual


@dataclass(frozen=True)
class Asked:
    """What `--outcomes` is asked for, option by option."""

    files: tuple[str, ...]
    items: int
    assessors: tuple[str, ...]
    seed: int
    out: Path
    router: str
    concurrency: int
    timeout: int


def score_outcomes(asked: Asked) -> None:
    """Ask the router for its choice on every question of the files, and score it."""
    from evals.harness.arms import Plan
    from evals.harness.session import Session
    from evals.outcomes.files import COMMAND
    from evals.outcomes.items import read_outcomes
    from evals.strategies import route_by
    from evals.suite import Addresses

    outcomes = read_outcomes([Path(file) for file in asked.files], asked.items)
    plan = Plan(
        items=outcomes.items,
        arms=[route_by(name) for name in asked.assessors],
        seeds=(asked.seed,),
        concurrency=asked.concurrency,
        timeout_ms=asked.timeout * 1000,
    )
    named = {"outcomes": ",".join(asked.files), "assessors": ",".join(asked.assessors)}
    times = unusual(concurrency=(asked.concurrency, 1), timeout=(asked.timeout, 600))
    again = typed("routing", **named, items=asked.items, seed=asked.seed, **times)
    session = Session(command=COMMAND, typed=again, folder=asked.out, asks_router=True, introduce=outcomes.introduce)
    record(plan, session, Addresses(router=asked.router))
    score_again(asked.out)


def score_again(place: Path) -> None:
    """The report again, from records alone."""
    from evals.harness.session import REPORT, records_in
    from evals.outcomes.files import write_report

    folder, records = records_in(place)
    show(folder, write_report(records, folder), REPORT)
