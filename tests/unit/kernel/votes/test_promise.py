"""What can be promised of the answers that are given. Source: papers.md 5.3."""

from math import log

import pytest

from kernel.errors import MalformedRequest
from kernel.votes.agreement import AgreementLevel, VoteAgreement, first_stop, vote_agreement
from kernel.votes.promise import (
    LEAST_ERROR,
    LabelLook,
    LevelCount,
    PromiseJudgement,
    PromiseLabel,
    PromiseStage,
    error_bound,
    first_useful_look,
    judged,
    kept_share,
    labels_without_error,
    last_look,
    look_numbered,
    projected_share,
    promise_levels,
    proved_levels,
)

SURE, LESS, LEAST = AgreementLevel(agreeing=3), AgreementLevel(agreeing=2), AgreementLevel(agreeing=2, against=1)


def counted(level: AgreementLevel, labels: int, errors: int) -> LevelCount:
    return LevelCount(level=level, labels=labels, errors=errors)


def test_the_bound_of_no_error_has_a_closed_form() -> None:
    # (1 - p)^100 = .05
    assert error_bound(0, 100, 0.05) == pytest.approx(1 - 0.05**0.01)


def test_the_bound_leaves_the_errors_seen_just_the_error_probability() -> None:
    bound = error_bound(1, 10, 0.05)

    # of 10 draws at most one is an error: (1-p)^10 + 10 p (1-p)^9
    assert (1 - bound) ** 10 + 10 * bound * (1 - bound) ** 9 == pytest.approx(0.05)


def test_without_a_label_or_with_errors_only_nothing_is_bounded() -> None:
    assert error_bound(0, 0, 0.05) == error_bound(7, 7, 0.05) == 1.0


def test_the_error_probability_is_split_over_the_looks() -> None:
    looks = [look_numbered(number) for number in (1, 2, 3, 4)]

    assert [(look.labels, look.error_probability) for look in looks] == [
        (50, 0.025),
        (100, 0.0125),
        (200, 0.00625),
        (400, 0.003125),
    ]


@pytest.mark.parametrize(("labels", "look"), [(0, None), (49, None), (50, 50), (99, 50), (100, 100), (801, 800)])
def test_levels_are_looked_at_only_at_doubling_numbers_of_labels(labels: int, look: int | None) -> None:
    found = last_look(labels)

    assert (found.labels if found else None) == look


def test_labels_without_an_error_follow_the_formula() -> None:
    assert labels_without_error(0.05, 0.0125) == 86  # log .0125 / log .95 = 85.4
    assert log(0.0125) / log(0.95) == pytest.approx(85.43, abs=0.01)


def test_the_first_useful_look_is_the_first_that_no_error_could_pass() -> None:
    assert first_useful_look(0.05) == LabelLook(number=2, labels=100, error_probability=0.0125)
    assert first_useful_look(0.2) == look_numbered(1)
    assert first_useful_look(0.01) == look_numbered(5)  # 574 labels are needed at look 4 (400), 643 at look 5 (800)


def test_no_further_look_is_named_where_more_labels_would_be_needed_than_count() -> None:
    # at look 10 log(.05/2^10)/log(.998) = 4,958.6 labels; at look 11 5,304.9, and 5,000 count
    assert first_useful_look(0.002, after=12_800) == look_numbered(10)
    assert first_useful_look(0.002, after=25_600) is None


def test_the_smallest_error_that_can_be_promised_can_be_proved() -> None:
    look = first_useful_look(LEAST_ERROR)

    assert look is not None
    assert proved_levels([counted(SURE, look.counted, 0)], LEAST_ERROR, look.labels).includes(SURE)


def test_of_many_labels_the_newest_five_thousand_up_to_the_look_count() -> None:
    old, new = [labelled(agreed(SURE), right=False)] * 1_400, [labelled(agreed(SURE))] * 5_000
    found = promise_levels([*old, *new], 0.05).first

    assert (found.labels, found.tests[0].labels, found.tests[0].errors) == (6_400, 5_000, 0)


