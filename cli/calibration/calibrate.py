"""`metacog calibrate` chooses parameters from labelled decisions, of the activation or of a cascade, or shows promises.

It writes a file; a router uses the file after a start with METACOG_ROUTER_ROUTING_FILE, or METACOG_ROUTER_POLICY_FILE.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from metacog.router.v1.calibration_pb2 import GetActivationsResponse, GetPromisesResponse
from metacog.router.v1.route_pb2 import Route

from chassis.serving.wire import word
from cli.terminal.client import Service
from cli.terminal.options import AsJson, Key, RouterUrl, given
from cli.terminal.output import print_json, stdout

if TYPE_CHECKING:
    from cli.calibration.activation_weights import Choice
    from cli.calibration.recorded_decisions import Case

LIMIT = 10_000


def calibrate(  # noqa: PLR0913 - each is an option of the command
    share: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Target share of System 2; of a cascade: largest share that is escalated."),
    ] = None,
    cost: Annotated[
        float | None, typer.Option(min=0, help="Largest mean cost of a question; chooses a cascade.")
    ] = None,
    escalate: Annotated[
        str, typer.Option(help="The stronger model of a cascade; default: the most expensive one.")
    ] = "",
    source: Annotated[
        list[str] | None, typer.Option(help="A cheap model of the cascade; repeat it; default: all others.")
    ] = None,
    promise: Annotated[
        float | None,
        typer.Option(help="Show what can be promised: at most this share of errors among the answers given, e.g. .05."),
    ] = None,
    fit: Annotated[bool, typer.Option("--fit", help="Fit the weights to the labels; else they do not change.")] = False,
    out: Annotated[Path | None, typer.Option(help="Routing or policy file to write; default: print it.")] = None,
    records: Annotated[Path | None, typer.Option(help="JSON lines instead of the router's runs.")] = None,
    routing: Annotated[Path | None, typer.Option(help="Routing file in force; default: as in the runs.")] = None,
    assessor: Annotated[str, typer.Option(help="Only runs assessed by this assessor.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of runs, newest first.")] = LIMIT,
    version: Annotated[str, typer.Option(help="Name of the result; default: a digest of it.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the folds and the resampling.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Choose the activation's threshold, or fit its weights, or choose a cascade's rule, or show what can be promised.

    The decisions are those of the router's runs that the key may read, or those of a file with lines
    like {"msv": {"correctness": 0.9, "conflict": 0.1}, "correct": true}, where `correct`, a flag or a score of 0 to 1,
    is the label of System 1's answer. Fitted weights are used only if they are significantly better.

    To apply the result, start the router with METACOG_ROUTER_ROUTING_FILE set to the file.

    With --cost or --escalate the rule of a cascade is chosen: which models answer first, how many of them must agree,
    and whether the strong model answers where they do not. It needs 100 labelled questions which several models
    answered, as runs of the router, or as lines like {"answers": {"small": {"answer": "12", "correct": true, "cost":
    0.0001}, ...}, "answer_type": "NUMBER"}. To apply it, start the router with METACOG_ROUTER_POLICY_FILE set to the
    file.

    With --promise nothing is chosen: it shows which agreement of votes the labels prove, and what an exam would buy.
    --escalate names the stronger model of the report.
    """
    if promise is not None:
        _check_alone(cost, share, fit=fit, source=source, records=records)
        _promise(Service("router", router, key=key), promise, escalate, as_json=as_json)
        return
    is_cascade = cost is not None or bool(escalate or source)
    if is_cascade:
        _check_cascade(cost, share, others=fit or routing is not None or bool(assessor or version))
    elif share is None and not fit:
        raise typer.BadParameter("give --share, --fit or both; for a cascade --cost", param_hint="--share")
    if out is not None and out.exists() and not force:
        raise typer.BadParameter(f"{out} exists already; --force overwrites it", param_hint="--out")
    service = Service("router", router, key=key)
    if is_cascade:
        limits = {"cost": cost, "share": share}
        _cascade(records, service, _Wanted(escalate, source or (), limits, limit, seed), out, as_json=as_json)
        return
    wanted = _WantedActivation(share, fit, routing, assessor, limit, version, seed)
    _activation(records, service, wanted, out, as_json=as_json)


