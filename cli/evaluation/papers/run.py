"""The evaluations of a paper run by their own commands, one after another, and continue where they were interrupted."""

import asyncio
import io
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from cli.evaluation.common import items_of
from cli.evaluation.papers.tasks import made_tasks, require_same_tasks
from cli.terminal.exits import UnusableInput
from cli.terminal.output import stderr
from evals.paper.parts import USUAL, Asked, Paper, Part, benchmark_tasks, folder_of, parts, per_maker, words
from evals.records import read_records
from kernel.values import value

if TYPE_CHECKING:
    from evals.paper.estimate import Expected
    from evals.paper.report import Made
    from evals.suite import Post, SuiteClient

TASKS, AUTOGEN, PUBLISHED = "tasks.jsonl", "autogen", "published"
# Time that one answer of a measurement of speed may take [s].
TIMED_S = 600.0
Found = TypeVar("Found")


@value
class AutoGen:
    """The environment of AutoGen, and the model server that it asks.

    Attributes:
        python: Its interpreter.
        url: URL of the server, with its /v1.
    """

    python: Path
    url: str


@value
class PaperRun:
    """The options of one start of `metacog eval paper`.

    Attributes:
        asked: What is asked for.
        model: The model that the suite must use.
        folder: Folder of all models.
        addresses: Addresses of the services by name.
        concurrency: Items at a time [count, >= 1].
        autogen: Where AutoGen is; None: it is left out.
    """

    asked: Asked
    model: str
    folder: Path
    addresses: Mapping[str, str]
    concurrency: int
    autogen: AutoGen | None = None

    @property
    def own(self) -> str:
        """Return the name of the folder of this model in this precision."""
        return folder_of(self.model, self.asked.precision)

    @property
    def tasks(self) -> Path:
        """Return the file of the benchmark's tasks, the same for all models."""
        return self.folder / TASKS

    @property
    def parts(self) -> Sequence[Part]:
        """Return the evaluations."""
        return parts(self.asked, self.tasks)

    def place(self, part: str) -> Path:
        """Return the folder of an evaluation of this model."""
        return self.folder / self.own / part


def estimate(run: PaperRun, per_second: float, *, only: bool) -> str:
    """Return what the run takes at most.

    Args:
        run: The run.
        per_second: Tokens that the server generates in a second [1/s]; 0: measured, as many answers at a time as the
            evaluations ask for.
        only: Whether nothing but the estimate is wanted; then a model is asked only for its speed.

    Raises:
        UnusableInput: When the suite uses another model, or the folder has tasks of another benchmark.
        ServiceUnreachable: When the router, or the model behind it, cannot be reached.
    """
    from evals.paper.estimate import Expected, estimate_table
    from evals.paper.loads import conversation
    from evals.paper.speed import tokens_per_second

    if run.asked.paper is Paper.DELEGATION:
        require_same_tasks(run.tasks, run.asked)
    items, seeds = _items(run), len(run.asked.seeds.split(","))
    if not (only and per_second):
        _check_model(run)
    at_once = 1 if any(part.in_order for part in run.parts) else run.concurrency
    source = "as given" if per_second else f"measured, {at_once} at a time"
    if not per_second:
        per_second = _with_suite(run, lambda suite: tokens_per_second(_router(suite), at_once))
    expected = [_expected(run, part, items, 1 if part.command == "routing" else seeds) for part in run.parts]
    if run.autogen is not None:
        expected.append(Expected(name=AUTOGEN, items=items, seeds=1, load=conversation(3)))
    return estimate_table(expected, run.asked.max_tokens, per_second, source)


def make_tables(run: PaperRun, estimated: str) -> None:
    """Run every evaluation, publish its records, and write the page over all."""
    from evals.harness.session import REPORT
    from evals.paper.report import paper_report, published_name
    from evals.publishing.files import publish

    if run.asked.paper is Paper.DELEGATION:
        _benchmark(run)
    beside = _autogen(run)
    for part in run.parts:
        stderr.print(f"{part.name} ...")
        _evaluate([*words(part), "--out", str(run.place(part.name)), *_addresses(run, part), *beside])
        records = read_records(run.place(part.name) / "records.jsonl")
        publish(records, run.folder / PUBLISHED / published_name(part.name, run.own))
    report = run.folder / REPORT
    report.write_text(paper_report(USUAL[run.asked.paper].title, estimated, _made(run)), encoding="utf-8")
    typer.echo(f"written to {report}")


