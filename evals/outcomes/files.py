"""What scoring on recorded outcomes leaves in its folder."""

from collections.abc import Sequence
from pathlib import Path

from evals.errors import RecordsUnusable
from evals.harness.session import REPORT
from evals.markdown import area, estimate, gain, number, table
from evals.outcomes.figures import ORACLE, RANDOM, SetScores, asked_of, figures
from evals.records import Record
from evals.stats.chance import Chance, seeded
from evals.stats.gains import conclusion

COMMAND, SEED = "routing --outcomes", 7
READING = (
    "AUROC: does the level tell where the weak model is wrong? APGR: share of the gap between the models that is "
    "recovered, in the mean over all shares of strong calls; 0.5 is chance. Cost: least share of strong calls that "
    "recovers half, and four fifths, of the gap; chance takes 0.5 and 0.8. Intervals are 95 %: DeLong's for areas, "
    "bootstrap over questions for the rest. The state is that of the suite's own model, which is neither of the two: "
    "what is asked is whether what is hard for it is hard for the weak one. `oracle` knows both outcomes and is no "
    "router."
)


def write_report(records: Sequence[Record], folder: Path, chance: Chance | None = None) -> str:
    """Write what follows from `records` into `folder`; returns the report.

    Raises:
        RecordsUnusable: When they are no scoring on outcomes.
    """
    runs = [record for record in records if record["kind"] == "run"]
    if not runs or runs[0].get("command") != COMMAND:
        raise RecordsUnusable("the records are none of `metacog eval routing --outcomes`")
    found = figures(asked_of(records), chance or seeded(SEED))
    said = "\n\n".join([_opening(runs, records), READING, *(_set(each) for each in found)]) + "\n"
    (folder / REPORT).write_text(said, encoding="utf-8")
    return said


def _opening(runs: Sequence[Record], records: Sequence[Record]) -> str:
    first, suite = runs[0], runs[0]["suite"]
    models = next(
        (f"{one['weak_model']} (weak), {one['strong_model']} (strong)" for one in records if "weak_model" in one), ""
    )
    told = {
        "outcomes": models,
        "commit": ", ".join(dict.fromkeys(run["commit"] for run in runs)),
        "router": f"configuration `{suite['config_version']}`, threshold {suite['threshold']}",
        "prompts": ", ".join(f"`{name}` {digest[:12]}" for name, digest in first["prompt_digests"].items()),
        "recorded": f"{first['time']}, seed {first['seeds'][0]}",
    }
    lines = "\n".join(f"- {name}: {text}" for name, text in told.items())
    return f"### Whom would the router send to the strong model?\n\n`{first['data']['typed']}`\n\n{lines}"


def _set(found: SetScores) -> str:
    rows = [
        [
            each.name,
            area(each.weak_wrong),
            estimate(each.recovered),
            estimate(each.at_half),
            estimate(each.at_most),
            f"{gain(each.over_random)} **{conclusion(each.over_random)}**" if each.name not in (RANDOM, ORACLE) else "",
            gain(each.over_length) if each.over_length and each.name not in (RANDOM, ORACLE) else "",
        ]
        for each in found.scored
    ]
    right = f"weak right {number(100 * found.weak, 1)} %, strong right {number(100 * found.strong, 1)} %"
    head = [
        "decides",
        "AUROC, weak is wrong",
        "APGR",
        "cost at 50 %",
        "cost at 80 %",
        "APGR over random",
        "AUROC over length",
    ]
    return f"**{found.name}**, {found.items} questions, {right}:\n\n{table(head, rows)}"
