"""The arms and the report of the dialectic's evaluation."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from evals.controls.arms import MAJORITY, SAME_GENERATIONS, SYSTEM_ONE, VOTE_SAMPLES
from evals.controls.figures import figures
from evals.controls.report import figures_sections
from evals.controls.report import pictures as control_pictures
from evals.dialectic.affect import affect_records, affect_section
from evals.dialectic.evolution import COMPONENTS, STAGES, Evolution, evolution
from evals.errors import RecordsUnusable
from evals.harness.arm_figures import bar
from evals.harness.arms import Arm
from evals.harness.heading_text import opening, settings_table
from evals.harness.rows import recorded_evaluation
from evals.harness.session import REPORT
from evals.markdown import estimate, gain, number, table
from evals.plots.charts import curve
from evals.records import Record
from evals.stats.chance import Chance, seeded
from evals.stats.gains import Conclusion, conclusion
from evals.strategies import AGENT, ROUTE, limited, measured_dialectic, named
from kernel.msv.affect import AffectAnalyser

COMMAND, SEED, STATES = "dialectic", 7, "states.svg"
DIALECTIC = "dialectic-stages"
# The direction in which the paper claims that a component moves.
CLAIMED: Mapping[str, str] = {"correctness": "rises", "conflict": "falls"}
READING = (
    "**How the state moves.** One assessor, which does not know the stage, rates every text beside all the others, in "
    "a random order. The paper claims that correctness rises and conflict falls from the first text to the last, and "
    "gives no figures. A state that moves is not an answer that gets better: the last two lines show whether the texts "
    "do."
)


def arms(
    assessor: str = "", agents: Sequence[str] = (), max_tokens: int = 0, team: Sequence[str] = ()
) -> Sequence[Arm]:
    """The measured dialectic, and what it must be better than.

    Args:
        assessor: Who assesses for the routing; empty: the router's default.
        agents: Delegation agents, each a control by itself.
        max_tokens: Tokens of each text [count]; 0: the services' own limits.
        team: Agents that deliberate, each of which fixes a model; empty: all of the assigner.
    """
    roles = [named(name, agents=team) for name in ("roles-greedy", "roles-random")]
    controls = [*roles, *(named(AGENT + agent) for agent in agents)]
    votes = [named(SAME_GENERATIONS, like=DIALECTIC), named(MAJORITY, samples=VOTE_SAMPLES)]
    made = [named(ROUTE, assessor=assessor), named(SYSTEM_ONE), measured_dialectic(agents=team), *votes, *controls]
    return [limited(arm, max_tokens) for arm in made]


def with_affect(records: Sequence[Record], analysers: Mapping[str, AffectAnalyser]) -> Sequence[Record]:
    """Return the records that add ER by these analysers to the recorded deliberations.

    Raises:
        RecordsUnusable: When there is no deliberation, or the records hold no texts.
    """
    return affect_records(records, recorded_evaluation(records, COMMAND).of(DIALECTIC), analysers) if analysers else ()


def write_report(records: Sequence[Record], folder: Path, chance: Chance | None = None) -> str:
    """Write everything that follows from `records` into `folder`; returns the report.

    Raises:
        RecordsUnusable: When they are no evaluation of the dialectic.
    """
    made, chance = recorded_evaluation(records, COMMAND), chance or seeded(SEED)
    if DIALECTIC not in made.arms:
        raise RecordsUnusable("there is nothing to report on yet: no deliberation is recorded")
    found, moved = figures(made, DIALECTIC, chance), evolution(made.of(DIALECTIC), chance)
    drawn = {**control_pictures(made, found, chance), STATES: _states(moved)}
    parts = [
        opening("Does the dialectic help?", made),
        settings_table(made),
        _evolution(moved),
        affect_section(records, made.of(DIALECTIC), chance),
        *figures_sections(found),
        "\n".join(f"![{name}]({name})" for name in drawn),
    ]
    said = "\n\n".join(part for part in parts if part) + "\n"
    (folder / REPORT).write_text(said, encoding="utf-8")
    for name, picture in drawn.items():
        (folder / name).write_text(picture, encoding="utf-8")
    return said


def _evolution(moved: Evolution) -> str:
    head = ["stage", "texts", *COMPONENTS]
    rows = [
        [stage.name.lower(), str(stage.measured), *(estimate(stage.means[name]) for name in COMPONENTS)]
        for stage in moved.stages
    ]
    ends = [
        [name, gain(each), str(each.items), CLAIMED.get(name, ""), _moved(name, each.value, conclusion(each))]
        for name, each in moved.moved.items()
    ]
    ends.append(
        [
            "share of texts right",
            gain(moved.better),
            str(moved.better.items),
            "rises",
            f"**{conclusion(moved.better)}**",
        ]
    )
    movements = table(["synthesis less thesis", "difference", "items", "claimed", "conclusion"], ends)
    words = (
        f"First texts right: {estimate(moved.first_right)}; final ones: {estimate(moved.last_right)}. AUROC of the "
        f"final text's 1 - correctness for a wrong answer: {estimate(moved.knows)}."
    )
    roles = sorted(moved.models.items(), key=lambda pair: (pair[0][0], -pair[1]))
    held = "; ".join(f"{role.lower()}: {agent} {number(count, 0)}" for (role, agent), count in roles)
    left_out = (
        f"{moved.unlike} deliberations are left out of these two tables: not all of their texts were judged, each "
        "beside all the others.\n\n"
        if moved.unlike
        else ""
    )
    return f"{READING}\n\n{left_out}{table(head, rows)}\n\n{movements}\n\n{words}\n\nRoles held (texts): {held}."


def _moved(name: str, value: float | None, said: Conclusion) -> str:
    """The direction in which a component moved, in words."""
    if said is Conclusion.UNKNOWN:
        return f"**{said}**"
    if said is Conclusion.NONE:
        return "**no movement shown**"
    way = "rises" if (value or 0) > 0 else "falls"
    agreed = {True: ", as claimed", False: ", against the claim"}[way == CLAIMED[name]] if name in CLAIMED else ""
    return f"**{way}{agreed}**"


def _states(moved: Evolution) -> str:
    points = {
        name: [(float(place), bar(stage.means[name])) for place, stage in enumerate(moved.stages, 1)]
        for name in ("correctness", "conflict")
    }
    return curve(points, f"stage ({', '.join(STAGES).lower()})", "level")
