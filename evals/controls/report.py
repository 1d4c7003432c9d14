"""The report on a strategy beside its controls. Pure."""

from collections.abc import Mapping, Sequence

from evals.controls.figures import ORACLE, Figures, Routing
from evals.harness.arm_figures import ArmFigures, Means, accuracy_by, bar, difficulties, dimensions
from evals.harness.heading_text import opening, settings_table
from evals.harness.rows import RecordedEvaluation
from evals.markdown import area, band, estimate, gain, number, table
from evals.plots.charts import Bar, against_tokens, grouped_bars, reliability_diagram
from evals.stats.chance import Chance
from evals.stats.gains import conclusion
from evals.strategies import ROUTE

AS_WRONG = "failed requests as wrong"
UNDECIDED = "`undecided`: no rule can judge the answer (a long free text, a program whose tests did not run): wrong."
TOKENS, GROUPS, RELIABILITY = "tokens.svg", "groups.svg", "reliability.svg"


def report(evaluation: RecordedEvaluation, found: Figures) -> str:
    """The whole report."""
    sections = [
        opening(f"What is {found.system_two} worth?", evaluation),
        settings_table(evaluation),
        *figures_sections(found),
        "\n".join(f"![{name}]({name})" for name in (TOKENS, GROUPS, RELIABILITY)),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def figures_sections(found: Figures) -> Sequence[str]:
    """The tables, one section each."""
    return [
        arms_section(found.arms),
        gains_section(found),
        sets_section(found),
        routing_section(found.routings, found.deciding),
        quality_section(found.routings),
        trust_section(found.arms),
    ]


def sets_section(found: Figures) -> str:
    """Every arm in every data set, and the gain over System 1 there."""
    names = [arm.name for arm in found.arms]
    rows = [
        [name, *(estimate(each.accuracy[arm]) for arm in names), gain(each.gain.found), f"**{each.gain.conclusion}**"]
        for name, each in found.by_set.items()
    ]
    head = ["data set", *names, "gain over System 1", "conclusion"]
    left_out = " (failed requests left out)" if any(arm.failed for arm in found.arms) else ""
    return f"By data set{left_out}:\n\n{table(head, rows)}"


def pictures(evaluation: RecordedEvaluation, found: Figures, chance: Chance) -> Mapping[str, str]:
    """The pictures of the report, by file name."""
    answering = [name for name in evaluation.arms if name != ROUTE]
    grouped: dict[str, dict[str, Bar]] = {}
    for name in answering:
        for group in (dimensions, difficulties):
            for each, level in accuracy_by(evaluation.of(name), group, chance).items():
                grouped.setdefault(each, {})[name] = bar(level)
    compared = next((arm for arm in found.arms if arm.name == found.system_two), None)
    return {
        TOKENS: against_tokens({arm.name: (arm.means.tokens, bar(arm.accuracy)) for arm in found.arms}),
        GROUPS: grouped_bars(grouped),
        RELIABILITY: reliability_diagram(compared.trust.found.bins if compared else []),
    }


def arms_section(arms: Sequence[ArmFigures]) -> str:
    """Share right and what it cost, arm by arm; where requests of an arm failed, its share with these as wrong too."""
    head = [
        "arm",
        "items",
        "share right",
        "over seeds (seeds)",
        "unreadable",
        "undecided",
        "failed requests",
        "generations",
    ]
    rows = [row for arm in arms for row in _arm_rows(arm)]
    body = table([*head, "calls", "prompt tokens", "generated", "ms p50"], rows)
    return f"{body}\n\n{UNDECIDED}" if any(arm.undecided for arm in arms) else body


def _arm_rows(arm: ArmFigures) -> Sequence[Sequence[str]]:
    answered = [
        arm.name,
        str(arm.items),
        estimate(arm.accuracy),
        f"{number(arm.by_seed.mean)} ± {number(arm.by_seed.deviation)} ({arm.by_seed.seeds})",
        str(arm.unreadable),
        str(arm.undecided),
        str(arm.failed),
        number(arm.means.generations, 1),
        number(arm.means.calls, 1),
        number(arm.means.prompt_tokens, 0),
        number(arm.means.completion_tokens, 0),
        number(arm.means.duration_ms, 0),
    ]
    if arm.strict is None:
        return [answered]
    return [answered, [f"{arm.name}, {AS_WRONG}", str(arm.strict.items), estimate(arm.strict), *[""] * 9]]


def gains_section(found: Figures) -> str:
    """The strategy against each control; where requests failed, with these as wrong too."""
    best = {found.best_agent: f"{found.best_agent} (best agent)"}
    rows = []
    for each in found.gains:
        name = best.get(each.over, each.over)
        rows.append([name, gain(each.found), str(each.found.items), f"**{each.conclusion}**"])
        if each.strict is not None:
            conclusion_text = f"**{conclusion(each.strict)}**"
            rows.append([f"{name}, {AS_WRONG}", gain(each.strict), str(each.strict.items), conclusion_text])
    head = ["over", "gain in share right", "items", "conclusion"]
    note = f"`{found.system_two}` against each control, on the items that both answered"
    if any(each.strict is not None for each in found.gains):
        note += (
            f"; with {AS_WRONG}, on all that both were asked (a control that is given what `{found.system_two}` has "
            "spent is not asked where that is unknown)"
        )
    return f"{note}:\n\n{table(head, rows)}" if rows else ""


def routing_section(routings: Sequence[Routing], deciding: Means | None = None) -> str:
    """Return what the decisions are worth, and what deciding costs."""
    if not routings:
        return ""
    rows = [
        [
            each.name,
            str(each.items),
            f"{100 * each.sent:.0f} %",
            estimate(each.accuracy),
            number(each.tokens, 0),
            number(each.deciding, 0),
            band(each.shuffled),
            gain(each.worth),
            "bound, no strategy" if each.name == ORACLE else f"**{each.conclusion}**",
            area(each.separation) if each.separation else "",
        ]
        for each in routings
    ]
    head = ["decides", "items", "to System 2", "share right", "tokens of the answer", "of deciding", "shuffled"]
    note = (
        "Routing, replayed from the answers of both systems with the first seed, where both answered: every way to "
        "decide is seen on the same answers. `shuffled` are the same decisions shuffled over the items; random "
        "routing at the same share is right as often as they are in the mean. `random` draws its decisions: it must "
        "come out as no gain. `prompt length` sends the longest. `oracle` sends just the items that only System 2 "
        "gets right: the most that routing could reach. `legacy gate` is what activation replaced: it always fires. "
        "AUROC is that of the level which decides, for 'System 1 is wrong'. Tokens of deciding come on top of those "
        "of the answer; what asks no model has none."
    )
    body = table([*head, "worth over shuffled", "conclusion", "AUROC"], rows)
    return f"{note}{_deciding(deciding)}{_undetermined(routings)}\n\n{body}"


def _deciding(spent: Means | None) -> str:
    """Return what the router spends on a decision, over everything that it decided."""
    if spent is None:
        return ""
    return (
        f" A decision takes {number(spent.generations, 1)} generations, {number(spent.prompt_tokens, 0)} prompt "
        f"tokens, {number(spent.completion_tokens, 0)} generated (means) and {number(spent.duration_ms, 0)} ms (median "
        "time)."
    )


def _undetermined(routings: Sequence[Routing]) -> str:
    """Return how many decisions were made without an activation."""
    unknown = max(each.undetermined for each in routings)
    if not unknown:
        return ""
    return (
        f" On {unknown} of the items the router knew no activation and took System 2; they are in all figures but the "
        "AUROC and the cost at quality of its level."
    )


def quality_section(routings: Sequence[Routing]) -> str:
    """Return what the levels recover of the gap between both systems, and what that costs."""
    known = [(each.name, each.quality) for each in routings if each.quality is not None]
    if not known:
        return ""
    if known[0][1].recovered.value is None:
        return (
            "Cost at quality: System 2 is right no more often than System 1 here, so that there is no gap to recover."
        )
    rows = [
        [name, estimate(q.recovered), estimate(q.at_half), band(q.shuffled.at_half), estimate(q.at_most),
         band(q.shuffled.at_most)]
        for name, q in known
    ]  # fmt: skip
    note = (
        "Cost at quality, at any threshold: APGR is the share of the gap between both systems that is recovered, a "
        "mean over all shares sent (chance: 0.5); the costs are the least share sent that recovers half, and four "
        "fifths, of it, read where that is reached first. `shuffled` is what the same level costs shuffled over the "
        "items (mean, and where 95 % of the shuffles fall): a small gap is reached early by chance too."
    )
    return f"{note}\n\n{table(['decides', 'APGR', 'cost at 50 %', 'shuffled', 'cost at 80 %', 'shuffled'], rows)}"


def trust_section(arms: Sequence[ArmFigures]) -> str:
    """Return how far confidences can be trusted."""
    rows = [
        [
            arm.name,
            str(arm.trust.n),
            number(arm.trust.found.calibration_error, 3),
            number(arm.trust.by_chance, 3),
            number(arm.trust.found.brier_score, 3),
        ]
        for arm in arms
        if arm.trust.n
    ]
    if not rows:
        return ""
    head = ["arm", "answers with a confidence", "ECE", "ECE by chance alone", "Brier"]
    note = "Calibration; a perfectly calibrated system shows the ECE of the fourth column by chance:"
    return f"{note}\n\n{table(head, rows)}"
