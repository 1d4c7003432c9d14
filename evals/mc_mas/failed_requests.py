"""Failed requests as wrong answers, beside the tables, which leave them out. Pure."""

from evals.harness.rows import RecordedEvaluation
from evals.harness.scores import by_item, gain_over
from evals.markdown import estimate, gain, table
from evals.mc_mas.arms import FULL, SAME_GENERATIONS
from evals.stats.chance import Chance
from evals.stats.gains import conclusion, mean_interval

NOTE = (
    "**Failed requests as wrong answers.** The tables leave them out. Where the arbitration failed nothing else "
    "was asked, so that the two are compared on the questions on which both were."
)


def failed_requests_section(evaluation: RecordedEvaluation, chance: Chance) -> str:
    """Shares right of arbitration and self-consistency with failed requests as wrong; empty where none failed."""
    failed = {arm: evaluation.failed_of(arm) for arm in (FULL, SAME_GENERATIONS)}
    if not any(failed.values()):
        return ""
    requested = {arm: [*evaluation.of(arm), *some] for arm, some in failed.items()}
    rows = []
    for arm, some in requested.items():
        over = gain_over(some, requested[FULL], chance) if arm != FULL and some else None
        compared = [gain(over), f"**{conclusion(over)}**"] if over else ["", ""]
        right = mean_interval(list(by_item(some).values()), chance)
        rows.append([arm, str(len(failed[arm])), f"{estimate(right)} ({right.items})", *compared])
    return f"{NOTE}\n\n{table(['answers', 'failed', 'share right', 'MC-MAS over it', 'conclusion'], rows)}"
