"""Draws the decisions of the router and the assigner for a terminal: JSON data in, Rich renderables out."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from cli.terminal.input_files import COMPONENTS
from cli.terminal.output import COOL, HOT, UNKNOWN, bar, cost, facts, number, plain_table, table, text
from kernel.activation import LOWERS, TERMS
from kernel.learning.gain_words import gain_in_words, kind_in_words, rule_in_words
from kernel.msv import CONFLICT_PARTS
from kernel.msv.basis import basis_in_words
from kernel.votes.states import ProbabilityState, marked_confidence, state_in_words

Body = Mapping[str, Any]

COMPONENT_NAMES = {name: f"{initials} {name.replace('_', ' ')}" for initials, name in COMPONENTS.items()}
TERM_NAMES = {term: f"1 - {term}" if term in LOWERS else term for term in TERMS}
REASONS = {
    "activation": "the activation decides",
    "undetermined": "too few components of the state are known",
    "requested": "the request names it",
    "tools": "the request has tools",
    "format": "only a single-pass call supports the requested format",
    "envelope": "the envelope allows no more",
    "gain": "what System 2 gains on this kind decides",
    "policy": "a row of the policy table decides",
    "cached": "the decision of an earlier turn still applies",
}
# Background of a cell by its fitness, from low to high; readable on light and dark terminals.
HEAT = ("", "grey50", "cyan", "green", "bold green")


def decision(route: Body) -> RenderableType:
    """Draw the system and strategy with the reason, the rule, kind and gain, the activation's terms, and the state."""
    reason = REASONS.get(route["reason"], route["reason"])
    row = f" ({route['policy_row']})" if route.get("policy_row") else ""
    cached = f" (run {route['cached_from']})" if route.get("cached_from") else ""
    head = Text.assemble(
        (route["system"].replace("_", " "), f"bold {HOT if route['system'] == 'SYSTEM_TWO' else COOL}"),
        text(f"  {route['strategy']}: {reason}{row}{cached}"),
    )
    rule = {
        "decided by": rule_in_words(route.get("decided_by")),
        "kind": kind_in_words(route),
        "gain of System 2": gain_in_words(route),
    }
    parts: list[RenderableType] = [head, facts(rule)]
    if route.get("activation"):
        parts.append(activation(route["activation"]))
    if route.get("msv"):
        parts.append(state(route["msv"]))
    if route.get("draft"):
        parts.append(text(f"draft: {route['draft']}"))
    if route.get("samples"):
        parts.append(text("short samples: " + " | ".join(route["samples"])))
    version = facts({"assessor": route.get("assessor", ""), "configuration": route.get("config_version", "")})
    return Group(*parts, version)


def activation(level: Body) -> RenderableType:
    """Draw the activation with its threshold and its terms."""
    rows = [
        [TERM_NAMES.get(name, name), bar(term, 16), f"{term:.3f}", f"weight {level['weights'].get(name, 0):g}"]
        for name, term in level["terms"].items()
    ]
    rows += [[TERM_NAMES.get(name, name), "", UNKNOWN, "left out, the others rescaled"] for name in level["unknown"]]
    value, threshold = level["value"], level["threshold"]
    if value is None:
        total = text("activation unknown: fewer than two components could be measured")
    else:
        reaches = round(value, 9) >= round(threshold, 9)
        comparison = f"activation {value:.3f} {'reaches' if reaches else 'is below'} the threshold {threshold:g}"
        total = Text.assemble((_gauge(value, threshold), HOT if reaches else COOL), text(f"  {comparison}"))
    return Group(total, plain_table(rows))


def _gauge(value: float, threshold: float, width: int = 40) -> str:
    """Draw a bar from 0 to 1 with the threshold marked.

    Example:
        >>> _gauge(0.5, 0.75, 8)
        '████··|·'
    """
    mark = min(width - 1, round(threshold * width))
    drawn = bar(value, width)
    return f"{drawn[:mark]}|{drawn[mark + 1 :]}"


def state(msv: Body) -> RenderableType:
    """Draw the components of a state; an unknown one has its reason."""
    reasons = msv.get("unknown_reasons") or {}
    rows: list[list[str | Text]] = []
    for name, label in COMPONENT_NAMES.items():
        level = msv.get(name)
        if level is None:
            rows.append([label, "", text(UNKNOWN, "dim"), text(str(reasons.get(name, "")), "dim")])
        else:
            basis = basis_in_words(name, msv.get("parts") or {})
            rows.append([label, bar(level, 16), f"{level:.3f}", text(basis, "dim")])
    return plain_table(rows)


def measured_state(msv: Body) -> RenderableType:
    """Draw the state that votes measured, with the parts of its conflict; an unknown one has its reason."""
    parts, reasons = msv.get("parts") or {}, msv.get("unknown_reasons") or {}
    rows: list[list[str | Text]] = [
        [
            f"  {name.replace('_', ' ')}",
            "" if parts.get(name) is None else bar(parts[name], 16),
            number(parts.get(name), 3, UNKNOWN),
            text("" if name in parts else str(reasons.get(name, "")), "dim"),
        ]
        for name in CONFLICT_PARTS
    ]
    return Group(state(msv), text("parts of the conflict"), plain_table(rows))


