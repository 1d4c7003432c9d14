"""The page of what holds follows from the figures of other pages, and fails where one has gone."""

from pathlib import Path

import pytest
import yaml

from docs.generating.what_holds import PAGE, ROWS, Figure, figure, page, state
from tests.support.stack import ROOT

ROW = {
    "paper": "MSV",
    "claim": "conflict falls",
    "where": "MSV, five roles",
    "page": "shown.md",
    "line": "| conflict | -0.316 [-0.526, -0.105] | 19 |",
    "measure": "conflict",
    "claimed": "below 0",
    "items": 24,
    "paired": True,
    "command": "metacog eval dialectic",
}


def made(folder: Path, row: dict[str, object], shown: str = "") -> str:
    (folder / ROWS).parent.mkdir(parents=True, exist_ok=True)
    (folder / ROWS).write_text(yaml.safe_dump([row]))
    (folder / PAGE.parent / "shown.md").write_text(shown or f"`metacog eval dialectic`\n{ROW['line']}\n")
    return page(folder)


def test_a_row_has_its_figure_what_it_says_and_what_it_could_have_shown(tmp_path: Path) -> None:
    text = made(tmp_path, ROW)

    # 1.96 * sqrt(1 / 6 / 24) = .163
    assert "| **holds** | conflict -0.316 [-0.526, -0.105] | below 0 | 16 points, 24 items |" in text
    assert "[shown](shown.md) | `metacog eval dialectic` |" in text


@pytest.mark.parametrize("shown", ["| conflict | -0.1 [-0.5, 0.3] | 19 | `metacog eval dialectic`", ROW["line"]])
def test_a_figure_or_a_command_that_its_page_no_longer_has_is_an_error(tmp_path: Path, shown: str) -> None:
    with pytest.raises(ValueError, match="no longer has"):
        made(tmp_path, ROW, str(shown))


@pytest.mark.parametrize(
    ("low", "high", "claimed", "expected"),
    [
        (0.1, 0.3, "above 0", "holds"),
        (-0.1, 0.3, "above 0", "undecided"),
        (-0.3, -0.1, "above 0", "does not hold"),
        (0.3, 0.5, "below 0.087", "does not hold"),
        (0.02, 0.08, "below 0.087", "holds"),
        (0.0, 0.0, "above 0", "undecided"),  # nothing differed
    ],
)
def test_a_claim_holds_by_the_whole_interval(low: float, high: float, claimed: str, expected: str) -> None:
    assert state(Figure(value=(low + high) / 2, low=low, high=high), claimed) == expected


def test_what_cannot_be_read_is_named() -> None:
    with pytest.raises(ValueError, match="has no figure with its interval"):
        figure("| 0.398 (0.108) |")
    with pytest.raises(ValueError, match="is no claim"):
        state(Figure(value=0, low=0, high=1), "better")


def test_the_page_has_a_table_for_each_paper_and_is_what_its_rows_make() -> None:
    text = page(ROOT)

    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## MSV", "## MC-MAS", "## MetaCogAgent"]
    assert (ROOT / PAGE).read_text() == text
