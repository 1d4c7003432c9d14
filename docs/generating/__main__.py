"""`python -m docs.generating [--check]` writes what is generated from the code, or reports what is stale."""

import argparse
import sys
from pathlib import Path

from chassis.serving.swagger.document import COMMENTS
from docs.generating import contract, faults, notices, openapi, settings, soak, what_holds

ROOT = Path(__file__).resolve().parents[2]


def files() -> dict[Path, str]:
    """Return every generated file with its content."""
    services = contract.services(ROOT)
    return {
        ROOT / "docs" / "configuration.md": settings.page(),
        ROOT / "cli" / "operation" / "settings.yaml": settings.catalogue(),
        ROOT / "docs" / "rest.md": contract.rest_page(services),
        ROOT / "docs" / "grpc.md": contract.grpc_page(services),
        **openapi.documents(ROOT),
        COMMENTS: contract.comments(services),
        ROOT / faults.PAGE: faults.page(ROOT),
        ROOT / soak.PAGE: soak.page(ROOT),
        ROOT / notices.PAGE: notices.page(ROOT),
        ROOT / what_holds.PAGE: what_holds.page(ROOT),
    }


def main() -> int:
    """Write the files; with --check only compare, and 1 names those that are stale."""
    parser = argparse.ArgumentParser(prog="python -m docs.generating", description="Make documentation from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when something is stale")
    only_check = parser.parse_args().check
    made = files()
    stale = [path for path, content in made.items() if not path.exists() or path.read_text() != content]
    if only_check and stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.stdout.write(f"stale: {names}; make them again with: make docs\n")
        return 1
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(made[path])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
