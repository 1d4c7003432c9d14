"""This module counts the words of the documents: a reader has to find something in them, so they may not grow."""

from collections.abc import Mapping, Sequence
from pathlib import Path

MOST_WORDS = 18_000
# References to look something up in: what `make docs` makes from the contracts and the settings, and the papers' rules.
REFERENCES = frozenset({"rest.md", "grpc.md", "configuration.md", "papers.md"})


def wordy(root: Path) -> Mapping[str, Sequence[str]]:
    """Return what to do where README, CONTRIBUTING and the guides of `docs/` have more than 18,000 words together.

    Args:
        root: Folder of the repository.
    """
    guides = [page for page in sorted((root / "docs").glob("*.md")) if page.name not in REFERENCES]
    counted = sum(len(page.read_text().split()) for page in [root / "README.md", root / "CONTRIBUTING.md", *guides])
    found = [f"{counted:,} words, {MOST_WORDS:,} at most: say it once, or shorter"] if counted > MOST_WORDS else []
    return {"README.md, CONTRIBUTING.md, docs/*.md": found} if found else {}
