"""`metacog arbitrate` solves a question several times, criticizes the solutions and arbitrates between them."""

from collections.abc import Iterable
from typing import Annotated

import typer
from metacog.arbiter.v1.arbiter_pb2 import ArbitrateResponse

from cli.answers.answer_events import incomplete_stream, step_after
from cli.answers.drawing_answers import arbitration
from cli.terminal import options
from cli.terminal.client import Reply, Service
from cli.terminal.input_files import question
from cli.terminal.options import (
    AnswerType,
    ArbiterUrl,
    AsJson,
    Key,
    MaxCost,
    MaxGenerations,
    MaxTokens,
    Seed,
    Timeout,
    given,
)
from cli.terminal.output import ProgressLine, print_json, progress_line, stdout


def arbitrate(  # noqa: PLR0913 - each is an option of the command
    text: Annotated[str, typer.Argument(help="The question; `-` reads it from standard input.")],
    answer_type: AnswerType = "",
    mode: Annotated[str, typer.Option(help="ADAPTIVE or PAPER; default: ADAPTIVE.")] = "",
    variant: Annotated[
        str, typer.Option(help="FULL, MAJORITY_VOTE, REFLECTIONS, SINGLE_ARBITER or SELF_CONSISTENCY.")
    ] = "",
    solvers: Annotated[int | None, typer.Option(min=1, help="Number of independent solvers; default: 2.")] = None,
    solver_samples: Annotated[int | None, typer.Option(min=1, help="Samples per solver; default: 5.")] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of arbitration samples; default: 50.")
    ] = None,
    stop: Annotated[
        str, typer.Option(help="When the solving ends: AGREE, or NONE for all samples in one call; default: AGREE.")
    ] = "",
    truth: Annotated[str, typer.Option(help="The right answer; used for the measures only.")] = "",
    max_generations: MaxGenerations = None,
    max_generated_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    timeout: Timeout = None,
    seed: Seed = None,
    arbiter: ArbiterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Solve a question several times, criticize and arbitrate; show both distributions and their measures."""
    body = given(
        question=question(text),
        answer_type=answer_type.upper(),
        mode=mode.upper(),
        variant=variant.upper(),
        solvers=solvers,
        solver_samples=solver_samples,
        arbitration_samples=samples,
        adaptive=given(stop=stop.upper()) or None,
        truth=truth,
        envelope=options.envelope(max_generations, max_generated_tokens, timeout, max_cost),
        seed=seed,
    )
    events = Service("arbiter", arbiter, key=key).stream("/v1/arbitrations", body, ArbitrateResponse)
    with progress_line() as progress:
        done = _finished_arbitration(events, progress)
    if as_json:
        print_json(done.document)
    else:
        stdout.print(arbitration(done.message.arbitration_finished))


def _finished_arbitration(
    events: Iterable[Reply[ArbitrateResponse]], progress: ProgressLine
) -> Reply[ArbitrateResponse]:
    """Return the event with the result of the arbitration, and show its progress and its leading answer."""
    for event in events:
        if event.message.HasField("arbitration_finished"):
            return event
        leader = ""
        if event.message.HasField("samples_drawn"):
            leader = f", leading: {event.message.samples_drawn.leader or 'none yet'}"
        progress.show(step_after(event.message) + leader)
    raise incomplete_stream()
