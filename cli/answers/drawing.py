"""What the router and the assigner decided, drawn for a terminal: plain data in, something to print out."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cli.terminal.output import COOL, HOT, UNKNOWN, bar, cost, facts, number, table, text

Body = Mapping[str, Any]

COMPONENTS = {
    "correctness": "CE correctness",
    "conflict": "CI conflict",
    "importance": "PI importance",
    "experience": "EM experience",
    "emotional_response": "ER emotional response",
}
TERMS = {
    "correctness": "1 - correctness",
    "conflict": "conflict",
    "importance": "importance",
    "experience": "1 - experience",
}
ROLES = ("EXPERT", "CRITIC", "EVALUATOR", "SYNTHESIZER", "GENERALIST")
REASONS = {
    "activation": "the activation decides",
    "undetermined": "too little is known of the query",
    "requested": "it was asked for",
    "tools": "the request brings tools",
    "format": "only a plain call can give the format that was asked for",
    "envelope": "the envelope has no room for more",
    "policy": "a row of the policy table says so",
    "cached": "the conversation goes on with the same task",
}
# Background of a cell by its fitness, from low to high; readable on light and dark terminals.
HEAT = ("", "grey50", "cyan", "green", "bold green")


def decision(route: Body) -> RenderableType:
    """System and strategy, why, the activation term by term, and the state behind it."""
    reason = REASONS.get(route["reason"], route["reason"])
    row = f" ({route['policy_row']})" if route.get("policy_row") else ""
    kept = f" (run {route['cached_from']})" if route.get("cached_from") else ""
    head = Text.assemble(
        (route["system"].replace("_", " "), f"bold {HOT if route['system'] == 'SYSTEM_TWO' else COOL}"),
        text(f"  {route['strategy']}: {reason}{row}{kept}"),
    )
    parts: list[RenderableType] = [head]
    if route.get("activation"):
        parts.append(activation(route["activation"]))
    if route.get("msv"):
        parts.append(state(route["msv"]))
    if route.get("draft"):
        parts.append(text(f"draft: {route['draft']}"))
    if route.get("samples"):
        parts.append(text("quick samples: " + " | ".join(route["samples"])))
    version = facts({"assessor": route.get("assessor", ""), "configuration": route.get("config_version", "")})
    return Group(*parts, version)


def activation(level: Body) -> RenderableType:
    """The pressure to deliberate against its threshold, and the terms that add up to it."""
    rows = [
        [TERMS.get(name, name), bar(term, 16), f"{term:.3f}", f"weight {level['weights'].get(name, 0):g}"]
        for name, term in level["terms"].items()
    ]
    rows += [[TERMS.get(name, name), "", UNKNOWN, "left out, the others rescaled"] for name in level["unknown"]]
    value, threshold = level["value"], level["threshold"]
    if value is None:
        total = text("activation unknown: fewer than two components could be measured")
    else:
        reaches = round(value, 9) >= round(threshold, 9)
        said = f"activation {value:.3f} {'reaches' if reaches else 'is below'} the threshold {threshold:g}"
        total = Text.assemble((_gauge(value, threshold), HOT if reaches else COOL), text(f"  {said}"))
    return Group(total, _plain(rows))


def _gauge(value: float, threshold: float, width: int = 40) -> str:
    """A bar from 0 to 1 with the threshold marked.

    Example:
        >>> _gauge(0.5, 0.75, 8)
        '████··|·'
    """
    mark = min(width - 1, round(threshold * width))
    drawn = bar(value, width)
    return f"{drawn[:mark]}|{drawn[mark + 1 :]}"


def state(msv: Body) -> RenderableType:
    """The components of a state; what is unknown is said to be, with its reason."""
    reasons = msv.get("unknown_reasons") or {}
    rows: list[list[str | Text]] = []
    for name, label in COMPONENTS.items():
        level = msv.get(name)
        if level is None:
            rows.append([label, "", text(UNKNOWN, "dim"), text(str(reasons.get(name, "")), "dim")])
        else:
            rows.append([label, bar(level, 16), f"{level:.3f}", ""])
    return _plain(rows)


def _plain(rows: Sequence[Sequence[str | Text]]) -> Table:
    made = Table(show_header=False, box=None, pad_edge=False)
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else text(cell) for cell in row))
    return made


def matrix(found: Body, chosen: Mapping[str, str] | None = None) -> RenderableType:
    """The fitness of each agent for each role, the chosen cells marked, and what greedy would have chosen.

    Args:
        found: An assigner's answer.
        chosen: The assignment in force; left out: the one that was found.
    """
    assignment = found["assignment"] if chosen is None else chosen
    fitness: Mapping[str, Body] = found["fitness"]
    roles = [role for role in ROLES if role in fitness]
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
    return Group(table(["role", *agents, "margin", "greedy"], rows), text(_totals(found)))


def _cell(fitness: float | None, is_chosen: bool) -> Text:
    said = UNKNOWN if fitness is None else f"{fitness:.3f}"
    heat = HEAT[min(len(HEAT) - 1, int((fitness or 0.0) * len(HEAT)))]
    return text(f"[{said}]", f"reverse {heat}".strip()) if is_chosen else text(f" {said} ", heat)


def _margin(margins: Mapping[str, float | None], role: str) -> str:
    """What is lost if the cell were forbidden; nothing else would do where it is undefined."""
    return number(margins.get(role), 3, "only choice") if role in margins else ""


def _totals(found: Body) -> str:
    greedy = (found.get("greedy") or {}).get("total_fitness")
    best = f"[ ] chosen; total fitness {found['total_fitness']:.3f}"
    if greedy is None:
        return f"{best}; greedy first-available finds no complete assignment"
    return f"{best}, greedy first-available {greedy:.3f}, gain {found['total_fitness'] - greedy:.3f}"


def terms(found: Body) -> RenderableType:
    """How the state of each chosen agent made its fitness."""
    rows = [
        [role.lower(), agent, " + ".join(f"{name} {term:.3f}" for name, term in _terms(found, role, agent).items())]
        for role, agent in found["assignment"].items()
    ]
    return table(["role", "agent", "terms"], rows)


def _terms(found: Body, role: str, agent: str) -> Mapping[str, float]:
    made: Mapping[str, float] = (found.get("terms") or {}).get(role, {}).get(agent, {})
    return made


def evolution(measurements: Sequence[Body]) -> RenderableType:
    """Correctness and conflict after each stage; what was not measured is unknown, with its reason."""
    rows = []
    for each in measurements:
        msv = each["msv"]
        reasons = msv.get("unknown_reasons") or {}
        why = next((str(reasons[name]) for name in ("correctness", "conflict") if reasons.get(name)), "")
        rows.append([each["stage"].lower(), *_level(msv["correctness"]), *_level(msv["conflict"]), why])
    return table(["after", "CE", "", "CI", "", ""], rows)


def _level(level: float | None) -> tuple[str, str]:
    return ("", UNKNOWN) if level is None else (bar(level, 12), f"{level:.3f}")


def ending(run: Body) -> RenderableType:
    """How a run ended: belief in the answer, cost, time, and what fell short."""
    usage = run["usage"]
    stages = "  ".join(f"{name} {spent['completion_tokens']}" for name, spent in usage["stages"].items())
    raw = run.get("confidence_raw")
    recalibrated = f", {raw:.2f} before recalibration" if raw is not None and raw != run["confidence"] else ""
    source = (
        f"{run['confidence']:.2f} from {run['confidence_source']}{recalibrated}"
        if run["confidence"] is not None
        else ""
    )
    return facts(
        {
            "run": run["run_id"],
            "answered by": f"{run['strategy']} {run['model']}",
            "outcome": "" if run["outcome"] == "ANSWERED" else run["outcome"].lower(),
            "confidence": source or f"{UNKNOWN}: there is no source for it",
            "tokens": f"{usage['completion_tokens']} generated in {usage['generations']} generations ({stages})",
            "cost": cost(usage),
            "time": f"{run['duration_ms'] / 1000:.1f} s",
            "degraded": "; ".join(run["degraded_reasons"]),
            "limit": "a limit of the envelope was reached" if run["budget_exhausted"] else "",
        }
    )
