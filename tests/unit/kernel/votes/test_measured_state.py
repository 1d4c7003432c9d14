import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.msv import MSV, MSVKind
from kernel.votes.measured_state import (
    NO_EARLIER_RUN,
    NO_VALID_VOTE,
    NOT_ASSESSED,
    ONE_SOURCE,
    ONE_VALID_VOTE,
    ONE_VOTE_EACH,
    ValidVote,
    instability,
    measured_state,
    valid_votes,
    vote_disagreement,
)
from kernel.votes.votes import VoteMode

INTERNAL, BETWEEN, OVER_TIME = "internal_inconsistency", "source_disagreement", "instability"


def votes(*of: tuple[str, str, int]) -> list[ValidVote]:
    return [ValidVote(source=f"{mode} {model}", group=group) for model, mode, group in of]


DRAFT_AND_THREE = votes(("m", "DRAFT", 0), ("m", "REASONED", 0), ("m", "REASONED", 1), ("m", "REASONED", 0))


def test_each_pair_counts_once_within_a_source_or_between_sources() -> None:
    found = vote_disagreement(DRAFT_AND_THREE)

    # Three reasoned votes have three pairs, of which two differ; the draft is in three pairs, of which one does.
    assert found.parts == {INTERNAL: pytest.approx(2 / 3, abs=1e-9), BETWEEN: pytest.approx(1 / 3, abs=1e-9)}
    assert found.unknown == {}


def test_two_models_in_one_mode_are_two_sources_and_pairs_within_each_are_pooled() -> None:
    found = vote_disagreement(
        votes(("a", "REASONED", 0), ("a", "REASONED", 0), ("b", "REASONED", 0), ("b", "REASONED", 1))
    )

    # Within: one of two pairs differs. Between: two of four.
    assert found.parts == {INTERNAL: 0.5, BETWEEN: 0.5}


def test_two_votes_that_both_lose_differ_from_each_other_by_their_answers() -> None:
    found = vote_disagreement(votes(("a", "REASONED", 1), ("a", "REASONED", 2), ("a", "REASONED", 1)))

    assert found.parts[INTERNAL] == pytest.approx(2 / 3, abs=1e-9)


def test_without_two_votes_of_a_source_the_inconsistency_is_unknown_and_not_zero() -> None:
    found = vote_disagreement(votes(("m", "DRAFT", 0), ("m", "REASONED", 0)))

    assert (found.parts, found.unknown) == ({BETWEEN: 0.0}, {INTERNAL: ONE_VOTE_EACH})


def test_votes_of_one_source_leave_the_disagreement_between_sources_unknown() -> None:
    found = vote_disagreement(votes(("m", "REASONED", 0), ("m", "REASONED", 0)))

    assert (found.parts, found.unknown) == ({INTERNAL: 0.0}, {BETWEEN: ONE_SOURCE})


@pytest.mark.parametrize(("count", "reason"), [(0, NO_VALID_VOTE), (1, ONE_VALID_VOTE)])
def test_fewer_than_two_valid_votes_show_nothing(count: int, reason: str) -> None:
    found = vote_disagreement(DRAFT_AND_THREE[:count])

    assert (found.parts, found.unknown) == ({}, {INTERNAL: reason, BETWEEN: reason})


def test_instability_is_the_share_of_earlier_runs_whose_answer_differs() -> None:
    assert instability("4", ["5", "4", "7"]) == pytest.approx(2 / 3, abs=1e-9)
    assert instability("4", ["4"]) == 0.0
    assert instability("4", []) is None


def test_invalid_votes_are_left_out_by_their_index() -> None:
    found = valid_votes([(0, 3), (2,)], ["draft", "one", "two", "three"])

    assert found == (
        ValidVote(source="draft", group=0),
        ValidVote(source="three", group=0),
        ValidVote(source="two", group=1),
    )


def test_the_state_after_a_vote_is_the_probability_and_what_does_not_agree() -> None:
    before = MSV(
        emotional_response=0.1,
        correctness=0.5545,
        importance=0.3,
        unknown_reasons={"conflict": "one answer alone", "experience": "nothing is near"},
        parts={"prior_share": 0.5545, "consequence": 0.3},
    )

    state = measured_state(DRAFT_AND_THREE, probability=0.8, over_time=0.25, before=before)

    assert (state.correctness, state.conflict, state.kind) == (0.8, 0.25, MSVKind.RETROSPECTIVE)  # three of four agree
    assert (state.emotional_response, state.importance, state.experience) == (0.1, 0.3, None)
    assert state.unknown_reasons == {"experience": "nothing is near"}
    assert state.parts == {
        INTERNAL: pytest.approx(2 / 3, abs=1e-9),
        BETWEEN: pytest.approx(1 / 3, abs=1e-9),
        OVER_TIME: 0.25,
    }


def test_what_votes_cannot_show_is_unknown_with_its_reason() -> None:
    state = measured_state([], probability=None, over_time=NO_EARLIER_RUN, before=None)

    assert len(state.unknown) == 5
    assert (state.unknown_reasons["correctness"], state.unknown_reasons["conflict"]) == (NO_VALID_VOTE, NO_VALID_VOTE)
    assert (state.unknown_reasons[OVER_TIME], state.unknown_reasons["importance"]) == (NO_EARLIER_RUN, NOT_ASSESSED)


def test_one_valid_vote_has_a_probability_and_no_conflict() -> None:
    state = measured_state(DRAFT_AND_THREE[:1], probability=0.6, over_time=NO_EARLIER_RUN, before=None)

    assert (state.correctness, state.conflict) == (0.6, None)
    assert state.unknown_reasons["conflict"] == ONE_VALID_VOTE


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(VoteMode), st.integers(0, 3)), max_size=8))
def test_the_parts_do_not_depend_on_the_order_of_the_votes(given_: list[tuple[str, VoteMode, int]]) -> None:
    assert vote_disagreement(votes(*given_)) == vote_disagreement(votes(*reversed(given_)))
