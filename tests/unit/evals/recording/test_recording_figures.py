"""The replay of a recording, on recordings by hand."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from evals.harness.rows import recorded_evaluation
from evals.recording.columns import PRODUCT, REASONED_ONLY, orders_of, played
from evals.recording.decisions import METACOG, SYSTEM_ONE, VOTE, decision_rows, is_sent, systems
from evals.recording.figures import ALONE, INSIDE, RecordingFigures, recording_figures
from evals.recording.live import live_answers, live_items, live_plan, live_records, live_rows
from evals.recording.packing import write_pack
from evals.recording.report import write_recording_report
from evals.recording.values import ItemRecord, LiveAnswer
from evals.records import Record
from evals.replay.pack import INVALID, read_pack
from evals.replay.stopping import agree_rule, fixed_rule
from evals.stats.chance import seeded
from evals.stats.gains import Conclusion, conclusion
from kernel.votes.prior import SHIPPED_PRIOR
from tests.support.evaluation_records import an_item, introduced
from tests.support.evaluation_replies import RIGHT, WRONG, chat, reply, run_record, spent
from tests.unit.evals.recording.recordings import recorded

AGREE_2 = agree_rule(2, len(PRODUCT))


def wrong_first(count: int = 40, start: int = 0, dataset: str = "sums", **more: object) -> list[ItemRecord]:
    """Items whose System 1 answer is wrong, and whose other answers are right."""
    return [recorded(start + at, "5", ["4", "4", "4"], "4", "4", dataset=dataset, **more) for at in range(count)]  # type: ignore[arg-type]


def right_first(count: int = 40, start: int = 100, dataset: str = "sums", **more: object) -> list[ItemRecord]:
    """Items that every source answers rightly."""
    return [recorded(start + at, "4", ["4", "4", "4"], "4", "4", dataset=dataset, **more) for at in range(count)]  # type: ignore[arg-type]


def test_a_vote_asks_in_the_products_order_until_two_agree() -> None:
    items = [
        recorded(1, "4", ["4", "4", "4"], "4"),  # draft and reasoned agree
        recorded(2, "5", ["4", "4", "4"], "4"),  # the program agrees with the reasoned answer
        recorded(3, "5", ["4", "4", "4"], None),  # an invalid program counts as a vote
    ]

    found = played(AGREE_2, orders_of(items, PRODUCT))

    assert found.right.tolist() == [1, 1, 1]
    assert found.votes.tolist() == [2, 3, 4]
    assert found.tokens.tolist() == [101, 151, 251]


def test_reasoned_answers_are_taken_in_every_order() -> None:
    items = [recorded(1, "4", ["4", "5", "6"])]

    one = played(fixed_rule(1), orders_of(items, REASONED_ONLY))

    assert one.right.tolist() == [pytest.approx(1 / 3)]


def test_two_unreadable_answers_do_not_agree() -> None:
    orders = orders_of([recorded(1, None, [None, None, "4"], None)], PRODUCT)

    assert {number for order in orders for number in order.answers[0].tolist()} == {INVALID, 0}
    found = played(AGREE_2, orders)
    assert found.votes.tolist() == [pytest.approx(14 / 3)], "after four unreadable votes no two can agree any more"
    assert found.right.tolist() == [pytest.approx(2 / 3)], "the single readable answer wins where it came in time"


def test_votes_that_correct_system_one_are_a_gain_over_it() -> None:
    found = recording_figures([*wrong_first(), *right_first()])

    row = next(one for one in found.stopping if (one.order, one.rule) == ("draft, reasoned, program", "agree_2"))
    assert row.over_system_one.value == 0.5
    assert conclusion(row.over_system_one) is Conclusion.GAIN
    assert row.votes == 2.5


def test_areas_are_those_of_the_signal() -> None:
    found = recording_figures(
        [*wrong_first(inside=0.5, alone=0.1), *right_first(inside=0.5, alone=0.9)],
    )

    areas = {row.signal: row.area.auroc for row in found.opinions}
    assert areas["other model answers differently"] == areas["program answers differently"] == 1
    assert areas[INSIDE] == 0.5
    assert areas[ALONE] == 1
    assert found.alone_over_inside is not None
    assert found.alone_over_inside.value == 0.5


def test_an_unknown_check_is_left_out_of_its_area_and_not_taken_as_zero() -> None:
    found = recording_figures([*wrong_first(alone=None), *right_first(10, alone=0.9), *wrong_first(10, 50, alone=0.2)])

    area = next(row.area for row in found.opinions if row.signal == ALONE)
    assert (area.positives, area.negatives) == (10, 10)


def test_without_labels_the_default_model_name_decides_by_the_activation() -> None:
    everyday, important = recorded(1, "5", ["4", "4", "4"]), recorded(2, "5", ["4", "4", "4"], importance=1.0)

    assert 0.3 * (1 - SHIPPED_PRIOR.share_right) / 0.55 < 0.45, "the prior alone must not decide for System 2"
    assert [is_sent(everyday), is_sent(important)] == [False, True]
    rows = {row.name: row for row in decision_rows([everyday, important], seeded(1, draws=50))}
    assert (rows[SYSTEM_ONE].right.value, rows[METACOG].right.value, rows[VOTE].right.value) == (0, 0.5, 1)
    assert (rows[METACOG].sent, rows[METACOG].labels) == (0.5, 0)


def test_where_much_depends_on_the_answer_three_must_agree() -> None:
    items = [recorded(1, "4", ["4", "4", "4"], "4"), recorded(2, "4", ["4", "4", "4"], "4", importance=0.9)]

    assert systems(items).second.votes.tolist() == [2, 3]


def test_with_labels_system_two_answers_the_kinds_on_which_it_pays() -> None:
    easy = [one for name in ("easy", "easier") for one in right_first(60, dataset=name)]
    items = [*wrong_first(60, dataset="hard"), *easy]

    rows = [row for row in decision_rows(items, seeded(1, draws=20)) if "sets" in row.name]

    (row,) = rows
    assert (row.labels, row.kinds, row.right.value) == (20, 3, 1.0)
    assert row.sent == pytest.approx(1 / 3)


def test_too_few_items_make_no_row_with_labels() -> None:
    assert not [row for row in decision_rows(wrong_first(30), seeded(1, draws=20)) if row.labels]


def test_a_pack_of_a_recording_is_one_that_a_replay_reads(tmp_path: Path) -> None:
    items = [*wrong_first(5), *right_first(5, dataset="others")]
    made_with = {"kind": "made_with", "source": "reasoned", "models": ["qwen"], "digests": {}}

    write_pack(items, [made_with], tmp_path)
    sums, others = read_pack(tmp_path)[1], read_pack(tmp_path)[0]

    assert (sums.name, len(sums), others.name, len(others)) == ("sums", 5, "others", 5)
    assert set(sums.agents) == {"qwen@draft", "qwen+cot@0.7", "qwen+program@0.7", "other+cot@0.7"}
    assert sums.agents["qwen+cot@0.7"].samples == 3
    assert not sums.agents["qwen@draft"].right.any()
    assert (sums.agents["qwen+cot@0.7"].answers[:, 0] != sums.agents["qwen@draft"].answers[:, 0]).all()
    assert sums.categories == ("math_computation",) * 5
    assert sums.questions[0] == items[0].digest


def live(texts: Sequence[str]) -> list[Record]:
    """Records of the router's answers to items 0, 1, ... by all three model names."""
    names = ("system1", "vote", "auto")
    return [
        run_record("record", *names),
        *(introduced(f"sums-{at}", answer="4") for at in range(len(texts))),
        *(reply(f"sums-{at}", arm, chat(text, usage=spent(completion=30))) for at, text in enumerate(texts)
          for arm in names),
    ]  # fmt: skip


