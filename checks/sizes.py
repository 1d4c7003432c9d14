"""This module reports the sizes of source files and folders, which are an aim and not a limit."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from checks.names import PACKAGES

FOLDERS = (*PACKAGES, "encoder", "console", "cli", "evals", "embedded", "bench", "tests")
MANY_LINES = 500
MANY_MODULES = 15


def report(root: Path) -> Sequence[str]:
    """Return one line for each file of more than 500 lines, and for each folder of more than 15 modules.

    Args:
        root: Folder of the repository.
    """
    files = [file for folder in FOLDERS for file in sorted((root / folder).rglob("*.py"))]
    lines = {file.relative_to(root): len(file.read_text().splitlines()) for file in files}
    modules = Counter(file.parent for file in lines if file.name != "__init__.py")
    long = [f"{file}: {count} lines" for file, count in lines.items() if count > MANY_LINES]
    full = [f"{folder}: {count} modules" for folder, count in modules.items() if count > MANY_MODULES]
    return [*long, *full]
