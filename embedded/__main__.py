"""`python -m embedded up|down|status`: the whole suite on one machine, without Docker."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence

from embedded.down import stop_suite
from embedded.errors import SuiteError
from embedded.parts import ProcessSpec
from embedded.processes import Home
from embedded.settings import Wishes, from_environment, home_path
from embedded.status import all_up, as_json, as_table, current
from embedded.terminal import say
from embedded.up import prepare, up


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m embedded", description="Run the suite on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    starting = commands.add_parser("up", help="start the suite; returns when all is ready")
    starting.add_argument("--inference-url", help="OpenAI-compatible server to use instead of llama.cpp (ends in /v1)")
    starting.add_argument("--inference-model", help="name of the model; default: the first that the server has")
    starting.add_argument("--backend", choices=("llamacpp", "vllm"), default="llamacpp", help="what serves the model")
    starting.add_argument("--model", help="GGUF file for llama.cpp; name or folder of a model for vLLM")
    starting.add_argument("--threads", type=int, help="threads of llama.cpp; default: half the cores")
    starting.add_argument("--plan", action="store_true", help="show what would be started, and start nothing")
    commands.add_parser("down", help="stop the suite, also after its supervisor was killed")
    commands.add_parser("status", help="show the parts").add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


def run_up(wishes: Wishes, *, only_plan: bool = False) -> int:
    """Start the suite, or only show what would be started; 0 when it is ready."""
    settings = from_environment(wishes)
    if only_plan:
        say(as_plan(prepare(settings)))
    else:
        up(settings)
    return 0


def as_plan(parts: Sequence[ProcessSpec]) -> str:
    """The parts with the commands that run them, and the model that is asked."""
    model = parts[-1].environment["METACOG_INFERENCE_MODEL"], parts[-1].environment["METACOG_INFERENCE_URL"]
    lines = [f"{part.name}  {shlex.join(part.command)}" for part in parts]
    return "\n".join([*lines, f"model {model[0]} at {model[1]}"])


def run_down() -> int:
    """Stop the suite; always 0."""
    say("stopped" if stop_suite(Home(home_path(os.environ))) else "nothing was running")
    return 0


def run_status(as_program: bool) -> int:
    """Show the parts; 0 if all are up, 1 otherwise."""
    states = current(Home(home_path(os.environ)))
    if as_program:
        say(as_json(states))
    else:
        say(as_table(states) if states else "not up; start it with: make up")
    return 0 if all_up(states) else 1


def run(options: argparse.Namespace) -> int:
    """Run the command that `options` name."""
    if options.command == "down":
        return run_down()
    if options.command == "status":
        return run_status(options.json)
    return run_up(
        Wishes(
            inference_url=options.inference_url,
            inference_model=options.inference_model,
            backend=options.backend,
            model=options.model,
            threads=options.threads,
        ),
        only_plan=options.plan,
    )


def main() -> int:
    """Run one command; 1 with a message when it is refused, 130 when it is interrupted."""
    try:
        return run(parse())
    except SuiteError as error:
        say(error.message)
        return 1
    except KeyboardInterrupt:
        say("interrupted; the suite is stopped")
        return 130


if __name__ == "__main__":
    sys.exit(main())
