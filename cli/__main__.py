"""`metacog`: a client of the suite, and the way to run it on one machine.

A command's module is imported when it is called: help is there at once, and in a container the packages that run the
suite are not missed.
"""

import sys
from typing import Annotated

import typer

from cli.terminal.exits import INTERRUPTED, status_of
from cli.terminal.lazy import Row, lazy_group
from kernel.errors import MetacogError

HELP = """Metacognition for LLM serving: decide how hard to think, who thinks which part, and how sure the answer is.

Exit status: 0 done; 1 refused, or a check found something; 2 the command line or a file cannot be used; 3 the suite
cannot be reached; 4 the key is missing, unknown or may not; 5 done but for what is named; 130 interrupted.
"""

SUITE, THINK, KNOW, MEASURE, SET = "The suite on this machine", "Ask", "What it knows and keeps", "Measure", "Set up"

ROWS = {
    "up": Row("cli.operation.suite:up", "Start the whole suite; return when it is ready.", SUITE),
    "down": Row("cli.operation.suite:down", "Stop the suite, also after its supervisor was killed.", SUITE),
    "status": Row("cli.operation.suite:status", "Show the parts of the suite.", SUITE),
    "doctor": Row("cli.operation.doctor:doctor", "Look for what is wrong, and say what to do.", SUITE),
    "ask": Row("cli.answers.ask:ask", "Ask a question; --explain draws how the answer came about.", THINK),
    "route": Row("cli.answers.ask:route", "Decide how hard to think, without answering.", THINK),
    "assign": Row("cli.answers.assign:assign", "Give five roles to agents by fitness, without a model call.", THINK),
    "arbitrate": Row("cli.answers.arbitrate:arbitrate", "Settle disagreement between sampled answers.", THINK),
    "delegate": Row("cli.answers.delegate:delegate", "Have the best suited agent do a task.", THINK),
    "batch": Row("cli.answers.batch:batch", "Answer a file of requests in OpenAI's batch line format.", THINK),
    "runs": Row("cli.records.runs:app", "Recorded runs: list, show.", KNOW),
    "feedback": Row("cli.records.runs:feedback", "Say how right a run's answer was.", KNOW),
    "knowledge": Row("cli.records.knowledge:app", "Documents and verified answers: add, search, list, delete.", KNOW),
    "agents": Row("cli.records.agents:app", "The agents, how far each is to be trusted, who hands what to whom.", KNOW),
    "profiles": Row(
        "cli.records.profiles:app", "What agents have learned to be good at: list, reset, freeze, export, ...", KNOW
    ),
    "calibrate": Row(
        "cli.calibration.calibrate:calibrate", "Choose the activation's threshold or weights from verdicts.", MEASURE
    ),
    "fit-roles": Row(
        "cli.calibration.fit_roles:fit_roles", "Fit the weights of the roles' fitness to verdicts.", MEASURE
    ),
    "eval": Row("cli.evaluation.eval:app", "Measure the running suite on questions with known answers.", MEASURE),
    "config": Row("cli.operation.config:app", "Settings and configuration files: show, validate.", SET),
    "keys": Row("cli.operation.keys:app", "API keys: new.", SET),
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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Stand for the whole program; its help is `HELP`."""


def main() -> int:
    """Run one command; the exit status tells how it went, and a refusal is one clear message."""
    try:
        app()
    except MetacogError as refusal:
        _tell(refusal.message)
        return status_of(refusal)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    return 0


def _tell(message: str) -> None:
    from cli.terminal.output import text, told

    told.print(text(message), style="red", soft_wrap=True)


if __name__ == "__main__":
    raise SystemExit(main())
