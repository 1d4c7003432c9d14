import pytest

from evals.errors import RecordsUnusable
from evals.records import Record
from evals.routing.figures import LENGTH, AssessorFigures, Figures, figures
from evals.routing.parts import activation_without
from evals.routing.rows import recorded
from evals.stats.chance import seeded
from tests.support.evaluation_records import HEADING, answered, introduced, routed

RIGHT, WRONG, UNREADABLE = "Final Answer: 4", "Final Answer: 5", "I do not know."


def item(name: str, said: str, correctness: float, conflict: float, *, characters: int = 100) -> list[Record]:
    """An item that System 1 answered with `said`, with the state that `draft` measured."""
    state = {"correctness": correctness, "conflict": conflict}
    parts = {"check": correctness, "consequence": 0.5}
    return [
        introduced(name, dataset=name.split("-")[0], characters=characters),
        routed(name, "draft", state, draft=said, parts=parts, reasons={"experience": "nothing is stored"}),
    ]


# Activation (0.30 (1 - CE) + 0.25 CI) / 0.55: 0.182, 0.727, 0.409 and 0.864.
FOUR = [
    HEADING,
    *item("sums-1", RIGHT, 0.9, 0.28, characters=100),
    *item("sums-2", WRONG, 0.5, 1.0, characters=200),
    *item("more-1", WRONG, 0.5, 0.3, characters=300),
    *item("more-2", RIGHT, 0.25, 1.0, characters=400),
]


def of(records: list[Record]) -> Figures:
    return figures(recorded(records), seeded(7, draws=50))


def draft(records: list[Record]) -> AssessorFigures:
    [found] = of(records).assessors
    return found


def test_the_area_of_activation_is_that_of_the_pairs() -> None:
    # Wrong: 0.727 and 0.409. Right: 0.182 and 0.864. Of 4 pairs the wrong one is higher in 2.
    assert draft(FOUR).activation.pooled.auroc == 0.5


def test_inside_the_sets_the_area_is_another_than_over_all() -> None:
    found = draft(FOUR).activation

    assert {name: each.auroc for name, each in found.by_set.items()} == {"sums": 1.0, "more": 0.0}
    assert found.within.value == 0.5


def test_belief_in_the_answer_counts_the_other_way_round() -> None:
    # 1 - CE of the wrong: 0.5, 0.5; of the right: 0.1, 0.75. CI: 1.0, 0.3; 0.28, 1.0, one pair tied.
    found = draft(FOUR)

    assert found.error.auroc == 0.5
    assert {part.name: part.area.auroc for part in found.parts} == {
        "1 - correctness": 0.5, "1 - check": 0.5, "conflict": 0.625, "consequence": 0.5,
    }  # fmt: skip


def test_the_prompts_length_is_a_level_like_any_other() -> None:
    # Wrong: 200, 300; right: 100, 400.
    assert of(FOUR).length.pooled.auroc == 0.5


def test_the_share_sent_and_what_is_right_on_either_side() -> None:
    found = draft(FOUR)

    assert (found.sent.count, found.sent.of) == (2, 4)
    assert (found.right_of_system1.count, found.right_of_system1.of) == (1, 2)
    assert (found.right_of_sent.count, found.right_of_sent.of) == (1, 2)


def test_an_answer_that_cannot_be_read_is_wrong_and_counted() -> None:
    found = of([HEADING, *item("sums-1", UNREADABLE, 0.9, 0.1), *item("sums-2", RIGHT, 0.9, 0.1)])

    assert (found.wrong.count, found.wrong.of, found.unreadable) == (1, 2, 1)


def test_an_unknown_activation_is_left_out_of_the_area_and_counted() -> None:
    unknown = [
        introduced("sums-3"),
        routed("sums-3", "draft", {}, draft=WRONG, reasons={"correctness": "BACKEND_OVERLOADED: 9"}),
    ]

    found = draft([*FOUR, *unknown])

    assert (found.items, found.activation.unknown, found.activation.pooled.auroc) == (5, 1, 0.5)
    assert found.sent.count == 3
    assert found.unknown == {("experience", "nothing is stored"): 4, ("correctness", "BACKEND_OVERLOADED"): 1}


