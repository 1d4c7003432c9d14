"""Votes: who is asked next, when asking stops, and who wins. Source of the rules: papers.md 5.1."""

from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.answers import AnswerType
from kernel.msv import MSV
from kernel.votes.votes import (
    MOST_VOTES,
    InvalidVoteRule,
    Vote,
    VoteMode,
    VoteOutcome,
    VoteRule,
    VoteSource,
    VoteStop,
    changed_lead,
    default_agree,
    is_comparable,
    next_source,
    sources_by_competence,
    vote_groups,
    vote_outcome,
    vote_stop,
    votes_to_ask,
)

SOURCE = VoteSource(model="m", mode=VoteMode.REASONED)


def votes(*answers: str | None, source: VoteSource = SOURCE) -> list[Vote]:
    return [Vote(source=source, answer=answer) for answer in answers]


def stop_of(given_votes: list[Vote], rule: VoteRule, answer_type: AnswerType = AnswerType.CHOICE) -> VoteStop | None:
    return vote_stop(vote_groups(given_votes, answer_type), given_votes, rule)


@pytest.mark.parametrize(
    ("answers", "stops"),
    [
        ([], None),
        (["A"], None),
        (["A", "A"], VoteStop.AGREED),
        (["A", "B"], None),
        (["A", "B", "C", "B"], VoteStop.AGREED),
        (["A", "B", "C", "D"], None),  # a fifth vote can still make two
        (["A", "B", "C", "D", "E"], VoteStop.MOST_ASKED),
        ([None, None, None, None], VoteStop.OUT_OF_REACH),  # one vote left makes no two
        ([None, None, None, "A"], None),
        ([None] * 5, VoteStop.MOST_ASKED),
    ],
)
def test_two_equal_answers_of_at_most_five_end_the_vote(answers: list[str | None], stops: VoteStop | None) -> None:
    assert stop_of(votes(*answers), VoteRule(agree=2, most=5)) == stops


def test_three_must_agree_where_much_depends_on_the_answer() -> None:
    assert [default_agree(MSV(importance=importance)) for importance in (0.7, 0.7 - 1e-12, 0.6)] == [3, 3, 2]
    assert default_agree(MSV(importance=1.0), default=4) == 4
    assert default_agree(MSV()) == 2


def test_a_vote_that_can_no_longer_be_decided_ends_at_once() -> None:
    rule = VoteRule(agree=3, most=4)

    assert stop_of(votes("A", "B"), rule) is None
    assert stop_of(votes("A", "B", "C"), rule) is VoteStop.OUT_OF_REACH


def test_the_largest_group_wins_and_shows_its_first_vote_first() -> None:
    groups = vote_groups(votes("7", "1,000", None, "no number", "1000.0"), AnswerType.NUMBER)

    assert [(group.canonical, group.votes) for group in groups] == [("1000", (1, 4)), ("7", (0,))]


def test_a_tie_is_won_by_the_log_odds_of_the_voters_then_by_the_first_vote() -> None:
    weak = VoteSource(model="weak", mode=VoteMode.REASONED, competence=0.5)
    strong = VoteSource(model="strong", mode=VoteMode.REASONED, competence=0.8)
    unknown = VoteSource(model="new", mode=VoteMode.REASONED)

    groups = vote_groups([*votes("A", source=weak), *votes("B", source=strong)], AnswerType.CHOICE)
    assert [(group.canonical, round(group.log_odds, 4)) for group in groups] == [("B", 1.3863), ("A", 0.0)]  # ln 4

    groups = vote_groups([*votes("A", source=unknown), *votes("B", source=weak)], AnswerType.CHOICE)
    assert [group.canonical for group in groups] == ["A", "B"]


def test_a_voter_that_is_wrong_more_often_than_not_counts_against_its_answer_in_a_tie() -> None:
    misled = VoteSource(model="misled", mode=VoteMode.REASONED, competence=0.2)

    groups = vote_groups([*votes("A", source=misled), *votes("B")], AnswerType.CHOICE)

    assert groups[0].canonical == "B"


def test_the_share_of_a_perfect_record_stays_finite() -> None:
    assert VoteSource(model="m", mode=VoteMode.REASONED, competence=1.0).log_odds == pytest.approx(4.5951, abs=1e-4)


def test_fewer_votes_than_must_agree_leave_it_undecided_and_none_abstain() -> None:
    rule = VoteRule(agree=2, most=3)

    def outcome(*answers: str | None) -> VoteOutcome:
        cast = votes(*answers)
        return vote_outcome(vote_groups(cast, AnswerType.CHOICE), cast, rule)

    assert outcome("A", "A") is VoteOutcome.DECIDED
    assert outcome("A", "B", None) is VoteOutcome.UNDECIDED
    assert outcome(None, None, None) is VoteOutcome.ABSTAINED


def test_the_first_program_that_passes_its_tests_ends_the_vote() -> None:
    wrong = Vote(source=SOURCE, answer="def f():\n    return 1", passes_tests=False)
    right = Vote(source=SOURCE, answer="def f():\n    return 2", passes_tests=True)

    assert stop_of([wrong, wrong], VoteRule(), AnswerType.CODE) is None  # programs are never equal by text
    groups = vote_groups([wrong, wrong, right], AnswerType.CODE)
    assert stop_of([wrong, wrong, right], VoteRule(), AnswerType.CODE) is VoteStop.PASSED_TESTS
    assert vote_outcome(groups, [wrong, wrong, right], VoteRule()) is VoteOutcome.DECIDED


