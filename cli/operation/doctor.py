"""`metacog doctor`: look at everything that the suite stands on, and say what to do."""

from collections.abc import Iterator, Mapping
from typing import Annotated

import typer

from cli.operation import checks, probes
from cli.operation.findings import Finding, Verdict, not_checked
from cli.terminal.exits import OK, REFUSED
from cli.terminal.options import ArbiterUrl, AsJson, AssignerUrl, DelegationUrl, Key, RouterUrl
from cli.terminal.output import emit, phases, shown, text

MEASURED_ON = "all-MiniLM-L6-v2"
SIGNS = {
    Verdict.FINE: ("ok", "green"),
    Verdict.WORTH_KNOWING: ("note", "yellow"),
    Verdict.WRONG: ("wrong", "red"),
    Verdict.NOT_CHECKED: ("-", "dim"),
}


def doctor(  # noqa: PLR0913 - each is an option of the command
    generate: Annotated[
        bool,
        typer.Option(
            "--generate/--no-generate", help="Whether the model may be asked a few words, to see what it can."
        ),
    ] = True,
    router: RouterUrl = "",
    assigner: AssignerUrl = "",
    arbiter: ArbiterUrl = "",
    delegation: DelegationUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Check versions, settings, ports, services, key, database, model server and encoder, and say what to do.

    Exit status 1 when something is wrong. Notes are about what works with less.
    """
    addresses = {"router": router, "assigner": assigner, "arbiter": arbiter, "delegation": delegation}
    found: list[Finding] = []
    with phases() as phase:
        for finding in _looked(addresses, key, may_generate=generate):
            found.append(finding)
            if not as_json:
                phase.done()
                _show(finding)
            phase.say("looking further")
    bad = sum(finding.label is Verdict.WRONG for finding in found)
    if as_json:
        emit({"ok": not bad, "findings": [_told(finding) for finding in found]})
    else:
        shown.print(f"{bad} wrong" if bad else "nothing is wrong")
    raise typer.Exit(REFUSED if bad else OK)


def _looked(addresses: dict[str, str], key: str, *, may_generate: bool) -> Iterator[Finding]:
    """Every finding, from the ground up."""
    yield from checks.versions()
    yield from checks.configuration()
    answering = checks.answering(addresses["router"], key)
    yield from checks.ports(answering)
    said = checks.in_force(elsewhere=bool(answering))
    for name, look in _BELOW.items():
        if said[name]:
            yield from look(said, may_generate)
        else:
            yield not_checked(name, "it is not set here; what the services below say of it counts")
    yield from checks.services(addresses, key)


def _database(said: Mapping[str, str], _: bool) -> Iterator[Finding]:
    return checks.database(said["METACOG_DATABASE_URL"])


def _inference(said: Mapping[str, str], may_generate: bool) -> Iterator[Finding]:
    url, key = said["METACOG_INFERENCE_URL"], said["METACOG_INFERENCE_API_KEY"]
    return probes.inference(url, key, said["METACOG_INFERENCE_MODEL"], may_generate=may_generate)


def _encoder(said: Mapping[str, str], _: bool) -> Iterator[Finding]:
    url, key, model = (said[f"METACOG_ENCODER_{part}"] for part in ("URL", "API_KEY", "MODEL"))
    return probes.encoder(url, key, model, said["METACOG_ROUTER_SIMILARITY_ENCODER"] or MEASURED_ON)


# What the services stand on, by the setting that says where it is.
_BELOW = {
    "METACOG_DATABASE_URL": _database,
    "METACOG_INFERENCE_URL": _inference,
    "METACOG_ENCODER_URL": _encoder,
}


def _show(finding: Finding) -> None:
    sign, style = SIGNS[finding.label]
    line = text(f"{sign:<6}", style).append_text(text(f"{finding.name}: ", "bold")).append_text(text(finding.said))
    shown.print(line, soft_wrap=True)
    if finding.advice:
        shown.print(text(f"      {finding.advice}", style), soft_wrap=True)


def _told(finding: Finding) -> dict[str, str]:
    return {"name": finding.name, "label": str(finding.label), "said": finding.said, "advice": finding.advice}
