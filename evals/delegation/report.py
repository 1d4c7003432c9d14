"""The report on delegation: the paper's tables with ours beside them. Pure."""

from collections.abc import Mapping, Sequence

from evals.delegation import paper
from evals.delegation.baselines import ORACLE, SAME
from evals.delegation.figures import AUTOGEN, FULL, LIVE_METHODS, SHUFFLED, Behaviour, Figures, Method
from evals.harness.arm_figures import bar
from evals.markdown import UNKNOWN, estimate, gain, number, share, table
from evals.mc_mas.report import over_seeds
from evals.plots.charts import Bar, against_tokens, grouped_bars, matrix, reliability_curves
from evals.stats.gains import conclusion
from kernel.statistics.bootstrap import Estimate

BY_KIND, BY_DIFFICULTY, RELIABILITY, FLOWS, TOKENS = (
    "dimensions.svg", "difficulty.svg", "reliability.svg", "flows.svg", "tokens.svg",
)  # fmt: skip
PICTURES = (BY_KIND, BY_DIFFICULTY, RELIABILITY, FLOWS, TOKENS)
NOTHING = (UNKNOWN,) * 4
FIRST = (
    "Shares right, calls and tokens are means over the orders; precision and ECE are those of one order, that of the "
    "records (with several seeds of the first of them)."
)
EQUAL = (
    f"`{SAME}` is the most frequent of as many samples of one model as {FULL} makes calls, in every order and task by "
    "task, the first of equally frequent ones; a rating is a call too, and shorter than a sample. Programs cannot be "
    f"voted on: it is compared on the other tasks, and its calls are those of {FULL} on these. "
)


def sections(found: Figures, tasks: int) -> Sequence[str]:
    """The tables, one section each, without the heading."""
    return [
        _second(found, tasks),
        _third(found),
        _kinds(found),
        _fourth(found),
        _fifth(found),
        _trusts(found),
        _behaviour(found),
        "**What does not add up in the paper**\n\n" + "\n".join(f"- {doubt}" for doubt in paper.DOUBTS),
        "\n".join(f"![{name}]({name})" for name in PICTURES),
    ]


def pictures(found: Figures) -> Mapping[str, str]:
    """The pictures of the report, by file name."""
    return {
        BY_KIND: grouped_bars(_bars(found.by_kind)),
        BY_DIFFICULTY: grouped_bars(_bars(found.by_difficulty)),
        RELIABILITY: reliability_curves(
            {FULL: found.trusts["all"].found.bins, _single(found): found.single.found.bins}
        ),
        FLOWS: matrix(found.agents, found.behaviour.flows, "first agent", "took it over"),
        TOKENS: against_tokens({each.name: (each.tokens, bar(each.accuracy)) for each in found.methods}),
    }


def _bars(by_method: Mapping[str, Mapping[str, Estimate]]) -> Mapping[str, Mapping[str, Bar]]:
    """Bars by group, then by method."""
    groups = dict.fromkeys(group for levels in by_method.values() for group in levels)
    return {
        group: {name: bar(levels[group]) for name, levels in by_method.items() if group in levels} for group in groups
    }


def _second(found: Figures, tasks: int) -> str:
    rows = [[*_method(each), *paper.TABLE_2.get(each.name, NOTHING)] for each in found.methods]
    head = ["method", "share right", "over orders (orders)", "delegation precision", "ECE (by chance)", "calls"]
    head += ["tokens per task", f"{FULL} over it", "conclusion"]
    theirs = ["paper's accuracy %", "its precision", "its ECE", "its calls"]
    same = any(each.name == SAME for each in found.methods)
    present = {each.name for each in found.methods}
    live = [name for name in LIVE_METHODS.values() if name in present]
    others = " and ".join([*(live or [AUTOGEN]), *([SAME] if same else [])])
    note = (
        f"**Table II**, {tasks} tasks. All methods but {others} are replayed from the same recorded self-assessments "
        "and answers, so that they differ by their choices alone; calls are self-assessments, second attempts too, and "
        "answers; classification is left out because the tasks name their dimensions. `Random-Routing` is its mean. "
        "The best single agent is chosen in hindsight, and the oracle is a bound, no method. "
        f"`{SHUFFLED}` are those of {FULL}, shuffled over the tasks: what it spends without knowing the agents. "
        f"{EQUAL if same else ''}{FIRST}"
    )
    return f"{note}{_fewer(found, tasks)}\n\n{table([*head, *theirs], rows)}"


def _fewer(found: Figures, tasks: int) -> str:
    """Which methods have done fewer tasks than all."""
    some = [f"{each.name} {each.accuracy.items}" for each in found.methods if each.accuracy.items < tasks]
    return f" Fewer tasks, and compared on these: {', '.join(some)}." if some else ""


def _method(each: Method) -> Sequence[str]:
    shown = each.trust
    calibrated = f"{number(shown.found.calibration_error, 3)} ({number(shown.by_chance, 3)})" if shown else UNKNOWN
    return [
        each.name,
        estimate(each.accuracy),
        over_seeds(each.over_orders),
        share(each.precision) if each.precision else UNKNOWN,
        calibrated,
        number(each.calls, 0),
        number(each.tokens, 0),
        gain(each.gain) if each.gain else "",
        _said(each),
    ]


