"""The report on arbitration: the paper's tables with ours beside them. Pure."""

from collections.abc import Mapping, Sequence
from math import ceil, floor

from evals.harness.arm_figures import bar
from evals.hub.titles import title
from evals.markdown import UNKNOWN, estimate, gain, number, table
from evals.mc_mas import paper
from evals.mc_mas.arms import is_control
from evals.mc_mas.figures import FULL, MAJORITY, Figures, SetFigures
from evals.plots.charts import Bar, against_tokens, curve, reliability_diagram
from evals.stats.gains import Spread, conclusion
from kernel.statistics.bootstrap import Estimate
from kernel.values import value

CURVE, ENTROPY = "arbitration-samples.svg", "entropy-reduction.svg"
TOKENS, RELIABILITY = "tokens.svg", "reliability.svg"
PICTURES = (CURVE, ENTROPY, TOKENS, RELIABILITY)
SAMPLES = "arbitration samples K_a"


@value
class Replayed:
    """Results of replaying the same samples: mean novelty of the ablations, and what the adaptive mode saves.

    Attributes:
        novelty: Mean novelty by variant; empty where it was not measured.
        adaptive: Accuracy of the adaptive mode; None where it was not replayed.
        generations: Samples that the adaptive mode draws of a question, in the mean [count].
        same_answer: Share of questions on which it gives the answer of all samples [0..1].
    """

    novelty: Mapping[str, Estimate]
    adaptive: Estimate | None = None
    generations: float = 0.0
    same_answer: float = 0.0


def sections(found: Figures, replayed: Replayed) -> Sequence[str]:
    """The tables, one section each, without the heading."""
    return [
        _first(found),
        _second(found),
        _third(found),
        _fourth(found),
        _fifth(found, replayed),
        _sixth(found),
        _trust(found),
        _adaptive(replayed),
        "**What does not add up in the paper**\n\n" + "\n".join(f"- {doubt}" for doubt in paper.DOUBTS),
        "\n".join(f"![{name}]({name})" for name in PICTURES),
    ]


def pictures(found: Figures) -> Mapping[str, str]:
    """The pictures of the report, by file name."""
    whole = found.sets[-1]
    points = [(float(each.samples), bar(each.accuracy)) for each in found.curve]
    votes = next(way for way in whole.ways if way.name == MAJORITY)
    level = [(float(each.samples), Bar(level=votes.accuracy.value)) for each in found.curve]
    reduced = [(float(each.samples), bar(each.reduction)) for each in found.curve]
    return {
        CURVE: curve({"arbitration": points, MAJORITY: level}, SAMPLES),
        ENTROPY: curve({"H solvers - H arbiter": reduced}, SAMPLES, "nats", span=_span([each for _, each in reduced])),
        TOKENS: against_tokens(
            {way.name: (way.tokens, bar(way.accuracy)) for way in whole.ways}, "generated tokens per question"
        ),
        RELIABILITY: reliability_diagram(found.trust.found.bins, "share of the arbitration samples"),
    }


def _span(bars: Sequence[Bar]) -> tuple[float, float]:
    """The range that holds all bars with their intervals, and 0; to a tenth."""
    ends = [end for each in bars for end in (each.level, each.low, each.high) if end is not None]
    return floor(10 * min([0.0, *ends])) / 10, max(0.1, ceil(10 * max([0.0, *ends])) / 10)


def _first(found: Figures) -> str:
    rows = [row for each in found.sets for row in _ways(each)]
    head = [
        "data set",
        "answers",
        "share right",
        "over seeds (seeds)",
        "samples",
        "generated",
        "MC-MAS over it",
        "conclusion",
    ]
    printed = table(
        ["model", "precision", "data set", "best solver %", "MC-MAS %"], [list(row) for row in paper.TABLE_1]
    )
    note = (
        "**Table 1** and the controls that the paper does not have. `one sample` is the mean over the solvers' "
        "samples: what a single-pass answer is worth. `solver` is the better of the two solvers by its own vote; "
        "`majority vote` takes the samples of both; `self-consistency` as many samples of one solver as MC-MAS draws "
        "in all. Answers that cannot be read are dropped from votes, and wrong where one sample stands alone. "
        "`generated` are all tokens that models wrote for a question, those of critiques too; ≥: the recording does "
        "not report those."
    )
    if found.undecided:
        note += f" On {found.undecided} of the questions some answer is one that no rule can judge; it counts as wrong."
    return f"{note}\n\n{table(head, rows)}\n\nThe paper's (200 questions, 3 seeds):\n\n{printed}"


def _ways(found: SetFigures) -> Sequence[Sequence[str]]:
    return [
        [
            _set(found),
            way.name,
            estimate(way.accuracy),
            over_seeds(way.by_seed),
            number(way.generations, 0),
            f"{'≥ ' if way.partial else ''}{number(way.tokens, 0)}",
            gain(way.gain) if way.gain else "",
            f"**{conclusion(way.gain)}**" if way.gain else "",
        ]
        for way in found.ways
    ]


def over_seeds(found: Spread) -> str:
    """Mean and deviation over seeds, in percent as the paper prints them."""
    if found.mean is None:
        return UNKNOWN
    deviation = "" if found.deviation is None else f" ± {100 * found.deviation:.1f}"
    return f"{100 * found.mean:.1f}{deviation} ({found.seeds})"


