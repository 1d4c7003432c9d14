"""`metacog ask` answers a question; `metacog route` only chooses the system for it."""

from pathlib import Path
from typing import Annotated, Any

import typer
from metacog.router.v1.router_pb2 import AnswerResponse, RouteResponse

from cli.answers.answer_events import AnswerPrinter, ExplanationPrinter, finished_run
from cli.answers.drawing import decision
from cli.terminal import options
from cli.terminal.client import Service
from cli.terminal.input_files import question, read_json, state
from cli.terminal.options import (
    AnswerType,
    AsJson,
    Key,
    MaxCost,
    MaxGenerations,
    MaxTokens,
    RouterUrl,
    Seed,
    Timeout,
    given,
    one_of,
)
from cli.terminal.output import print_json, progress_line, stdout
from kernel import policy
from kernel.msv.assessors import AssessorName

Question = Annotated[str, typer.Argument(help="The question; `-` reads it from standard input.", show_default=False)]
Messages = Annotated[
    Path | None,
    typer.Option("--messages", help="JSON file with a list of messages (role, content) instead of a question."),
]
Strategy = Annotated[
    str,
    typer.Option("--strategy", help=f"{one_of(policy.Strategy)}; default: the router."),
]
Assessor = Annotated[str, typer.Option("--assessor", help=f"{one_of(AssessorName)}; default: the configured one.")]
State = Annotated[
    str,
    typer.Option("--msv", help="Known state of the question, as CE=0.45,CI=0.72; no assessor runs then."),
]


# Begins a source of votes that is an agent.
AGENT = "agent:"


def ask(  # noqa: PLR0913 - each is an option of the command
    text: Question = "",
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show the decision, the matrix, the stages and the evolution of the state."),
    ] = False,
    strategy: Strategy = "",
    assessor: Assessor = "",
    msv: State = "",
    messages: Messages = None,
    answer_type: AnswerType = "",
    agree: Annotated[
        int | None, typer.Option("--agree", min=1, help="With votes: equal answers that decide; default: 2 or 3.")
    ] = None,
    most: Annotated[
        int | None, typer.Option("--most", min=1, help="With votes: maximum number of votes; default: 5.")
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            help="With votes: who votes, as MODEL, agent:ID, or either with ,program; repeat it, in their order.",
        ),
    ] = None,
    ahead: Annotated[
        int | None, typer.Option("--ahead", min=1, help="With votes: votes asked for at once; default: 1.")
    ] = None,
    escalate: Annotated[
        str, typer.Option("--escalate", help="With votes: the model that answers where too few of them agree.")
    ] = "",
    promise: Annotated[
        float | None,
        typer.Option(
            "--promise", help="Give an answer only if labels prove that at most this share is wrong, e.g. .05."
        ),
    ] = None,
    model: Annotated[str, typer.Option("--model", help="Model that answers alone, as System 1.")] = "",
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=1, help="Maximum tokens of the answer.")] = None,
    max_generations: MaxGenerations = None,
    max_generated_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    timeout: Timeout = None,
    seed: Seed = None,
    fallback: Annotated[
        bool, typer.Option("--fallback/--no-fallback", help="Whether to use the fallback strategy after a failure.")
    ] = True,
    request_id: Annotated[
        str, typer.Option("--request-id", help="A repeated identifier returns the recorded answer.")
    ] = "",
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Ask a question; the answer is streamed, and a line on standard error describes the run."""
    limits = options.envelope(max_generations, max_generated_tokens, timeout, max_cost)
    body = given(
        **_question(text, messages),
        strategy=strategy,
        assessor=assessor,
        msv=state(msv),
        answer_type=answer_type.upper(),
        vote=given(agree=agree, most=most, sources=list(map(_source, source or ())), ahead=ahead, escalate=escalate),
        promise=given(error_at_most=promise),
        model=model,
        max_tokens=max_tokens,
        envelope=limits,
        seed=seed,
        fallback=None if fallback else False,
        request_id=request_id,
    )
    events = Service("router", router, key=key).stream("/v1/answers", body, AnswerResponse)
    with progress_line() as progress:
        if as_json:
            print_json(finished_run(events, progress))
        elif explain:
            ExplanationPrinter(progress).follow(events)
        else:
            AnswerPrinter(progress).follow(events)


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
    """Choose the system for a question without answering it; with --msv no model is called."""
    asked = {} if msv and not text and messages is None else _question(text, messages)
    body = given(
        **asked,
        msv=state(msv),
        strategy=strategy,
        assessor=assessor,
        envelope=options.envelope(max_generations, max_generated_tokens, timeout, max_cost),
        seed=seed,
    )
    with progress_line() as progress:
        progress.show("assessing the question")
        decided = Service("router", router, key=key).post("/v1/route", body, RouteResponse)
    if as_json:
        print_json(decided.document)
    else:
        stdout.print(decision(decided.message))


def _source(text: str) -> dict[str, Any]:
    """Return a source of votes as the API takes it."""
    named, _, mode = text.partition(",")
    agent = named.removeprefix(AGENT)
    return given(**({"agent": agent} if named.startswith(AGENT) else {"model": named}), mode=mode.strip().upper())


def _question(text: str, messages: Path | None) -> dict[str, Any]:
    if messages is None:
        return {"question": question(text)}
    if text:
        raise typer.BadParameter("give a question or --messages, not both", param_hint="--messages")
    return {"messages": read_json(messages)}
