"""Panels and learned profiles on recorded answers, on cases that can be computed by hand."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from evals.replay.figures import ReplayFigures, figures_document
from evals.replay.learned_profiles import Records, learned_profile_rows, readings
from evals.replay.pack import PackInvalid, RecordedSet, read_set
from evals.replay.panel_sections import learned_profile_section, panel_section
from evals.replay.panels import drawn_panels, family, majority, panel_rows, sequential
from evals.stats.chance import seeded
from kernel.learning.profiles import Profile, beta_reading
from kernel.learning.shrinkage import shrunk_profiles
from tests.unit.evals.replay.packs import PANEL, Line, line, made_lines, write_set

EVEN = [0.5] * 5


def recorded(folder: Path, lines: list[Line], name: str = "set") -> RecordedSet:
    return read_set(write_set(folder, name, lines))


def in_categories(lines: list[Line]) -> list[Line]:
    return [{**one, "category": "odd" if at % 2 else "even"} for at, one in enumerate(lines)]


def test_a_panel_asks_until_two_agree_and_else_weighs_all_answers() -> None:
    assert sequential((0, 0, 1, 1, 1), EVEN) == (0, 2)
    assert sequential((0, 1, 2, 1, 0), EVEN) == (1, 4)
    assert sequential((0, -1, 0, 1, 1), EVEN) == (0, 3)
    assert sequential((0, 1, 2, 3, 4), [0.4, 0.5, 0.6, 0.5, 0.4]) == (2, 5)
    assert sequential((-1, -1, -1, -1, -1), EVEN) == (None, 5)


def test_the_majority_takes_the_most_frequent_answer_and_ties_go_to_the_more_competent() -> None:
    assert majority((0, 0, 1, 1, 1), EVEN) == 2
    assert majority((0, 0, 1, 1, 2), [0.5, 0.5, 0.6, 0.6, 0.5]) == 2
    assert majority((-1, 1, -1, -1, -1), EVEN) == 1


def test_agents_that_always_agree_cost_two_calls_and_lose_nothing(tmp_path: Path) -> None:
    names = "abcde"
    lines = [line(at, {key: ["4"] for key in names}, {key: [at % 2] for key in names}) for at in range(200)]

    [alike, unequal] = panel_rows(recorded(tmp_path, lines), seeded(0, 50))

    for row in (alike, unequal):
        assert (row.panels, row.calls_share.value, row.difference.value, row.gain_over_exam.value) == (1, 0.4, 0, 0)
        assert row.accuracy.value == pytest.approx(0.5, abs=0.1)


def test_three_that_are_right_where_two_are_wrong_alike_are_lost_only_when_those_come_first(tmp_path: Path) -> None:
    """The two worse agents agree on a wrong answer, and the better ones are asked first: nothing is lost."""
    lines = []
    for at in range(300):
        better = at % 3 == 0  # a third of the questions: the two others fail together
        wrong = ["5"] if better else ["4"]
        answers = {**{key: ["4"] for key in "abc"}, **dict.fromkeys("de", wrong)}
        right = {**{key: [1] for key in "abc"}, **{name: [int(not better)] for name in "de"}}
        lines.append(line(at, answers, right))

    [row] = panel_rows(recorded(tmp_path, lines), seeded(0, 50))

    assert row.agents == "unequal"
    assert (row.accuracy.value, row.difference.value, row.calls_share.value) == (1.0, 0.0, 0.4)


def test_relatives_and_agents_below_thirty_percent_are_in_no_panel(tmp_path: Path) -> None:
    levels = {"Llama-3-8B": 0.6, "Llama-3-70B": 0.62, "Yi-34B": 0.6, "gemma-7b": 0.6, "Qwen2-7B": 0.6, "weak": 0.1}
    found = recorded(tmp_path, made_lines(300, {name: (level, 1) for name, level in levels.items()}))

    assert family(found.agents["Llama-3-8B"]) == family(found.agents["Llama-3-70B"]) == "llama"
    assert drawn_panels(found, np.random.default_rng(0), width=None, most=10) == []

    more = recorded(tmp_path, made_lines(300, {name: (level, 1) for name, level in {**levels, "reka": 0.6}.items()}))
    panels = drawn_panels(more, np.random.default_rng(0), width=None, most=10)

    assert len(panels) == 2
    assert all(len({family(agent) for agent in panel}) == 5 for panel in panels)
    assert all(agent.name != "weak" for panel in panels for agent in panel)


def test_alike_agents_are_within_ten_points(tmp_path: Path) -> None:
    found = recorded(tmp_path, made_lines(1_000, PANEL))

    for panel in drawn_panels(found, np.random.default_rng(0), width=0.1, most=20):
        shares = [agent.right.mean() for agent in panel]
        assert max(shares) - min(shares) <= 0.1


def test_the_readings_of_the_replay_are_those_of_the_kernel() -> None:
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.1, 1.0, (2, 5, 3))
    weight[0, 1] = 0.0
    squares = weight**2 / rng.uniform(1.0, 19.0, weight.shape)
    competence = 0.5 * (1 - weight) + weight * rng.uniform(0, 1, weight.shape)
    records = Records(competence, weight, squares)
    category = np.array([0, 2])

    plain, drawn = (readings(records, category, shrunk=shrunk) for shrunk in (False, True))

    for panel, agent in np.ndindex(2, 5):
        profiles = [
            Profile(
                agent="a",
                dimension=str(at),
                competence=float(competence[panel, agent, at]),
                memory=float(records.memory()[panel, agent, at]),
                weight=float(weight[panel, agent, at]),
            )
            for at in range(3)
        ]
        at = int(category[panel])
        others = [one for one in profiles if one is not profiles[at]]
        seen = (plain[0][panel, agent], plain[1][panel, agent])
        assert seen == pytest.approx(beta_reading(profiles[at]), abs=1e-6)
        [shrunk] = shrunk_profiles([profiles[at]], others)
        seen = (drawn[0][panel, agent], drawn[1][panel, agent])
        assert seen == pytest.approx(beta_reading(shrunk), abs=1e-6)


def test_drawn_profiles_find_an_agent_that_is_better_everywhere_sooner(tmp_path: Path) -> None:
    levels = {"a": 0.35, "b": 0.4, "c": 0.4, "d": 0.45, "e": 0.9}
    lines = made_lines(600, {name: (level, 1) for name, level in levels.items()})
    found = recorded(tmp_path, [{**one, "category": f"kind {at % 12}"} for at, one in enumerate(lines)])

    rows = [row for row in learned_profile_rows(found, seeded(0, 200), panels=20) if row.agents == "unequal"]

    assert [row.tasks for row in rows] == [500, 600]
    assert rows[0].gain.low is not None
    assert rows[0].gain.low > 0
    assert (rows[0].gain_over_best.value or 0.0) < 0


def test_without_categories_there_are_no_learned_profiles(tmp_path: Path) -> None:
    assert learned_profile_rows(recorded(tmp_path, made_lines(150, PANEL)), seeded(0)) == []


def test_a_category_that_is_no_text_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(PackInvalid, match=r"line 1: .*category"):
        recorded(tmp_path, [{**line(0, {"a": ["4"]}, {"a": [1]}), "category": 7}])


def test_the_rows_stand_in_figures_and_report(tmp_path: Path) -> None:
    found = recorded(tmp_path, in_categories(made_lines(300, PANEL)))
    panels = panel_rows(found, seeded(0, 20), panels=3)
    learned = learned_profile_rows(found, seeded(0, 20), panels=3)
    document = figures_document(
        ReplayFigures(
            stopping=(), draft_vote=(), second_opinion=(), calibration=(), panel=panels, learned_profiles=learned
        )
    )

    assert document["panel"][0]["set"] == "set"
    row = document["panel"][0]
    assert set(row["difference"]) == {"value", "low", "high"}
    assert row["accuracy"] - row["majority_accuracy"] == pytest.approx(row["difference"]["value"])
    assert row["calls_share"] == row["calls_share_interval"]["value"] == panels[0].calls_share.value
    assert set(document["learned_profiles"][0]) == {each.name for each in fields(learned[0])}
    assert "| set | unequal |" in panel_section(panels)
    assert "| set | unequal | 300 |" in learned_profile_section(learned)
    assert panel_section(()) == learned_profile_section(()) == ""
