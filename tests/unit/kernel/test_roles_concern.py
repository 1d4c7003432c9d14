import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.msv import MSV
from kernel.roles import cross_domain_concern


@pytest.mark.parametrize(
    ("importance", "experience", "raised"),
    [
        (0.7, 0.4, True),
        (0.69, 0.4, False),
        (0.7, 0.41, False),
        (1.0, 0.0, True),
        (0.0, 0.0, False),
        (1.0, 1.0, False),
        (0.1 * 7, 0.1 * 4, True),
        (0.8 - 0.1, 0.7 - 0.3, True),
    ],
)
def test_a_concern_needs_importance_from_seven_tenths_and_experience_up_to_four(
    importance: float, experience: float, raised: bool
) -> None:
    concern = cross_domain_concern(MSV(importance=importance, experience=experience))

    assert concern.raised is raised


def test_float_noise_at_either_boundary_does_not_decide() -> None:
    noisy = cross_domain_concern(MSV(importance=0.7 - 1e-12, experience=0.4 + 1e-12))

    assert noisy.raised


def test_unknown_experience_counts_as_low_and_the_reason_states_it() -> None:
    concern = cross_domain_concern(MSV(importance=0.9))

    assert concern.raised
    assert "experience is unknown, which counts as low" in concern.reason


def test_unknown_importance_raises_no_concern_with_the_reason() -> None:
    concern = cross_domain_concern(MSV(experience=0.0))

    assert not concern.raised
    assert concern.reason == "importance is unknown"


@pytest.mark.parametrize(
    ("msv", "reason"),
    [
        (MSV(importance=0.5, experience=0.1), "importance 0.50 is below 0.70"),
        (MSV(importance=0.9, experience=0.6), "experience 0.60 is above 0.40"),
        (MSV(importance=0.9, experience=0.3), "importance 0.90 reaches 0.70 and experience 0.30 is at most 0.40"),
    ],
)
def test_the_reason_names_the_numbers(msv: MSV, reason: str) -> None:
    assert cross_domain_concern(msv).reason == reason


def test_the_bounds_are_configuration() -> None:
    msv = MSV(importance=0.5, experience=0.6)

    assert cross_domain_concern(msv, important=0.5, familiar=0.6).raised


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
@settings(deadline=None)
def test_only_importance_and_experience_matter(pi: float, em: float, ce: float, ci: float) -> None:
    full = MSV(importance=pi, experience=em, correctness=ce, conflict=ci, emotional_response=ce)

    assert cross_domain_concern(full) == cross_domain_concern(MSV(importance=pi, experience=em))
