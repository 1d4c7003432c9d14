"""`metacog delegate` gives a task to the delegation service: one agent does it, delegates it, or all vote."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer
from metacog.delegation.v1.tasks_pb2 import ProcessResponse, SelfAssessResponse

from cli.answers.answer_events import incomplete_stream, step_after
from cli.answers.drawing_answers import assessments, chosen_mode, label, task
from cli.terminal import options
from cli.terminal.client import Reply, Service
from cli.terminal.input_files import question
from cli.terminal.options import (
    AnswerType,
    AsJson,
    DelegationUrl,
    Key,
    MaxCost,
    MaxGenerations,
    MaxTokens,
    Seed,
    Timeout,
    given,
)
from cli.terminal.output import ProgressLine, print_json, progress_line, stderr, stdout, write

Text = Annotated[str, typer.Argument(help="The task; `-` reads it from standard input.")]


def delegate(  # noqa: PLR0913 - each is an option of the command
    text: Text,
    dimension: Annotated[
        list[str] | None,
        typer.Option(help="Dimension of the task, e.g. math_computation; default: classified. Repeatable."),
    ] = None,
    expected: Annotated[
        str, typer.Option(help="The right answer; profiles learn from it, and no agent receives it.")
    ] = "",
    answer_type: AnswerType = "",
    agent: Annotated[list[str] | None, typer.Option(help="Agent that takes part; default: all. Repeatable.")] = None,
    first: Annotated[str, typer.Option(help="First agent of the task; default: each in turn.")] = "",
    assess_only: Annotated[bool, typer.Option("--assess-only", help="Only show the self-assessments.")] = False,
    max_generations: MaxGenerations = None,
    max_generated_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    timeout: Timeout = None,
    seed: Seed = None,
    request_id: Annotated[
        str, typer.Option("--request-id", help="A repeated identifier returns the recorded answer.")
    ] = "",
    delegation: DelegationUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Delegate a task to the agent with the best combined confidence, or let all agents vote."""
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
    with progress_line() as progress:
        if assess_only:
            _assess(service, body, progress, as_json)
            return
        right = given(expected=given(answer=expected, answer_type=answer_type.upper()) if expected else None)
        more = given(answer_type=answer_type.upper(), first_agent=first, request_id=request_id)
        events = service.stream("/v1/tasks", {**body, **right, **more}, ProcessResponse)
        done = _finished_task(events, progress, show=not as_json)
    if as_json:
        print_json(done.document)
        return
    finished = done.message.task_finished
    stdout.print(task(finished))
    if not finished.HasField("label"):
        stderr.print(f"was it right? metacog feedback --task {finished.task_id} --correct (or --wrong)", style="dim")


def _assess(service: Service, body: dict[str, Any], progress: ProgressLine, as_json: bool) -> None:
    progress.show("agents assess themselves")
    found = service.post("/v1/self-assessments", body, SelfAssessResponse)
    progress.clear()
    if as_json:
        print_json(found.document)
    else:
        stdout.print(assessments(found.message.assessments))


def _finished_task(
    events: Iterable[Reply[ProcessResponse]], progress: ProgressLine, *, show: bool
) -> Reply[ProcessResponse]:
    """Return the event with the finished task, and show the decision and the executor's text as they arrive."""
    streamed = False
    for event in events:
        name = event.message.WhichOneof("event")
        if name == "task_finished":
            progress.clear()
            write("\n" if streamed else "")
            return event
        if not show or name not in ("mode_chosen", "answer_token", "answer_judged"):
            progress.show(step_after(event.message))
            continue
        progress.clear()
        if name == "answer_token":
            streamed = True
            write(event.message.answer_token.text)
            continue
        write("\n" if streamed else "")
        streamed = False
        is_mode = name == "mode_chosen"
        stderr.print(
            chosen_mode(event.message.mode_chosen) if is_mode else label(event.message.answer_judged), soft_wrap=True
        )
    raise incomplete_stream()
