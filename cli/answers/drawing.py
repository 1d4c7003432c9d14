"""Draws the decisions of the router and the assigner for a terminal: messages in, Rich renderables out."""

from collections.abc import Mapping, Sequence

from metacog.arbiter.v1.arbiter_pb2 import ArbitrationFinished
from metacog.assigner.v1.assigner_pb2 import AssignResponse
from metacog.common.v1.answer_pb2 import OUTCOME_ANSWERED, Outcome
from metacog.common.v1.confidence_pb2 import ConfidenceState
from metacog.common.v1.envelope_pb2 import Usage
from metacog.common.v1.msv_pb2 import MSV
from metacog.common.v1.stage_pb2 import Role, Stage, StageMeasured
from metacog.delegation.v1.tasks_pb2 import TaskFinished
from metacog.router.v1.route_pb2 import ROUTE_SYSTEM_TWO, Route
from metacog.router.v1.router_pb2 import Activation, DecisionRule, RouteResponse, Run
from rich.console import Group, RenderableType
from rich.text import Text

from chassis.serving.wire import optional, word
from cli.terminal.input_files import COMPONENTS
from cli.terminal.output import COOL, HOT, UNKNOWN, bar, cost, facts, number, plain_table, table, text
from kernel.activation import LOWERS, TERMS
from kernel.guard_words import guard_in_words
from kernel.learning.gain_words import gain_in_words, kind_in_words, rule_in_words
from kernel.msv import CONFLICT_PARTS
from kernel.msv.basis import basis_in_words
from kernel.votes.states import ProbabilityState, marked_confidence, state_in_words

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
# Stages that spend, before and after those of the dialectic, in the order in which they come; others follow by name.
EARLIER = (
    *("classify", "assess", "self_assessment", "system1", "execute", "collaborate"),
    *("solve", "critique", "arbitrate"),
)
LATER = ("measure", "vote", "escalation", "compare", "judge")


def decision(route: RouteResponse) -> RenderableType:
    """Draw the system and strategy with the reason, the rule, kind and gain, the activation's terms, and the state."""
    reason = REASONS.get(route.reason, route.reason)
    row = f" ({route.policy_row})" if route.policy_row else ""
    cached = f" (run {route.cached_from})" if route.cached_from else ""
    head = Text.assemble(
        (system_in_words(route), f"bold {HOT if route.system == ROUTE_SYSTEM_TWO else COOL}"),
        text(f"  {route.strategy}: {reason}{row}{cached}"),
    )
    parts: list[RenderableType] = [head, facts(rule(route))]
    if route.HasField("activation"):
        parts.append(activation(route.activation))
    if route.HasField("msv"):
        parts.append(state(route.msv))
    if route.draft:
        parts.append(text(f"draft: {route.draft}"))
    if route.samples:
        parts.append(text("short samples: " + " | ".join(route.samples)))
    return Group(*parts, facts({"assessor": route.assessor, "configuration": route.config_version}))


def system_in_words(route: RouteResponse) -> str:
    """Return the system of a decision as words."""
    return word(Route, route.system).replace("_", " ") or UNKNOWN


def rule(route: RouteResponse) -> Mapping[str, str]:
    """Describe the rule that decided, the kind of the question and the gain on it; empty where unknown."""
    decided_by = word(DecisionRule, route.decided_by)
    gain = route.gain if route.HasField("gain") else None
    return {
        "decided by": rule_in_words(decided_by),
        "kind": kind_in_words(route.kind, route.kind_unknown_reason),
        "gain of System 2": gain_in_words(route.kind, decided_by, gain),
    }


def activation(level: Activation) -> RenderableType:
    """Draw the activation with its threshold and its terms."""
    names = sorted(level.terms, key=lambda name: (TERMS.index(name) if name in TERMS else len(TERMS), name))
    rows = [
        [TERM_NAMES.get(name, name), bar(level.terms[name], 16), f"{level.terms[name]:.3f}", _weight(level, name)]
        for name in names
    ]
    rows += [[TERM_NAMES.get(name, name), "", UNKNOWN, "left out, the others rescaled"] for name in level.unknown]
    value, threshold = optional(level, "value"), level.threshold
    if value is None:
        total = text("activation unknown: fewer than two components could be measured")
    else:
        reaches = round(value, 9) >= round(threshold, 9)
        comparison = f"activation {value:.3f} {'reaches' if reaches else 'is below'} the threshold {threshold:g}"
        total = Text.assemble((_gauge(value, threshold), HOT if reaches else COOL), text(f"  {comparison}"))
    return Group(total, plain_table(rows))


