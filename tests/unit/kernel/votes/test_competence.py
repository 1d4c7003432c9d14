"""The recorded competence of sources of votes, computed by hand."""

import pytest

from kernel.votes.competence import MOST_SOURCES, SourceRecord, recorded_competences
from kernel.votes.votes import VoteMode


def record(agent: str, votes: int, right: int) -> SourceRecord:
    return SourceRecord(agent=agent, mode=VoteMode.REASONED, votes=votes, right=right)


def test_a_source_is_drawn_to_the_share_of_all_by_ten_votes() -> None:
    found = recorded_competences([record("a", 30, 27), record("b", 10, 1)])  # all: 28 of 40 right, 0.7

    assert [one.model for one in found] == ["a", "b"]
    assert [one.competence for one in found] == pytest.approx([(27 + 7) / 40, (1 + 7) / 20])


def test_without_a_label_nothing_is_recorded() -> None:
    assert recorded_competences([]) == ()
    assert recorded_competences([record("a", 0, 0)]) == ()


def test_one_source_has_its_own_share() -> None:
    assert [one.competence for one in recorded_competences([record("a", 4, 3)])] == [0.75]


def test_no_more_sources_than_a_request_may_state_are_used_those_with_most_votes_first() -> None:
    found = recorded_competences([record(str(votes), votes, 1) for votes in range(1, MOST_SOURCES + 3)])

    assert len(found) == MOST_SOURCES
    assert (found[0].model, found[-1].model) == (str(MOST_SOURCES + 2), "3")
