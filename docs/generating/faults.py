"""This module makes the table of faults in docs/evaluation/faults.md from what `make test-hard` measured.

The tests store their rows in `faults.json`, each under its own name, so that a part of them may be run again.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from docs.generating.sections import replaced

RESULTS = Path("docs", "evaluation", "faults.json")
PAGE = Path("docs", "evaluation", "faults.md")
BEGIN, END = "<!-- faults: made by `make docs` -->", "<!-- end of faults -->"
COLUMNS = ("fault", "clients_see", "kept", "recovery")
HEAD = "| fault | clients see (strategy that answered, or error) | kept | recovery |\n|---|---|---|---|\n"

Row = Mapping[str, str]


def page(root: Path) -> str:
    """Return the page with the table as it was measured last.

    Raises:
        ValueError: When the page does not have the place of the table.
    """
    rows = list(json.loads((root / RESULTS).read_text()).values())
    return replaced(str(PAGE), (root / PAGE).read_text(), BEGIN, END, table(rows))


def table(rows: Sequence[Row]) -> str:
    """Return the table, and on which days and machines it was measured.

    Example:
        >>> row = {"fault": "disk full", "clients_see": "system1 9", "kept": "9 of 9 runs", "recovery": "2.1 s",
        ...     "measured_on": "2026-11-24", "machine": "2 cores"}
        >>> print(table([row]))
        | fault | clients see (strategy that answered, or error) | kept | recovery |
        |---|---|---|---|
        | disk full | system1 9 | 9 of 9 runs | 2.1 s |
        <BLANKLINE>
        Measured on 2026-11-24, on a machine with 2 cores.
        <BLANKLINE>
    """
    ordered = sorted(rows, key=lambda row: row["fault"].casefold())
    lines = "".join(f"| {' | '.join(row[name] for name in COLUMNS)} |\n" for row in ordered)
    days = sorted({row["measured_on"] for row in rows})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    machines = " and ".join(sorted({row["machine"] for row in rows}))
    return f"{HEAD}{lines}\nMeasured on {when}, on a machine with {machines}.\n"


def record(file: Path, measured: Mapping[str, Row]) -> None:
    """Store the rows of tests, by the test, in place of the earlier ones of these tests."""
    known: dict[str, Row] = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**known, **measured}, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
