"""`metacog models` lists the models of the suite, and checks the catalogue of models and its servers."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.operation.probes import FAILURES, Endpoint, model_features, reason_of
from cli.terminal.client import Service
from cli.terminal.exits import FAILED, OK
from cli.terminal.options import AsJson, Key, RouterUrl
from cli.terminal.output import print_json, stdout, table, text
from cli.terminal.served_models import PATH, served_models
from configuration.agents import read_agents
from configuration.models import ModelCatalogue, ModelConfig, ModelEndpoint, key_of, read_models, unlisted_model
from inference import Endpoint as Address
from kernel.errors import MetacogError

Found = Mapping[str, Any]

app = typer.Typer(help="Models: list, check.", no_args_is_help=True)

# Servers that are asked at a time [count].
AT_ONCE = 8


@app.command("list")
def list_models(router: RouterUrl = "", key: Key = "", as_json: AsJson = False) -> None:
    """List the names that a client of the router may use as its model."""
    service = Service("router", router, key=key)
    if as_json:
        print_json(service.get_document(PATH))
        return
    stdout.print(table(["model", "kind"], [[one.id, one.metacog.kind] for one in served_models(service)]))


@app.command()
def check(
    file: Annotated[
        Path | None, typer.Option(envvar="METACOG_MODELS_FILE", help="models.yaml to check.", show_default=False)
    ] = None,
    agents: Annotated[Path | None, typer.Option(help="agents.yaml, whose models must be listed.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Check the files only, and call no server.")] = False,
    features: Annotated[
        bool, typer.Option("--features", help="Try by short calls what each model can do: tools, images and so on.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check the catalogue of models: the file, its keys, and whether each server serves its model.

    With --features it also finds what to state under `features` of each model. Exit status 1 after a problem.
    """
    if file is None:
        raise typer.BadParameter("name the file, or set METACOG_MODELS_FILE", param_hint="--file")
    servers: Sequence[Found] = ()
    try:
        catalogue = read_models(file)
        problems = [unlisted_model(read_agents(agents), catalogue)] if agents is not None else []
    except MetacogError as error:
        problems = [error.message]
    else:
        servers = [] if offline else _servers(catalogue, with_features=features)
    problems += [f"{one['model']} at {one['url']}: {one['problem']}" for one in servers if one["problem"]]
    problems = [problem for problem in problems if problem]
    _report(servers, problems, as_json)
    raise typer.Exit(FAILED if problems else OK)


def _servers(catalogue: ModelCatalogue, *, with_features: bool) -> list[Found]:
    """Return what each server answers, in the order of the file."""
    pairs = [(model, endpoint) for model in catalogue.models for endpoint in model.endpoints]
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        return list(pool.map(lambda pair: _server(*pair, with_features=with_features), pairs))


def _server(model: ModelConfig, endpoint: ModelEndpoint, *, with_features: bool) -> Found:
    problem = _problem(model, endpoint)
    found = {"model": model.name, "url": endpoint.url, "served_as": model.served_name, "problem": problem}
    if not with_features or problem:
        return found
    try:
        return {**found, "features": model_features(_client(endpoint), model.served_name)}
    except FAILURES as error:
        return {**found, "problem": f"it does not answer a chat completion: {reason_of(error)}"}


def _client(endpoint: ModelEndpoint) -> Endpoint:
    """Return a client of a server; an address without a path gets /v1, as in the services."""
    return Endpoint(Address(url=endpoint.url).api_root, key_of(endpoint) or "")


def _problem(model: ModelConfig, endpoint: ModelEndpoint) -> str:
    """Return why a server cannot serve its model; empty when it can."""
    try:
        listed = _client(endpoint).get("/models")["data"]
        served = [name for one in listed for name in (one["id"], *(one.get("aliases") or ()))]
    except FAILURES as error:
        return f"it does not list its models: {reason_of(error)}"
    if model.served_name in served:
        return ""
    return f"it does not serve {model.served_name!r}; it serves {', '.join(served[:5]) or 'nothing'}"


def _report(servers: Sequence[Found], problems: Sequence[str], as_json: bool) -> None:
    if as_json:
        print_json({"valid": not problems, "servers": servers, "problems": problems})
        return
    if servers:
        rows = [[one["model"], one["url"], "problem" if one["problem"] else _in_words(one)] for one in servers]
        stdout.print(table(["model", "server", ""], rows))
    for line in problems:
        typer.echo(line, err=True)
    if not problems:
        stdout.print(text("the models can be used"))


def _in_words(found: Found) -> str:
    features = "".join(f", {name}: {str(able).lower()}" for name, able in found.get("features", {}).items())
    return f"serves it{features}"
