"""`metacog eval mc-mas` evaluates arbitration, its controls and its ablations."""

from pathlib import Path
from typing import Annotated

import typer

from cli.evaluation.common import (
    ARBITER,
    Arbiter,
    Concurrency,
    Data,
    Hub,
    Items,
    Precision,
    ReportOnly,
    Seeds,
    Sets,
    Timeout,
    item_options,
    items_of,
    listed,
    numbers,
    record,
    reject_two_sources,
    reject_with,
    show,
)
from evals.harness.command_line import command_line, non_default
from kernel.arbitration.defaults import ARBITRATION_SAMPLES, SOLVER_SAMPLES

# Options of the sampling, which recorded samples disable.
UNUSED = ("data", "hub", "sets", "items", "seeds", "solver_samples", "arbitration_samples", "max_tokens", "report_only",
          "precision", "solvers", "critic", "arbitrates", "beside")  # fmt: skip


def mc_mas(  # noqa: PLR0913 - each is an option of the command
    ctx: typer.Context,
    data: Data = None,
    hub: Hub = "",
    sets: Sets = "",
    items: Items = 20,
    seeds: Seeds = "7",
    solver_samples: Annotated[int, typer.Option(min=1, help="Samples of each of two solvers, K_s.")] = SOLVER_SAMPLES,
    arbitration_samples: Annotated[int, typer.Option(min=1, help="Samples of the arbiter, K_a.")] = ARBITRATION_SAMPLES,
    solvers: Annotated[
        str,
        typer.Option(help="Agent of each solver, separated by commas; each fixes its model. Default: the service's."),
    ] = "",
    critic: Annotated[str, typer.Option(help="Agent that writes the critiques; default: that of the solver.")] = "",
    arbitrates: Annotated[str, typer.Option(help="Agent that arbitrates; default: the service's.")] = "",
    precision: Precision = "",
    max_tokens: Annotated[int, typer.Option(min=0, help="Maximum tokens of one sample; 0: the service's.")] = 0,
    embeddings: Annotated[bool, typer.Option(help="Measure novelty and related measures; needs the encoder.")] = True,
    equal_compute: Annotated[bool, typer.Option(help="Sample self-consistency with as many generations.")] = True,
    out: Annotated[Path, typer.Option(help="Folder for records and report.")] = Path("eval-mc-mas"),
    concurrency: Concurrency = 1,
    timeout: Timeout = 900,
    arbiter: Arbiter = ARBITER,
    recordings: Annotated[Path | None, typer.Option(help="Recorded samples to report on; no model is called.")] = None,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="With --recordings: the arbiter replays and measures them; no model is called."),
    ] = False,
    beside: Annotated[
        list[Path] | None,
        typer.Option(help="Records of another model or precision, for one table of all; may be given several times."),
    ] = None,
    report_only: ReportOnly = None,
) -> None:
    """Evaluate arbitration as in tables 1 to 6 of MC-MAS, with controls at equal compute.

    Samples are drawn once, and replayed for ablations and smaller samples. With --solvers A,B the solvers have
    different models, and each has a control of its own. The same command with the same --out continues.
    """
    from evals.harness.arms import Plan, described
    from evals.harness.session import REPORT, Session, records_in
    from evals.mc_mas.arms import Sampling, arms
    from evals.mc_mas.files import COMMAND, report_recordings, write_report
    from evals.suite import Addresses

    reject_two_sources(ctx)
    reject_with(ctx, "recordings", *UNUSED)
    if replay and recordings is None:
        raise typer.BadParameter("give the recorded samples with --recordings", param_hint="--replay")
    if recordings is not None:
        if replay:
            _replay(recordings, out, arbiter, concurrency, timeout)
        show(out, report_recordings(recordings, out), REPORT)
        return
    if report_only is None:
        sampling = Sampling(
            solver_samples=solver_samples,
            arbitration_samples=arbitration_samples,
            embeddings=embeddings,
            max_tokens=max_tokens,
            solver_agents=listed(solvers),
            critic_agent=critic,
            arbiter_agent=arbitrates,
        )
        plan = Plan(
            items=items_of(data, hub, sets, items, programs=False),
            arms=described(arms(sampling, equal_compute=equal_compute), precision=precision),
            seeds=numbers(seeds, "--seeds"),
            concurrency=concurrency,
            timeout_ms=timeout * 1000,
        )
        again = command_line(COMMAND, **item_options(data, hub, sets, items), seeds=seeds,
                      solver_samples=solver_samples,
                      arbitration_samples=arbitration_samples, max_tokens=max_tokens or None,
                      solvers=solvers, critic=critic, arbitrates=arbitrates, precision=precision,
                      no_embeddings=not embeddings, no_equal_compute=not equal_compute,
                      **non_default(concurrency=(concurrency, 1), timeout=(timeout, 900)))  # fmt: skip
        record(plan, Session(command=COMMAND, typed=again, folder=out), Addresses(arbiter=arbiter))
    folder, records = records_in(report_only or out)
    others = [records_in(place)[1] for place in beside or ()]
    show(folder, write_report(records, folder, beside=others), REPORT)


def _replay(recordings: Path, out: Path, arbiter: str, concurrency: int, timeout: int) -> None:
    """Have the arbiter replay recorded samples."""
    from evals.harness.session import Session
    from evals.mc_mas.files import COMMAND
    from evals.mc_mas.replays import replay_plan
    from evals.suite import Addresses

    times = non_default(concurrency=(concurrency, 1), timeout=(timeout, 900))
    again = command_line(COMMAND, recordings=recordings, replay=True, **times)
    plan = replay_plan(recordings, concurrency, timeout * 1000)
    record(plan, Session(command=COMMAND, typed=again, folder=out), Addresses(arbiter=arbiter))
