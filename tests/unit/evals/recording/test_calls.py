"""What is kept of the replies of which a recording consists."""

import time
from itertools import permutations
from typing import Any

from evals.items import Item
from evals.recording.calls import item_record, recorded_vote
from evals.recording.values import CheckRecord, RecordedAnswer
from kernel.answers import AnswerType
from sandbox.mathematics import TIMEOUT
from tests.support.hostile.expressions import hostile


def test_a_vote_whose_expression_takes_too_long_to_compare_is_invalid_and_holds_up_no_recording() -> None:
    given, (answer, *aliases) = hostile("x")
    item = Item(id="i", dataset="d", question="?", answer=answer, answer_type=AnswerType.TEXT, aliases=aliases)
    vote = {"answer": given, "completion_tokens": 7, "duration_ms": 1000, "invalid_reason": None}
    began = time.monotonic()

    found = recorded_vote(item, {"votes": [vote]})

    assert (found.answer, found.right, found.invalid) == (None, False, TIMEOUT)
    assert time.monotonic() - began < 40  # 100 comparisons of half a second each


def test_equal_answers_are_spelled_alike_in_whatever_order_they_came() -> None:
    item = Item(id="i", dataset="d", question="?", answer="10 km", answer_type=AnswerType.NUMBER)
    checks = CheckRecord(inside=None, inside_logprob=None, alone=None, alone_logprob=None)
    draft: Any = {"msv": {"parts": {}}, "usage": {"stages": {}}}

    for given in permutations(["10", "10 km", "10000 m", "10 mi", "10 km"]):
        answers = [RecordedAnswer(answer=one, right=True, tokens=1, seconds=1.0) for one in given]
        kept = item_record(item, {"reasoned": answers}, checks, draft).answers["reasoned"]

        assert [one.answer for one in kept] == ["10 mi" if one == "10 mi" else "10 km" for one in given]