def test_a_program_that_passes_wins_over_more_that_do_not() -> None:
    wrong = Vote(source=SOURCE, answer="def f():\n    return 1", passes_tests=False)
    right = Vote(source=SOURCE, answer="def f():\n    return 2", passes_tests=True)

    groups = vote_groups([wrong, right], AnswerType.CODE)

    assert [group.votes for group in groups] == [(1,), (0,)]


@pytest.mark.parametrize(
    ("answer", "answer_type", "comparable"),
    [
        ("B", AnswerType.CHOICE, True),
        ("12", AnswerType.NUMBER, True),
        ("the battle of Hastings", AnswerType.TEXT, True),
        ("one two three four five six seven eight nine ten eleven twelve", AnswerType.TEXT, True),
        ("one two three four five six seven eight nine ten eleven twelve thirteen", AnswerType.TEXT, False),
        ("def f():\n    return 2", AnswerType.CODE, False),
    ],
)
def test_long_texts_and_programs_are_not_compared(answer: str, answer_type: AnswerType, comparable: bool) -> None:
    assert is_comparable(answer, answer_type) is comparable


def test_each_source_votes_before_one_votes_again_and_the_draft_votes_once() -> None:
    draft = VoteSource(model="a", mode=VoteMode.DRAFT)
    a, b = (VoteSource(model=name, mode=VoteMode.REASONED) for name in "ab")
    asked: list[VoteSource] = []
    for _ in range(6):
        source = next_source([draft, a, b], asked)
        assert source is not None
        asked.append(source)

    assert asked == [draft, a, b, a, b, a]
    assert next_source([draft], [draft]) is None


def test_a_source_that_cannot_be_asked_any_more_is_passed_over() -> None:
    a, b = (VoteSource(model=name, mode=VoteMode.REASONED) for name in "ab")

    assert next_source([b], [a, b, a, b]) == b
    assert next_source([], [a]) is None


def test_the_default_order_is_the_draft_then_by_recorded_competence() -> None:
    draft = VoteSource(model="d", mode=VoteMode.DRAFT, competence=0.1)
    poor, good = (
        VoteSource(model=name, mode=VoteMode.REASONED, competence=level) for name, level in (("p", 0.4), ("g", 0.9))
    )
    new = VoteSource(model="n", mode=VoteMode.REASONED)

    assert sources_by_competence([new, poor, good, draft]) == (draft, good, poor, new)


def test_as_many_votes_are_asked_for_at_once_as_the_rule_says() -> None:
    rule = VoteRule(agree=2, most=5, ahead=2)

    assert votes_to_ask(rule, asked=0, outstanding=0) == 2
    assert votes_to_ask(rule, asked=2, outstanding=1) == 1
    assert votes_to_ask(rule, asked=4, outstanding=0) == 1  # never more than most in all
    assert votes_to_ask(rule, asked=5, outstanding=0) == 0
    assert votes_to_ask(VoteRule(most=5, ahead=2), asked=3, outstanding=2) == 0


@pytest.mark.parametrize(
    "numbers", [{"most": 0}, {"most": MOST_VOTES + 1}, {"agree": 0}, {"agree": 6}, {"ahead": 0}, {"ahead": 6}]
)
def test_a_rule_that_cannot_be_followed_is_rejected_with_the_bounds(numbers: dict[str, Any]) -> None:
    with pytest.raises(InvalidVoteRule, match=next(iter(numbers))):
        VoteRule(**numbers)


@given(st.lists(st.sampled_from(["A", "B", "C", None]), max_size=8), st.integers(1, 4), st.integers(4, 8))
def test_asking_stops_exactly_when_no_further_vote_can_change_what_it_is_for(
    answers: list[str | None], agree: int, most: int
) -> None:
    cast = votes(*answers[:most])
    stop = stop_of(cast, VoteRule(agree=agree, most=most))
    sizes = [answers[:most].count(letter) for letter in "ABC"]
    left = most - len(cast)
    is_open = max(sizes) < agree and left > 0 and max(sizes) + left >= agree

    assert (stop is None) is is_open


def test_the_groups_of_equal_votes_do_not_depend_on_their_order() -> None:
    answers = ["1/2", "0.5", "3", "50%"]
    sizes = {
        tuple(sorted(len(group.votes) for group in vote_groups(votes(*order), AnswerType.NUMBER)))
        for order in permutations(answers)
    }

    assert len(sizes) == 1


@pytest.mark.parametrize(
    ("answers", "changes"),
    [
        (["10", "10 km", "10 mi", "10 mi"], [True, False, False, True]),  # the first leads with km, then with miles
        (["10 km", "10 mi", "10"], [True, False, False]),
        (["10 pounds", "10 lb", "10"], [True, False, False]),
        (["10 pounds", "£10", "10 lb", "10 lb"], [True, False, False, True]),
        (["10 km", "10,000 m", "5", "5", "5"], [True, False, False, False, True]),
        ([r"\sqrt{25}", "5 km"], [True, False]),
        ([None, "5"], [False, True]),
    ],
)
def test_another_answer_leads_when_its_number_or_unit_is_another(
    answers: list[str | None], changes: list[bool]
) -> None:
    cast = votes(*answers)
    groups = [vote_groups(cast[:many], AnswerType.NUMBER) for many in range(len(cast) + 1)]

    assert [changed_lead(*pair, AnswerType.NUMBER) for pair in pairwise(groups)] == changes