def test_leaving_a_term_out_rescales_the_others() -> None:
    [row, *_] = recorded(FOUR).rows

    assert activation_without(row.readings["draft"], "conflict") == pytest.approx(0.1)
    assert activation_without(row.readings["draft"], "correctness") == pytest.approx(0.28)


def test_the_contribution_of_a_term_is_found_by_leaving_it_out() -> None:
    # Without CI the wrong are at 0.5, 0.5, the right at 0.1, 0.75: 2 of 4 pairs, as with it.
    gains = {one.term: (one.without, one.gain.value) for one in draft(FOUR).ablations}

    assert gains["conflict"] == (0.5, 0.0)


def test_two_assessors_are_compared_on_the_items_that_both_know() -> None:
    perfect = [routed(name, "probe", {"correctness": level, "conflict": 0.0}) for name, level in
               (("sums-1", 1.0), ("sums-2", 0.0), ("more-1", 0.0))]  # fmt: skip

    found = {(each.first, each.second): each.gain for each in of([*FOUR, *perfect]).differences}

    # On sums-1, sums-2 and more-1 `draft` has the wrong at 0.727, 0.409 and the right at 0.182: no pair is lost.
    assert found["draft", "probe"].value == 0.0
    assert found["draft", "probe"].items == 3
    assert found[LENGTH, "draft"].items == 4


def test_drafts_are_timed_beyond_the_answer_where_that_was_timed_too() -> None:
    found = of([*FOUR, answered("sums-1", RIGHT, duration_ms=6.0), answered("more-1", RIGHT, duration_ms=8.0)])

    costs = found.assessors[0].costs
    assert (costs.prompt_tokens.value, costs.completion_tokens.value, costs.generations) == (50, 10, 5)
    assert (costs.whole.n, costs.whole.p50.value) == (4, 10.0)
    beyond, alone = costs.beyond.p50, found.answers.time.p50
    assert (costs.beyond.n, beyond.value, beyond.low, beyond.high) == (2, 3.0, 2.0, 4.0)
    assert (found.answers.n, found.answers.completion_tokens.value) == (2, 8)
    assert (alone.value, alone.low, alone.high) == (7.0, 6.0, 8.0)
    assert (found.repeated.count, found.repeated.of) == (1, 2)


def test_without_a_draft_the_single_pass_answer_is_judged() -> None:
    rows = recorded([HEADING, introduced("sums-1"), routed("sums-1", "draft", {}), answered("sums-1", WRONG)]).rows

    assert [row.wrong for row in rows] == [True]


def test_items_without_an_answer_and_failed_requests_are_counted() -> None:
    failed = {
        "kind": "reply",
        "item": "sums-9",
        "asked": "draft",
        "error": {"status": 400, "reason": "PROMPT_TOO_LONG"},
    }

    made = recorded([*FOUR, introduced("sums-9"), failed])

    assert (len(made.rows), made.unanswered, made.failures) == (4, 1, {"PROMPT_TOO_LONG": 1})


def test_a_failed_request_in_records_of_an_earlier_version_is_counted() -> None:
    failed = {"kind": "reply", "item": "sums-9", "asked": "draft", "refusal": {"reason": "PROMPT_TOO_LONG"}}

    made = recorded([*FOUR, introduced("sums-9"), failed])

    assert made.failures == {"PROMPT_TOO_LONG": 1}


def test_the_same_records_give_the_same_figures() -> None:
    assert of(FOUR) == of(FOUR)


@pytest.mark.parametrize(
    ("records", "complaint"),
    [
        ([introduced("sums-1")], "no heading"),
        ([HEADING, introduced("sums-1")], "nothing to report on yet"),
        ([HEADING, {"kind": "item", "id": "sums-1"}, routed("sums-1", "draft", {}, draft=RIGHT)], "lack what"),
    ],
)
def test_records_that_make_no_evaluation_are_rejected(records: list[Record], complaint: str) -> None:
    with pytest.raises(RecordsUnusable, match=complaint):
        recorded(records)
