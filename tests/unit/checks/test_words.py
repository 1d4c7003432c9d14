"""The check of words finds documents that have grown, and does not count references."""

from pathlib import Path

import pytest

from checks.words import MOST_WORDS, wordy

ROOT = Path(__file__).parents[3]


def test_the_documents_of_this_repository_are_short_enough() -> None:
    assert wordy(ROOT) == {}


@pytest.mark.parametrize(("guide", "is_found"), [(MOST_WORDS - 3, False), (MOST_WORDS - 2, True)])
def test_words_count_wherever_they_are_but_not_those_of_references_and_measurements(
    tmp_path: Path, guide: int, is_found: bool
) -> None:
    (tmp_path / "docs" / "evaluation").mkdir(parents=True)
    (tmp_path / "README.md").write_text("# Title\n")
    (tmp_path / "CONTRIBUTING.md").write_text("How.\n")
    (tmp_path / "docs" / "guide.md").write_text("word " * guide)
    for reference in ("rest.md", "grpc.md", "configuration.md", "papers.md", "evaluation/figures.md"):
        (tmp_path / "docs" / reference).write_text("word " * MOST_WORDS)

    assert [line.split()[0] for lines in wordy(tmp_path).values() for line in lines] == (["18,001"] if is_found else [])