def _weight(level: Activation, name: str) -> str:
    return f"weight {level.weights[name]:g}" if name in level.weights else f"weight {UNKNOWN}"


def _gauge(value: float, threshold: float, width: int = 40) -> str:
    """Draw a bar from 0 to 1 with the threshold marked.

    Example:
        >>> _gauge(0.5, 0.75, 8)
        '████··|·'
    """
    mark = min(width - 1, round(threshold * width))
    drawn = bar(value, width)
    return f"{drawn[:mark]}|{drawn[mark + 1 :]}"


def state(msv: MSV) -> RenderableType:
    """Draw the components of a state; an unknown one has its reason."""
    rows: list[list[str | Text]] = []
    for name, label in COMPONENT_NAMES.items():
        level = optional(msv, name)
        if level is None:
            rows.append([label, "", text(UNKNOWN, "dim"), text(msv.unknown_reasons.get(name, ""), "dim")])
        else:
            basis = basis_in_words(name, msv.parts)
            rows.append([label, bar(level, 16), f"{level:.3f}", text(basis, "dim")])
    return plain_table(rows)


def measured_state(msv: MSV) -> RenderableType:
    """Draw the state that votes measured, with the parts of its conflict; an unknown one has its reason."""
    parts = {name: msv.parts.get(name) for name in CONFLICT_PARTS}
    rows: list[list[str | Text]] = [
        [
            f"  {name.replace('_', ' ')}",
            "" if part is None else bar(part, 16),
            number(part, 3, UNKNOWN),
            text("" if part is not None else msv.unknown_reasons.get(name, ""), "dim"),
        ]
        for name, part in parts.items()
    ]
    return Group(state(msv), text("parts of the conflict"), plain_table(rows))


def matrix(found: AssignResponse, chosen: Mapping[str, str] | None = None) -> RenderableType:
    """Draw the fitness of each agent for each role, the assignment, and the greedy assignment.

    Args:
        found: Reply of the assigner.
        chosen: The assignment in force; None: the one in `found`.
    """
    # The kernel's roles are imported here, because they import numpy, which most commands do not need.
    from kernel.roles import ROLES

    assignment = found.assignment if chosen is None else chosen
    fitness = {role.value: found.fitness[role].by_agent for role in ROLES if role in found.fitness}
    unrated = {each.agent for each in found.partial} | set(assignment.values())
    agents = sorted({agent for by_agent in fitness.values() for agent in by_agent} | (unrated if fitness else set()))
    greedy = found.greedy.assignment
    rows: list[list[str | Text]] = [
        [
            role.lower(),
            *(_cell(by_agent.get(agent), assignment.get(role) == agent) for agent in agents),
            number(found.margins.get(role), 3, "only choice"),
            text(greedy.get(role, ""), "" if greedy.get(role) == assignment.get(role) else HOT),
        ]
        for role, by_agent in fitness.items()
    ]
    lines = [_totals(found), *_tie_and_released(found)]
    return Group(table(["role", *agents, "margin", "greedy"], rows), *(text(line) for line in lines))


def _cell(fitness: float | None, is_chosen: bool) -> Text:
    number = UNKNOWN if fitness is None else f"{fitness:.3f}"
    heat = HEAT[min(len(HEAT) - 1, int((fitness or 0.0) * len(HEAT)))]
    return text(f"[{number}]", f"reverse {heat}".strip()) if is_chosen else text(f" {number} ", heat)


def _totals(found: AssignResponse) -> str:
    greedy = optional(found.greedy, "total_fitness")
    best = f"[ ] chosen; total fitness {found.total_fitness:.3f}"
    if greedy is None:
        return f"{best}; greedy first-available finds no complete assignment"
    return f"{best}, greedy first-available {greedy:.3f}, gain {found.total_fitness - greedy:.3f}"


def _tie_and_released(found: AssignResponse) -> list[str]:
    """Return a line on a tie, and one on roles that could not be kept apart; none where there is nothing to say."""
    lines = []
    if found.tie:
        lines.append("tie: another assignment has the same total fitness; the order of the identifiers decided")
    if found.released:
        pairs = ", ".join(f"{word(Role, each.first)} and {word(Role, each.second)}".lower() for each in found.released)
        lines.append(f"not kept apart, because the agents are too few: {pairs}")
    return lines