def matrix(found: Body, chosen: Mapping[str, str] | None = None) -> RenderableType:
    """Draw the fitness of each agent for each role, the assignment, and the greedy assignment.

    Args:
        found: Reply of the assigner.
        chosen: The assignment in force; None: the one in `found`.
    """
    # The kernel's roles are imported here, because they import numpy, which most commands do not need.
    from kernel.roles import ROLES

    assignment = found["assignment"] if chosen is None else chosen
    fitness: Mapping[str, Body] = found["fitness"]
    roles = [role.value for role in ROLES if role in fitness]
    agents = sorted({agent for role in roles for agent in fitness[role]})
    greedy = (found.get("greedy") or {}).get("assignment") or {}
    rows: list[list[str | Text]] = [
        [
            role.lower(),
            *(_cell(fitness[role].get(agent), assignment.get(role) == agent) for agent in agents),
            _margin(found["margins"], role),
            text(str(greedy.get(role, "")), "" if greedy.get(role) == assignment.get(role) else HOT),
        ]
        for role in roles
    ]
    lines = [_totals(found), *_tie_and_released(found)]
    return Group(table(["role", *agents, "margin", "greedy"], rows), *(text(line) for line in lines))


def _cell(fitness: float | None, is_chosen: bool) -> Text:
    number = UNKNOWN if fitness is None else f"{fitness:.3f}"
    heat = HEAT[min(len(HEAT) - 1, int((fitness or 0.0) * len(HEAT)))]
    return text(f"[{number}]", f"reverse {heat}".strip()) if is_chosen else text(f" {number} ", heat)


def _margin(margins: Mapping[str, float | None], role: str) -> str:
    """Format the loss if the cell were forbidden; undefined if there is no other choice."""
    return number(margins.get(role), 3, "only choice") if role in margins else ""


def _totals(found: Body) -> str:
    greedy = (found.get("greedy") or {}).get("total_fitness")
    best = f"[ ] chosen; total fitness {found['total_fitness']:.3f}"
    if greedy is None:
        return f"{best}; greedy first-available finds no complete assignment"
    return f"{best}, greedy first-available {greedy:.3f}, gain {found['total_fitness'] - greedy:.3f}"


def _tie_and_released(found: Body) -> list[str]:
    """Return a line on a tie, and one on roles that could not be kept apart; none where there is nothing to say."""
    lines = []
    if found.get("tie"):
        lines.append("tie: another assignment has the same total fitness; the order of the identifiers decided")
    if found.get("released"):
        pairs = ", ".join(f"{each['first']} and {each['second']}".lower() for each in found["released"])
        lines.append(f"not kept apart, because the agents are too few: {pairs}")
    return lines


def terms(found: Body) -> RenderableType:
    """Draw the terms of each chosen fitness."""
    rows = [
        [role.lower(), agent, " + ".join(f"{name} {term:.3f}" for name, term in _terms(found, role, agent).items())]
        for role, agent in found["assignment"].items()
    ]
    return table(["role", "agent", "terms"], rows)


def _terms(found: Body, role: str, agent: str) -> Mapping[str, float]:
    shares: Mapping[str, float] = (found.get("terms") or {}).get(role, {}).get(agent, {})
    return shares


def evolution(measurements: Sequence[Body]) -> RenderableType:
    """Draw correctness and conflict after each stage; an unknown level has its reason."""
    rows = []
    for each in measurements:
        msv = each["msv"]
        reasons = msv.get("unknown_reasons") or {}
        reason = next((str(reasons[name]) for name in ("correctness", "conflict") if reasons.get(name)), "")
        rows.append([each["stage"].lower(), *_level(msv["correctness"]), *_level(msv["conflict"]), reason])
    return table(["after", "CE", "", "CI", "", ""], rows)


def _level(level: float | None) -> tuple[str, str]:
    return ("", UNKNOWN) if level is None else (bar(level, 12), f"{level:.3f}")


def ending(run: Body) -> RenderableType:
    """Draw the end of a run: confidence, cost, time and limitations."""
    raw = run.get("confidence_raw")
    recalibrated = f", {raw:.2f} before recalibration" if raw is not None and raw != run["confidence"] else ""
    state = run.get("confidence_state")
    source = (
        f"{marked_confidence(run['confidence'], state)} from {run['confidence_source']}{recalibrated};"
        f" {state_in_words(state or ProbabilityState.UNCALIBRATED, run.get('confidence_labels', 0))}"
        if run["confidence"] is not None
        else ""
    )
    return facts(
        {
            "run": run["run_id"],
            "answered by": f"{run['strategy']} {run['model']}",
            "outcome": "" if run["outcome"] == "ANSWERED" else run["outcome"].lower(),
            "confidence": source or f"{UNKNOWN}: it has no source",
            **resources(run),
        }
    )


def resources(done: Body) -> dict[str, str]:
    """Format the tokens, cost and time of a result, and its limitations."""
    usage = done["usage"]
    stages = "  ".join(f"{name} {stage['completion_tokens']}" for name, stage in usage["stages"].items())
    return {
        "tokens": f"{usage['completion_tokens']} generated in {usage['generations']} generations ({stages})",
        "cost": cost(usage),
        "time": f"{done['duration_ms'] / 1000:.1f} s",
        "degraded": "; ".join(done["degraded_reasons"]),
        "limit": "a limit of the envelope was reached" if done["budget_exhausted"] else "",
    }