def _expected(run: PaperRun, part: Part, items: int, seeds: int) -> "Expected":
    from evals.paper.estimate import Expected
    from evals.paper.report import recorded_share

    file = run.place(part.name) / "records.jsonl"
    records = read_records(file) if file.exists() else []
    share = recorded_share(records, items * seeds * part.load.requests)
    return Expected(
        name=part.name, items=items, seeds=seeds, load=part.load, recorded=share, text_tokens=part.text_tokens
    )


def _items(run: PaperRun) -> int:
    """Return how many items the evaluations have [count]."""
    asked, source = run.asked, run.asked.source
    if asked.paper is Paper.DELEGATION:
        return benchmark_tasks(asked.items)
    folder = Path(source["data"]) if "data" in source else None
    return len(items_of(folder, source.get("hub", ""), source.get("sets", ""), asked.items, programs=False))


def _check_model(run: PaperRun) -> None:
    """Raise an error where the suite uses another model than the tables are to be made with."""
    from evals.suite import routing_facts

    used = _with_suite(run, lambda suite: routing_facts(suite)).suite["model"]
    if used != run.model:
        message = (
            f"the suite uses the model {used}, not {run.model}: serve it (for instance `vllm serve {run.model}`), and "
            'start the suite on it: make up ARGS="--inference-url http://HOST:8000/v1"; or give --model '
            f"{used}"
        )
        raise UnusableInput(message)


def _benchmark(run: PaperRun) -> None:
    """Make the tasks of delegation, once for all models."""
    if run.tasks.exists():
        return
    source = [word for name, text in run.asked.source.items() for word in (f"--{name}", text)]
    sizes = ["--per-cell", str(run.asked.items), "--per-maker", str(per_maker(run.asked.items))]
    with made_tasks(run.tasks, run.asked) as unfinished:
        _evaluate(["benchmark", *source, *sizes, "--out", str(unfinished)])


def _autogen(run: PaperRun) -> Sequence[str]:
    """Have AutoGen answer the tasks; returns the option that compares its answers."""
    if run.autogen is None:
        return []
    place, team = run.place(AUTOGEN), run.autogen
    options = {"tasks": run.tasks, "python": team.python, "url": team.url, "model": run.model, "out": place}
    given = [word for name, text in options.items() for word in (f"--{name}", str(text))]
    _evaluate(["autogen", *given, "--max-tokens", str(run.asked.max_tokens)])
    return ["--autogen", str(place / "autogen.jsonl")]


def _addresses(run: PaperRun, part: Part) -> Sequence[str]:
    return [word for name in part.services for word in (f"--{name}", run.addresses[name])]


def _evaluate(typed: Sequence[str]) -> None:
    """Run one command of `metacog eval`; its report is in its folder, and not printed here.

    Raises:
        typer.Exit: When it was interrupted.
    """
    from typer.main import get_command

    from cli.evaluation.eval import app

    with redirect_stdout(io.StringIO()):
        status = get_command(app).main(args=list(typed), prog_name="metacog eval", standalone_mode=False)
    if status:
        raise typer.Exit(int(status))


def _made(run: PaperRun) -> "Sequence[Made]":
    """Return all evaluations in the folder, by model."""
    from evals.paper.report import Made

    names = [part.name for part in run.parts]
    files = [file for name in names for file in sorted(run.folder.glob(f"*/{name}/records.jsonl"))]
    found = []
    for file in sorted(files, key=lambda each: each.parent.parent.name):
        records = read_records(file)
        opening = next((one for one in records if one["kind"] == "run"), {})
        source = opening.get("data")
        typed = source.get("typed", "") if isinstance(source, Mapping) else ""
        part = file.parent.name
        found.append(Made(folder=file.parent.parent.name, part=part, records=records, typed=typed))
    return found


def _router(suite: "SuiteClient") -> "Post":
    from functools import partial

    return partial(suite.post, "router")


def _with_suite(run: PaperRun, ask: "Callable[[SuiteClient], Awaitable[Found]]") -> Found:
    from evals.suite import Addresses, SuiteClient

    async def asked() -> Found:
        key = os.environ.get("METACOG_API_KEY", "")
        async with SuiteClient(Addresses(**run.addresses), key=key, timeout_s=TIMED_S) as suite:
            return await ask(suite)

    return asyncio.run(asked())
