"""A batch goes through OpenAI's states, and its next step follows from its lines."""

from itertools import product

import pytest

from services.router.core.batch_states import (
    ACTIVE,
    CANCELLABLE,
    ENDED,
    FOLLOWING,
    BatchStatus,
    Step,
    next_step,
    places,
)

STEPS = {
    Step.FINALIZE: BatchStatus.FINALIZING,
    Step.END: BatchStatus.COMPLETED,
    Step.EXPIRE: BatchStatus.EXPIRED,
    Step.CANCEL: BatchStatus.CANCELLED,
}


def test_a_batch_ends_completed_failed_expired_or_cancelled_and_stays_so() -> None:
    assert {"completed", "failed", "expired", "cancelled"} == ENDED
    assert {"validating", "in_progress", "finalizing", "cancelling"} == ACTIVE
    assert {"validating", "in_progress"} == CANCELLABLE


def test_every_step_leads_to_a_state_that_may_follow() -> None:
    either = (True, False)
    for status, left, working, late in product(ACTIVE, either, either, either):
        step = next_step(status, left=left, working=working, late=late)

        if step in STEPS:
            assert STEPS[step] in FOLLOWING[status]


@pytest.mark.parametrize(
    ("status", "left", "working", "late", "step"),
    [
        ("validating", False, False, False, Step.VALIDATE),
        ("in_progress", True, True, False, Step.WAIT),
        ("in_progress", False, False, False, Step.FINALIZE),
        ("in_progress", False, False, True, Step.FINALIZE),  # all lines have results: nothing expires
        ("in_progress", True, True, True, Step.WAIT),  # what is under way is answered to its end
        ("in_progress", True, False, True, Step.EXPIRE),
        ("finalizing", False, False, True, Step.END),
        ("cancelling", True, True, False, Step.WAIT),
        ("cancelling", True, False, False, Step.CANCEL),
        ("cancelling", False, False, False, Step.CANCEL),
        ("completed", False, False, True, Step.WAIT),
    ],
)
def test_the_next_step_follows_from_the_lines(status: str, left: bool, working: bool, late: bool, step: Step) -> None:
    assert next_step(BatchStatus(status), left=left, working=working, late=late) is step


@pytest.mark.parametrize(
    ("at_once", "in_flight", "deliberations", "expected"),
    [(8, 512, 32, 8), (8, 512, 12, 3), (8, 1, 1, 1), (2, 512, 32, 2)],
)
def test_lines_take_a_quarter_of_the_places_at_most_and_one_at_least(
    at_once: int, in_flight: int, deliberations: int, expected: int
) -> None:
    assert places(at_once, in_flight=in_flight, deliberations=deliberations) == expected
