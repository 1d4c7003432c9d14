"""`metacog delegate`: agents rate themselves; one does the task, hands it on, or all vote."""

from typing import Annotated, Any

import typer

from cli.answers.answer_events import broken, waiting
from cli.answers.drawing_answers import assessments, chosen_mode, label, task
from cli.terminal import options
from cli.terminal.client import Body, Events, Service
from cli.terminal.input_files import question
from cli.terminal.options import AsJson, DelegationUrl, Key, MaxCost, MaxGenerations, MaxTokens, Seed, Timeout, given
from cli.terminal.output import Phase, emit, phases, shown, told, write

Text = Annotated[str, typer.Argument(help="The task; `-` reads it from standard input.")]


def delegate(  # noqa: PLR0913 - each is an option of the command
    text: Text,
    dimension: Annotated[
        list[str] | None,
        typer.Option(help="What it asks for, e.g. math_computation; left out: classified. Repeatable."),
    ] = None,
    expected: Annotated[str, typer.Option(help="The right answer; profiles learn from it, no agent sees it.")] = "",
    answer_type: Annotated[str, typer.Option("--type", help="BOOLEAN, CHOICE, NUMBER, TEXT or CODE.")] = "",
    agent: Annotated[list[str] | None, typer.Option(help="Agent that takes part; left out: all. Repeatable.")] = None,
    first: Annotated[str, typer.Option(help="Agent that it goes to first; left out: each in turn.")] = "",
    assess_only: Annotated[bool, typer.Option("--assess-only", help="Only ask who could; nobody solves it.")] = False,
    max_generations: MaxGenerations = None,
    max_generated_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    timeout: Timeout = None,
    seed: Seed = None,
    request_id: Annotated[str, typer.Option("--request-id", help="Repeating it repeats the recorded answer.")] = "",
    delegation: DelegationUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Have the agents that are surest of themselves, and have the record for it, do a task."""
    dimensions = dimension or []
    body = given(
        question=question(text),
        dimension=dimensions[0] if len(dimensions) == 1 else "",
        dimensions=dimensions if len(dimensions) > 1 else [],
        agents=agent,
        envelope=options.envelope(max_generations, max_generated_tokens, timeout, max_cost),
        seed=seed,
    )
    service = Service("delegation", delegation, key=key)
    with phases() as phase:
        if assess_only:
            _assess(service, body, phase, as_json)
            return
        right = given(expected=given(answer=expected, answer_type=answer_type.upper()) if expected else None)
        more = given(answer_type=answer_type.upper(), first_agent=first, request_id=request_id)
        events = service.stream("/v1/tasks", {**body, **right, **more})
        done = _followed(events, phase, show=not as_json)
    if as_json:
        emit(done)
        return
    shown.print(task(done))
    if done["label"] is None:
        told.print(f"was it right? metacog feedback --task {done['task_id']} --correct (or --wrong)", style="dim")


def _assess(service: Service, body: dict[str, Any], phase: Phase, as_json: bool) -> None:
    phase.say("agents assess themselves")
    found = service.post("/v1/self-assessments", body)
    phase.done()
    if as_json:
        emit(found)
    else:
        shown.print(assessments(found["assessments"]))


def _followed(events: Events, phase: Phase, *, show: bool) -> Body:
    """What the task ends with; on the way who takes it, and the executor's text as it comes."""
    streamed = False
    for name, content in events:
        if name == "task_finished":
            phase.done()
            write("\n" if streamed else "")
            return content
        if not show or name not in ("mode_chosen", "answer_token", "answer_judged"):
            phase.say(waiting(name, content))
            continue
        phase.done()
        if name == "answer_token":
            streamed = True
            write(content["text"])
        else:
            write("\n" if streamed else "")
            streamed = False
            told.print(chosen_mode(content) if name == "mode_chosen" else label(content), soft_wrap=True)
    raise broken()
