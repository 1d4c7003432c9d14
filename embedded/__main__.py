"""`python -m embedded up|down|status` runs the whole suite on one machine, without Docker."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence

from embedded.down import stop_suite
from embedded.errors import SuiteError
from embedded.settings import MODELS_FILE, UpOptions, from_environment, home_path
from embedded.status import all_up, current, format_json, format_table
from embedded.supervision.parts import ProcessSpec
from embedded.supervision.processes import Home
from embedded.terminal import print_line
from embedded.up import prepared_parts, up


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m embedded", description="Run the suite on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("up", help="start the suite; returns when every part is ready")
    start.add_argument(
        "--inference-url", help="OpenAI-compatible server to use instead of llama.cpp (base URL with /v1)"
    )
    start.add_argument("--inference-model", help="name of the model; default: the first that the server lists")
    start.add_argument("--models", help="models.yaml: several models on servers of your own")
    start.add_argument("--backend", choices=("llamacpp", "vllm"), default="llamacpp", help="what serves the model")
    start.add_argument("--model", help="GGUF file for llama.cpp; name or folder of a model for vLLM")
    start.add_argument("--threads", type=int, help="threads of llama.cpp; default: half the cores")
    start.add_argument("--plan", action="store_true", help="show what would start, and start nothing")
    commands.add_parser("down", help="stop the suite, even if its supervisor was killed")
    commands.add_parser("status", help="show the parts").add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


def run_up(up_options: UpOptions, *, only_plan: bool = False) -> int:
    """Start the suite, or only show what would start; return 0 when it is ready."""
    settings = from_environment(up_options)
    if only_plan:
        print_line(format_plan(prepared_parts(settings)))
    else:
        up(settings)
    return 0


def format_plan(parts: Sequence[ProcessSpec]) -> str:
    """Format the parts with their commands, and the model that the suite uses."""
    environment = parts[-1].environment
    lines = [f"{part.name}  {shlex.join(part.command)}" for part in parts]
    if MODELS_FILE in environment:
        return "\n".join([*lines, f"models of {environment[MODELS_FILE]}"])
    model = f"model {environment['METACOG_INFERENCE_MODEL']} at {environment['METACOG_INFERENCE_URL']}"
    return "\n".join([*lines, model])


def run_down() -> int:
    """Stop the suite; return 0."""
    print_line("stopped" if stop_suite(Home(home_path(os.environ))) else "the suite was not running")
    return 0


def run_status(as_program: bool) -> int:
    """Show the parts; return 0 if all are up, else 1."""
    states = current(Home(home_path(os.environ)))
    if as_program:
        print_line(format_json(states))
    else:
        print_line(format_table(states) if states else "the suite is not up; start it with: make up")
    return 0 if all_up(states) else 1


def run(options: argparse.Namespace) -> int:
    """Run the command that `options` specify."""
    if options.command == "down":
        return run_down()
    if options.command == "status":
        return run_status(options.json)
    return run_up(
        UpOptions(
            inference_url=options.inference_url,
            inference_model=options.inference_model,
            models=options.models,
            backend=options.backend,
            model=options.model,
            threads=options.threads,
        ),
        only_plan=options.plan,
    )


def main() -> int:
    """Run one command; return 1 with a message on an error, 130 on an interruption."""
    try:
        return run(parse())
    except SuiteError as error:
        print_line(error.message)
        return 1
    except KeyboardInterrupt:
        print_line("interrupted; the suite is stopped")
        return 130


if __name__ == "__main__":
    sys.exit(main())
