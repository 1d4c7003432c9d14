"""Delegation replayed from recorded ratings and answers, by hand-computed cases."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.__main__ import app
from evals.delegation.arms import PRODUCT, arms
from evals.delegation.arms import SKILL as SKILL_ARM
from evals.delegation.baselines import MAJORITY, ORACLE, RANDOM, ROUND_ROBIN, SINGLE, SKILL, shuffled, ways
from evals.delegation.figures import FULL, SHUFFLED, figures
from evals.delegation.files import COMMAND, OPTIMAL, write_report
from evals.delegation.replay import ProfileRecords, Rules, assessed_agent, replay, vote
from evals.delegation.tasks import Task, tasks
from evals.errors import RecordsUnusable
from evals.harness.rows import recorded_evaluation
from evals.harness.session import RECORDS
from evals.stats.chance import seeded
from evals.stats.gains import Conclusion, conclusion
from kernel.confidence.rules import PAPER_RULES, Ablation
from kernel.learning.profiles import Profile
from tests.support.delegation_records import AGENTS, a_recording, a_task
from tests.support.evaluation_records import an_item
from tests.support.evaluation_replies import RIGHT, reply, spent, task


def the_only(made: Task, without: Ablation | None = None) -> tuple[str, str, bool]:
    [done] = replay([made], AGENTS, Rules(without=without)).done
    return done.mode, done.executor, done.right


def with_numbers(without: Ablation | None = None, **numbers: float) -> Rules:
    changed: Mapping[str, Any] = numbers
    return Rules(numbers=replace(PAPER_RULES, **changed), without=without)


def test_the_papers_worked_example_comes_out() -> None:
    # c^v = 0.45, c^p = 0.27: c = 0.6 * 0.45 + 0.4 * 0.27 = 0.378; delta = 0.18 keeps the threshold at 0.5.
    records = ProfileRecords(0.1)
    records.profiles["gamma", "code"] = Profile(agent="gamma", dimension="code", competence=0.27)

    found = assessed_agent(a_task({"gamma": 0.45}, kinds=("code",)), "gamma", Rules(), records)

    assert found.confidence == pytest.approx(0.378)
    assert found.threshold == 0.5


def test_the_threshold_rises_with_disagreement_above_three_tenths_only() -> None:
    records = ProfileRecords(0.1)

    # |0.8 - 0.5| is 0.3, which does not exceed 0.3; |0.9 - 0.5| = 0.4 raises theta by 0.2 * 0.4.
    assert assessed_agent(a_task({"alpha": 0.8}), "alpha", Rules(), records).threshold == 0.5
    assert assessed_agent(a_task({"alpha": 0.9}), "alpha", Rules(), records).threshold == pytest.approx(0.58)


def test_who_is_sure_does_the_task() -> None:
    # 0.6 * 0.6 + 0.4 * 0.5 = 0.56 >= 0.5; one rating and one answer.
    [done] = replay([a_task({"alpha": 0.6, "beta": 1.0, "gamma": 1.0}, "a")], AGENTS, Rules()).done

    assert (done.mode, done.executor, done.right, done.calls, done.tokens) == ("EXECUTED", "alpha", True, 2, 40)
    assert done.confidence == pytest.approx(0.56)


def test_a_rating_that_took_two_attempts_is_two_calls_with_the_tokens_of_both() -> None:
    twice = {"alpha": 2, "gamma": 2}

    [sure] = replay([a_task({"alpha": 0.6, "beta": 0.1, "gamma": 0.1}, attempts=twice)], AGENTS, Rules()).done
    [handed] = replay([a_task({"alpha": 0.1, "beta": 0.6, "gamma": 0.1}, attempts=twice)], AGENTS, Rules()).done
    [voted] = replay([a_task({"alpha": 0.1, "beta": 0.1, "gamma": 0.1}, attempts=twice)], AGENTS, Rules()).done

    # A call of asking takes 10 tokens, an answer 30.
    assert (sure.calls, sure.tokens) == (2 + 1, 20 + 30)
    assert (handed.calls, handed.tokens) == (2 + 1 + 2 + 1, 50 + 30)
    assert (voted.calls, voted.tokens) == (2 + 1 + 2 + 3, 50 + 90)


def test_attempts_and_tokens_of_each_agent_are_read_from_its_own_rating() -> None:
    made = a_recording(1, honest=True)
    [asked] = [one["reply"]["assessments"] for one in made if one.get("arm") == "assess"]
    asked[0].update(attempts=2, usage=spent(2, 60, 8))

    [known] = tasks(recorded_evaluation(made, COMMAND))

    # beta and gamma do not tell theirs: one call each, and a third of the 120 tokens of all.
    assert {agent: (one.calls, one.tokens) for agent, one in known.asking.items()} == {
        "alpha": (2, 68), "beta": (1, 40), "gamma": (1, 40),
    }  # fmt: skip


def test_who_is_unsure_hands_over_to_the_surest_that_reaches_theta() -> None:
    # alpha 0.6 * 0.4 + 0.2 = 0.44 < 0.5; beta 0.56; gamma 0.62. Three ratings and one answer.
    [done] = replay([a_task({"alpha": 0.4, "beta": 0.6, "gamma": 0.7}, "g")], AGENTS, Rules()).done

    assert (done.mode, done.executor, done.right, done.calls) == ("DELEGATED", "gamma", True, 4)


def test_where_no_agent_reaches_theta_all_vote_with_their_confidence() -> None:
    # Confidences 0.44, 0.38, 0.32: beta and gamma agree on 4 with 0.70 of 1.14.
    made = a_task({"alpha": 0.4, "beta": 0.3, "gamma": 0.2}, "bg")

    [done] = replay([made], AGENTS, Rules()).done

    assert (done.mode, done.executor, done.right, done.calls) == ("COLLABORATED", "", True, 6)
    assert done.confidence == pytest.approx(0.70 / 1.14)


def test_an_agent_with_an_unknown_rating_is_not_eligible_without_a_record() -> None:
    # alpha cannot rate itself: c = c^p = 0.5 would do, but nothing stands behind it. beta takes over.
    assert the_only(a_task({"alpha": None, "beta": 0.6, "gamma": 0.1}, "b")) == ("DELEGATED", "beta", True)


def test_only_the_executor_learns_and_after_a_vote_those_whom_it_concerns() -> None:
    handed = a_task({"alpha": 0.4, "beta": 0.6, "gamma": 0.1}, "b")
    voted = a_task({"alpha": 0.1, "beta": 0.1, "gamma": 0.1}, "bg")
    lost = a_task({"alpha": 0.1, "beta": 0.1, "gamma": 0.1}, "a", answers={"beta": "5", "gamma": "5"})

    assert replay([handed], AGENTS, Rules()).levels == {("beta", "math"): pytest.approx(0.55)}
    assert replay([voted], AGENTS, Rules()).levels == {
        ("alpha", "math"): pytest.approx(0.45), ("beta", "math"): pytest.approx(0.55),
        ("gamma", "math"): pytest.approx(0.55),
    }  # fmt: skip
    # The vote was wrong: those who gave 5 learn so, and alpha, whose answer nobody checked, learns nothing.
    assert replay([lost], AGENTS, Rules()).levels == {
        ("beta", "math"): pytest.approx(0.45), ("gamma", "math"): pytest.approx(0.45),
    }  # fmt: skip


def test_a_task_of_several_kinds_takes_the_least_and_teaches_each() -> None:
    records = ProfileRecords(0.1)
    for kind, level in (("math", 0.9), ("code", 0.2)):
        records.profiles["alpha", kind] = Profile(agent="alpha", dimension=kind, competence=level)
    both = a_task({"alpha": 0.6}, "a", kinds=("math", "code"))

    assert assessed_agent(both, "alpha", with_numbers(verbalized_weight=0.0), records).confidence == 0.2
    assert replay([both], ("alpha",), Rules()).levels == {
        ("alpha", "math"): pytest.approx(0.55), ("alpha", "code"): pytest.approx(0.55),
    }  # fmt: skip


def test_ablations_switch_off_just_what_they_say() -> None:
    unsure = a_task({"alpha": 0.1, "beta": 0.7, "gamma": 0.9}, "bg")

    assert the_only(unsure, Ablation.WITHOUT_DELEGATION) == ("EXECUTED", "alpha", False)
    # The peer whose turn would be next takes it unasked, not the surest.
    assert the_only(unsure, Ablation.WITHOUT_CROSS_EVALUATION) == ("DELEGATED", "beta", True)
    # Everybody at 0.5, which reaches 0.5; and records alone, which start there.
    assert the_only(unsure, Ablation.WITHOUT_SELF_ASSESSMENT) == ("EXECUTED", "alpha", False)
    assert the_only(unsure, Ablation.WITHOUT_VERBALIZED) == ("EXECUTED", "alpha", False)
    assert replay([unsure], AGENTS, Rules(without=Ablation.WITHOUT_LEARNING)).levels == {}


def test_without_self_assessment_or_verbalized_no_agent_is_asked_and_none_is_charged_for_it() -> None:
    made = a_task({"alpha": 0.1, "beta": 0.7, "gamma": 0.9}, "bg")
    for part in (Ablation.WITHOUT_SELF_ASSESSMENT, Ablation.WITHOUT_VERBALIZED):
        [kept] = replay([made], AGENTS, Rules(without=part)).done
        # Everybody stands at 0.5, below 0.6: a vote of three answers.
        [voted] = replay([made], AGENTS, with_numbers(confidence_threshold=0.6, without=part)).done

        assert (kept.mode, kept.calls, kept.tokens) == ("EXECUTED", 1, 30)
        assert (voted.mode, voted.calls, voted.tokens) == ("COLLABORATED", 3, 90)
    # alpha fails the first of four, so that its record is 0.45 when its turn comes again; beta was not asked either.
    [*_, handed] = replay([made] * 4, AGENTS, Rules(without=Ablation.WITHOUT_VERBALIZED)).done
    assert (handed.mode, handed.executor, handed.calls, handed.tokens) == ("DELEGATED", "beta", 1, 30)


def test_an_unassessed_peer_has_the_confidence_of_its_record_whatever_its_rating() -> None:
    made = a_task({"alpha": 0.1, "beta": 0.9, "gamma": 0.9}, "b")

    [done] = replay([made], AGENTS, Rules(without=Ablation.WITHOUT_CROSS_EVALUATION)).done

    # alpha is asked, 0.06 + 0.2 < 0.5; beta takes the task with the record that everybody starts with.
    assert (done.executor, done.confidence, done.calls, done.tokens) == ("beta", 0.5, 2, 40)


def test_a_lower_theta_delegates_less() -> None:
    each = [a_task({"alpha": 0.4, "beta": 0.6, "gamma": 0.5}, number=n) for n in range(3)]

    replays = {theta: replay(each, AGENTS, with_numbers(confidence_threshold=theta)) for theta in (0.3, 0.7)}
    handed = {theta: sum(one.mode != "EXECUTED" for one in made.done) for theta, made in replays.items()}

    assert handed[0.3] < handed[0.7]


def test_a_vote_is_won_by_weight_then_by_number_then_in_order() -> None:
    made = a_task({}, "", answers={"alpha": "4", "beta": "5", "gamma": "5"})

    heavier = vote(made, {"alpha": 0.9, "beta": 0.3, "gamma": 0.3})
    equal = vote(made, {"alpha": 0.6, "beta": 0.3, "gamma": 0.3})
    without_votes = vote(made, {})

    assert heavier.winners == {"alpha"}
    assert heavier.share == 0.6
    assert equal.winners == {"beta", "gamma"}
    assert vote(made, dict.fromkeys(AGENTS, 0.0)).winners == {"beta", "gamma"}
    assert (without_votes.winners, without_votes.share) == (frozenset(), None)


def test_baselines_choose_from_the_same_answers() -> None:
    made = a_task({}, "bg")
    chosen = {name: one for name, way in ways([made], AGENTS).items() if (one := way(made, 1)) is not None}

    assert {name: one.right for name, one in chosen.items()} == {
        SINGLE: 0.0, ROUND_ROBIN: 1.0, RANDOM: pytest.approx(2 / 3), SKILL: 1.0, MAJORITY: 1.0,
        "best single agent (beta)": 1.0, ORACLE: 1.0,
    }  # fmt: skip
    assert (chosen[MAJORITY].calls, chosen[SKILL].delegated, chosen[SINGLE].delegated) == (3, True, None)


def test_shuffled_choices_are_weighted_by_their_frequency() -> None:
    # Of four tasks alpha does one, beta three; only beta is ever right, and answers take 30 tokens after 10 of asking.
    each = [a_task({"alpha": 0.9 if n == 0 else 0.1, "beta": 0.9, "gamma": 0.1}, "b", number=n) for n in range(4)]
    done = [one for task in each for one in replay([task], AGENTS, Rules()).done]

    dealt = shuffled(done, AGENTS)(each[0], 0)

    assert dealt is not None
    assert [one.executor for one in done] == ["alpha", "beta", "beta", "beta"]
    assert (dealt.right, dealt.calls) == (0.75, (2 + 4 + 4 + 4) / 4)
    assert dealt.tokens == (10 + 30 + 30 + 30) / 4 + 30


def test_the_report_shows_how_autogen_was_run_and_on_how_many_tasks(tmp_path: Path) -> None:
    settings = {"package": "autogen-agentchat 0.7.5", "max_tokens": 64}
    answer = {"text": RIGHT, "usage": spent(2), "duration_ms": 3.0, "model": "scripted", "settings": settings}
    kept = [one for one in a_recording(12, honest=True) if (one.get("item"), one.get("arm")) != ("t-0", SKILL_ARM)]

    report = write_report([*kept, reply("t-1", "autogen", answer, path="autogen")], tmp_path, seeded(7, draws=50))

    assert "- AutoGen: package autogen-agentchat 0.7.5, max_tokens 64\n" in report
    assert "Fewer tasks, and compared on these: Skill-Fixed 11, AutoGen 1." in report


def test_what_autogen_answered_beyond_the_recorded_tasks_is_counted_and_left_out(tmp_path: Path) -> None:
    answer = {"text": RIGHT, "usage": spent(2), "duration_ms": 3.0, "model": "scripted"}
    beside = [reply(name, "autogen", answer, path="autogen") for name in ("t-1", "t-2", "t-99")]
    # t-2 was recorded with another content, as another seed of the benchmark may have it.
    digests = {"t-1": "ab", "t-2": "ab", "t-99": "ab"}
    beside = [{**one, "digest": digests[one["item"]]} for one in beside]
    made = [{**one, "digest": "cd"} if one.get("id") == "t-2" else one for one in a_recording(12, honest=True)]
    for name, some in ((RECORDS, made), ("autogen.jsonl", beside)):
        (tmp_path / name).write_text("".join(json.dumps(one) + "\n" for one in some))

    words = ["delegation", "--report-only", str(tmp_path), "--autogen", str(tmp_path / "autogen.jsonl")]
    ended = CliRunner().invoke(app, ["eval", *words])

    assert ended.exit_code == 0, ended.exception
    assert "- AutoGen: 2 of its replies are left out: their tasks are not recorded here\n" in ended.stdout
    assert "Fewer tasks, and compared on these: AutoGen 1." in ended.stdout


def test_tasks_at_which_autogen_failed_are_failed_requests_and_not_wrong(tmp_path: Path) -> None:
    answer = {"text": RIGHT, "usage": spent(2), "duration_ms": 3.0, "model": "scripted"}
    failed = {"kind": "reply", "item": "t-2", "arm": "autogen", "seed": 7, "path": "autogen"}
    beside = [
        reply("t-1", "autogen", answer, path="autogen"),
        {**failed, "error": {"reason": "BadRequestError", "detail": "BadRequestError: too long"}},
    ]

    report = write_report(a_recording(12, honest=True), tmp_path, seeded(7, draws=50), beside)

    assert "- failed requests: autogen: BadRequestError 1 times" in report
    assert "| AutoGen | 1.00 [1.00, 1.00] |" in report
    assert "Fewer tasks, and compared on these: AutoGen 1." in report


def test_failed_tasks_are_counted_because_no_replay_has_them(tmp_path: Path) -> None:
    made = a_recording(12, honest=True)
    lost = {"kind": "reply", "item": "t-3", "arm": "solve", "seed": 7, "error": {"status": 504}}
    kept = [one for one in made if (one.get("item"), one.get("arm")) != ("t-3", "solve")]

    report = write_report([*kept, lost], tmp_path, seeded(7, draws=50))

    assert "- tasks left out: 1, because a rating or an answer failed" in report
    assert "**Table II**, 11 tasks." in report
    assert "tasks left out" not in write_report(made, tmp_path, seeded(7, draws=50))


def test_a_task_on_which_one_agent_failed_is_left_out_and_counted_and_not_a_wrong_answer(tmp_path: Path) -> None:
    made = a_recording(12, honest=True)
    votes = {one["item"]: one["reply"]["votes"] for one in made if one.get("arm") == "solve"}
    rated = {one["item"]: one["reply"]["assessments"] for one in made if one.get("arm") == "assess"}
    votes["t-1"][2].update(text="", failure="BACKEND_UNAVAILABLE: the model is away")
    rated["t-2"][1].update(verbalized=None, unknown_reason="too_slow")

    report = write_report(made, tmp_path, seeded(7, draws=50))

    assert "- tasks left out: 2, because a rating or an answer failed; no replay has them" in report
    assert "**Table II**, 10 tasks." in report
    assert {task.item.id for task in tasks(recorded_evaluation(made, COMMAND))} == set(votes) - {"t-1", "t-2"}
    # Both are asked for again at the next start.
    is_whole = {arm.name: arm.is_whole for arm in arms()}
    replies = [one for one in made if one["kind"] == "reply"]
    again = [(one["item"], one["arm"]) for one in replies if not is_whole[one["arm"]](one["reply"])]
    assert sorted(again) == [("t-1", "solve"), ("t-2", "assess")]


def test_an_agent_whose_reply_cannot_be_read_stays_with_that_reply() -> None:
    made = a_recording(2, honest=True)
    votes = {one["item"]: one["reply"]["votes"] for one in made if one.get("arm") == "solve"}
    rated = {one["item"]: one["reply"]["assessments"] for one in made if one.get("arm") == "assess"}
    rated["t-0"][0].update(verbalized=None, unknown_reason="unparseable")
    votes["t-1"][0].update(text="", failure="the model returned no text")

    unrated, silent = tasks(recorded_evaluation(made, COMMAND))

    assert unrated.verbalized["alpha"] is None
    assert (silent.solved["alpha"].answer, silent.solved["alpha"].right) == (None, False)


def test_with_two_seeds_a_task_is_one_task_done_twice_and_not_learned_from_twice(tmp_path: Path) -> None:
    once = a_recording(12, honest=True)
    report = write_report(
        [*once, *({**one, "seed": 8} for one in once if one["kind"] == "reply")], tmp_path, seeded(7, draws=50)
    )
    known = [a_task({"alpha": 0.8, "beta": 0.1, "gamma": 0.1}, "a", seed=seed) for seed in (7, 8)]
    found = figures(known, [], seeded(7, draws=50), orders=1)

    assert "**Table II**, 12 tasks." in report
    assert "Fewer tasks" not in report
    # Three answers to each of twelve tasks, of 30 tokens each.
    assert re.search(r"\| Majority-Vote \| [^\n]* \| 36 \| 90 \|", report)
    # 0.5 + 0.1 (1 - 0.5) in each of two replays, whoever is asked first.
    assert found.behaviour.levels == {("alpha", "math"): pytest.approx(0.55)}


def test_agents_that_know_what_they_can_are_a_gain_and_others_are_not() -> None:
    for honest, said in ((True, Conclusion.GAIN), (False, Conclusion.NONE)):
        known = tasks(recorded_evaluation(a_recording(36, honest=honest), COMMAND))

        found = figures(known, [], seeded(7, draws=300), orders=3)

        by_name = {each.name: each for each in found.methods}
        assert by_name[SINGLE].gain is not None
        assert by_name[ORACLE].accuracy.value == 1.0
        assert by_name[RANDOM].accuracy.value == pytest.approx(1 / 3)
        assert conclusion(by_name[RANDOM].gain) is said  # type: ignore[arg-type]
        if honest:
            # The same choices dealt by chance: no better than chance, though as much is asked beforehand.
            assert by_name[SHUFFLED].accuracy.value == pytest.approx(1 / 3, abs=0.02)
            assert conclusion(by_name[SHUFFLED].gain) is said  # type: ignore[arg-type]
            assert by_name[SHUFFLED].calls == pytest.approx(by_name[FULL].calls)
            assert by_name[FULL].accuracy.value == 1.0
            assert found.behaviour.stayed.value == 1.0
            precision = by_name[FULL].precision
            assert precision is not None
            assert precision.value == 1.0


def test_the_report_puts_the_papers_figures_beside_ours(tmp_path: Path) -> None:
    report = write_report(a_recording(36, honest=True), tmp_path, seeded(7, draws=50))

    assert "| MetaCogAgent | 1.00 [1.00, 1.00] | 100.0 ± 0.0 (20) |" in report
    assert "| 82.4 | 0.841 | 0.087 | 1382 |" in report
    assert "What does not add up in the paper" in report
    assert "| w/o delegation |" in report
    assert "theta = 0.3" in report
    assert "precision and ECE are those of one order, that of the records" in report
    # Who hands over, beside the paper; and what alpha has learned.
    assert re.search(r"\| beta \| [^\n]+ % \| 43\.1 \|", report)
    assert re.search(r"\| alpha \| 0\.\d+ \(0\.62\) \| 0\.\d+ \(0\.85\) \|", report)
    assert (tmp_path / OPTIMAL).read_text().startswith('{"id":"t-0","seed":7,"optimal_agents":["alpha"]}')
    assert len(list(tmp_path.glob("*.svg"))) == 5


def test_a_task_without_every_agents_rating_is_left_out() -> None:
    records = [record for record in a_recording(4, honest=True) if record.get("arm") != "assess"]

    with pytest.raises(RecordsUnusable, match="nothing to report on yet"):
        write_report(records, Path())


def test_the_services_default_is_a_row_of_its_own_beside_the_papers_rule(tmp_path: Path) -> None:
    made = a_recording(12, honest=True)
    answers = [
        task(RIGHT if number % 3 else "Final Answer: 5", confidence=0.9, mode="DELEGATED" if number % 2 else "EXECUTED")
        for number in range(12)
    ]
    rows = [reply(f"t-{number}", PRODUCT, one, path="/v1/tasks") for number, one in enumerate(answers)]

    report = write_report([*made, *rows], tmp_path, seeded(7, draws=50))

    # Right on all but every third; of the six that were handed over (1, 3, 5, 7, 9, 11) four are right.
    line, *_ = re.findall(r"\| the service's default \| (.*)\n", report)
    assert line.startswith("0.67 [")
    assert "| 67 % [30, 90] |" in line
    assert "All methods but the service's default are replayed" in report


def test_the_service_is_asked_by_its_own_rules_and_gets_the_right_answer() -> None:
    usual = next(arm for arm in arms(product=True) if arm.name == PRODUCT)

    call = usual.call(an_item(2), 7, {})

    assert call is not None
    assert "parameters" not in call.body
    assert call.body["expected"]["answer"] == "4"


def test_the_single_agents_own_rating_is_the_second_curve_of_figure_3(tmp_path: Path) -> None:
    report = write_report(a_recording(36, honest=False), tmp_path, seeded(7, draws=50))
    known = tasks(recorded_evaluation(a_recording(36, honest=False), COMMAND))

    found = figures(known, [], seeded(7, draws=50), orders=1)

    stated = [each.verbalized["alpha"] for each in known if each.verbalized["alpha"] is not None]
    assert found.single.n == len(stated) > 0
    assert found.single.found.brier_score == pytest.approx(
        sum((level - each.solved["alpha"].right) ** 2 for level, each in zip(stated, known, strict=True)) / len(known)
    )
    assert f"| Single-Agent (alpha) | {len(stated)} |" in report
    assert "Single-Agent (alpha)" in (tmp_path / "reliability.svg").read_text()
