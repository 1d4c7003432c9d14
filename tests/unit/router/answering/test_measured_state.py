"""What a vote showed of its question: answers of earlier runs are compared by digests, and never waited for long."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from chassis.errors import DatabaseUnavailable
from kernel.msv import MSV
from services.router.service.answering.measured_state import (
    EARLIER_WITHIN_S,
    NO_TIME_LEFT,
    NOT_COMPARED,
    NOT_LOOKED_UP,
    STRONGER_MODEL,
    AskedQuestion,
    EarlierWinners,
    VotedAnswer,
    state_after_vote,
    winner_digest,
)

ASKED = AskedQuestion(key_name="ann", messages_digest="m" * 64, config_version="paper")


def account(winner: str | None, *groups: Sequence[int], votes: int, **more: Any) -> Mapping[str, Any]:  # noqa: ANN401
    """A direct answer, and reasoned ones."""
    cast = [
        {"agent": "default", "source_model": "", "mode": "REASONED" if index else "DRAFT"} for index in range(votes)
    ]
    return {
        "winner": winner,
        "answer_type": "NUMBER",
        "groups": [{"votes": one} for one in groups],
        "votes": cast,
        **more,
    }


FOUR = account("4", [0, 2], [1], votes=3)


class Earlier:
    """Answers of earlier runs, or an error."""

    def __init__(self, *answers: str, error: Exception | None = None, hangs: bool = False) -> None:
        self.asked: list[AskedQuestion] = []
        self._digests = [winner_digest(account(answer, [0], votes=1), ASKED.messages_digest) for answer in answers]
        self._error = error
        self._hangs = hangs

    async def __call__(self, asked: AskedQuestion) -> Sequence[str]:
        self.asked.append(asked)
        if self._error is not None:
            raise self._error
        if self._hangs:
            await asyncio.Event().wait()
        return self._digests


async def state(
    earlier: EarlierWinners | None,
    *,
    of: Mapping[str, Any] = FOUR,
    confidence: float | None = 0.7,
    is_escalated: bool = False,
    seconds_left: float = 60.0,
) -> MSV:
    voted = VotedAnswer(account=of, confidence=confidence, is_escalated=is_escalated)
    return await state_after_vote(voted, ASKED, before=None, earlier=earlier, seconds_left=seconds_left)


async def test_the_answer_is_compared_with_those_of_earlier_runs_of_the_same_question() -> None:
    earlier = Earlier("4", "5", "4.", "4")

    found = await state(earlier)

    assert earlier.asked == [ASKED]
    # Of four earlier answers "5" and the spelling "4." differ: the arbiter gives canonical forms, which are compared.
    assert found.parts["instability"] == 0.5
    # Two of three agree; the draft and both reasoned votes are of two sources, and one of their two pairs differs.
    assert found.correctness == 0.7
    assert found.conflict == pytest.approx(1 / 3)
    assert (found.parts["source_disagreement"], found.parts["internal_inconsistency"]) == (0.5, 1.0)


async def test_without_an_earlier_run_the_instability_is_unknown_and_not_zero() -> None:
    found = await state(Earlier())

    assert "instability" not in found.parts
    assert found.unknown_reasons["instability"] == "no earlier run of this question is recorded"


async def test_a_database_that_is_away_leaves_the_instability_unknown_with_the_reason() -> None:
    found = await state(Earlier(error=DatabaseUnavailable("the database does not answer")))

    assert found.unknown_reasons["instability"] == "DATABASE_UNAVAILABLE: the database does not answer"
    assert found.conflict is not None


@pytest.mark.parametrize(("seconds_left", "limit"), [(60.0, "0.25"), (0.01, "0.01")])
async def test_a_look_up_that_hangs_is_given_up_inside_the_time_of_the_request(seconds_left: float, limit: str) -> None:
    found = await state(Earlier(hangs=True), seconds_left=seconds_left)

    assert EARLIER_WITHIN_S == 0.25
    reason = f"DATABASE_UNAVAILABLE: looking earlier runs up took more than {limit} s"
    assert found.unknown_reasons["instability"] == reason


@pytest.mark.parametrize(
    ("earlier", "of", "seconds_left", "reason"),
    [
        (None, FOUR, 60.0, NOT_LOOKED_UP),
        (Earlier("4"), FOUR, 0.0, NO_TIME_LEFT),
        (Earlier("4"), account("0: print(4)", [0], votes=1, answer_type="CODE"), 60.0, NOT_COMPARED),
        (Earlier("4"), account(None, votes=2), 60.0, "no vote is valid"),
    ],
)
async def test_where_nothing_is_compared_nothing_is_looked_up(
    earlier: Earlier | None, of: Mapping[str, Any], seconds_left: float, reason: str
) -> None:
    found = await state(earlier, of=of, seconds_left=seconds_left)

    assert found.unknown_reasons["instability"] == reason
    assert earlier is None or earlier.asked == []


async def test_the_answer_of_a_stronger_model_has_no_probability_by_the_votes() -> None:
    found = await state(Earlier(), confidence=None, is_escalated=True)

    assert (found.correctness, found.unknown_reasons["correctness"]) == (None, STRONGER_MODEL)
    assert found.conflict == pytest.approx(1 / 3)


def test_equal_answers_have_one_digest_and_differ_by_their_conversation() -> None:
    digest = winner_digest(FOUR, "m" * 64)

    assert digest == winner_digest(account("4", [0], votes=1), "m" * 64)
    assert winner_digest(account("b", [0], votes=1), "m") == winner_digest(account("B", [0], votes=1), "m")
    assert digest not in (winner_digest(FOUR, "n" * 64), winner_digest(account("5", [0], votes=1), "m" * 64))
    assert len(digest) == 64
    assert (
        winner_digest(account(None, votes=2), "m"),
        winner_digest(account("f", [0], votes=1, answer_type="CODE"), "m"),
    ) == ("", "")