def test_levels_are_proved_from_the_strictest_on() -> None:
    found = proved_levels([counted(LEAST, 10, 8), counted(SURE, 90, 0)], 0.05)

    # bound of 0 of 90 at .0125: 1 - .0125^(1/90) = .0475; of 8 of 100 it is far above .05
    assert found.tests[0].bound == pytest.approx(1 - 0.0125 ** (1 / 90), abs=1e-9)
    assert [test.proved for test in found.tests] == [True, False]
    assert (found.includes(SURE), found.includes(LEAST), found.kept, kept_share(found)) == (True, False, 90, 0.9)


def test_the_first_failure_ends_the_list_even_where_a_later_level_would_pass() -> None:
    found = proved_levels([counted(SURE, 130, 8), counted(LESS, 270, 0)], 0.05)

    # 8 of 130 fail, where 113 labels without an error would do; 8 of 400 have a bound below .05
    assert [test.proved for test in found.tests] == [False, False]
    assert error_bound(8, 400, 0.003125) < 0.05
    assert found.last is None
    assert not found.includes(SURE)


def test_a_level_that_no_result_could_prove_is_passed_over() -> None:
    found = proved_levels([counted(SURE, 40, 0), counted(LESS, 60, 1)], 0.1)

    # 0 of 40 at .0125 could not show less than .1 (42 are needed); 1 of 100 has the bound .0638
    assert [test.proved for test in found.tests] == [None, True]
    assert found.includes(SURE)
    assert found.tests[1].bound < 0.1


def test_below_the_first_look_nothing_is_proved() -> None:
    found = proved_levels([counted(SURE, 49, 0)], 0.5)

    assert (found.look, found.last, kept_share(found), found.next_look) == (None, None, None, look_numbered(1))


def test_labels_other_than_those_of_the_look_are_no_test() -> None:
    with pytest.raises(ValueError, match="look 1 needs 50 labels, not 60"):
        proved_levels([counted(SURE, 60, 0)], 0.5)


@pytest.mark.parametrize("error", [0.0, 0.0019, 0.51, 1.0, float("nan"), -0.1])
def test_an_error_that_cannot_be_promised_is_rejected_by_name(error: float) -> None:
    with pytest.raises(MalformedRequest, match="error_at_most"):
        proved_levels([], error)


def agreed(first: AgreementLevel, last: AgreementLevel | None = None, *, stands: bool = True) -> VoteAgreement:
    return VoteAgreement(
        first=first, first_stands=stands, last=last or first, went_on=last is not None, complete=last is not None
    )


def labelled(
    agreement: VoteAgreement, *, right: bool = True, kind: str = "", stronger: bool | None = None
) -> PromiseLabel:
    return PromiseLabel(kind=kind, agreement=agreement, right=right, stronger=stronger)


def test_a_vote_that_went_on_counts_at_both_stops() -> None:
    on = agreed(LEAST, AgreementLevel(agreeing=4, against=1))
    found = promise_levels([labelled(on)] * 100, 0.05)

    assert found.first.includes(LEAST)
    assert found.went_on.labels == 0  # the first list would have stopped all of them

    lost = agreed(LEAST, AgreementLevel(agreeing=3, against=2), stands=False)
    found = promise_levels([labelled(lost)] * 100, 0.05)

    assert not found.first.includes(LEAST)  # the answer that led then is wrong where another one is right
    assert found.went_on.includes(AgreementLevel(agreeing=3, against=2))


def test_a_first_leader_that_lost_is_counted_as_wrong_where_nothing_is_known_of_it() -> None:
    lost = agreed(LEAST, AgreementLevel(agreeing=3, against=2), stands=False)
    found = promise_levels([labelled(lost, right=False)] * 50, 0.2)

    assert found.first.tests[0].errors == 50


