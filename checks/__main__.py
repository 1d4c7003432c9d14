"""`python -m checks` fails for a public class name that stands twice, and reports sizes without failing."""

import sys
from pathlib import Path

from checks.names import doubled
from checks.sizes import report

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Print what was found, and return the exit status: 1 when a name stands twice."""
    found = doubled(ROOT)
    for name, places in found.items():
        sys.stdout.write(f"class {name} is declared in {', '.join(places)}: give each its own name\n")
    sys.stdout.write("".join(f"{line}\n" for line in report(ROOT)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