def terms(found: AssignResponse) -> RenderableType:
    """Draw the terms of each chosen fitness."""
    from kernel.roles import ROLES

    chosen = {role.value: found.assignment[role] for role in ROLES if role in found.assignment}
    rows = [
        [role.lower(), agent, " + ".join(f"{name} {term:.3f}" for name, term in _terms(found, role, agent).items())]
        for role, agent in chosen.items()
    ]
    return table(["role", "agent", "terms"], rows)


def _terms(found: AssignResponse, role: str, agent: str) -> Mapping[str, float]:
    """Return the terms of one fitness, in their order; none where the caller gave the fitness."""
    from kernel.roles import FITNESS_TERMS

    if role not in found.terms or agent not in found.terms[role].by_agent:
        return {}
    held = found.terms[role].by_agent[agent].by_component
    return {name: held[name] for name in FITNESS_TERMS if name in held}


def evolution(measurements: Sequence[StageMeasured]) -> RenderableType:
    """Draw the state of each stage's text; an unknown correctness or conflict has its reason."""
    rows = []
    for each in measurements:
        reasons = each.msv.unknown_reasons
        reason = next((reasons[name] for name in ("correctness", "conflict") if reasons.get(name)), "")
        levels = [part for name in ("correctness", "conflict") for part in _level(optional(each.msv, name))]
        figures = [_level(optional(each.msv, name))[1] for name in ("experience", "emotional_response")]
        rows.append([word(Stage, each.stage).lower(), *levels, *figures, reason])
    return table(["text", "CE", "", "CI", "", "EM", "ER", ""], rows)


def _level(level: float | None) -> tuple[str, str]:
    return ("", UNKNOWN) if level is None else (bar(level, 12), f"{level:.3f}")


def ending(run: Run) -> RenderableType:
    """Draw the end of a run: confidence, cost, time and limitations."""
    return facts(
        {
            "run": run.run_id,
            "answered by": f"{run.strategy} {run.model}",
            "outcome": "" if run.outcome == OUTCOME_ANSWERED else word(Outcome, run.outcome).lower() or UNKNOWN,
            "confidence": _confidence(run),
            "cost guard": guarded(run),
            **resources(run),
        }
    )


def guarded(run: Run) -> str:
    """Describe what the cost guard of a run allowed; empty where there was none."""
    if not run.HasField("cost_guard"):
        return ""
    found = run.cost_guard
    draft = optional(found, "draft_tokens")
    return guard_in_words(found.times_system1, draft, found.max_generated_tokens, found.reason)


def _confidence(run: Run) -> str:
    confidence, raw = optional(run, "confidence"), optional(run, "confidence_raw")
    if confidence is None:
        return f"{UNKNOWN}: it has no source"
    state = word(ConfidenceState, run.confidence_state) or None
    recalibrated = f", {raw:.2f} before recalibration" if raw is not None and raw != confidence else ""
    what = state_in_words(state or ProbabilityState.UNCALIBRATED, run.confidence_labels)
    return f"{marked_confidence(confidence, state)} from {run.confidence_source}{recalibrated}; {what}"


def resources(done: Run | ArbitrationFinished | TaskFinished) -> dict[str, str]:
    """Format the tokens, cost and time of a result, and its limitations."""
    usage = done.usage
    stages = "  ".join(f"{name} {tokens}" for name, tokens in tokens_by_stage(usage).items())
    return {
        "tokens": f"{usage.completion_tokens} generated in {usage.generations} generations ({stages})",
        "cost": cost(optional(usage, "cost")),
        "time": f"{done.duration_ms / 1000:.1f} s",
        "degraded": "; ".join(done.degraded_reasons),
        "limit": "a limit of the envelope was reached" if done.budget_exhausted else "",
    }


def tokens_by_stage(usage: Usage) -> Mapping[str, int]:
    """Return the tokens that each stage generated, in the order of the stages.

    Example:
        >>> spent = Usage()
        >>> spent.stages["thesis"].completion_tokens, spent.stages["assess"].completion_tokens = 7, 2
        >>> tokens_by_stage(spent)
        {'assess': 2, 'thesis': 7}
    """
    # The kernel's stages are imported here, because their module imports numpy, which most commands do not need.
    from kernel.roles import Stage

    spending = (*EARLIER, *(stage.lower() for stage in Stage), *LATER)
    names = sorted(usage.stages, key=lambda name: (spending.index(name) if name in spending else len(spending), name))
    return {name: usage.stages[name].completion_tokens for name in names}
