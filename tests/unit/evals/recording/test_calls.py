"""What is kept of the replies of which a recording consists."""

import time

from evals.items import Item
from evals.recording.calls import recorded_vote
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
