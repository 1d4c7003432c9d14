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
    "line": "| conflict |",
    "measure": "conflict",
    "claimed": "below 0",
    "items": 24,
    "paired": True,
    "command": "metacog eval dialectic",
}


SHOWN = "| conflict | -0.316 [-0.526, -0.105] | 19 |\n"


def made(folder: Path, row: dict[str, object], shown: str = "") -> str:
    (folder / ROWS).parent.mkdir(parents=True, exist_ok=True)
    (folder / ROWS).write_text(yaml.safe_dump([row]))
    (folder / PAGE.parent / "shown.md").write_text(shown or SHOWN)
    return page(folder)


def test_a_row_has_its_figure_what_it_says_and_what_it_could_have_shown(tmp_path: Path) -> None:
    text = made(tmp_path, ROW)

    # 1.96 * sqrt(1 / 6 / 24) = .163
    assert "| **holds** | conflict -0.316 [-0.526, -0.105] | below 0 | 16 points, 24 items |" in text
    assert "[shown](shown.md) | `metacog eval dialectic` |" in text


def test_a_line_that_its_page_no_longer_has_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no longer has"):
        made(tmp_path, ROW, "| correctness | 0.1 [0.0, 0.2] | 19 |\n")


def test_a_figure_is_that_of_its_page_below_the_heading_and_so_are_its_items(tmp_path: Path) -> None:
    shown = f"{SHOWN}\n## mmlu\n\n| conflict | 0.3 [0.1, 0.5] | 1,600 |\n\n## gsm8k\n\n{SHOWN}"

    text = made(tmp_path, {**ROW, "under": "mmlu", "items": "cell 2"}, shown)

    # 1.96 * sqrt(1 / 6 / 1600) = .020
    assert "| **does not hold** | conflict 0.3 [0.1, 0.5] | below 0 | 2 points, 1,600 items |" in text


def test_a_claim_that_was_not_measured_is_undecided(tmp_path: Path) -> None:
    row = {name: ROW[name] for name in ("paper", "claim", "where", "claimed", "command")}

    line = "| conflict falls | MSV, five roles | **undecided** | - | below 0 | - | - | `metacog eval dialectic` |"
    assert line in made(tmp_path, row)


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
