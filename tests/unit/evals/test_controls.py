"""A strategy beside its controls: from records to the words of the report."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from evals.controls.arms import SYSTEM_TWOS, arms, control_names
from evals.controls.figures import LENGTH, ORACLE, RANDOM, ROUTER, Figures, figures
from evals.controls.files import write_report
from evals.delegation import arms as delegation
from evals.dialectic import files as dialectic
from evals.errors import RecordsUnusable
from evals.harness.arms import Arm
from evals.harness.rows import recorded_evaluation
from evals.mc_mas import arms as mc_mas
from evals.records import Record
from evals.stats.chance import seeded
from evals.stats.gains import Conclusion
from tests.support.evaluation_records import HEADING, an_item
from tests.support.evaluation_replies import RIGHT, WRONG, arbitration, chat, decision, items, reply, run_record, spent

ITEMS = 80


def answer_text(right: bool) -> str:
    return RIGHT if right else WRONG


def compared(*, knowing: bool, better: bool = True) -> list[Record]:
    """System 1 errs on every second item; System 2 on every fourth, or on just as many; the router knows or does not.

    An item whose number leaves 1 by division by 2 is one that System 1 gets wrong.
    """
    made: list[Record] = [run_record("compare", "route", "system1", "dialectic", "majority"), *items(ITEMS)]
    for number in range(ITEMS):
        name, first = f"sums-{number}", number % 2 == 0
        second = number % 4 != 3 if better else (number // 2) % 2 == 0
        level = (0.9 if not first else 0.1) if knowing else (0.9 if number % 3 == 0 else 0.1)
        made += [
            reply(name, "route", decision(level)),
            reply(name, "system1", chat(answer_text(first), usage=spent(1, 20, 10))),
            reply(name, "dialectic", chat(answer_text(second), confidence=0.75, usage=spent(9, 200, 100))),
            reply(name, "majority", arbitration("4" if second else "5"), path="/v1/arbitrations"),
        ]
    return made


def of(records: list[Record]) -> Figures:
    return figures(recorded_evaluation(records, "compare"), "dialectic", seeded(7, draws=200))


@cache
def found_where(*, knowing: bool) -> Figures:
    return of(compared(knowing=knowing))


def test_each_arm_is_reported_with_its_cost() -> None:
    found = {arm.name: arm for arm in found_where(knowing=True).arms}

    assert {name: arm.accuracy.value for name, arm in found.items()} == {
        "system1": 0.5, "dialectic": 0.75, "majority": 0.75,
    }  # fmt: skip
    assert (found["dialectic"].means.generations, found["dialectic"].means.tokens) == (9, 300)
    # Confidence .75 everywhere and 75 % right.
    assert found["dialectic"].trust.found.calibration_error == 0.0
    assert found["dialectic"].trust.n == ITEMS


def test_what_is_better_than_system_one_may_still_be_no_better_than_a_vote() -> None:
    gains = {each.over: each for each in found_where(knowing=True).gains}

    assert (gains["system1"].found.value, gains["system1"].conclusion) == (0.25, Conclusion.GAIN)
    assert (gains["majority"].found.value, gains["majority"].conclusion) == (0.0, Conclusion.NONE)


def test_a_router_that_knows_is_worth_something_and_chance_is_not() -> None:
    routings = {each.name: each for each in found_where(knowing=True).routings}

    # Of 80 items the 40 wrong ones are sent: 20 of them come right. Dealt by chance: half of 20 of 80.
    assert (routings[ROUTER].sent, routings[ROUTER].accuracy.value) == (0.5, 0.75)
    assert routings[ROUTER].worth.value == 0.125
    assert routings[ROUTER].conclusion is Conclusion.GAIN
    assert routings[RANDOM].conclusion is Conclusion.NONE
    assert routings[ROUTER].tokens == 0.5 * 30 + 0.5 * 300
    separation = routings[ROUTER].separation
    assert separation is not None
    assert separation.auroc == 1.0


def test_the_cost_of_quality_is_the_share_that_must_be_sent_for_it(tmp_path: Path) -> None:
    routings = {each.name: each for each in found_where(knowing=True).routings}

    # The wrong half comes first, and all of the gap with it: a straight line up to one half, then level.
    found = routings[ROUTER].quality
    assert found is not None
    assert (found.recovered.value, found.at_half.value, found.at_most.value) == (0.75, 0.25, 0.4)
    assert routings[ORACLE].quality is None
    report = write_report(compared(knowing=True, better=False), tmp_path, seeded(7, draws=50))
    assert "there is no gap to recover" in report


def test_an_undetermined_decision_is_one_for_system_two(tmp_path: Path) -> None:
    # The router knows nothing of every second item, sends it all the same, and keeps the others: it is right on these.
    records = [
        {**one, "reply": decision(None if int(one["item"].removeprefix("sums-")) % 2 else 0.1)}
        if one.get("arm") == "route"
        else one
        for one in compared(knowing=True)
    ]

    router = {each.name: each for each in of(records).routings}[ROUTER]

    assert (router.items, router.sent, router.undetermined) == (ITEMS, 0.5, ITEMS // 2)
    assert (router.accuracy.value, router.worth.value) == (0.75, 0.125)
    # What is left has System 1 right everywhere: nothing that an area could be of.
    assert router.separation is not None
    assert router.separation.auroc is None
    report = write_report(records, tmp_path, seeded(7, draws=50))
    assert "On 40 of the items the router knew no activation and took System 2" in report
    assert "| legacy gate | 80 | 100 % |" in report


def test_an_ignorant_router_comes_out_as_no_gain() -> None:
    routings = {each.name: each for each in found_where(knowing=False).routings}

    assert routings[ROUTER].conclusion is Conclusion.NONE
    # Prompts grow with the number of the item, which says nothing either.
    assert routings[LENGTH].conclusion is Conclusion.NONE


def test_routing_is_never_worth_more_than_the_oracles() -> None:
    for knowing in (True, False):
        routings = {each.name: each for each in found_where(knowing=knowing).routings}
        assert (routings[ORACLE].worth.value or 0) >= (routings[ROUTER].worth.value or 0)


def test_a_strategy_that_is_right_as_often_is_no_gain() -> None:
    gains = {each.over: each for each in of(compared(knowing=True, better=False)).gains}

    assert (gains["system1"].found.value, gains["system1"].conclusion) == (0.0, Conclusion.NONE)


def test_the_report_has_words_and_pictures(tmp_path: Path) -> None:
    report = write_report(compared(knowing=True), tmp_path, seeded(7, draws=200))

    assert "| system1 | 0.250 [" in report
    assert "| majority | 0.000 [0.000, 0.000] | 80 | **no gain** |" in report
    assert "| random | 80 | 50 % |" in report
    assert "| cost at 50 % | shuffled | cost at 80 % | shuffled |" in report
    pictures = sorted(tmp_path.glob("*.svg"))
    assert len(pictures) == 3
    for picture in pictures:
        assert ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_the_same_records_give_the_same_report(tmp_path: Path) -> None:
    first, second = (write_report(compared(knowing=True), tmp_path, seeded(7, draws=20)) for _ in range(2))

    assert first == second


def test_a_failed_request_is_reported_and_leaves_the_item_out_of_the_pair() -> None:
    lost: Record = {"kind": "reply", "item": "sums-0", "arm": "dialectic", "seed": 7, "path": "x", "elapsed_ms": 1.0,
                    "error": {"status": 429, "error": {"code": "overloaded"}}}  # fmt: skip
    records = [
        lost if record.get("arm") == "dialectic" and record["item"] == "sums-0" else record
        for record in compared(knowing=True)
    ]

    gains = {each.over: each for each in of(records).gains}

    assert gains["system1"].found.items == ITEMS - 1
    assert recorded_evaluation(records, "compare").failures == {("dialectic", "overloaded"): 1}


def failing_the_hard(records: list[Record]) -> list[Record]:
    """The dialectic times out wherever it would have been wrong."""
    late = {"status": 504, "reason": "DEADLINE_EXCEEDED"}
    return [
        {**{name: report for name, report in one.items() if name != "reply"}, "error": late}
        if one.get("arm") == "dialectic" and int(one["item"].removeprefix("sums-")) % 4 == 3
        else one
        for one in records
    ]


def test_a_strategy_that_fails_at_hard_items_gains_nothing_where_failures_count_as_wrong(tmp_path: Path) -> None:
    records = failing_the_hard(compared(knowing=True))
    found = of(records)

    gain = {each.over: each for each in found.gains}["system1"]
    arm = {each.name: each for each in found.arms}["dialectic"]
    # Right on all 60 that it answers, where System 1 is right on 40; of 80 it is right on 60, System 1 on 40.
    assert (arm.accuracy.value, arm.failed) == (1.0, 20)
    assert arm.strict is not None
    assert (arm.strict.value, arm.strict.items) == (0.75, 80)
    assert gain.strict is not None
    assert gain.found.value == pytest.approx(1 / 3)
    assert gain.found.items == 60
    assert (gain.strict.value, gain.strict.items) == (0.25, 80)
    report = write_report(records, tmp_path, seeded(7, draws=50))
    assert "| dialectic, failed requests as wrong | 80 | 0.75 [" in report
    assert "| system1, failed requests as wrong | 0.250 [" in report
    assert "| system1, failed requests as wrong | 80 |" not in report
    assert "By data set (failed requests left out):" in report


def test_answers_that_no_rule_can_judge_are_counted(tmp_path: Path) -> None:
    long = "Because of the many reasons that a long free text of this kind may name. " * 3
    records = [run_record("compare", "system1", "dialectic")]
    records.append({**items(1)[0], "answer_type": "TEXT", "answer": "the tide of the sea"})
    records += [reply("sums-0", "system1", chat(f"Final Answer: {long}")), reply("sums-0", "dialectic", chat(RIGHT))]

    report = write_report(records, tmp_path, seeded(7, draws=20))

    assert "`undecided`: no rule can judge the answer" in report
    assert of(records).arms[0].undecided == 1


def test_without_failed_requests_the_report_does_not_mention_them(tmp_path: Path) -> None:
    report = write_report(compared(knowing=True), tmp_path, seeded(7, draws=50))

    assert "failed requests as wrong" not in report
    assert "failed requests left out" not in report


def test_the_cost_of_deciding_is_shown_beside_that_of_the_answers(tmp_path: Path) -> None:
    routings = {each.name: each for each in found_where(knowing=True).routings}

    assert (routings[ROUTER].items, routings[ROUTER].deciding) == (ITEMS, 30)
    assert {routings[name].deciding for name in (RANDOM, LENGTH, ORACLE)} == {0}
    report = write_report(compared(knowing=True), tmp_path, seeded(7, draws=50))
    assert "| decides | items | to System 2 | share right | tokens of the answer | of deciding |" in report
    assert "| router | 80 | 50 % |" in report
    assert "A decision takes 1.0 generations, 20 prompt tokens, 10 generated (means) and 2 ms (median time)." in report


def test_controls_are_everything_that_is_not_the_strategy_or_a_rival_of_its_kind() -> None:
    names = [arm.name for arm in arms("roles-optimal", agents=("alpha",))]

    assert control_names(names, "roles-optimal") == [
        "system1", "self-consistency", "majority", "roles-greedy", "roles-random", "agent:alpha",
    ]  # fmt: skip
    assert {"vote", "cascade", "dialectic"} <= set(SYSTEM_TWOS)


@pytest.mark.parametrize(
    "made",
    [arms("vote"), arms("dialectic"), dialectic.arms(), delegation.arms(), mc_mas.arms(mc_mas.Sampling())],
    ids=["compare vote", "compare dialectic", "dialectic", "delegation", "mc-mas"],
)
def test_every_control_by_samples_draws_a_fixed_number(made: Sequence[Arm]) -> None:
    named = {arm.name: arm for arm in made}
    replies: dict[str, Record] = {name: {"usage": {"generations": 9}} for name in (*named, "dialectic")}
    replies |= {"assess": {"assessments": [{"attempts": 1}] * 3}}
    drawn = [
        call.body
        for name in ("self-consistency", "majority")
        if name in named and (call := named[name].call(an_item(2), 7, replies)) is not None
    ]

    assert drawn
    for body in drawn:
        assert (body["mode"], body["adaptive"]) == ("PAPER", {"stop": "NONE"})
    assert 1 <= drawn[0]["self_consistency_samples"] <= 10


def test_the_default_model_name_is_compared_and_routes_by_itself() -> None:
    assert {"auto", "vote"} <= set(SYSTEM_TWOS)
    assert [arm.name for arm in arms("vote")][:3] == ["route", "system1", "vote"]

    auto = {arm.name: arm for arm in arms("auto")}

    assert "route" not in auto
    assert auto["auto"].settings == {"model": "metacog"}
    assert {"system1", "self-consistency", "majority"} <= set(auto)


def test_a_comparison_of_the_default_model_name_has_gains_and_no_routing(tmp_path: Path) -> None:
    records = [
        run_record("compare", "system1", "auto"),
        *items(8),
        *(reply(f"sums-{at}", "system1", chat(WRONG)) for at in range(8)),
        *(reply(f"sums-{at}", "auto", chat(RIGHT)) for at in range(8)),
    ]

    report = write_report(records, tmp_path, seeded(7, draws=50))

    assert "| auto | 8 |" in report
    assert figures(recorded_evaluation(records, "compare"), "auto", seeded(7, draws=50)).routings == []


@pytest.mark.parametrize(
    ("records", "complaint"),
    [
        ([run_record("mc-mas")], "none of `metacog eval compare`, but those of `metacog eval mc-mas`"),
        ([HEADING], "but those of `metacog eval routing`; its report: `metacog eval routing --report-only"),
        ([], "they have no heading"),
        ([run_record("compare"), *items(1)], "nothing to report on yet"),
        ([run_record("compare"), reply("sums-0", "system1", chat(RIGHT))], "not the item"),
        ([run_record("compare"), *items(1), reply("sums-0", "system1", {"choices": []})], "lacks"),
    ],
)
def test_records_that_make_no_comparison_are_rejected(records: list[Record], complaint: str) -> None:
    with pytest.raises(RecordsUnusable, match=complaint):
        recorded_evaluation(records, "compare")
