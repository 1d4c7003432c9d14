"""Refused requests as wrong answers, beside the tables, which leave them out. Pure."""

from evals.harness.rows import Recorded
from evals.harness.scores import by_item, gain_over
from evals.markdown import estimate, gain, table
from evals.mc_mas.arms import FULL, SAME_GENERATIONS
from evals.stats.chance import Chance
from evals.stats.gains import conclusion, mean_interval

NOTE = (
    "**Refused requests as wrong answers.** The tables leave them out. Where the arbitration was refused nothing else "
    "was asked, so that the two are compared on the questions on which both were."
)


def refused_section(made: Recorded, chance: Chance) -> str:
    """Shares right of arbitration and self-consistency with refused requests as wrong; empty where none was refused."""
    refused = {arm: made.refused_of(arm) for arm in (FULL, SAME_GENERATIONS)}
    if not any(refused.values()):
        return ""
    asked = {arm: [*made.of(arm), *some] for arm, some in refused.items()}
    rows = []
    for arm, some in asked.items():
        over = gain_over(some, asked[FULL], chance) if arm != FULL and some else None
        compared = [gain(over), f"**{conclusion(over)}**"] if over else ["", ""]
        right = mean_interval(list(by_item(some).values()), chance)
        rows.append([arm, str(len(refused[arm])), f"{estimate(right)} ({right.items})", *compared])
    return f"{NOTE}\n\n{table(['answers', 'refused', 'share right', 'MC-MAS over it', 'said'], rows)}"
