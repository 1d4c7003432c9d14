"""The entry point of `metacog`: the table of its commands, their groups in the help, and the exit status.

A command's module is imported when the command runs: the help stays fast, and a container does not need the packages
that run the suite.
"""

import sys
from typing import Annotated

import typer

from cli.terminal.exits import INTERRUPTED, exit_status
from cli.terminal.lazy import Row, lazy_group
from kernel.errors import MetacogError

HELP = """Metacognition for LLM serving: decide how hard to think, who thinks which part, and how sure the answer is.

Exit status: 0 success; 1 the service returned an error, or a check found a problem; 2 the command line or a file is \
invalid; 3 the suite cannot be reached; 4 the key is missing, unknown or not permitted; 5 done except for the items \
listed; 130 interrupted.
"""

OPERATION, ANSWERS, RECORDS = "Run the suite on this machine", "Ask and decide", "Records: runs, knowledge, agents"
CALIBRATION, EVALUATION, CONFIGURATION = "Calibrate", "Evaluate", "Configure"

ROWS = {
    "up": Row("cli.operation.suite:up", "Start the whole suite; return when it is ready.", OPERATION),
    "down": Row("cli.operation.suite:down", "Stop the suite, even if its supervisor was killed.", OPERATION),
    "status": Row("cli.operation.suite:status", "Show the parts of the suite.", OPERATION),
    "doctor": Row(
        "cli.operation.doctor:doctor", "Check the suite, and describe what to do about each problem.", OPERATION
    ),
    "ask": Row("cli.answers.ask:ask", "Ask a question; --explain shows how the answer was found.", ANSWERS),
    "route": Row("cli.answers.ask:route", "Choose the system for a question, without answering it.", ANSWERS),
    "assign": Row("cli.answers.assign:assign", "Assign the roles to agents by fitness, without a model call.", ANSWERS),
    "arbitrate": Row("cli.answers.arbitrate:arbitrate", "Arbitrate between sampled answers of a question.", ANSWERS),
    "delegate": Row("cli.answers.delegate:delegate", "Delegate a task to the best suited agent.", ANSWERS),
    "batch": Row("cli.answers.batch:batch", "Answer a file of requests in OpenAI's batch format.", ANSWERS),
    "runs": Row("cli.records.runs:app", "Recorded runs: list, show.", RECORDS),
    "feedback": Row("cli.records.runs:feedback", "Report whether the answer of a run was right.", RECORDS),
    "knowledge": Row(
        "cli.records.knowledge:app", "Documents and verified answers: add, search, list, delete.", RECORDS
    ),
    "agents": Row("cli.records.agents:app", "Agents of delegation: list, flows, drift, reliability.", RECORDS),
    "profiles": Row(
        "cli.records.profiles:app", "Capability profiles of agents: list, reset, freeze, export, import.", RECORDS
    ),
    "calibrate": Row(
        "cli.calibration.calibrate:calibrate",
        "Choose the activation's threshold or weights from feedback.",
        CALIBRATION,
    ),
    "fit-roles": Row(
        "cli.calibration.fit_roles:fit_roles", "Fit the weights of the roles' fitness to feedback.", CALIBRATION
    ),
    "exam": Row(
        "cli.exam.exam:exam",
        "Examine models, agents and strategies on labelled tasks; the suite learns how good each is.",
        CALIBRATION,
    ),
    "eval": Row("cli.evaluation.eval:app", "Evaluate the running suite on questions with known answers.", EVALUATION),
    "models": Row("cli.operation.models:app", "Models: list, check.", CONFIGURATION),
    "config": Row("cli.operation.config:app", "Settings and configuration files: show, validate.", CONFIGURATION),
    "keys": Row("cli.operation.keys:app", "API keys: new.", CONFIGURATION),
}

app = typer.Typer(
    cls=lazy_group(ROWS), help=HELP, no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(version("metacog"))
        except PackageNotFoundError:
            typer.echo("from source")
        raise typer.Exit


@app.callback()
def metacog(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Hold the options of the whole program; its help is `HELP`."""


def main() -> int:
    """Run one command and return its exit status; an error prints one message."""
    try:
        app()
    except MetacogError as error:
        _print_error(error.message)
        return exit_status(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    return 0


def _print_error(message: str) -> None:
    from cli.terminal.output import stderr, text

    stderr.print(text(message), style="red", soft_wrap=True)


if __name__ == "__main__":
    raise SystemExit(main())
