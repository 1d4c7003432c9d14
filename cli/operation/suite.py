"""`metacog up`, `down` and `status`: the embedded suite.

What runs the suite is imported by the commands that do: in a container its packages are not there.
"""

from enum import StrEnum
from typing import Annotated

import typer

from cli.terminal.exits import OK, REFUSED


class Backend(StrEnum):
    """What serves the model."""

    LLAMACPP = "llamacpp"
    VLLM = "vllm"


def up(
    inference_url: Annotated[
        str | None,
        typer.Option(help="OpenAI-compatible server of your own, with its /v1, instead of one that is started."),
    ] = None,
    inference_model: Annotated[str | None, typer.Option(help="Model to ask there; default: its first.")] = None,
    backend: Annotated[
        Backend, typer.Option(help="What serves the model where no server is named.")
    ] = Backend.LLAMACPP,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model to serve: a GGUF file for llama.cpp, a name or a folder for vLLM. Default: a small one."
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of llama.cpp; default: half the cores.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show what would be started, and start nothing.")] = False,
) -> None:
    """Start the whole suite on this machine; return when it is ready. It runs on until `metacog down`."""
    from embedded.__main__ import run_up
    from embedded.settings import Wishes

    wishes = Wishes(
        inference_url=inference_url,
        inference_model=inference_model,
        backend=backend.value,
        model=model,
        threads=threads,
    )
    raise typer.Exit(run_up(wishes, only_plan=plan))


def down() -> None:
    """Stop the suite, also after its supervisor was killed."""
    from embedded.__main__ import run_down

    raise typer.Exit(run_down())


def status(as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """Show the parts of the suite; exit status 0 if all are up, 1 otherwise."""
    from embedded.__main__ import run_status

    raise typer.Exit(OK if run_status(as_json) == OK else REFUSED)
