"""The report on the router's evaluation: markdown that can be pasted as it stands. Pure."""

from collections.abc import Mapping, Sequence

from evals.harness.command_line import command_line, non_default
from evals.harness.commands import ROUTING
from evals.harness.provenance import digests_text
from evals.markdown import UNKNOWN, area, band, estimate, gain, number, ranged, share, table
from evals.records import Record
from evals.routing.figures import LENGTH, AssessorFigures, Difference, Figures
from evals.routing.requests import Plan
from evals.routing.rows import RecordedRouting
from evals.routing.thresholds import SHARES, Caught, catching
from evals.stats.chance import seeded
from evals.stats.detectable import least_area
from evals.stats.gains import LEAST_ITEMS, Conclusion, conclusion
from kernel.statistics.bootstrap import Estimate

# Seed of the intervals that are drawn here, the same in every run.
SEED = 7
# What stands in records where no folder of data does.
QUICK, HUB = "--quick", "--hub"
READING = (
    "AUROC: probability that an item which System 1 gets wrong has the higher level than one it gets right; 0.5 is "
    "chance. Intervals are 95 %: DeLong's for one area over all items (~: Wilson's, where he has none), bootstrap over "
    "items for means, differences and errors caught, order statistics for "
    "medians, Wilson's for shares, and for random and shuffled levels where 95 % of the draws "
    "fall. The pooled area mixes two things: separating a hard data set from an easy one, and a hard item from an easy "
    "one of the same set; the mean of the areas inside the sets is the second alone, and `shuffled inside the sets` is "
    "what the first alone gives."
)


