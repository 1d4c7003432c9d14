import pytest

from services.delegation.core.flows import DelegationCounts, better_profile_share, delegation_precision, precision


def flow(tasks: int, labelled: int, correct: int, better: int) -> DelegationCounts:
    return DelegationCounts(
        from_agent="a", to_agent="b", tasks=tasks, labelled=labelled, correct=correct, better=better
    )


def test_delegation_precision_is_the_share_of_right_answers_among_labelled_delegated_tasks() -> None:
    flows = [flow(10, 8, 6, 9), flow(5, 2, 1, 3)]

    share = delegation_precision(flows)

    assert share.precision == 0.7
    assert share.low == pytest.approx(0.3968, abs=1e-4)
    assert better_profile_share(flows) == 0.8


def test_without_delegations_there_is_no_precision() -> None:
    assert (precision(0, 0).precision, better_profile_share([])) == (None, None)
