"""`metacog ask` and `metacog route`: an answer as it comes, or only the decision how hard to think."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cli.answers.answer_events import Explained, Streamed, finished
from cli.answers.drawing import decision
from cli.terminal import options
from cli.terminal.client import Service
from cli.terminal.input_files import question, read_json, state
from cli.terminal.options import AsJson, Key, MaxCost, MaxGenerations, MaxTokens, RouterUrl, Seed, Timeout, given
from cli.terminal.output import emit, phases, shown

Question = Annotated[str, typer.Argument(help="The question; `-` reads it from standard input.", show_default=False)]
Messages = Annotated[
    Path | None, typer.Option("--messages", help="JSON list of turns (role, content) instead of a question.")
]
Strategy = Annotated[
    str, typer.Option("--strategy", help="system1, dialectic, arbiter or delegation; left out: the router decides.")
]
Assessor = Annotated[
    str, typer.Option("--assessor", help="verbalized, probe, hybrid or draft; left out: the configured one.")
]
State = Annotated[
    str,
    typer.Option(
        "--msv", help="State of the query that you know already, as CE=0.45,CI=0.72; then it is not assessed."
    ),
]


def ask(  # noqa: PLR0913 - each is an option of the command
    text: Question = "",
    explain: Annotated[
        bool, typer.Option("--explain", help="Draw the decision, the matrix, the stages and how the state moved.")
    ] = False,
    strategy: Strategy = "",
    assessor: Assessor = "",
    msv: State = "",
    messages: Messages = None,
    answer_type: Annotated[str, typer.Option("--type", help="BOOLEAN, CHOICE, NUMBER, TEXT or CODE.")] = "",
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=1, help="Tokens of the final text.")] = None,
    max_generations: MaxGenerations = None,
    max_generated_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    timeout: Timeout = None,
    seed: Seed = None,
    fallback: Annotated[
        bool, typer.Option("--fallback/--no-fallback", help="Whether another strategy may stand in for one that fails.")
    ] = True,
    request_id: Annotated[str, typer.Option("--request-id", help="Repeating it repeats the recorded answer.")] = "",
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Ask a question; the answer comes as it is generated, and a line on standard error says how it came about."""
    limits = options.envelope(max_generations, max_generated_tokens, timeout, max_cost)
    body = given(
        **_query(text, messages),
        strategy=strategy,
        assessor=assessor,
        msv=state(msv),
        answer_type=answer_type.upper(),
        max_tokens=max_tokens,
        envelope=limits,
        seed=seed,
        fallback=None if fallback else False,
        request_id=request_id,
    )
    events = Service("router", router, key=key).stream("/v1/answers", body)
    with phases() as phase:
        if as_json:
            emit(finished(events, phase))
        elif explain:
            Explained(phase).follow(events)
        else:
            Streamed(phase).follow(events)


def route(  # noqa: PLR0913 - each is an option of the command
    text: Question = "",
    msv: State = "",
    strategy: Strategy = "",
    assessor: Assessor = "",
    messages: Messages = None,
    max_generations: MaxGenerations = None,
    max_generated_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    timeout: Timeout = None,
    seed: Seed = None,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Decide how hard a question would be thought about, and do not answer it; with --msv no model is called."""
    query = {} if msv and not text and messages is None else _query(text, messages)
    body = given(
        **query,
        msv=state(msv),
        strategy=strategy,
        assessor=assessor,
        envelope=options.envelope(max_generations, max_generated_tokens, timeout, max_cost),
        seed=seed,
    )
    with phases() as phase:
        phase.say("assessing the query")
        decided = Service("router", router, key=key).post("/v1/route", body)
    if as_json:
        emit(decided)
    else:
        shown.print(decision(decided))


def _query(text: str, messages: Path | None) -> dict[str, Any]:
    if messages is None:
        return {"question": question(text)}
    if text:
        raise typer.BadParameter("give a question or --messages, not both", param_hint="--messages")
    return {"messages": read_json(messages)}
