"""The rules of the product on recorded answers, on cases that can be computed by hand."""

from pathlib import Path

import numpy as np
import pytest

from evals.replay.calibration import calibration_rows
from evals.replay.figures import STOPPED, ReplayFigures, figures_document
from evals.replay.pack import RecordedSet, read_set
from evals.replay.second_opinions import nearest_agents, second_opinion_rows, system_one_agents
from evals.replay.stopping import (
    agree_rule,
    arbiter_rule,
    at_equal_cost,
    draft_vote_rows,
    fixed_rule,
    stopping_rows,
)
from evals.stats.chance import seeded
from tests.unit.evals.replay.packs import PANEL, SAMPLED, Line, line, made_lines, write_set


def recorded(folder: Path, lines: list[Line], name: str = "set") -> RecordedSet:
    return read_set(write_set(folder, name, lines))


def test_two_that_agree_end_the_asking() -> None:
    rule = agree_rule(2)

    assert rule((0, 0, 1, 1, 1)) == (0, 2)
    assert rule((0, 1, 2, 1, 0)) == (1, 4)
    assert rule((0, -1, 0, 1, 1)) == (0, 3)  # an invalid answer is asked for and counts for nobody
    assert rule((0, 1, 2, 3, 4)) == (0, 5)
    assert rule((-1, -1, -1, -1, -1)) == (None, 4)  # one vote is left, and two must agree


def test_a_fixed_number_takes_the_most_frequent_answer_of_them() -> None:
    assert fixed_rule(3)((0, 1, 1, 2, 2, 2)) == (1, 3)
    assert fixed_rule(1)((0, 1, 1)) == (0, 1)


def test_arbitration_ends_early_where_all_agree_and_late_where_they_do_not() -> None:
    rule = arbiter_rule(10)

    assert rule((0,) * 10) == (0, 6)
    assert rule((0, 1) * 5)[1] == 10


def test_the_control_mixes_the_two_next_numbers_to_the_same_cost() -> None:
    shares = np.array([[0.4, 0.6, 0.7]])

    assert at_equal_cost(shares, np.array([1.0])) == pytest.approx([0.4])
    assert at_equal_cost(shares, np.array([2.25])) == pytest.approx([0.625])
    assert at_equal_cost(shares, np.array([3.0])) == pytest.approx([0.7])


def test_an_agent_of_one_mind_needs_two_samples_and_gains_nothing(tmp_path: Path) -> None:
    lines = [line(at, {"a": ["4" if at % 2 else "5"] * 10}, {"a": [at % 2] * 10}) for at in range(40)]

    rows = {row.rule: row for row in stopping_rows(recorded(tmp_path, lines), seeded(0, 50), orders=2)}

    row = rows["agree_2"]
    assert (row.mean_generations, row.accuracy.value, row.gain_over_fixed.value) == (2.0, 0.5, 0.0)
    assert row.loss_against_all.value == 0.0
    assert rows["fixed_1"].gain_over_fixed.value == 0.0  # the control of the control


def test_agents_that_are_nearly_always_right_or_wrong_say_nothing_about_stopping(tmp_path: Path) -> None:
    lines = [line(at, {"a": ["4"] * 10}, {"a": [1] * 10}) for at in range(20)]

    assert stopping_rows(recorded(tmp_path, lines), seeded(0, 50)) == []


def test_the_direct_answer_as_first_vote_costs_less(tmp_path: Path) -> None:
    [row] = draft_vote_rows(recorded(tmp_path, made_lines(150, SAMPLED)), seeded(0, 200), orders=5)

    assert row.model == "small"
    assert row.cost_shares[24] < row.cost_shares[12] < row.cost_shares[6] < 1
    assert row.accuracy_share.value == pytest.approx(1.0, abs=0.15)


def test_second_opinions_that_differ_exactly_where_the_first_is_wrong_separate_perfectly(tmp_path: Path) -> None:
    lines = [
        line(
            at,
            {"first": ["4" if at % 2 else "5"], **{name: ["4"] for name in ("b", "c", "d")}},
            {"first": [at % 2], **{name: [1] for name in ("b", "c", "d")}},
        )
        for at in range(120)
    ]

    rows = second_opinion_rows(recorded(tmp_path, lines), seeded(0, 100))

    assert {row.agent for row in rows} == {"first"}
    assert [(row.opinions, row.auroc.value, row.auroc.low) for row in rows] == [
        (1, 1.0, 1.0),
        (2, 1.0, 1.0),
        (3, 1.0, 1.0),
    ]
    assert all(0.3 < (row.shuffled_auroc or 0.0) < 0.7 for row in rows)


def test_settings_of_one_model_are_no_second_opinion_of_each_other(tmp_path: Path) -> None:
    found = recorded(tmp_path, made_lines(80, {**SAMPLED, "big@0.2": (0.6, 1)}))
    first = found.agents["small@0.2"]

    assert {agent.model for agent in nearest_agents(found, first, 5)} == {"other", "big"}
    assert [agent.model for agent in system_one_agents(found)] == ["big", "other", "small"]


@pytest.fixture(scope="module")
def panel(tmp_path_factory: pytest.TempPathFactory) -> RecordedSet:
    """Seven models of one answer each, over 1,500 questions with ten options."""
    return recorded(tmp_path_factory.mktemp("panel"), made_lines(1_500, PANEL, options=10))


def test_labels_lower_the_calibration_error_and_the_share_of_votes_is_far_from_it(panel: RecordedSet) -> None:
    rows = {(row.method, row.labels): row for row in calibration_rows(panel, seeded(0), draws=4) if row.votes == "all"}

    assert {labels for method, labels in rows if method == "product"} == {25, 50, 100, 300}  # 1,000 would leave too few
    assert rows["product", 300].ece < rows["raw", 0].ece
    assert rows["product", 300].brier < rows["raw", 0].brier
    assert all(row.floor < row.ece + 0.02 for row in rows.values())
    assert {row.models for row in rows.values()} == {7}


def test_the_same_pack_gives_the_same_figures(panel: RecordedSet) -> None:
    assert second_opinion_rows(panel, seeded(0, 50)) == second_opinion_rows(panel, seeded(0, 50))


def test_too_few_models_have_no_rows_of_calibration(tmp_path: Path) -> None:
    assert calibration_rows(recorded(tmp_path, made_lines(30, SAMPLED)), seeded(0)) == ()


def test_figures_are_written_as_lists_of_objects_with_intervals(tmp_path: Path) -> None:
    found = recorded(tmp_path, made_lines(60, SAMPLED))
    figures = ReplayFigures(
        stopping=stopping_rows(found, seeded(0, 20), orders=1), draft_vote=[], second_opinion=[], calibration=[]
    )

    document = figures_document(figures)

    assert set(document) == {
        "stopping",
        "draft_vote",
        "second_opinion",
        "calibration",
        "prior",
        "panel",
        "learned_profiles",
        "cascade",
        "cascade_labels",
        "promise",
        "gain_by_kind",
        "gain_by_inferred_kind",
        "kinds",
        "inferred_kinds",
        STOPPED,
    }
    row = document["stopping"][0]
    assert row["set"] == "set"
    assert set(row["gain_over_fixed"]) == {"value", "low", "high"}
    assert row["accuracy"] == row["accuracy_interval"]["value"] == figures.stopping[0].accuracy.value
