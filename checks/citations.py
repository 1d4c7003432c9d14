"""This module finds citations of sources that are not in the repository: `docs/papers.md` has every rule by number."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PAGE = Path("docs") / "papers.md"
# Where sources are cited; what is generated from these (`gen/`) has the same words.
FOLDERS = (
    "kernel", "chassis", "inference", "configuration", "sandbox", "services", "encoder", "console", "cli", "evals",
    "embedded", "bench", "checks", "docker", "docs", "proto", "tests", "config",
)  # fmt: skip
KINDS = frozenset({".py", ".md", ".proto", ".yaml", ".yml", ".toml", ".html", ".css", ".js", ".sh", ".sql"})
# This module and its test have to name what they look for.
EXEMPT = frozenset({"checks/citations.py", "tests/unit/checks/test_citations.py"})
# Code whose every source is a section of the page.
DECIDING = re.compile(r"kernel/|services/\w+/core/")
ABSENT = re.compile(r"\b(SPEC|DESIGN)(\.md)?\b")
CITED = re.compile(r"papers\.md (\d+\.\d+(?:(?:, | and | to )\d+\.\d+)*)")
SECTION = re.compile(r"^### (\d+\.\d+) ", re.MULTILINE)
SOURCE = re.compile(r'^\s*(?:#\s|""")?\s*Source:(.*)')
# Where no section applies: a published work by its year, or a standard.
PUBLISHED = re.compile(r"\b(19|20)\d\d\b|\bstandard\b")


def unresolved(root: Path) -> Mapping[str, Sequence[str]]:
    """Return what is wrong with citations, by file: pages that are not there, sections that do not exist, no section.

    Args:
        root: Folder of the repository.
    """
    sections = frozenset(SECTION.findall((root / PAGE).read_text()))
    found = {name: list(_wrong(name, text, sections)) for name, text in _texts(root)}
    return {name: lines for name, lines in found.items() if lines}


def _texts(root: Path) -> Iterator[tuple[str, str]]:
    files = [file for folder in FOLDERS for file in sorted((root / folder).rglob("*")) if file.suffix in KINDS]
    for file in [*files, *sorted(root.glob("*.md"))]:
        name = file.relative_to(root).as_posix()
        if file.is_file() and name not in EXEMPT and "/vendor/" not in name:
            yield name, file.read_text()


def _wrong(name: str, text: str, sections: frozenset[str]) -> Iterator[str]:
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        if ABSENT.search(line):
            yield f"line {number}: names a document that is not in the repository; cite a section of {PAGE}"
        cited = [section for group in CITED.findall(line) for section in re.findall(r"\d+\.\d+", group)]
        yield from (f"line {number}: {PAGE} has no section {each}" for each in cited if each not in sections)
        if name.endswith(".py") and (begun := SOURCE.match(line)) and not name.startswith("tests/"):
            yield from _sourceless(name, number, " ".join([begun[1], *_rest(lines[number:], line)]))


def _rest(following: Sequence[str], begun: str) -> Iterator[str]:
    """Return the lines of the same paragraph."""
    for line in following:
        if not line.strip() or line.strip() == '"""' or (begun.lstrip()[0] == "#") != (line.lstrip()[0] == "#"):
            return
        yield line.strip()


def _sourceless(name: str, number: int, source: str) -> Iterator[str]:
    if not CITED.search(source) and (DECIDING.match(name) or not PUBLISHED.search(source)):
        yield f"line {number}: the source names no section of {PAGE}, as in `papers.md 2.3`"
