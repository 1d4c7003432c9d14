"""Promises on recorded answers, on cases that can be computed by hand."""

from pathlib import Path

import pytest

from evals.replay.calibration import AGREE_2, ALL
from evals.replay.pack import RecordedSet, read_set
from evals.replay.promises import MIDDLING, STRONG, promise_rows
from evals.replay.report import promise_section
from evals.stats.chance import seeded
from tests.unit.evals.replay.packs import PANEL, SAMPLED, Line, line, made_lines, write_set

NAMES = "abcde"


def recorded(folder: Path, lines: list[Line]) -> RecordedSet:
    return read_set(write_set(folder, "set", lines))


def test_where_agreement_is_always_right_every_answer_that_agrees_is_given(tmp_path: Path) -> None:
    """On two questions of three all say the same and are right; on the third each says something else."""
    lines = [
        line(
            at,
            {name: ["4" if at % 3 else f"{place}"] for place, name in enumerate(NAMES, 10)},
            {name: [int(at % 3 > 0)] for name in NAMES},
        )
        for at in range(600)
    ]

    rows = {
        (row.votes, row.error_at_most, row.labels): row
        for row in promise_rows(recorded(tmp_path, lines), seeded(0, 50), draws=20)
    }

    row = rows[ALL, 0.1, 100]
    assert row.agents == MIDDLING
    assert row.kept_share == pytest.approx(2 / 3, abs=0.01)
    assert (row.broken_share, row.worst_broken_share, row.given_error) == (0.0, 0.0, 0.0)
    assert rows[ALL, 0.05, 100].kept_share == 0.0  # of 100 labels some 67 agree, and 86 without an error are needed
    assert rows[AGREE_2, 0.05, 400].kept_share == pytest.approx(2 / 3, abs=0.01)


def test_where_agreement_says_nothing_nothing_is_given(tmp_path: Path) -> None:
    lines = [line(at, {name: ["4"] for name in NAMES}, {name: [at % 2] for name in NAMES}) for at in range(400)]

    rows = promise_rows(recorded(tmp_path, lines), seeded(0, 50), draws=20)

    assert {row.kept_share for row in rows} == {0.0}
    assert {row.broken_share for row in rows} == {0.0}
    assert {row.given_error for row in rows} == {None}


def test_a_cell_that_would_leave_too_few_questions_is_left_out(tmp_path: Path) -> None:
    rows = promise_rows(recorded(tmp_path, made_lines(450, PANEL)), seeded(0, 50), draws=5)

    assert {row.labels for row in rows} == {100, 200}
    assert {row.agents for row in rows} <= {MIDDLING, STRONG}
    assert "broken" in promise_section(rows)


def test_too_few_models_promise_nothing(tmp_path: Path) -> None:
    assert promise_rows(recorded(tmp_path, made_lines(60, SAMPLED)), seeded(0, 50)) == ()
    assert promise_section(()) == ""
