import numpy as np
import pytest

from kernel.learning.trust import Trust, self_assessment_trust
from services.delegation.core.flows import HandOvers, better_profile_share, delegation_precision, precision


def said(
    rng: np.random.Generator, bias: float, count: int = 300, *, blind: bool = False
) -> tuple[list[float], list[float]]:
    chances = rng.uniform(0.2, 0.8, count)
    right = (rng.random(count) < chances).astype(float)
    spoken = np.full(count, 0.5) + rng.uniform(-0.05, 0.05, count) if blind else chances
    return list(np.clip(spoken + bias, 0, 1)), list(right)


@pytest.mark.parametrize(
    ("bias", "trust"), [(0.0, Trust.DESERVED), (0.2, Trust.OVERCONFIDENT), (-0.2, Trust.UNDERCONFIDENT)]
)
def test_a_bias_has_a_name(bias: float, trust: Trust) -> None:
    told = self_assessment_trust(*said(np.random.default_rng(1), bias))

    assert told.trust is trust
    assert told.bias == pytest.approx(bias, abs=0.06)


def test_saying_the_same_of_everything_is_uninformative() -> None:
    told = self_assessment_trust(*said(np.random.default_rng(2), 0.0, 2000, blind=True))

    assert told.trust is Trust.UNINFORMATIVE


def test_little_data_says_nothing_and_none_says_less() -> None:
    few = self_assessment_trust([0.9] * 10, [0.0] * 10, "v1")
    none = self_assessment_trust([], [])

    assert (few.trust, few.observations, few.calibration_error, few.recalibration_version) == (None, 10, 0.9, "v1")
    assert (none.observations, none.calibration_error, none.bias) == (0, None, None)


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
