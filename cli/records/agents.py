"""`metacog agents` shows the agents of the delegation service: their trust, flows, drift and reliability."""

from typing import Annotated, Any

import typer

from cli.terminal.client import Service
from cli.terminal.options import AsJson, DelegationUrl, Key
from cli.terminal.output import UNKNOWN, facts, number, print_json, stdout, table

PAGE = 200

app = typer.Typer(help="Agents of delegation: list, flows, drift, reliability.", no_args_is_help=True)

Agent = Annotated[str, typer.Option(help="Only this agent.")]
Dimension = Annotated[str, typer.Option(help="Only this dimension.")]


@app.command("list")
def list_agents(delegation: DelegationUrl = "", key: Key = "", as_json: AsJson = False) -> None:
    """List the agents, and the calibration of their self-assessments."""
    found = list(Service("delegation", delegation, key=key).pages("/v1/agents", "agents", page_size=PAGE))
    if as_json:
        print_json({"agents": found})
        return
    rows = []
    for each in found:
        agent, trust = each["configuration"], each["trust"] or {}
        rows.append(
            [
                agent["id"],
                agent["model"],
                ", ".join(agent["tags"]),
                (trust.get("trust") or "too little data").lower(),
                str(trust.get("observations", 0)),
                number(trust.get("calibration_error")),
                number(trust.get("bias")),
            ]
        )
    stdout.print(table(["agent", "model", "tags", "self-assessment", "judged", "ECE", "bias"], rows))


@app.command()
def flows(dimension: Dimension = "", delegation: DelegationUrl = "", key: Key = "", as_json: AsJson = False) -> None:
    """Show the delegations between agents: how many there are, and how many are right."""
    service = Service("delegation", delegation, key=key)
    found = service.get("/v1/flows", page_size=PAGE, dimension=dimension)
    if as_json:
        print_json(found)
        return
    rows = [
        [
            flow["from_agent"],
            flow["to_agent"],
            str(flow["tasks"]),
            number(flow["share"]),
            str(flow["judged"]),
            _with_interval(flow, "precision"),
        ]
        for flow in found["flows"]
    ]
    stdout.print(table(["from", "to", "tasks", "share", "judged", "right"], rows) if rows else "no task was delegated")
    counts = {name: str(found[name]) for name in ("tasks", "executed", "delegated", "collaborated")}
    stdout.print(facts({**counts, "delegation precision": _with_interval(found, "delegation_precision")}))


@app.command()
def drift(
    agent: Agent = "", dimension: Dimension = "", delegation: DelegationUrl = "", key: Key = "", as_json: AsJson = False
) -> None:
    """List the detected changes of competence, newest first."""
    service = Service("delegation", delegation, key=key)
    query = {"agent": agent, "dimension": dimension}
    found = list(service.pages("/v1/drift", "events", page_size=PAGE, **query))
    if as_json:
        print_json({"events": found})
        return
    rows = [
        [
            each["detected_at"][:19].replace("T", " "),
            each["agent"],
            each["dimension"],
            f"{each['competence_before']:.2f} to {each['competence_after']:.2f}",
            str(each["observations_since"]),
        ]
        for each in found
    ]
    stdout.print(
        table(["detected", "agent", "dimension", "competence", "observations since"], rows) if rows else "none"
    )


@app.command()
def reliability(
    agent: Agent = "", dimension: Dimension = "", delegation: DelegationUrl = "", key: Key = "", as_json: AsJson = False
) -> None:
    """Show the calibration of the confidence, by agent, dimension and source."""
    service = Service("delegation", delegation, key=key)
    query = {"agent": agent, "dimension": dimension}
    found = list(service.pages("/v1/reliability", "reliabilities", page_size=PAGE, **query))
    if as_json:
        print_json({"reliabilities": found})
        return
    rows = [
        [
            each["agent"] or "(all)",
            each["dimension"] or "(all)",
            (each["confidence_source"] or UNKNOWN).lower(),
            str(each["observations"]),
            number(each["calibration_error"], 3),
            number(each["chance_calibration_error"], 3),
            number(each["brier_score"], 3),
        ]
        for each in found
    ]
    stdout.print(table(["agent", "dimension", "source", "judged", "ECE", "ECE by chance", "Brier"], rows))


def _with_interval(found: Any, name: str) -> str:  # noqa: ANN401 - JSON
    """Format a share with its interval.

    Example:
        >>> _with_interval({"p": 0.5, "p_low": 0.1, "p_high": 0.9}, "p"), _with_interval({"p": None}, "p")
        ('0.50 [0.10, 0.90]', 'unknown')
    """
    if found[name] is None:
        return UNKNOWN
    return f"{found[name]:.2f} [{number(found[f'{name}_low'])}, {number(found[f'{name}_high'])}]"
