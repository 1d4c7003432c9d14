"""`metacog`: run the suite on this machine, check its configuration, make keys.

What runs the suite is imported by the commands that do: in a container its packages are not there.
"""

import secrets
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.console import Console

from chassis.agents import read_agents
from chassis.auth import ApiKey, read_keys
from chassis.policy_file import read_policy
from chassis.routing_file import read_routing
from chassis.voices import DEFAULT_AGENTS_FILE
from cli import calibrate, knowledge, runs
from cli import eval as evaluation
from embedded.errors import SuiteError
from kernel.errors import MetacogError

app = typer.Typer(help="Metacognition for LLM serving.", no_args_is_help=True, add_completion=True)
config = typer.Typer(help="Configuration files.", no_args_is_help=True)
keys = typer.Typer(help="API keys.", no_args_is_help=True)
app.add_typer(config, name="config")
app.add_typer(keys, name="keys")
app.add_typer(evaluation.app, name="eval")
app.add_typer(knowledge.app, name="knowledge")
app.add_typer(runs.app, name="runs")
app.command()(runs.feedback)
app.command()(calibrate.calibrate)

problems = Console(stderr=True, highlight=False, style="red")


@app.command()
def up(
    inference_url: Annotated[str | None, typer.Option(help="OpenAI-compatible server instead of llama.cpp.")] = None,
    inference_model: Annotated[str | None, typer.Option(help="Model to ask there; default: its first.")] = None,
    model: Annotated[Path | None, typer.Option(help="GGUF file for llama.cpp instead of the small model.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of llama.cpp; default: half the cores.")] = None,
) -> None:
    """Start the whole suite on this machine; return when it is ready."""
    from embedded.__main__ import run_up
    from embedded.settings import Wishes

    wishes = Wishes(inference_url=inference_url, inference_model=inference_model, model=model, threads=threads)
    raise typer.Exit(run_up(wishes))


@app.command()
def down() -> None:
    """Stop the suite, also after its supervisor was killed."""
    from embedded.__main__ import run_down

    raise typer.Exit(run_down())


@app.command()
def status(json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """Show the parts of the suite."""
    from embedded.__main__ import run_status

    raise typer.Exit(run_status(json))


@config.command()
def validate(
    agents: Annotated[Path, typer.Option(help="agents.yaml to check.")] = DEFAULT_AGENTS_FILE,
    keys_file: Annotated[Path | None, typer.Option(help="Keys file to check.")] = None,
    routing: Annotated[Path | None, typer.Option(help="Routing file to check: weights and threshold.")] = None,
    policy: Annotated[Path | None, typer.Option(help="Policy table to check.")] = None,
) -> None:
    """Check configuration files; exit status 1 names the line and the reason."""
    found = read_agents(agents)
    typer.echo(f"{agents}: {len(found)} agents: {', '.join(agent.id for agent in found)}")
    if keys_file is not None:
        read_keys(keys_file)
        typer.echo(f"{keys_file}: well-formed")
    if routing is not None:
        typer.echo(f"{routing}: version {read_routing(routing).version or 'by digest'}")
    if policy is not None:
        rows = read_policy(policy).rows
        typer.echo(f"{policy}: {len(rows)} rows: {', '.join(row.name for row in rows)}")


@keys.command()
def new(
    name: Annotated[str, typer.Argument(help="Who will hold the key; recorded with each run.")],
    file: Annotated[Path, typer.Option(help="Keys file to add it to; made if missing.")],
    may_teach: Annotated[bool, typer.Option(help="Whether its feedback may change what the suite learns.")] = True,
) -> None:
    """Make an API key: the key is shown once, its hash goes into the file."""
    known = read_keys(file).keys if file.exists() else ()
    if name in [holder.name for holder in known]:
        raise typer.BadParameter(f"{file} has a key named {name!r} already", param_hint="NAME")
    key = f"mc-{secrets.token_urlsafe(32)}"
    made = ApiKey(name=name, sha256=sha256(key.encode()).hexdigest(), may_teach=may_teach)
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump({"keys": [asdict(holder) for holder in (*known, made)]}, sort_keys=False))
    typer.echo(key)


def main() -> int:
    """Run one command; 1 with a message when it is refused."""
    try:
        app()
    except (SuiteError, MetacogError) as refusal:
        problems.print(refusal.message, soft_wrap=True)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
