"""Arbitration from recorded samples: votes by hand, and the tables that follow."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from evals.errors import RecordsUnusable
from evals.harness.rows import RecordedItem, recorded_evaluation
from evals.harness.session import RECORDS
from evals.mc_mas.arms import FULL, Sampling, arms
from evals.mc_mas.figures import MAJORITY, SAME, SINGLE, best_solver, curve, figures
from evals.mc_mas.files import COMMAND, report_recordings, write_report
from evals.mc_mas.questions import Question, about, questions
from evals.mc_mas.replays import REPLAY_FULL, replay_plan
from evals.mc_mas.votes import arbitrated, share_right, vote, with_fewer
from evals.records import Record
from evals.scorers.answers import Known
from evals.stats.chance import seeded
from kernel.answers import AnswerType
from tests.support.evaluation_records import an_item, introduced
from tests.support.evaluation_replies import arbitration, reply, run_record, sample, spent

KNOWN = Known(answer="4", answer_type=AnswerType.NUMBER)


CRITIQUE: Record = {"solver": 0, "usage": spent(completion=15)}


def question(
    first: str, second: str, arbiter: str, *, number: int = 0, dataset: str = "sums", seed: int = 7,
    critique: Record = CRITIQUE, measures: Record | None = None,
) -> Question:  # fmt: skip
    """A question whose samples answer with these digits; `-` is a sample without an answer."""

    def read(digits: str, solver: int | None) -> list[Record]:
        return [sample(None if digit == "-" else digit, solver) for digit in digits]

    item = RecordedItem(id=f"{dataset}-{number}", dataset=dataset, dimensions=(), difficulty="", known=KNOWN,
                 prompt_characters=9)  # fmt: skip
    samples = {
        "recorded_solver_samples": [*read(first, 0), *read(second, 1)],
        "recorded_arbitration_samples": read(arbiter, None),
        "recorded_critiques": [critique, critique],
    }
    return Question(item, seed, samples, measures or {})


def test_a_vote_is_the_most_frequent_valid_answer_with_its_share_and_entropy() -> None:
    made = question("445", "4-5", "44")

    found = vote(made, made.solved)

    # 4 three times, 5 twice, one sample dropped.
    assert (found.answer, found.confidence, found.right) == ("4", 0.6, 1.0)
    assert found.entropy == pytest.approx(-(0.6 * np.log(0.6) + 0.4 * np.log(0.4)))


def test_a_tie_goes_to_the_answer_of_more_solver_samples_then_to_the_first_in_order() -> None:
    assert arbitrated(question("555", "554", "4455"), question("555", "554", "4455").arbiter).answer == "5"
    assert arbitrated(question("4", "5", "54"), question("4", "5", "54").arbiter).answer == "4"


def test_without_a_valid_arbitration_sample_the_solvers_decide() -> None:
    made = question("444", "455", "--")

    assert (arbitrated(made, made.arbiter).answer, arbitrated(made, made.arbiter).right) == ("4", 1.0)
    assert vote(made, made.arbiter).answer is None


def test_an_error_is_overconfident_above_seven_tenths_only() -> None:
    # 7 of 10 is not above 0.7; 8 of 10 is.
    assert vote(question("5555555444", "", ""), question("5555555444", "", "").solved).overconfident == 0.0
    assert vote(question("5555555544", "", ""), question("5555555544", "", "").solved).overconfident == 1.0
    assert vote(question("4444444455", "", ""), question("4444444455", "", "").solved).overconfident == 0.0


def test_one_sample_alone_is_worth_the_share_that_is_right_invalid_ones_counted() -> None:
    made = question("44-", "5", "")

    assert share_right(made, made.solved) == 0.5


def test_one_arbitration_sample_has_no_entropy_and_every_error_of_it_is_overconfident() -> None:
    made = question("44", "45", "4445")

    found = with_fewer(made, 1, np.random.default_rng(1), draws=3)

    # One of the four is picked, in every way: right three times in four, and wrong with confidence 1 else.
    assert (found.right, found.entropy, found.overconfident) == (0.75, 0.0, 0.25)


def test_an_invalid_arbitration_sample_has_no_entropy_though_the_solvers_are_the_fallback() -> None:
    found = with_fewer(question("45", "45", "---"), 1, np.random.default_rng(1), draws=5)

    assert (found.right, found.entropy) == (1.0, None)


def test_all_samples_give_the_recorded_outcome_whatever_is_drawn() -> None:
    made = question("44", "45", "4455-")

    found = with_fewer(made, 5, np.random.default_rng(1), draws=3)

    assert found.right == 1.0
    assert found.entropy == pytest.approx(np.log(2))


def test_the_best_solver_is_the_one_whose_own_vote_is_right_most_often() -> None:
    assert best_solver([question("555", "444", "4"), question("444", "444", "4")]) == 1


FOUR = [
    question("44444", "44445", "4" * 10, number=0),  # all agree, nearly
    question("55544", "44455", "5" * 9 + "4", number=1),  # the vote is tied 5:5, and 4 comes first
    question("44455", "44455", "5" * 10, number=2),  # the vote is right, the arbiter wrong and sure
    question("55555", "55555", "4" * 10, number=3),  # the arbiter mends what both have wrong
]


def test_the_figures_of_four_questions_are_those_counted_by_hand() -> None:
    [found] = figures(FOUR, [], seeded(7, draws=200)).sets

    ways = {way.name: way for way in found.ways}
    assert {name: way.accuracy.value for name, way in ways.items()} == {
        SINGLE: pytest.approx((1.8 + 1.0 + 1.2 + 0) / 8), "solver 2": 0.75, MAJORITY: 0.75, "MC-MAS": 0.5,
    }  # fmt: skip
    # The arbiter errs on the second with 9 of 10, and on the third with 10 of 10.
    assert ways["MC-MAS"].overconfident.value == 0.5
    assert ways["MC-MAS"].generations == 22
    # Twenty samples of 10 tokens and two critiques of 15.
    assert (ways["MC-MAS"].tokens, ways["MC-MAS"].partial) == (230, False)
    assert (ways[MAJORITY].tokens, ways[MAJORITY].partial) == (100, False)
    gain = ways[MAJORITY].gain
    assert gain is not None
    assert gain.value == -0.25
    assert found.agreed == 0.25


def test_tokens_of_critiques_that_a_recording_does_not_report_are_unknown_not_zero() -> None:
    [found] = figures([question("44", "44", "4", critique={"solver": 0})], [], seeded(7, draws=50)).sets

    ways = {way.name: way for way in found.ways}
    assert (ways["MC-MAS"].tokens, ways["MC-MAS"].partial) == (50, True)


def test_an_item_with_several_seeds_is_drawn_as_a_whole_in_measures_and_entropies_too() -> None:
    def asked(seeds: int) -> list[Question]:
        return [
            question("44", "45" if number % 2 else "44", "4" if number % 3 else "45", number=number, seed=seed,
                     measures={"novelty": number / 8, "semantic_share": None if number else 0.5})
            for number in range(8) for seed in range(seeds)
        ]  # fmt: skip

    [once] = figures(asked(1), [], seeded(7, draws=200)).sets
    [often] = figures(asked(5), [], seeded(7, draws=200)).sets

    # The same answers five times over are no more items, and no narrower intervals.
    for name in ("novelty", "semantic_share"):
        assert often.measures[name] == once.measures[name]
    assert often.measures["novelty"].items == 8
    assert often.entropies == once.entropies


def test_the_curve_ends_with_what_was_recorded() -> None:
    found = curve(FOUR, seeded(7, draws=50))

    assert [each.samples for each in found] == [1, 5, 10]
    assert found[-1].accuracy.value == 0.5
    assert (found[0].generations, found[-1].generations) == (13, 22)
    assert found[0].entropy == 0.0


def a_recording(count: int) -> list[Record]:
    """Questions with samples, measures, self-consistency and replays."""
    made: list[Record] = [run_record(COMMAND, FULL, "self-consistency", "replay-adaptive", "replay-single")]
    for number in range(count):
        name, right = f"sums-{number}", number % 2 == 0
        samples = [sample("4", 0), sample("5", 0), sample("4" if right else "5", 1)]
        samples += [sample("4" if right else "5") for _ in range(4)]
        measures = {"novelty": 0.2, "redundancy": 0.5, "entropy_reduction": 0.3, "compression": None}
        whole = arbitration("4" if right else "5", samples, measures=measures, critiques=[{"solver": 0}])
        again = {"arbitration": {**whole, "usage": spent(4)}, "same_answer": True}
        made += [
            introduced(name, dataset="sums"),
            reply(name, FULL, whole, path="/v1/arbitrations"),
            reply(name, "self-consistency", arbitration("4", usage=spent(8)), path="/v1/arbitrations"),
            reply(name, "replay-adaptive", again, path="/v1/replays"),
            reply(name, "replay-single", again, path="/v1/replays"),
        ]
    return made


def test_self_consistency_with_as_many_generations_is_shown_beside_it() -> None:
    made = recorded_evaluation(a_recording(20), COMMAND)

    [found] = figures(questions(made.of(FULL)), made.of("self-consistency"), seeded(7, draws=200)).sets

    same = next(way for way in found.ways if way.name == SAME)
    assert (same.accuracy.value, same.generations) == (1.0, 8)
    assert same.gain is not None
    assert same.gain.value == -0.5
    assert same.gain.excludes_zero


def test_overconfident_errors_of_self_consistency_are_shown_beside_those_of_arbitration(tmp_path: Path) -> None:
    rows = [dict(row) for row in a_recording(20)]
    # The control is wrong and sure on every fourth, arbitration on every second: 5, 4 times out of 4.
    for row in rows:
        if row.get("arm") == "self-consistency" and int(row["item"].removeprefix("sums-")) % 4 == 3:
            row["reply"] = arbitration("5", usage=spent(8), confidence=0.9)

    report = write_report(rows, tmp_path, seeded(7, draws=20))
    alone = write_report([row for row in rows if row.get("arm") != "self-consistency"], tmp_path, seeded(7, draws=20))

    [line] = [each for each in report.splitlines() if each.startswith("| sums (20) | 0.00 [")]
    assert [cell.strip()[:4] for cell in line.strip("|").split("|")[1:]] == ["0.00", "0.00", "0.50", "0.25"]
    assert "| data set | best solver | majority vote | MC-MAS | self-consistency |" in report
    assert "| data set | best solver | majority vote | MC-MAS |" in alone


def test_replays_with_several_seeds_are_averaged_by_item_first(tmp_path: Path) -> None:
    def report(seeds: int) -> str:
        made = [one for one in a_recording(20) if one.get("arm") != "replay-single"]
        replays = [
            reply(f"sums-{n}", "replay-single", {"arbitration": arbitration("4", measures={"novelty": n / 20})},
                  seed=seed, path="/v1/replays")
            for n in range(20) for seed in range(seeds)
        ]  # fmt: skip
        report = write_report([*made, *replays], tmp_path, seeded(7, draws=200))
        return next(line for line in report.splitlines() if line.startswith("| + single arbiter |")).split("|")[3]

    assert "0.47 [" in report(1)
    assert report(6) == report(1)


def test_novelty_of_the_majority_vote_is_what_the_service_measures(tmp_path: Path) -> None:
    made = a_recording(20)
    measured = [
        reply(f"sums-{n}", "replay-majority", {"arbitration": arbitration("4", measures={"novelty": 0.571})},
              path="/v1/replays")
        for n in range(20)
    ]  # fmt: skip

    def cell(records: list[Record]) -> str:
        report = write_report(records, tmp_path, seeded(7, draws=50))
        return next(line for line in report.splitlines() if line.startswith("| majority vote |")).split("|")[3].strip()

    assert cell([*made, *measured]) == "0.57 [0.57, 0.57]"
    assert cell(made) == "-"


def test_the_report_has_the_papers_tables_and_names_what_does_not_add_up(tmp_path: Path) -> None:
    report = write_report(a_recording(20), tmp_path, seeded(7, draws=50))

    assert "| LLaMA-3.1-8B | 4-bit | StrategyQA | 66.1 ± 0.8 | 68.0 ± 0.7 |" in report
    assert "| sums (20) | 0.20 [0.20, 0.20] (20) | 0.50 [0.50, 0.50] (20) | 0.30 [0.30, 0.30] (20) | - |" in report
    assert "with 4.0 samples of a question in the mean, and the answer of all samples on 100 %" in report
    assert "2·5 + 2 + 25 are 37" in report
    assert "| + single arbiter |" in report
    assert sorted(file.name for file in tmp_path.glob("*.svg")) == [
        "arbitration-samples.svg", "entropy-reduction.svg", "reliability.svg", "tokens.svg",
    ]  # fmt: skip


def test_replays_ask_no_model_and_are_not_counted_as_spent(tmp_path: Path) -> None:
    report = write_report(a_recording(20), tmp_path, seeded(7, draws=20))

    # Ten generations of each of twenty arbitrations, eight of each vote; the four that each replay tells are none.
    assert "- spent: 360 generations," in report


def test_overconfident_errors_are_those_of_one_run_whatever_the_number_of_seeds() -> None:
    def errors(seeds: int) -> list[float]:
        asked = [question("55", "55", "5" * 8, seed=seed) for seed in range(seeds)]
        return [each.overconfident for each in curve(asked, seeded(7, draws=20))]

    assert errors(1) == errors(3) == [1.0, 1.0, 1.0]


def test_questions_with_answers_that_no_rule_can_judge_are_counted(tmp_path: Path) -> None:
    made = a_recording(20)
    long = "a long free text that equality cannot compare with the known answer because it is so long " * 2
    free = {**introduced("sums-0", dataset="sums"), "answer_type": "TEXT", "answer": "the tide of the sea"}
    samples = [sample(long, 0), sample("the tide of the sea", 1), sample("the tide of the sea")]
    whole = arbitration("the tide of the sea", samples, measures={}, critiques=[{"solver": 0}])
    made[1:3] = [free, reply("sums-0", FULL, whole, path="/v1/arbitrations")]

    report = write_report(made, tmp_path, seeded(7, draws=20))

    assert "On 1 of the questions some answer is one that no rule can judge; it counts as wrong." in report
    assert "that no rule can judge" not in write_report(a_recording(20), tmp_path, seeded(7, draws=20))


def test_failed_requests_count_as_wrong_beside_the_tables_that_leave_them_out(tmp_path: Path) -> None:
    made = a_recording(20)
    lost = {"error": {"status": 504, "reason": "DEADLINE_EXCEEDED"}}

    def without(arm: str, *items: str) -> list[Record]:
        return [
            {**{key: each for key, each in one.items() if key != "reply"}, **lost}
            if (one.get("arm"), one.get("item")) in {(arm, item) for item in items} else one
            for one in made
        ]  # fmt: skip

    plain = write_report(made, tmp_path, seeded(7, draws=50))
    report = write_report(without("self-consistency", "sums-0", "sums-2"), tmp_path, seeded(7, draws=50))

    assert "Failed requests" not in plain
    # Of twenty that were all right two are lost: 1.00 of eighteen, 0.90 of twenty.
    assert "| sums (20) | self-consistency | 1.00 [1.00, 1.00] |" in report
    assert re.search(r"\| self-consistency \| 2 \| 0\.90 \[0\.\d+, 1\.00\] \(20\) \| -0\.400 \[", report)
    assert "| mc-mas | 0 | 0.50 [" in report


def test_recordings_made_elsewhere_are_reported_on_without_a_call(tmp_path: Path) -> None:
    line = {
        "id": "sums-1",
        "answer_type": "NUMBER",
        "recorded_solver_samples": [sample("4", 0), sample("4", 1)],
        "recorded_arbitration_samples": [sample("4")] * 3,
        "recorded_critiques": [{"solver": 0}, {"solver": 1}],
        "truth": "4",
    }
    file = tmp_path / "recordings.jsonl"
    file.write_text(json.dumps(line) + "\n" + json.dumps({**line, "id": "more-1", "truth": "5"}) + "\n")

    report = report_recordings(file, tmp_path / "out", seeded(7, draws=50))

    assert "| all (2) | MC-MAS | 0.50 [" in report
    assert "questions: 2 recorded ones" in report
    assert "not reported: there is no recordings.about.json" in report
    made = {"model": "scripted", "commit": "0123456789ab", "time": "2026-01-01", "seed": 1, "configuration": "K_s = 1"}
    about(file).write_text(json.dumps({**made, "prompt_digests": {"solve": "cd" * 32}}))
    report = report_recordings(file, tmp_path / "out", seeded(7, draws=50))
    assert "- model: scripted\n- commit: 0123456789ab\n- prompts: `solve` cdcdcdcdcdcd\n" in report
    assert "- recorded: 2026-01-01, seed 1, K_s = 1\n" in report
    file.write_text('{"id": "x"}')
    with pytest.raises(RecordsUnusable, match="line 1: no recording"):
        report_recordings(file, tmp_path)


def test_recordings_are_replayed_for_what_their_samples_do_not_show(tmp_path: Path) -> None:
    solved = [sample("4", 0), sample("5", 0), sample("4", 1), sample("4", 1)]
    line = {"id": "sums-1", "answer_type": "NUMBER", "recorded_solver_samples": solved, "truth": "4",
            "recorded_arbitration_samples": [sample("4")] * 3, "recorded_critiques": []}  # fmt: skip
    file, out = tmp_path / "recordings.jsonl", tmp_path / "out"
    file.write_text(json.dumps(line) + "\n")
    plan = replay_plan(file)
    bodies = {arm.name: arm.call(plan.items[0], 0, {}).body for arm in plan.arms}  # type: ignore[union-attr]
    counted = report_recordings(file, out, seeded(7, draws=50))

    assert {name: body["variant"] for name, body in bodies.items()} == {
        REPLAY_FULL: "FULL", "replay-majority": "MAJORITY_VOTE",
        "replay-reflections": "REFLECTIONS", "replay-single": "SINGLE_ARBITER",
        "replay-adaptive": "FULL",
    }  # fmt: skip
    assert (bodies[REPLAY_FULL]["solver_samples"], bodies[REPLAY_FULL]["arbitration_samples"]) == (2, 3)
    assert bodies[REPLAY_FULL]["embedding_measures"]
    assert not bodies["replay-adaptive"]["embedding_measures"]
    # Three of four for 4: H = 0.562 before, 0 after; that needs no arbiter, and novelty does.
    assert "| sums (1) | - | - | 0.56 [0.56, 0.56] (1) | 1.00 [1.00, 1.00] (1) |" in counted

    report = {"novelty": 0.25, "redundancy": 0.5, "entropy_reduction": 0.56, "compression": 1.0}
    whole = {"arbitration": arbitration("4", measures=report), "same_answer": True}
    replies = [reply("sums-1", arm, whole, seed=0, path="/v1/replays") for arm in bodies]
    made = [run_record(COMMAND, *bodies), introduced("sums-1"), *replies]
    (out / RECORDS).write_text("".join(json.dumps(one) + "\n" for one in made))
    replayed = report_recordings(file, out, seeded(7, draws=50))
    assert "| sums (1) | 0.25 [0.25, 0.25] (1) | 0.50 [0.50, 0.50] (1) | 0.56" in replayed
    assert "The adaptive mode on the same samples" in replayed


def test_everything_is_sampled_once_and_the_rest_is_replayed() -> None:
    names = [arm.name for arm in arms(Sampling())]

    assert names == [
        FULL,
        "self-consistency",
        "replay-majority",
        "replay-reflections",
        "replay-single",
        "replay-adaptive",
    ]
    assert Sampling(max_tokens=64).request_fields["solver_max_tokens"] == 64
    assert "solver_max_tokens" not in Sampling().request_fields


def test_what_the_service_would_choose_by_itself_is_sent_by_name_so_that_records_show_it() -> None:
    said = {arm.name: arm.settings for arm in arms(Sampling())}

    temperatures = ("solver_temperature", "critique_temperature", "arbitration_temperature")
    assert [said[FULL][name] for name in temperatures] == [0.6, 0.2, 0.4]
    assert said[FULL]["novelty_threshold"] == 0.7
    assert said["self-consistency"]["solver_temperature"] == 0.6


def test_self_consistency_gets_the_same_limit_to_each_text_and_keeps_its_samples() -> None:
    def bodies(sampling: Sampling) -> dict[str, Record]:
        made = {FULL: {"usage": spent(8)}}
        return {arm.name: call.body for arm in arms(sampling)[:2] if (call := arm.call(an_item(1), 7, made))}

    report = bodies(Sampling(max_tokens=128))

    for limit in ("solver_max_tokens", "critique_max_tokens", "arbitration_max_tokens"):
        assert (report[FULL][limit], report["self-consistency"][limit]) == (128, 128)
    assert report["self-consistency"]["self_consistency_samples"] == 8
    assert report["self-consistency"]["return_samples"] is True
    assert "solver_max_tokens" not in bodies(Sampling())["self-consistency"]