def test_the_stronger_model_is_judged_on_the_questions_that_no_list_lets_through() -> None:
    sure = [labelled(agreed(SURE), stronger=False)] * 50  # its errors there do not matter: the votes answer
    unsure = [labelled(agreed(LEAST), right=False, stronger=True)] * 50
    found = promise_levels([*sure, *unsure], 0.1)

    assert found.first.last == SURE
    assert found.of(PromiseStage.ESCALATED).last is not None
    assert found.of(PromiseStage.ESCALATED).labels == 50


def test_an_answer_of_the_stronger_model_that_is_not_labelled_counts_as_wrong() -> None:
    unsure = [labelled(agreed(LEAST), right=False, stronger=right) for right in [None] * 10 + [True] * 40]
    found = promise_levels(unsure, 0.2).escalated

    assert (found.labels, found.tests[0].errors, found.last) == (50, 10, None)


def test_without_a_label_of_the_stronger_model_nothing_is_counted_of_it() -> None:
    assert promise_levels([labelled(agreed(LEAST), right=False)] * 50, 0.2).escalated.labels == 0


def test_where_all_votes_prove_enough_the_stronger_model_is_left_with_what_they_do_not() -> None:
    """After all votes 100 lead by three and 100 by one; of 20 votes that stopped it is not known what more had said."""
    far, near = AgreementLevel(agreeing=4, against=1), AgreementLevel(agreeing=3, against=2)
    went_far = [labelled(agreed(LEAST, far))] * 100
    went_near = [labelled(agreed(LEAST, near), right=False, stronger=True)] * 100
    stopped = [labelled(agreed(LEAST), right=False, stronger=True)] * 20
    mixed = [each for pair in zip(went_far, went_near, strict=True) for each in pair]
    found = promise_levels([*stopped, *mixed], 0.1)

    assert (found.first.last, found.went_on.last) == (None, far)
    assert (found.escalated.labels, found.escalated.tests[0].errors) == (120, 20)


def test_a_complete_vote_in_which_no_two_agree_is_left_to_the_stronger_model() -> None:
    """They stop first at the last vote, so that they never went on: the hardest questions of all."""
    alone = VoteAgreement(
        first=AgreementLevel(agreeing=1, against=4),
        first_stands=True,
        last=AgreementLevel(agreeing=1, against=4),
        went_on=False,
        complete=True,
    )
    far = AgreementLevel(agreeing=4, against=1)
    proved = [labelled(agreed(LEAST, far, stands=False))] * 100
    hard = [labelled(alone, right=False, stronger=False)] * 100
    found = promise_levels([each for pair in zip(proved, hard, strict=True) for each in pair], 0.2)

    assert found.went_on.last == far
    assert (found.escalated.tests[0].errors, found.escalated.last) == (100, None)


def test_a_question_of_unknown_kind_may_be_of_any_kind() -> None:
    hard = [labelled(agreed(SURE), right=number % 2 == 0, kind="sums") for number in range(200)]
    easy = [labelled(agreed(SURE), kind="greetings")] * 60
    labels = [each for pair in zip(hard, [*easy, *easy, *easy, *hard[:20]], strict=True) for each in pair]

    assert promise_levels(labels, 0.1, "law").first.last is None  # greetings has a list of its own here
    assert promise_levels([*hard, *easy], 0.1, "law").first.last == SURE
    assert promise_levels([*hard, *easy], 0.1, "").first.last is None


def test_questions_that_were_drawn_and_not_labelled_count_as_errors() -> None:
    labels = [labelled(agreed(SURE))] * 100

    assert promise_levels(labels, 0.05).first.last == SURE
    found = promise_levels(labels, 0.05, unlabelled=5).first
    assert (found.last, found.tests[0].errors) == (None, 0)
    assert found.tests[0].bound == pytest.approx(error_bound(5, 105, 0.0125), abs=1e-9)


SUM_LABELS = [*[labelled(agreed(SURE))] * 100, *[labelled(agreed(LEAST), right=False)] * 100]


