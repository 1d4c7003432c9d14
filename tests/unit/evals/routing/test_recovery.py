"""What a router recovers of the gap between two models, against a count over every share."""

import json
from itertools import permutations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.metrics import auc, roc_auc_score

from evals.errors import ItemsUnreadable, RecordsUnusable
from evals.items import Item
from evals.outcomes.figures import LENGTH, ORACLE, RANDOM, figures, routed_questions
from evals.outcomes.files import COMMAND, write_report
from evals.outcomes.items import read_outcomes
from evals.quick import quick_items
from evals.records import Record
from evals.scorers.answers import Known, scored
from evals.stats.chance import seeded
from evals.stats.recovery import cost_at, knowing, mean_recovered, recovery, shuffled_costs
from tests.support.evaluation_records import introduced
from tests.support.evaluation_replies import decision, reply, run_record

SUITE = {"model": "scripted", "config_version": "paper", "threshold": 0.45, "weights": {"correctness": 1.0}}
WEAK = np.array([True, False, False, True, False, True, True, False])
STRONG = np.array([True, True, True, True, False, True, False, True])
LEVELS = np.array([0.1, 0.9, 0.7, 0.3, 0.6, 0.2, 0.8, 0.5])


def test_the_gap_recovered_is_that_of_sending_one_more_each_time() -> None:
    made = recovery(LEVELS, WEAK, STRONG)

    assert made is not None
    order = np.argsort(-LEVELS)
    right = [np.where(np.isin(np.arange(8), order[:sent]), STRONG, WEAK).mean() for sent in range(9)]
    expected = [(share - WEAK.mean()) / (STRONG.mean() - WEAK.mean()) for share in right]
    assert made.recovered == pytest.approx(expected)
    assert mean_recovered(LEVELS, WEAK, STRONG) == pytest.approx(auc(np.linspace(0, 1, 9), expected))


def test_levels_that_say_nothing_recover_half_and_cost_what_they_recover() -> None:
    flat = np.zeros(8)

    assert mean_recovered(flat, WEAK, STRONG) == 0.5
    assert cost_at(flat, WEAK, STRONG, 0.5) == 0.5
    assert cost_at(flat, WEAK, STRONG, 0.8) == pytest.approx(0.8)


def test_the_cost_is_read_off_where_the_share_is_reached_first() -> None:
    # From the highest level: +1, -1, +1, 0, +1, ... of a gap of 2: half is reached with the first of 8.
    assert cost_at(LEVELS, WEAK, STRONG, 0.5) == 0.125
    assert cost_at(LEVELS, WEAK, STRONG, 0.0) == 0.0


def test_shuffled_levels_cost_the_mean_over_all_orders() -> None:
    levels, weak, strong = LEVELS[:6], WEAK[:6], STRONG[:6]

    found = shuffled_costs(levels, weak, strong, seeded(7))

    every = [cost_at(np.array(made), weak, strong, 0.5) or 0.0 for made in permutations(levels)]
    assert found.at_half.mean == pytest.approx(np.mean(every), abs=0.02)
    assert (found.at_half.low, found.at_half.high) == pytest.approx(tuple(np.quantile(every, [0.025, 0.975])), abs=0.05)
    assert found.at_half.draws == 1000


def test_a_small_gap_is_reached_early_by_chance() -> None:
    # 20 items better and 16 worse of 100: a gap of 4, of which two items are half.
    better = np.array([1.0] * 20 + [-1.0] * 16 + [0.0] * 64)
    weak, strong = (better < 0).astype(float), (better > 0).astype(float)

    found = shuffled_costs(np.arange(100.0), weak, strong, seeded(7))

    assert (found.at_half.mean or 1) < 0.4
    assert (found.at_most.mean or 1) < 0.7


def test_dealing_moves_no_other_figure() -> None:
    chance, untouched = seeded(7), seeded(7)

    shuffled_costs(LEVELS, WEAK, STRONG, chance)

    assert chance.rng.random() == untouched.rng.random()
    assert shuffled_costs(LEVELS, STRONG, WEAK, chance).at_half.mean is None


def test_who_knows_both_outcomes_recovers_most() -> None:
    best = mean_recovered(knowing(list(WEAK), list(STRONG)), WEAK, STRONG)

    assert best is not None
    for seed in range(20):
        other = mean_recovered(np.random.default_rng(seed).random(8), WEAK, STRONG)
        assert best >= (other or 0)


def test_without_a_gap_there_is_nothing_to_recover() -> None:
    assert mean_recovered(LEVELS, STRONG, WEAK) is None
    assert cost_at(LEVELS, WEAK, WEAK, 0.5) is None


