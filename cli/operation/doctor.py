"""`metacog doctor` checks the suite and everything that it needs, and describes what to do."""

from collections.abc import Iterator, Mapping
from typing import Annotated

import typer

from cli.operation import checks, probes
from cli.operation.findings import Finding, Status, not_checked
from cli.terminal.exits import FAILED, OK
from cli.terminal.options import ArbiterUrl, AsJson, AssignerUrl, DelegationUrl, Key, RouterUrl
from cli.terminal.output import print_json, progress_line, stdout, text
from kernel.msv.experience import DEFAULT_CALIBRATION

SIGNS = {
    Status.FINE: ("ok", "green"),
    Status.NOTE: ("note", "yellow"),
    Status.WRONG: ("wrong", "red"),
    Status.NOT_CHECKED: ("-", "dim"),
}


def doctor(  # noqa: PLR0913 - each is an option of the command
    generate: Annotated[
        bool,
        typer.Option(
            "--generate/--no-generate", help="Whether to send short requests to the model to find its features."
        ),
    ] = True,
    router: RouterUrl = "",
    assigner: AssignerUrl = "",
    arbiter: ArbiterUrl = "",
    delegation: DelegationUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Check versions, settings, ports, services, key, database, model server and encoder; describe what to do.

    Exit status 1 after a problem. A note describes a limitation.
    """
    addresses = {"router": router, "assigner": assigner, "arbiter": arbiter, "delegation": delegation}
    found: list[Finding] = []
    with progress_line() as progress:
        for finding in _findings(addresses, key, may_generate=generate):
            found.append(finding)
            if not as_json:
                progress.clear()
                _show(finding)
            progress.show("checking")
    bad = sum(finding.status is Status.WRONG for finding in found)
    if as_json:
        print_json({"ok": not bad, "findings": [_document(finding) for finding in found]})
    else:
        stdout.print(f"{bad} wrong" if bad else "no problem was found")
    raise typer.Exit(FAILED if bad else OK)


def _findings(addresses: dict[str, str], key: str, *, may_generate: bool) -> Iterator[Finding]:
    """Run every check, the services last."""
    yield from checks.versions()
    yield from checks.configuration()
    answering = checks.answering(addresses["router"], key)
    yield from checks.ports(answering)
    values = checks.in_force(elsewhere=bool(answering))
    yield from checks.peer_key(values)
    for name, check in _DEPENDENCIES.items():
        if values[name]:
            yield from check(values, may_generate)
        else:
            yield not_checked(name, "it is not set here; the services below report on it")
    yield from checks.services(addresses, key)


def _database(values: Mapping[str, str], _: bool) -> Iterator[Finding]:
    return checks.database(values["METACOG_DATABASE_URL"])


def _inference(values: Mapping[str, str], may_generate: bool) -> Iterator[Finding]:
    url, key = values["METACOG_INFERENCE_URL"], values["METACOG_INFERENCE_API_KEY"]
    return probes.inference(url, key, values["METACOG_INFERENCE_MODEL"], may_generate=may_generate)


def _encoder(values: Mapping[str, str], _: bool) -> Iterator[Finding]:
    url, key, model = (values[f"METACOG_ENCODER_{part}"] for part in ("URL", "API_KEY", "MODEL"))
    return probes.encoder(url, key, model, values["METACOG_ROUTER_SIMILARITY_ENCODER"] or DEFAULT_CALIBRATION.encoder)


# The dependencies of the services, by the setting with their address.
_DEPENDENCIES = {
    "METACOG_DATABASE_URL": _database,
    "METACOG_INFERENCE_URL": _inference,
    "METACOG_ENCODER_URL": _encoder,
}


def _show(finding: Finding) -> None:
    sign, style = SIGNS[finding.status]
    line = text(f"{sign:<6}", style).append_text(text(f"{finding.name}: ", "bold")).append_text(text(finding.detail))
    stdout.print(line, soft_wrap=True)
    if finding.advice:
        stdout.print(text(f"      {finding.advice}", style), soft_wrap=True)


def _document(finding: Finding) -> dict[str, str]:
    return {
        "name": finding.name,
        "status": str(finding.status),
        "detail": finding.detail,
        "advice": finding.advice,
    }