@pytest.mark.parametrize(
    ("agreement", "stage", "level", "proved"),
    [
        (agreed(SURE), PromiseStage.FIRST, SURE, True),
        (agreed(LEAST), PromiseStage.FIRST, LEAST, False),
        # asked on although enough agreed: given only where the first leader won
        (agreed(SURE, AgreementLevel(agreeing=4, against=1)), PromiseStage.FIRST, SURE, True),
        (agreed(SURE, AgreementLevel(agreeing=4, against=3), stands=False), PromiseStage.FIRST, SURE, False),
        # a strict level at the end is not one of the first stop, and nothing is labelled there
        (agreed(LEAST, AgreementLevel(agreeing=5)), PromiseStage.WENT_ON, AgreementLevel(agreeing=5), False),
    ],
)
def test_an_answer_is_given_where_the_labels_of_its_stage_prove_its_agreement(
    agreement: VoteAgreement, stage: PromiseStage, level: AgreementLevel, *, proved: bool
) -> None:
    interleaved = [each for pair in zip(SUM_LABELS[:100], SUM_LABELS[100:], strict=True) for each in pair]
    levels = promise_levels(interleaved, 0.1)

    assert judged(agreement, levels) == PromiseJudgement(stage=stage, level=level, proved=proved)


def test_a_kind_with_a_hundred_labels_has_its_own_list_and_the_others_share_one() -> None:
    good = [labelled(agreed(SURE), kind="sums")] * 100
    bad = [labelled(agreed(SURE), right=False, kind=kind) for kind in ("law", "", "art") for _ in range(20)]
    labels = [*good, *bad]

    assert promise_levels(labels, 0.05, "sums").first.includes(SURE)
    shared = promise_levels(labels, 0.05, "law")
    assert (shared.kind, shared.first.labels, shared.first.last) == ("", 60, None)


def test_labels_after_the_last_look_wait_for_the_next_one() -> None:
    found = promise_levels([labelled(agreed(SURE))] * 100 + [labelled(agreed(SURE), right=False)] * 99, 0.05)

    assert (found.first.labels, found.first.look and found.first.look.labels, found.first.kept) == (199, 100, 100)
    assert found.first.next_look == look_numbered(3)


def test_more_labels_of_the_same_shares_prove_more() -> None:
    counts = [counted(SURE, 70, 1), counted(LESS, 30, 3)]

    shares = [projected_share(counts, 0.1, look_numbered(number)) or 0.0 for number in (1, 3, 6)]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert projected_share([], 0.1, look_numbered(1)) is None


@pytest.mark.parametrize(
    ("groups", "votes", "agree", "most", "stop"),
    [
        ([[0, 1]], 2, 2, 5, 2),
        ([[0, 2, 3], [1]], 5, 2, 5, 3),
        ([[1, 4], [2], [3]], 5, 2, 5, 5),  # the first vote is invalid
        ([[0], [1], [2], [3]], 4, 3, 5, 4),  # after four different votes three cannot agree within five
        ([[0], [1]], 2, 2, 5, 2),  # no source was left
    ],
)
def test_asking_stops_first_where_enough_agree_or_no_longer_can(
    groups: list[list[int]], votes: int, agree: int, most: int, stop: int
) -> None:
    assert first_stop(groups, votes, agree=agree, most=most) == stop


def test_a_vote_without_a_valid_answer_has_no_agreement() -> None:
    assert vote_agreement([], 3, agree=2, most=5) is None


def test_a_tie_that_goes_on_lets_no_answer_stand() -> None:
    """After two votes three can no longer agree within three; which of the two would have been given is not known."""
    found = vote_agreement([[1, 2], [0]], 3, agree=3, most=3)

    assert found == VoteAgreement(
        first=AgreementLevel(agreeing=1, against=1),
        first_stands=False,
        last=AgreementLevel(agreeing=2, against=1),
        went_on=True,
        complete=True,
    )


def test_a_tie_at_the_end_is_won_by_the_winner() -> None:
    found = vote_agreement([[0], [1]], 2, agree=2, most=2)

    assert found is not None
    assert (found.first_stands, found.went_on) == (True, False)