def _check_alone(
    cost: float | None, share: float | None, *, fit: bool, source: Sequence[str] | None, records: Path | None
) -> None:
    if fit or cost is not None or share is not None or source or records is not None:
        raise typer.BadParameter(
            "--promise goes with --escalate alone, and reads the router's labels", param_hint="--promise"
        )


def _promise(router: Service, error_at_most: float, stronger: str, *, as_json: bool) -> None:
    """Show what can be promised."""
    from cli.calibration.promises import report

    found = router.get("/v1/promises", GetPromisesResponse, **given(error_at_most=error_at_most, stronger=stronger))
    if as_json:
        print_json(found.document)
    else:
        stdout.print(report(found.message))


class _WantedActivation(NamedTuple):
    """What is asked of the activation."""

    share: float | None
    fit: bool
    routing: Path | None
    assessor: str
    limit: int
    version: str
    seed: int


def _check_cascade(cost: float | None, share: float | None, *, others: bool) -> None:
    if others:
        raise typer.BadParameter(
            "a cascade is chosen without --fit, --routing, --assessor and --version", param_hint="--cost"
        )
    if cost is None and share is None:
        raise typer.BadParameter("give --cost or --share, or both, as the limit of the cascade", param_hint="--cost")


def _activation(
    records: Path | None, router: Service, wanted: _WantedActivation, out: Path | None, *, as_json: bool
) -> None:
    """Choose weights and threshold of the activation, and print or write them as a routing file."""
    # Numeric packages are imported here, so that the other commands start faster.
    import numpy as np

    from cli.calibration.activation_weights import calibrated, document, report, routing_file
    from configuration.routing import read_routing

    cases, old = _decisions(records, wanted.routing, router, limit=wanted.limit, assessor=wanted.assessor)
    rng = np.random.default_rng(wanted.seed)
    result = calibrated(cases, old, share=wanted.share, fit=wanted.fit, rng=rng)
    file = routing_file(result, wanted.version)
    if out is not None:
        out.write_text(file)
        read_routing(out)
    if as_json:
        print_json(document(result, file))
        return
    typer.echo(report(result, cases))
    if out is None:
        typer.echo(f"\n{file}", nl=False)


class _Wanted(NamedTuple):
    """What is asked of a cascade."""

    escalate: str
    sources: Sequence[str]
    limits: Mapping[str, float | None]
    limit: int
    seed: int


def _cascade(records: Path | None, router: Service, wanted: _Wanted, out: Path | None, *, as_json: bool) -> None:
    """Choose the rule of a cascade, and print or write it as a policy table."""
    import numpy as np

    from cli.calibration.cascade_rule import chosen_cascade, document, policy_file, report
    from cli.calibration.recorded_cascades import read_questions, recorded_questions
    from kernel.votes.cascade_choice import CascadeLimit

    sample = read_questions(records) if records is not None else recorded_questions(router, limit=wanted.limit)
    choice = chosen_cascade(
        sample,
        strong=wanted.escalate,
        sources=wanted.sources,
        limit=CascadeLimit(**wanted.limits),
        rng=np.random.default_rng(wanted.seed),
    )
    file = policy_file(choice, sample)
    if out is not None:
        out.write_text(file)
    if as_json:
        print_json(document(choice, sample))
        return
    typer.echo(report(choice, sample))
    if out is None:
        typer.echo(f"\n{file}", nl=False)


def _decisions(
    records: Path | None, routing: Path | None, router: Service, *, limit: int, assessor: str
) -> tuple[Sequence["Case"], "Choice"]:
    """Return the decisions of a file or of the router's runs, and the parameters in force."""
    from cli.calibration.activation_weights import SYSTEM_TWO, choice_in_force
    from cli.calibration.recorded_decisions import case_of_run, read_cases, runs_of

    if records is not None:
        return read_cases(records), choice_in_force(routing, None)
    runs = runs_of(router, limit=limit, assessor=assessor)
    seen = router.get("/v1/activations", GetActivationsResponse, bins=1).message
    undetermined = word(Route, seen.undetermined) or SYSTEM_TWO
    return [case_of_run(run) for run in runs], choice_in_force(routing, next(iter(runs), None), undetermined)
