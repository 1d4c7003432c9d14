"""`python -m docs.generating [--check]` writes what is generated from the code, or reports what is stale."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from chassis.serving.swagger.document import COMMENTS
from docs.generating import contract, faults, heads, notices, openapi, settings, soak, what_holds
from docs.generating.evaluation.all_works import WORKS
from docs.generating.evaluation.works import stale as stale_tables

ROOT = Path(__file__).resolve().parents[2]


def files(services: contract.Described) -> dict[Path, str]:
    """Return every generated file with its content, except the comments, which the OpenAPI documents are made of."""
    made = {
        ROOT / "docs" / "configuration.md": settings.page(),
        ROOT / "cli" / "operation" / "settings.yaml": settings.catalogue(),
        ROOT / "docs" / "rest.md": contract.rest_page(services),
        ROOT / "docs" / "grpc.md": contract.grpc_page(services),
        **openapi.documents(ROOT),
        ROOT / faults.PAGE: faults.page(ROOT),
        ROOT / soak.PAGE: soak.page(ROOT),
        ROOT / notices.PAGE: notices.page(ROOT),
        ROOT / what_holds.PAGE: what_holds.page(ROOT),
    }
    return {**made, **heads.pages(ROOT, made)}


def main() -> int:
    """Write the files; with --check only compare, and 1 names those that are stale."""
    parser = argparse.ArgumentParser(prog="python -m docs.generating", description="Make documentation from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when something is stale")
    only_check = parser.parse_args().check
    services = contract.services(ROOT)
    stale = _stale({COMMENTS: contract.comments(services)}, write=not only_check)
    if not (stale and only_check):
        stale = [*stale, *_stale(files(services), write=not only_check)]
    names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
    problems = [f"stale: {names}; make them again with: make docs"] if stale else []
    problems += [f"{problem}; make it again with: make evaluation-pages" for problem in stale_tables(ROOT, WORKS)]
    if only_check:
        sys.stdout.write("".join(f"{problem}\n" for problem in problems))
    return 1 if only_check and problems else 0


def _stale(made: Mapping[Path, str], *, write: bool) -> Sequence[Path]:
    """Return the files that have another content than they should, after writing them if asked to."""
    stale = [path for path, content in made.items() if not path.exists() or path.read_text() != content]
    for path in stale if write else ():
        path.parent.mkdir(exist_ok=True)
        path.write_text(made[path])
    return stale


if __name__ == "__main__":
    raise SystemExit(main())