def _said(each: Method) -> str:
    if each.name == ORACLE:
        return "bound, no method"
    return f"**{conclusion(each.gain)}**" if each.gain else ""


def _third(found: Figures) -> str:
    groups = [
        name for name in ("easy", "medium", "hard", "cross") if any(name in g for g in found.by_difficulty.values())
    ]
    if not groups:
        return ""
    rows = [
        [name, *(_at(levels, group) for group in groups), " / ".join(paper.TABLE_3.get(name, (UNKNOWN,)))]
        for name, levels in found.by_difficulty.items()
    ]
    return "**Table III**, by difficulty:\n\n" + table(["method", *groups, "paper's easy / medium / hard %"], rows)


def _kinds(found: Figures) -> str:
    groups = list(dict.fromkeys(group for levels in found.by_kind.values() for group in levels))
    if not groups:
        return ""
    rows = [[name, *(_at(levels, group) for group in groups)] for name, levels in found.by_kind.items()]
    return "**Fig. 2**, by dimension:\n\n" + table(["method", *groups], rows)


def _fourth(found: Figures) -> str:
    rows = [[*_method(each), *paper.TABLE_4.get(each.name, NOTHING[:2])] for each in found.ablations]
    head = ["without", "share right", "over orders (orders)", "delegation precision", "ECE (by chance)", "calls"]
    head += ["tokens per task", "the whole over it", "conclusion", "paper's accuracy %", "its precision"]
    note = (
        "**Table IV**, ablations. Without self-assessment and without verbalized confidence no agent is asked, and no "
        f"call is counted for it; without cross-evaluation the peer's record alone is its confidence. {FIRST}"
    )
    return f"{note}\n\n{table(head, rows)}"


def _fifth(found: Figures) -> str:
    rows = [
        [f"{paper.SYMBOLS[name]} = {each:g}", estimate(level), paper.TABLE_5[name].get(each, UNKNOWN)]
        for name, values in found.sweeps.items()
        for each, level in values.items()
    ]
    return f"**Table V**, one number changed at a time:\n\n{table(['value', 'share right', 'paper %'], rows)}"


def _trusts(found: Figures) -> str:
    rows = [
        [
            name,
            str(shown.n),
            number(shown.found.calibration_error, 3),
            number(shown.by_chance, 3),
            number(shown.found.brier_score, 3),
            paper.ECE_BY_DIFFICULTY.get(name, UNKNOWN),
        ]
        for name, shown in {**found.trusts, _single(found): found.single}.items()
    ]
    head = ["tasks", "n", "ECE", "ECE by chance alone", "Brier", "paper's ECE"]
    note = (
        f"**Fig. 3**, calibration of {FULL} in the order of the records (with several seeds of the first of them), and "
        "of what the first agent states of itself, had it solved every task alone"
    )
    return f"{note}:\n\n{table(head, rows)}"


def _single(found: Figures) -> str:
    return f"Single-Agent ({found.agents[0]})"


def _behaviour(found: Figures) -> str:
    shown = found.behaviour
    rates = [[name, share(each), paper.RATES.get(name, UNKNOWN)] for name, each in shown.rates.items()]
    handed = sum(shown.flows.values()) or 1
    flows = [
        [one, *(_percent(each, handed) for each in (*to, sum(to))), paper.HANDED_OVER.get(one, UNKNOWN)]
        for one in found.agents
        for to in [[shown.flows.get((one, other), 0) for other in found.agents]]
    ]
    kinds = list(dict.fromkeys(kind for _, kind in shown.levels))
    learned = [[agent, *(_learned(shown, agent, kind) for kind in kinds)] for agent in found.agents]
    words = (
        f"Handed to one other agent: {share(shown.delegated)}; to one that is right more often in the task's kind: "
        f"{share(shown.to_better)} (paper {paper.TO_BETTER} %). A delegated task is right more often than with a "
        f"peer picked by chance by {gain(shown.random_peer)} (**{conclusion(shown.random_peer)}**), and than if it had "
        f"stayed by {gain(shown.stayed)} (**{conclusion(shown.stayed)}**)."
    )
    parts = [
        "**Section G**, tasks that did not stay with their first agent, in the order of the records (with several "
        "seeds of the first of them), as are the two shares below; the two gains, the hand-overs and the competence "
        "are over all orders:",
        table(["tasks", "left", "paper %"], rates),
        words,
        "Hand-overs, from (row) to (column):",
        table(["from", *found.agents, "all", "paper %"], flows),
        "Competence at the end, the mean over orders (the paper's, where it prints one):",
        table(["agent", *kinds], learned),
    ]
    return "\n\n".join(parts)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %"


def _learned(shown: Behaviour, agent: str, kind: str) -> str:
    printed = paper.LEARNED.get((agent, kind))
    return number(shown.levels.get((agent, kind))) + (f" ({printed})" if printed else "")


def _at(levels: Mapping[str, Estimate], group: str) -> str:
    return f"{estimate(levels[group])} ({levels[group].items})" if group in levels else UNKNOWN
