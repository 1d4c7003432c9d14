import pytest

from services.delegation.core.flows import HandOvers, better_profile_share, delegation_precision, precision


def flow(tasks: int, judged: int, correct: int, better: int) -> HandOvers:
    return HandOvers(from_agent="a", to_agent="b", tasks=tasks, judged=judged, correct=correct, better=better)


def test_delegation_precision_is_the_share_of_right_among_all_judged_hand_overs() -> None:
    flows = [flow(10, 8, 6, 9), flow(5, 2, 1, 3)]

    told = delegation_precision(flows)

    assert told.precision == 0.7
    assert told.low == pytest.approx(0.3968, abs=1e-4)
    assert better_profile_share(flows) == 0.8


def test_without_hand_overs_there_is_no_precision() -> None:
    assert (precision(0, 0).precision, better_profile_share([])) == (None, None)