def outcomes(count: int, level_of_wrong: float) -> list[Record]:
    made: list[Record] = [run_record(COMMAND, "hybrid", suite=SUITE)]
    for number in range(count):
        wrong, name = number % 3 == 0, f"routing_x-{number}"
        models = {"weak_correct": not wrong, "strong_correct": True, "weak_model": "w", "strong_model": "s"}
        made.append({**introduced(name, dataset="routing_x", characters=100 + number % 7), **models})
        level = level_of_wrong if wrong else 0.3 + (number % 5) / 100
        made.append(reply(name, "hybrid", decision(level), path="/v1/route"))
    return made


def test_a_router_that_knows_is_separated_from_chance_by_its_area_and_its_cost() -> None:
    [found] = figures(routed_questions(outcomes(90, 0.9)), seeded(7, draws=60))

    scored = {each.name: each for each in found.scored}
    assert found.weak == pytest.approx(2 / 3)
    assert (found.strong, found.items) == (1.0, 90)
    assert scored["hybrid"].weak_wrong.auroc == 1.0
    # All 30 wrong ones come first: half of the gap at 15 of 90.
    assert scored["hybrid"].at_half.value == pytest.approx(15 / 90)
    assert scored["hybrid"].over_random.excludes_zero
    assert not scored[RANDOM].over_random.excludes_zero
    assert not scored[LENGTH].over_random.excludes_zero
    assert scored[ORACLE].recovered.value == scored["hybrid"].recovered.value


def test_a_router_that_knows_nothing_is_no_gain(tmp_path: Path) -> None:
    records = outcomes(90, 0.32)
    levels = [record["reply"]["activation"]["value"] for record in records if record["kind"] == "reply"]
    wrong = [not record["weak_correct"] for record in records if record["kind"] == "item"]

    [found] = figures(routed_questions(records), seeded(7, draws=60))

    hybrid = next(each for each in found.scored if each.name == "hybrid")
    assert hybrid.weak_wrong.auroc == pytest.approx(roc_auc_score(wrong, levels))
    report = write_report(records, tmp_path, seeded(7, draws=50))
    assert "weak right 66.7 %, strong right 100.0 %" in report
    assert "| cost at 50 % | shuffled | cost at 80 % | shuffled |" in report
    assert "chance takes 0.5 and 0.8" not in report
    assert "**no gain**" in next(line for line in report.splitlines() if line.startswith("| hybrid |"))
    for made_with in ("- model: scripted", "- outcomes: w (weak), s (strong)", "- configuration: `paper`", "seed 7",
                      "- spent: 90 generations"):  # fmt: skip
        assert made_with in report
    assert ElementTree.parse(tmp_path / "recovered-routing_x.svg").getroot().tag.endswith("svg")


def test_outcomes_are_read_line_by_line_and_named_where_they_are_none(tmp_path: Path) -> None:
    row = {"id": "r-1", "question": "Which?", "choices": ["x", "y"], "strong_correct": True, "weak_correct": False}
    file = tmp_path / "routing_some.jsonl"
    file.write_text(
        json.dumps({**row, "weak_model": "w", "strong_model": "s"}) + "\n" + json.dumps({**row, "id": "r-2"})
    )

    read = read_outcomes([file], 5)

    assert [item.id for item in read.items] == ["r-1", "r-2"]
    other = tmp_path / "routing_other.jsonl"
    other.write_text(json.dumps({**row, "id": "o-1"}) + "\n" + json.dumps({**row, "id": "o-2"}))
    assert [item.id for item in read_outcomes([file, other], 5).items] == ["r-1", "o-1", "r-2", "o-2"]
    assert read.introduce(read.items[0], "Which?")["weak_correct"] is False
    file.write_text(json.dumps({**row, "weak_correct": 1}))
    with pytest.raises(ItemsUnreadable, match="line 1: no outcome of two models"):
        read_outcomes([file], 5)
    with pytest.raises(ItemsUnreadable, match="cannot be read"):
        read_outcomes([tmp_path / "none.jsonl"], 5)
    with pytest.raises(RecordsUnusable, match="none of"):
        write_report([run_record("compare")], tmp_path)


def right_letter(item: Item) -> bool:
    known = Known(answer=item.answer, answer_type=item.answer_type, choices=tuple(item.choices or ()))
    return scored(f"Final Answer: {item.answer}", known).right


def test_quick_questions_are_the_same_for_a_seed_and_their_answers_are_right() -> None:
    made = quick_items(8, 7)

    assert made == quick_items(8, 7)
    assert made != quick_items(8, 8)
    for item in made:
        assert right_letter(item)
        if item.dataset == "sums":
            assert eval(item.question.removeprefix("What is ").rstrip("?")) == int(item.answer)
        if item.dataset == "comparisons":
            one, other = (int(word) for word in item.question.rstrip("?").split() if word.isdigit())
            assert item.answer == ("yes" if one > other else "no")
