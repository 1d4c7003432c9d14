"""`metacog arbitrate`: solve, criticise, arbitrate, and see how the answers moved."""

from typing import Annotated

import typer

from cli.answers.answer_events import broken, waiting
from cli.answers.drawing_answers import arbitration
from cli.terminal import options
from cli.terminal.client import Body, Events, Service
from cli.terminal.input_files import question
from cli.terminal.options import ArbiterUrl, AsJson, Key, MaxCost, MaxGenerations, MaxTokens, Seed, Timeout, given
from cli.terminal.output import Phase, emit, phases, shown


def arbitrate(  # noqa: PLR0913 - each is an option of the command
    text: Annotated[str, typer.Argument(help="The question; `-` reads it from standard input.")],
    answer_type: Annotated[
        str, typer.Option("--type", help="BOOLEAN, CHOICE, NUMBER, TEXT or CODE; left out: inferred.")
    ] = "",
    mode: Annotated[str, typer.Option(help="ADAPTIVE or PAPER; left out: adaptive.")] = "",
    variant: Annotated[
        str, typer.Option(help="FULL, MAJORITY_VOTE, REFLECTIONS, SINGLE_ARBITER or SELF_CONSISTENCY.")
    ] = "",
    solvers: Annotated[int | None, typer.Option(min=1, help="Independent solvers; left out: 2.")] = None,
    solver_samples: Annotated[int | None, typer.Option(min=1, help="Samples per solver; left out: 5.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Arbitration samples at most; left out: 50.")] = None,
    truth: Annotated[str, typer.Option(help="The right answer; for the measures only.")] = "",
    max_generations: MaxGenerations = None,
    max_generated_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    timeout: Timeout = None,
    seed: Seed = None,
    arbiter: ArbiterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Have a question solved several times, criticised and arbitrated; show both distributions and their measures."""
    body = given(
        question=question(text),
        answer_type=answer_type.upper(),
        mode=mode.upper(),
        variant=variant.upper(),
        solvers=solvers,
        solver_samples=solver_samples,
        arbitration_samples=samples,
        truth=truth,
        envelope=options.envelope(max_generations, max_generated_tokens, timeout, max_cost),
        seed=seed,
    )
    events = Service("arbiter", arbiter, key=key).stream("/v1/arbitrations", body)
    with phases() as phase:
        done = _followed(events, phase, show=not as_json)
    if as_json:
        emit(done)
    else:
        shown.print(arbitration(done))


def _followed(events: Events, phase: Phase, *, show: bool) -> Body:
    """What the arbitration ends with; on the way how far it is, and which answer leads."""
    for name, content in events:
        if name == "arbitration_finished":
            return content
        phase.say(waiting(name, content))
        if name == "samples_drawn" and show:
            phase.say(f"{waiting(name, content)}, leading: {content['leader'] or 'nothing yet'}")
    raise broken()
