"""Cascades on recorded answers, on cases that can be computed by hand."""

from dataclasses import fields
from pathlib import Path

import pytest

from evals.replay.cascade_labels import cascade_labels_rows
from evals.replay.cascades import able_agents, billions, cascade_rows, small_groups, strong_agents
from evals.replay.figures import ReplayFigures, figures_document
from evals.replay.pack import RecordedSet, read_set
from evals.replay.panel_sections import cascade_labels_section, cascade_section
from evals.stats.chance import seeded
from tests.unit.evals.replay.packs import Line, line, made_lines, write_set

SMALL = ("Llama-3-8B", "Qwen2-7B", "gemma-2-9b")


def recorded(folder: Path, lines: list[Line]) -> RecordedSet:
    return read_set(write_set(folder, "set", lines))


def one_in_five_divides(count: int = 150) -> list[Line]:
    """Three small models agree and are right on four of five questions, on the fifth each says something else.

    The strong model is right everywhere; of the small ones one is on the fifth question, each in its turn.
    """
    lines = []
    for at in range(count):
        turns = ("456", "645", "564")[at // 5 % 3]
        given = turns if at % 5 == 0 else "444"
        answers = {**{name: [answer] for name, answer in zip(SMALL, given, strict=True)}, "gpt-4o": ["4"]}
        lines.append(line(at, answers, {name: [int(answer == ["4"])] for name, answer in answers.items()}))
    return lines


def test_the_strong_model_is_asked_only_where_no_two_agree(tmp_path: Path) -> None:
    [two, three] = cascade_rows(recorded(tmp_path, one_in_five_divides()), seeded(0, 50))

    for row in (two, three):
        assert (row.set, row.strong, row.cascades, row.small) == ("set", "gpt-4o", 1, SMALL)
        assert (row.accuracy.value, row.accuracy_share.value, row.strong_share.value) == (1.0, 1.0, 0.2)
    assert (two.rule, three.rule) == ("2 of 3", "3 of 3")
    # two agree after 2 answers on four of five questions; on the fifth three are asked, or two where three must agree
    assert two.small_calls.value == pytest.approx(0.8 * 2 + 0.2 * 3)
    assert three.small_calls.value == pytest.approx(0.8 * 3 + 0.2 * 2)
    assert two.pays_from == pytest.approx(2.2 / 0.8)


def test_the_control_escalates_as_many_questions_at_random(tmp_path: Path) -> None:
    """Without escalation a divided vote gives the first answer: in a third of all orders that is the right one.

    The vote is right on 0.8 + 0.2 / 3; a random fifth of the questions sent to the strong model gives
    0.8 (0.8 + 0.2 / 3) + 0.2. One small model alone is right on as many in the mean of the three.
    """
    [two, _] = cascade_rows(recorded(tmp_path, one_in_five_divides()), seeded(0, 50))

    random = 0.8 * (0.8 + 0.2 / 3) + 0.2
    assert two.gain_over_random.value == pytest.approx(1 - random)
    assert two.gain_over_random_alone.value == pytest.approx(1 - random)
    assert two.gain_over_random.low is not None
    assert two.gain_over_random.low > 0


def test_models_that_are_wrong_alike_are_not_escalated_and_their_error_stays(tmp_path: Path) -> None:
    lines = []
    for at in range(100):
        wrong = at % 4 == 0
        answers = {**{name: ["9" if wrong else "4"] for name in SMALL}, "gpt-4o": ["4"]}
        lines.append(line(at, answers, {name: [int(answer == ["4"])] for name, answer in answers.items()}))

    for row in cascade_rows(recorded(tmp_path, lines), seeded(0, 50)):
        assert (row.accuracy.value, row.strong_share.value, row.gain_over_random.value) == (0.75, 0.0, 0.0)


def test_invalid_answers_do_not_agree(tmp_path: Path) -> None:
    lines = one_in_five_divides()
    for one in lines[:10]:  # two of them divide anyway
        one["answers"].update({name: [None] for name in SMALL})
        one["right"].update({name: [0] for name in SMALL})

    [two, _] = cascade_rows(recorded(tmp_path, lines), seeded(0, 20))

    assert two.strong_share.value == pytest.approx((30 + 8) / 150)
    assert two.accuracy.value == 1.0


def test_small_is_what_the_name_states() -> None:
    names = ("Llama-3-8B", "Mixtral-8x7B", "mathstral-7B-v0.1", "Yi-1.5-9B-Chat", "gpt-4o", "Qwen2.5-0.5B", "x-7bit")

    assert [billions(name) for name in names] == [8.0, None, 7.0, 9.0, None, 0.5, None]


def test_a_cascade_has_three_families_and_the_strong_models_are_the_best_of_theirs(tmp_path: Path) -> None:
    levels = {
        "Llama-3-8B": 0.5,
        "Llama-3.1-8B": 0.52,
        "Qwen2-7B": 0.5,
        "gemma-2-9b": 0.5,
        "Yi-1.5-9B": 0.15,
        "gpt-4o": 0.95,
        "gpt-4o-mini": 0.9,
        "claude-3": 0.8,
        "Qwen2-72B": 0.7,
        "reka-core": 0.6,
    }
    able = able_agents(recorded(tmp_path, made_lines(400, {name: (level, 1) for name, level in levels.items()})))

    triples = [tuple(agent.name for agent in triple) for triple in small_groups(able, 3)]

    assert sorted(triples) == [("Llama-3-8B", "Qwen2-7B", "gemma-2-9b"), ("Llama-3.1-8B", "Qwen2-7B", "gemma-2-9b")]
    assert [agent.name for agent in strong_agents(able, able[:1])] == ["gpt-4o", "claude-3", "Qwen2-72B"]


def test_without_small_models_or_a_stronger_one_there_is_no_row(tmp_path: Path) -> None:
    alike = made_lines(200, {name: (0.5, 1) for name in SMALL})
    big = made_lines(200, {"gpt-4o": (0.9, 1), "Llama-3-70B": (0.6, 1)})

    assert cascade_rows(recorded(tmp_path, alike), seeded(0, 20)) == []
    assert cascade_rows(recorded(tmp_path, big), seeded(0, 20)) == []


def test_the_rows_stand_in_figures_and_report(tmp_path: Path) -> None:
    rows = cascade_rows(recorded(tmp_path, one_in_five_divides()), seeded(0, 20))
    document = figures_document(
        ReplayFigures(stopping=(), draft_vote=(), second_opinion=(), calibration=(), cascade=rows)
    )

    row = document["cascade"][0]
    assert set(row) == {each.name for each in fields(rows[0])} | {"accuracy_share_interval", "strong_share_interval"}
    assert (row["accuracy_share"], row["strong_share"]) == (1.0, 0.2)
    assert set(row["gain_over_random"]) == {"value", "low", "high"}
    assert row["small"] == list(SMALL)
    section = cascade_section(rows)
    assert "| set | 2 of 3 | gpt-4o | 1.000 | 1 |" in section
    assert "Small models: set: Llama-3-8B, Qwen2-7B, gemma-2-9b." in section
    assert cascade_section(()) == cascade_labels_section(()) == ""


def test_four_small_models_are_a_cascade_of_three_that_must_agree(tmp_path: Path) -> None:
    """Three of four agree everywhere: the fourth, which says something else, costs a call where it is among the first.

    With it among the first three (in three of four orders) all four are asked, else three.
    """
    names = (*SMALL, "Yi-1.5-9B")
    lines = []
    for at in range(40):
        odd, wrong = names[at % 4], at % 5 == 0
        answers = {name: ["9" if wrong else "5" if name == odd else "4"] for name in names} | {"gpt-4o": ["4"]}
        lines.append(line(at, answers, {name: [int(answer == ["4"])] for name, answer in answers.items()}))

    rows = cascade_rows(recorded(tmp_path, lines), seeded(0, 20))

    [four] = [row for row in rows if row.rule == "3 of 4"]
    assert (four.cascades, four.accuracy.value, four.strong_share.value) == (1, 0.8, 0.0)
    assert four.small_calls.value == pytest.approx(0.2 * 3 + 0.8 * (0.25 * 3 + 0.75 * 4))


def test_more_labels_choose_a_better_rule(tmp_path: Path) -> None:
    """One small model is nearly always right; few labels often choose another rule."""
    levels = {"Llama-3-8B": 0.8, "Qwen2-7B": 0.7, "gemma-2-9b": 0.6, "gpt-4o": 0.97}
    found = recorded(tmp_path, made_lines(600, {name: (level, 1) for name, level in levels.items()}))

    rows = cascade_labels_rows(found, seeded(0), draws=100)

    assert [row.labels for row in rows] == [25, 50, 100, 200, 400]
    assert (rows[0].strong, rows[0].small) == ("gpt-4o", SMALL)
    assert rows[0].shortfall > rows[-1].shortfall
    assert rows[0].optimism > rows[-1].optimism
    assert all(row.escalated <= row.most_escalated for row in rows)
    assert "| set | gpt-4o | 25 |" in cascade_labels_section(rows)


def test_a_set_with_few_questions_has_no_rule_chosen_from_labels(tmp_path: Path) -> None:
    assert cascade_labels_rows(recorded(tmp_path, one_in_five_divides()), seeded(0), draws=1) == []