def _second(found: Figures) -> str:
    rows = [
        [
            _set(each),
            *(_measured(each, name) for name in ("novelty", "redundancy", "entropy_reduction", "compression")),
            estimate(each.entropies[0]),
            estimate(each.entropies[1]),
            f"{100 * each.agreed:.0f} %",
            f"{100 * each.invalid[0]:.0f} %, {100 * each.invalid[1]:.0f} %",
        ]
        for each in found.sets
    ]
    head = ["data set", "novelty", "redundancy", "entropy reduction", "compression", "H solvers", "H arbiter"]
    head += ["solvers agree", "samples without an answer (solvers, arbiter)"]
    printed = [list(row) for row in paper.TABLE_2]
    theirs = table(["model", "data set", "novelty %", "redundancy %", "“entropy”", "compression"], printed)
    note = (
        "**Table 2**, means over the questions where a measure is defined, with their number, a question with several "
        "seeds being one; entropies in nats."
    )
    return f"{note}\n\n{table(head, rows)}\n\nThe paper's:\n\n{theirs}"


def _third(found: Figures) -> str:
    names = ("semantic_share", "symbolic_share", "untraced_share")
    rows = [[_set(each), *(_measured(each, name) for name in names)] for each in found.sets]
    theirs = table(["model", "data set", "semantic %", "symbolic %"], [list(row) for row in paper.TABLE_3])
    note = "**Table 3**, shares of all final-stage claims (the paper gives no formula; ours is in docs/arbiter.md)."
    return f"{note}\n\n{table(['data set', 'semantic', 'symbolic', 'untraced'], rows)}\n\nThe paper's:\n\n{theirs}"


def _fourth(found: Figures) -> str:
    controls = dict.fromkeys(way.name for each in found.sets for way in each.ways if is_control(way.name))
    names = [MAJORITY, FULL, *controls]
    rows = []
    for each in found.sets:
        best, ways = each.ways[1], {way.name: way for way in each.ways}
        found_trust = [estimate(ways[name].overconfident) if name in ways else UNKNOWN for name in names]
        rows.append([_set(each), estimate(best.overconfident), *found_trust])
    theirs = table(["model", "data set", "solver", "MC-MAS"], [list(row) for row in paper.TABLE_4])
    note = "**Table 4**, share of questions answered wrong with a confidence above 0.7."
    return f"{note}\n\n{table(['data set', 'best solver', *names], rows)}\n\nThe paper's (counts):\n\n{theirs}"


def _fifth(found: Figures, replayed: Replayed) -> str:
    whole = found.sets[-1]
    ways = {way.name: way for way in whole.ways}
    single = next((each for each in found.curve if each.samples == 1), None)
    ours = {
        "majority vote": (estimate(ways[MAJORITY].accuracy), _novelty(replayed, "replay-majority"), UNKNOWN),
        "+ reflections": (estimate(ways[MAJORITY].accuracy), _novelty(replayed, "replay-reflections"), UNKNOWN),
        "+ single arbiter": (
            estimate(single.accuracy) if single else UNKNOWN,
            _novelty(replayed, "replay-single"),
            "0",
        ),
        "full": (estimate(ways[FULL].accuracy), _measured(whole, "novelty"), estimate(whole.entropies[1])),
    }
    rows = [[name, *each, *paper.TABLE_5[name]] for name, each in ours.items()]
    head = ["variant", "share right", "novelty", "H arbiter", "paper's accuracy %", "its novelty %", "its “entropy”"]
    note = (
        "**Table 5**, over all data sets. The final stage of the majority vote are all samples of both "
        "solvers, of which two are the sources: its novelty is measured like that of the others; the paper prints 0. "
        "Critiques choose no answer, so that with reflections alone the vote stays "
        "what it was; a single arbiter is the mean over the recorded arbitration samples, where one without an answer "
        "leaves it to the solvers' vote."
    )
    return f"{note}\n\n{table(head, rows)}"


def _sixth(found: Figures) -> str:
    rows = [
        [
            str(each.samples),
            number(each.generations, 0),
            estimate(each.accuracy),
            number(each.entropy, 3),
            estimate(each.reduction),
            number(each.overconfident, 1),
            *paper.TABLE_6.get(each.samples, (UNKNOWN,) * 4),
        ]
        for each in found.curve
    ]
    head = ["K_a", "samples", "share right", "H arbiter", "H solvers - H arbiter", "overconfident errors"]
    theirs = ["paper's calls", "its accuracy %", "its “entropy”", "its overconfident errors"]
    note = (
        "**Table 6**, over all data sets: fewer arbitration samples, picked at random from those recorded and "
        "averaged, so that the curve is not that of one order. Overconfident errors are counted over "
        f"{found.questions} questions{', in the mean over the seeds' if found.seeds > 1 else ''}."
    )
    return f"{note}\n\n{table([*head, *theirs], rows)}"


def _trust(found: Figures) -> str:
    trust = found.trust
    return (
        f"Calibration of the arbiter's confidence: ECE {number(trust.found.calibration_error, 3)} over {trust.n} "
        f"answers, where chance alone gives {number(trust.by_chance, 3)}; Brier {number(trust.found.brier_score, 3)}."
    )


def _adaptive(replayed: Replayed) -> str:
    if replayed.adaptive is None:
        return ""
    return (
        f"The adaptive mode on the same samples: right {estimate(replayed.adaptive)} with "
        f"{number(replayed.generations, 1)} samples of a question in the mean, and the answer of all samples on "
        f"{100 * replayed.same_answer:.0f} % of the questions."
    )


def _set(found: SetFigures) -> str:
    return f"{title(found.name)} ({found.questions})"


def _measured(found: SetFigures, name: str) -> str:
    level = found.measures[name]
    return f"{estimate(level)} ({level.items})" if level.value is not None else UNKNOWN


def _novelty(replayed: Replayed, name: str) -> str:
    return estimate(replayed.novelty[name]) if name in replayed.novelty else UNKNOWN
