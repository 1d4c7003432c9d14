from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.errors import Code
from kernel.msv import (
    COMPONENTS,
    CONFLICT_PARTS,
    CORRECTNESS_PARTS,
    IMPORTANCE_PARTS,
    MSV,
    MSVKind,
    MSVOutOfRange,
    component_from_parts,
)

IMPOSSIBLE = [-0.01, 1.01, -1.0, 90.0, float("nan"), float("inf"), float("-inf")]


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("level", IMPOSSIBLE)
def test_a_component_outside_its_range_is_rejected_by_name(component: str, level: float) -> None:
    with pytest.raises(MSVOutOfRange) as rejected:
        MSV(**{component: level})  # type: ignore[arg-type]

    assert rejected.value.metadata == {"component": component, "value": str(level)}
    assert rejected.value.message.startswith(f"{component} is {level}")
    assert (rejected.value.code, rejected.value.reason) == (Code.INVALID_ARGUMENT, "MSV_OUT_OF_RANGE")


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("level", [0.0, 0.61, 1.0])
def test_both_ends_of_the_range_can_be_reached(component: str, level: float) -> None:
    msv = MSV(**{component: level})  # type: ignore[arg-type]

    assert getattr(msv, component) == level


@pytest.mark.parametrize("level", IMPOSSIBLE)
def test_a_part_outside_its_range_is_rejected_by_name(level: float) -> None:
    with pytest.raises(MSVOutOfRange) as rejected:
        MSV(parts={"urgency": level})

    assert rejected.value.metadata["component"] == "urgency"


@pytest.mark.parametrize("name", ["", "correctnes", "kind_share", "CE"])
def test_a_reason_for_something_that_is_no_component_is_rejected(name: str) -> None:
    with pytest.raises(MSVOutOfRange, match="is no component") as rejected:
        MSV(unknown_reasons={name: "not measured"})

    assert rejected.value.metadata["component"] == name


@pytest.mark.parametrize("part", [*CORRECTNESS_PARTS, *CONFLICT_PARTS, *IMPORTANCE_PARTS])
def test_a_part_may_be_unknown_with_a_reason_of_its_own(part: str) -> None:
    assert MSV(unknown_reasons={part: "not measured"}).unknown_reasons[part] == "not measured"


def test_what_is_not_given_is_unknown_and_not_zero() -> None:
    msv = MSV()

    assert [getattr(msv, component) for component in COMPONENTS] == [None] * 5
    assert msv.unknown == COMPONENTS


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(COMPONENTS, st.floats(0, 1))))
@settings(deadline=None)
def test_exactly_the_components_without_a_number_are_unknown(known: dict[str, float]) -> None:
    msv = MSV(**known)  # type: ignore[arg-type]

    assert set(msv.unknown) == set(COMPONENTS) - set(known)


def test_zero_is_a_measurement() -> None:
    assert MSV(conflict=0.0).unknown == ("emotional_response", "correctness", "experience", "importance")


def test_correctness_and_conflict_are_prospective_unless_a_text_was_judged() -> None:
    assert MSV().kind is MSVKind.PROSPECTIVE


def test_a_state_cannot_be_changed() -> None:
    msv = MSV(conflict=0.2)

    with pytest.raises(FrozenInstanceError):
        msv.conflict = 0.9  # type: ignore[misc]


def test_a_component_is_the_mean_of_its_parts() -> None:
    parts = {"logical_consistency": 0.9, "factual_accuracy": 0.8, "contextual_fit": 0.4}

    assert component_from_parts(parts, CORRECTNESS_PARTS) == pytest.approx(0.7)


@pytest.mark.parametrize("scope", [{}, {"scope": None}])
def test_an_unknown_part_does_not_pull_the_mean_down(scope: dict[str, None]) -> None:
    parts = {"consequence": 0.8, "urgency": 0.4, **scope}

    assert component_from_parts(parts, IMPORTANCE_PARTS) == pytest.approx(0.6)


def test_a_component_without_any_known_part_is_unknown() -> None:
    assert component_from_parts({"consequence": 0.8, "instability": None}, CONFLICT_PARTS) is None