def report(evaluation: RecordedRouting, found: Figures) -> str:
    """The whole report."""
    sections = [
        _heading(evaluation, found),
        _sets(evaluation, found),
        _prediction(found),
        _by_set(found),
        _differences(found),
        _threshold(found),
        _caught(evaluation, found),
        _costs(found),
        _unknown(found),
        _parts(found),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _heading(evaluation: RecordedRouting, found: Figures) -> str:
    first, spent = evaluation.runs[0], evaluation.spent
    models = sorted({row.single_pass.model for row in evaluation.rows if row.single_pass is not None})
    lines_by_name = {
        "model": ", ".join(models) or "not reported",
        **({"precision": first["precision"]} if first.get("precision") else {}),
        "items": f"{found.wrong.of} of {len(found.sets)} data sets, seed {first['seed']}",
        "power": _power(found),
        "commit": ", ".join(dict.fromkeys(str(run["commit"]) for run in evaluation.runs)),
        "router": f"configuration `{first['config_version']}`, threshold {first['threshold']}, {_weights(first)}",
        "prompts": digests_text(evaluation.digests),
        "recorded": f"{first['time']}, {first['concurrency']} at a time, each given {first['timeout_ms'] / 1000:g} s"
        + (f", in {len(evaluation.runs)} starts" if len(evaluation.runs) > 1 else ""),
        "spent": f"{number(spent.generations, 0)} samples, {number(spent.prompt_tokens, 0)} prompt tokens, "
        f"{number(spent.completion_tokens, 0)} generated, {evaluation.hours:.2f} h of the router's time",
    }
    lines = "\n".join(f"- {name}: {text}" for name, text in lines_by_name.items())
    return f"### Does the router know when System 1 is wrong?\n\n{_command(first)}\n\n{lines}\n\n{READING}"


def _power(found: Figures) -> str:
    """Return which area so many right and wrong answers can show."""
    least = least_area(found.wrong.count, found.wrong.of - found.wrong.count)
    if least is None:
        return "none: System 1 is right everywhere, or nowhere"
    return f"an area of {number(0.5 + least)} or more would show"


def _command(run: Record) -> str:
    """The command that makes the run again; what stands at its default is left out."""
    usual, seconds = Plan(items=()), run["timeout_ms"] / 1000
    options = non_default(
        # Older records call it plain.
        single_pass=(run.get("single_pass", run.get("plain", usual.single_pass)), usual.single_pass),
        concurrency=(run["concurrency"], usual.concurrency),
        timeout=(0 if run["data"] == QUICK else seconds, 0 if run["data"] == QUICK else usual.timeout_ms / 1000),
    )
    given = {name: f"{number:g}" for name, number in options.items()}
    stated = {"assessors": ",".join(run["assessors"]), "seed": run["seed"], "precision": run.get("precision")}
    return f"`{command_line(ROUTING, **_data(run), **stated, **given, out='DIR')}`"


def _data(run: Record) -> Mapping[str, object]:
    """The options that name the items of a run."""
    data = str(run["data"])
    if data == QUICK:
        return {"quick": True}
    if data.startswith(HUB):
        return {"hub": data.removeprefix(HUB).strip(), "items": run["items"]}
    return {"data": data, "sets": ",".join(run["sets"]), "items": run["items"]}


def _weights(run: Record) -> str:
    return "weights " + ", ".join(f"{name} {weight:g}" for name, weight in run["weights"].items())


def _sets(evaluation: RecordedRouting, found: Figures) -> str:
    rows = [[each.name, str(each.wrong.of), share(each.wrong), str(each.unreadable)] for each in found.sets]
    rows.append(["all", str(found.wrong.of), share(found.wrong), str(found.unreadable)])
    undecided = sum(not row.label.decided for row in evaluation.rows)
    left_out = [f"long texts that equality cannot judge, which count as wrong: {undecided}"] if undecided else []
    left_out += (
        [f"items without a System 1 answer, which are left out: {evaluation.unanswered}"]
        if evaluation.unanswered
        else []
    )
    left_out += [f"failed requests ({reason}): {count}" for reason, count in evaluation.failures.items()]
    note = f"\n\n{'; '.join(left_out)}." if left_out else ""
    return table(["data set", "items", "System 1 wrong", "of them unreadable"], rows) + note


def _prediction(found: Figures) -> str:
    head = ["assessor", "n", "activation", "1 - CE alone", "CI alone", "activation, mean inside the sets"]
    rows = [
        [
            each.name,
            str(each.items - each.activation.unknown),
            area(each.activation.pooled),
            area(each.error),
            area(each.conflict),
            estimate(each.activation.within),
        ]
        for each in found.assessors
    ]
    controls = [
        ["random", str(found.wrong.of), band(found.random)],
        [LENGTH, str(found.wrong.of), area(found.length.pooled), estimate(found.length.within)],
        *([f"{each.name}, shuffled", _n(each), band(each.shuffled)] for each in found.assessors),
        *([f"{each.name}, shuffled inside the sets", _n(each), band(each.shuffled_within)] for each in found.assessors),
    ]
    padded = [[*row, *[""] * (4 - len(row))] for row in controls]
    return f'AUROC against "System 1 is wrong":\n\n{table(head, rows)}\n\nThe controls:\n\n' + table(
        ["control", "n", "AUROC", "mean inside the sets"], padded
    )


def _n(found: AssessorFigures) -> str:
    return str(found.items - found.activation.unknown)


def _by_set(found: Figures) -> str:
    rows = [
        [
            each.name,
            *(area(assessor.activation.by_set[each.name]) for assessor in found.assessors),
            area(found.length.by_set[each.name]),
        ]
        for each in found.sets
    ]
    names = [each.name for each in found.assessors]
    return f"AUROC of activation inside each data set:\n\n{table(['data set', *names, LENGTH], rows)}"


def _differences(found: Figures) -> str:
    rows = [[f"{each.second} over {each.first}", gain(each.gain), _shown(each)] for each in found.differences]
    said = (
        "Gains in AUROC of activation, paired on the same items (not corrected for their number; with fewer than "
        f"{LEAST_ITEMS} items that System 1 gets wrong, or right, there is no conclusion):"
    )
    return f"{said}\n\n{table(['gain of', 'difference', 'reading'], rows)}\n\n{_leading(found)}"


def _leading(found: Figures) -> str:
    """The assessor with the largest area, and those that the items do not separate from it."""
    known = {each.name: each.activation.pooled.auroc for each in found.assessors}
    areas = {name: level for name, level in known.items() if level is not None}
    if not areas:
        return "System 1 is wrong on all of these items, or on none: there is nothing to separate."
    best = max(areas, key=lambda name: areas[name])
    pairs = [each for each in found.differences if best in (each.first, each.second)]
    alike = [each.second if each.first == best else each.first for each in pairs if not _is_shown(each)]
    others = f"these items do not separate it from {', '.join(alike)}" if alike else "its gain over all others is shown"
    return f"The largest area is that of `{best}`; {others}."


def _is_shown(difference: Difference) -> bool:
    return conclusion(difference.gain) in (Conclusion.GAIN, Conclusion.LOSS)


def _shown(difference: Difference) -> str:
    if difference.gain.value is None:
        return UNKNOWN
    said = conclusion(difference.gain)
    return "no gain: the interval holds 0" if said is Conclusion.NONE else str(said)


def _threshold(found: Figures) -> str:
    rows = [
        [each.name, share(each.sent), share(each.right_of_system1), share(each.right_of_sent)]
        for each in found.assessors
    ]
    head = ["assessor", "sent to System 2", "System 1 right among the kept", "among the sent"]
    return f"At the threshold in force:\n\n{table(head, rows)}"


def _caught(evaluation: RecordedRouting, found: Figures) -> str:
    """Cost at quality without a single System 2 answer: what sending more would catch."""
    shares = [f"{100 * each:.0f} %" for each in SHARES]
    each_caught = [catching(each.name, evaluation.rows, seeded(SEED)) for each in found.assessors]
    rows = [
        [
            each.assessor,
            str(each.wrong.count),
            *map(_percent, each.at),
            f"{_percent(each.in_force)} of {100 * each.in_force.sent:.0f} % sent",
        ]
        for each in each_caught
    ]
    rows.append(["(by chance)", "", *shares, "the share sent"])
    head = ["assessor", "System 1 wrong", *(f"{each} sent" for each in shares), "at the threshold in force"]
    return (
        "Cost at quality: the share of System 1's wrong answers that is caught where the items of the highest "
        "activation are sent to System 2 (whether System 2 corrects them is not measured here; an item without an "
        f"activation goes where the router sent it):\n\n{table(head, rows)}"
    )


def _percent(found: Caught) -> str:
    """The errors caught in percent, with their interval."""
    errors = found.errors
    if errors.value is None or errors.low is None or errors.high is None:
        return UNKNOWN if errors.value is None else f"{100 * errors.value:.0f} %"
    return f"{100 * errors.value:.0f} % [{100 * errors.low:.0f}, {100 * errors.high:.0f}]"


def _costs(found: Figures) -> str:
    rows = [
        [
            each.name,
            number(each.costs.generations, 1),
            _whole(each.costs.prompt_tokens),
            _whole(each.costs.completion_tokens),
            _whole(each.costs.beyond.p50),
            number(each.costs.beyond.p95, 0),
            _whole(each.costs.whole.p50),
            number(each.costs.whole.p95, 0),
        ]
        for each in found.assessors
    ]
    answers = found.answers
    alone = [_whole(answers.time.p50), number(answers.time.p95, 0)]
    spent = [_whole(answers.prompt_tokens), _whole(answers.completion_tokens)]
    rows.append(["(System 1 answer alone)", "1.0", *spent, *alone, *alone])
    spending = ["samples", "prompt tokens", "tokens generated"]
    head = ["assessor", *spending, "ms p50", "ms p95", "until the choice, ms p50", "p95"]
    repeated = f" Of {found.repeated.of} drafts {found.repeated.count} are word for word that answer."
    return (
        "What assessing costs beyond the System 1 answer, a mean per item; `draft` makes that answer before it "
        f"chooses, so its own time is taken from the {answers.n} items where the answer was also asked for by itself."
        f"{repeated if found.repeated.of else ''}\n\n{table(head, rows)}"
    )


def _whole(found: Estimate) -> str:
    return ranged(found.value, found.low, found.high, 0)


def _unknown(found: Figures) -> str:
    rows = [
        [each.name, component, reason, f"{100 * count / each.items:.0f} %"]
        for each in found.assessors
        for (component, reason), count in sorted(each.unknown.items(), key=lambda pair: -pair[1])
    ]
    if not rows:
        return "No component of the activation was unknown."
    head = ["assessor", "component", "why", "items"]
    return f"Unknown components, which the activation leaves out:\n\n{table(head, rows)}"


def _parts(found: Figures) -> str:
    rows = [[each.name, part.name, area(part.area)] for each in found.assessors for part in each.parts]
    lost = [
        [each.name, one.term, number(one.without), gain(one.gain)] for each in found.assessors for one in each.ablations
    ]
    return "\n\n".join(
        [
            "Each component and part by itself, inverted where needed, so that a high level indicates an error:",
            table(["assessor", "level", "AUROC"], rows),
            "What each term adds to the activation, by leaving it out:",
            table(["assessor", "term", "AUROC without it", "gain by it"], lost),
            _unhelpful(found.assessors),
        ]
    )


def _unhelpful(assessors: Sequence[AssessorFigures]) -> str:
    """Return what does not help on these data, in words."""
    lines = []
    for each in assessors:
        said: Mapping[str, Sequence[str]] = {
            "by themselves no better than chance (the interval holds 0.5)": [p.name for p in each.parts if p.is_chance],
            "by themselves worse than chance (the wrong way round here)": [p.name for p in each.parts if p.misleads],
            "add nothing to the activation (the gain's interval holds 0)": _terms(each, Conclusion.NONE),
            "make the activation worse": _terms(each, Conclusion.LOSS),
            "not shown: too few items of the rarer outcome": _terms(each, Conclusion.UNKNOWN),
        }
        lines += [f"- `{each.name}`, {what}: {', '.join(names)}." for what, names in said.items() if names]
    return "What does not help on these data:\n\n" + ("\n".join(lines) or "- nothing that these items show.")


def _terms(found: AssessorFigures, said: Conclusion) -> Sequence[str]:
    """The terms with the conclusion `said`."""
    return [one.term for one in found.ablations if one.gain.value is not None and conclusion(one.gain) is said]
