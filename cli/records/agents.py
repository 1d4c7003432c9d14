"""`metacog agents` shows the agents of the delegation service: their trust, flows, drift and reliability."""

from typing import Annotated

import typer
from metacog.delegation.v1.monitoring_pb2 import AgentStatus, DriftEvent, Flow, GetFlowsResponse, Reliability, Trust
from metacog.delegation.v1.tasks_pb2 import ConfidenceSource

from chassis.serving.wire import optional, word
from cli.terminal.client import Service
from cli.terminal.options import AsJson, DelegationUrl, Key
from cli.terminal.output import UNKNOWN, facts, moment, number, print_json, stdout, table

PAGE = 200

app = typer.Typer(help="Agents of delegation: list, flows, drift, reliability.", no_args_is_help=True)

Agent = Annotated[str, typer.Option(help="Only this agent.")]
Dimension = Annotated[str, typer.Option(help="Only this dimension.")]


@app.command("list")
def list_agents(delegation: DelegationUrl = "", key: Key = "", as_json: AsJson = False) -> None:
    """List the agents, and the calibration of their self-assessments."""
    pages = Service("delegation", delegation, key=key).pages("/v1/agents", "agents", AgentStatus, page_size=PAGE)
    found = list(pages)
    if as_json:
        print_json({"agents": [each.document for each in found]})
        return
    rows = [_agent(each.message) for each in found]
    stdout.print(table(["agent", "model", "tags", "self-assessment", "judged", "ECE", "bias"], rows))


def _agent(status: AgentStatus) -> list[str]:
    agent, trust = status.configuration, status.trust
    return [
        agent.id,
        agent.model,
        ", ".join(agent.tags),
        (word(Trust, trust.trust) or "too little data").lower(),
        str(trust.observations),
        number(optional(trust, "calibration_error")),
        number(optional(trust, "bias")),
    ]


@app.command()
def flows(dimension: Dimension = "", delegation: DelegationUrl = "", key: Key = "", as_json: AsJson = False) -> None:
    """Show the delegations between agents: how many there are, and how many are right."""
    service = Service("delegation", delegation, key=key)
    reply = service.get("/v1/flows", GetFlowsResponse, page_size=PAGE, dimension=dimension)
    if as_json:
        print_json(reply.document)
        return
    found = reply.message
    rows = [
        [
            flow.from_agent,
            flow.to_agent,
            str(flow.tasks),
            number(flow.share),
            str(flow.judged),
            _with_interval(flow, "precision"),
        ]
        for flow in found.flows
    ]
    stdout.print(table(["from", "to", "tasks", "share", "judged", "right"], rows) if rows else "no task was delegated")
    counts = {
        "tasks": str(found.tasks),
        "executed": str(found.executed),
        "delegated": str(found.delegated),
        "collaborated": str(found.collaborated),
    }
    stdout.print(facts({**counts, "delegation precision": _with_interval(found, "delegation_precision")}))


@app.command()
def drift(
    agent: Agent = "", dimension: Dimension = "", delegation: DelegationUrl = "", key: Key = "", as_json: AsJson = False
) -> None:
    """List the detected changes of competence, newest first."""
    service = Service("delegation", delegation, key=key)
    query = {"agent": agent, "dimension": dimension}
    found = list(service.pages("/v1/drift", "events", DriftEvent, page_size=PAGE, **query))
    if as_json:
        print_json({"events": [each.document for each in found]})
        return
    rows = [
        [
            moment(optional(each, "detected_at")),
            each.agent,
            each.dimension,
            f"{each.competence_before:.2f} to {each.competence_after:.2f}",
            str(each.observations_since),
        ]
        for each in (event.message for event in found)
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
    found = list(service.pages("/v1/reliability", "reliabilities", Reliability, page_size=PAGE, **query))
    if as_json:
        print_json({"reliabilities": [each.document for each in found]})
        return
    rows = [
        [
            each.agent or "(all)",
            each.dimension or "(all)",
            (word(ConfidenceSource, each.confidence_source) or UNKNOWN).lower(),
            str(each.observations),
            number(optional(each, "calibration_error"), 3),
            number(optional(each, "chance_calibration_error"), 3),
            number(optional(each, "brier_score"), 3),
        ]
        for each in (reliability.message for reliability in found)
    ]
    stdout.print(table(["agent", "dimension", "source", "judged", "ECE", "ECE by chance", "Brier"], rows))


def _with_interval(found: Flow | GetFlowsResponse, name: str) -> str:
    """Format a share with its interval.

    Example:
        >>> _with_interval(Flow(precision=0.5, precision_low=0.1, precision_high=0.9), "precision")
        '0.50 [0.10, 0.90]'
        >>> _with_interval(Flow(), "precision")
        'unknown'
    """
    share, low, high = (optional(found, field) for field in (name, f"{name}_low", f"{name}_high"))
    return UNKNOWN if share is None else f"{share:.2f} [{number(low)}, {number(high)}]"