def answers_of(records: list[Record]) -> Sequence[LiveAnswer]:
    return live_answers(recorded_evaluation(records, "record"))


def test_of_several_live_answers_to_an_item_the_last_counts() -> None:
    given = [LiveAnswer(id="sums-1", arm="auto", right=right, tokens=9) for right in (False, True)]

    assert live_records([{"kind": "live", **asdict(one)} for one in given]) == given[1:]


def test_live_and_replayed_stand_side_by_side_on_the_same_items() -> None:
    items = wrong_first(8)
    rows = {row.arm: row for row in live_rows(answers_of(live([WRONG] * 6 + [RIGHT] * 6)), items)}

    assert {row.live.of for row in rows.values()} == {8}, "items that are not recorded are left out"
    assert (rows["system1"].live.count, rows["system1"].replayed, rows["system1"].alike.count) == (2, 0, 6)
    assert (rows["vote"].replayed, rows["vote"].alike.count) == (1, 2)
    assert rows["auto"].replayed == 0, "nothing depends on these answers: the activation keeps System 1"
    assert rows["vote"].difference.value == pytest.approx(-0.75)
    assert rows["auto"].live_tokens == 30
    assert rows["auto"].sent_live is None, "these replies do not say what was chosen"


def test_live_choices_stand_beside_the_replayed_ones() -> None:
    records = live([RIGHT] * 4)
    for at, record in enumerate(one for one in records if one.get("arm") == "auto"):
        record["reply"]["metacog"]["system"] = "SYSTEM_TWO" if at == 0 else "SYSTEM_ONE"
    items = wrong_first(4)

    row = next(one for one in live_rows(answers_of(records), items) if one.arm == "auto")

    assert (row.sent_live, row.sent_replayed) == (0.25, 0)
    assert row.same_choice is not None
    assert row.same_choice.count == 3


def test_live_items_are_the_first_recorded_ones() -> None:
    items = [an_item(number) for number in (1, 2, 3, 9)]
    known = [recorded(number, "4", ["4"] * 3) for number in (3, 1, 7, 2)]

    chosen = live_items(items, known, 2)

    assert [item.id for item in chosen] == ["sums-3", "sums-1"]
    assert [arm.name for arm in live_plan(chosen, 1, 1000).arms] == ["system1", "vote", "auto"]


@pytest.fixture
def found() -> RecordingFigures:
    return recording_figures([*wrong_first(), *right_first()])


def test_a_report_says_first_which_gain_its_items_can_show(found: RecordingFigures, tmp_path: Path) -> None:
    heading = {
        "kind": "recording", "time": "2026-01-02T03:04:05+00:00", "commit": "0123", "seed": 7, "described": "four bits",
        "prompt_digests": {"question": "ab" * 32},
    }  # fmt: skip

    text = write_recording_report([heading], found, (), tmp_path, "metacog eval record --report out")

    assert text.index("80 paired items can show a gain of 8.9 points or more") < text.index("## What was recorded")
    for part in (
        "four bits",
        "2026-01-02",
        "`question` abababababab",
        "## When to stop",
        "a fresh message",
        "80: sums 80",
    ):
        assert part in text
    assert "Live" not in text
    assert (tmp_path / "figures.json").exists()


def test_a_recording_without_an_item_makes_a_report_without_figures(tmp_path: Path) -> None:
    text = write_recording_report([], recording_figures([]), (), tmp_path, "metacog eval record")

    assert "## When to stop" not in text
