"""`python -m checks` fails for what it finds in names, migrations, comparisons, citations, docstrings, texts, replies.

It also fails for documents of too many words, and reports sizes of source files without failing.
"""

import sys
from pathlib import Path

from checks.citations import unresolved
from checks.comparisons import unbounded
from checks.docstrings import gaps
from checks.migrations import MARK, unmarked
from checks.names import doubled
from checks.replies import looked_up
from checks.sizes import report
from checks.texts import unstated
from checks.words import wordy

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Print what was found, and return the exit status: 1 when there is something to fix."""
    found = doubled(ROOT)
    for name, places in found.items():
        sys.stdout.write(f"class {name} is declared in {', '.join(places)}: give each its own name\n")
    removing = unmarked(ROOT)
    for file, calls in removing.items():
        sys.stdout.write(
            f"{file} breaks the code of earlier versions ({', '.join(calls)}): state in {MARK} which works\n"
        )
    lost = [unresolved(ROOT), gaps(ROOT), unbounded(ROOT), unstated(ROOT), looked_up(ROOT), wordy(ROOT)]
    for file, lines in (item for found_there in lost for item in found_there.items()):
        sys.stdout.write("".join(f"{file}: {line}\n" for line in lines))
    sys.stdout.write("".join(f"{line}\n" for line in report(ROOT)))
    return 1 if found or removing or any(lost) else 0


if __name__ == "__main__":
    sys.exit(main())
