"""The service's own processing beside the replays: what it decided, and what it really spent. Pure."""

from collections import Counter
from collections.abc import Sequence

from evals.harness.arm_figures import means, trust
from evals.harness.rows import Row
from evals.markdown import number, share, table
from evals.stats.shares import share as counted


def live_section(rows: Sequence[Row]) -> str:
    """Return what the service did by itself, task by task, learning as it went; empty where it was not asked to."""
    if not rows:
        return ""
    spent, trusted = means(rows), trust([(row.said.confidence, row.right) for row in rows])
    modes = Counter(str(row.reply["mode"]) for row in rows)
    handed = counted(row.right for row in rows if row.reply["mode"] == "DELEGATED")
    cells = [
        str(len(rows)),
        share(counted(row.right for row in rows)),
        ", ".join(f"{mode} {count}" for mode, count in modes.most_common()),
        share(handed),
        f"{number(trusted.found.calibration_error, 3)} ({number(trusted.by_chance, 3)})",
        number(spent.generations * len(rows), 0),
        number(spent.tokens, 0),
    ]
    head = [
        "tasks",
        "share right",
        "modes",
        "delegation precision",
        "ECE (by chance)",
        "generations",
        "tokens per task",
    ]
    note = "The service itself, learning as it went; its answers and ratings were drawn anew for this."
    return f"**Live**\n\n{note}\n\n{table(head, [cells])}"
