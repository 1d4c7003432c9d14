"""`python -m docs.generating.evaluation [--check] [WORK ...]` makes the tables of docs/evaluation, or compares them."""

import argparse
import sys
from pathlib import Path

from docs.generating.evaluation.all_works import WORKS
from docs.generating.evaluation.works import differing, put

ROOT = Path(__file__).resolve().parents[3]


def main() -> int:
    """Make the tables of the works that are named, or of all; with --check 1 names those that differ."""
    names = [work.name for work in WORKS]
    parser = argparse.ArgumentParser(
        prog="python -m docs.generating.evaluation", description="Make the tables of docs/evaluation from records."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a table differs")
    parser.add_argument("works", nargs="*", metavar="WORK", help=f"of {', '.join(names)}; all without a name")
    asked = parser.parse_args()
    if unknown := set(asked.works) - set(names):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    differ: list[str] = []
    for work in WORKS:
        if asked.works and work.name not in asked.works:
            continue
        sys.stdout.write(f"{work.name} ...\n")
        sys.stdout.flush()
        made = work.make(ROOT)
        if asked.check:
            differ += differing(ROOT, work, made)
        else:
            put(ROOT, work, made)
    if differ:
        sys.stdout.write(f"differ from what was made now: {', '.join(differ)}\n")
    return 1 if differ else 0


if __name__ == "__main__":
    raise SystemExit(main())
