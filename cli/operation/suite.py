"""`metacog up`, `down` and `status` run the embedded suite.

Each command imports the packages that it needs: a container does not have those that run the suite.
"""

from enum import StrEnum
from typing import Annotated

import typer

from cli.terminal.exits import FAILED, OK


class Backend(StrEnum):
    """The model server that the suite starts."""

    LLAMACPP = "llamacpp"
    VLLM = "vllm"


def up(  # noqa: PLR0913 - each is an option of the command
    inference_url: Annotated[
        str | None,
        typer.Option(help="URL of your own OpenAI-compatible server, with its /v1; no model server is started then."),
    ] = None,
    inference_model: Annotated[str | None, typer.Option(help="Model of that server; default: its first.")] = None,
    models: Annotated[
        str | None,
        typer.Option(help="models.yaml: several models on servers of your own; no model server is started then."),
    ] = None,
    backend: Annotated[Backend, typer.Option(help="Model server to start without --inference-url.")] = Backend.LLAMACPP,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model to serve: a GGUF file for llama.cpp, a name or a folder for vLLM. Default: a small one."
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of llama.cpp; default: half the cores.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show what would start, and start nothing.")] = False,
) -> None:
    """Start the whole suite on this machine; return when it is ready. It runs until `metacog down`."""
    from embedded.__main__ import run_up
    from embedded.settings import UpOptions

    up_options = UpOptions(
        inference_url=inference_url,
        inference_model=inference_model,
        models=models,
        backend=backend.value,
        model=model,
        threads=threads,
    )
    raise typer.Exit(run_up(up_options, only_plan=plan))


def down() -> None:
    """Stop the suite, even if its supervisor was killed."""
    from embedded.__main__ import run_down

    raise typer.Exit(run_down())


def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")] = False,
) -> None:
    """Show the parts of the suite; exit status 0 if all are up, 1 otherwise."""
    from embedded.__main__ import run_status

    raise typer.Exit(OK if run_status(as_json) == OK else FAILED)
