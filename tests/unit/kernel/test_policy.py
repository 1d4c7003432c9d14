import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.policy import COMPARISONS, Policy, PolicyRow, condition, row_error

LEVELS = [place / 20 for place in range(21)]
WRITTEN = st.builds("{} {}".format, st.sampled_from(list(COMPARISONS)), st.sampled_from(LEVELS)).filter(
    lambda written: written not in ("> 1.0", "< 0.0")
)
CONDITIONS = st.one_of(WRITTEN, st.just("unknown")).map(condition)
ROWS = st.builds(
    PolicyRow,
    name=st.just("any"),
    strategy=st.just("arbiter"),
    when=st.dictionaries(st.sampled_from(["conflict", "experience"]), CONDITIONS),
)
STATES = st.fixed_dictionaries(
    {name: st.one_of(st.none(), st.sampled_from(LEVELS)) for name in ("conflict", "experience")}
)


def row(name: str, when: dict[str, str] | None = None, strategy: str = "arbiter", *, always: bool = False) -> PolicyRow:
    conditions = {measure: condition(written) for measure, written in (when or {}).items()}
    return PolicyRow(name=name, strategy=strategy, when=conditions, always=always)


@pytest.mark.parametrize(
    ("written", "met", "unmet"),
    [
        (">= 0.6", [0.6, 1.0], [0.59, 0.0]),
        ("> 0.6", [0.61, 1.0], [0.6, 0.0]),
        ("<= 0.3", [0.3, 0.0], [0.31, 1.0]),
        ("< 0.3", [0.29, 0.0], [0.3, 1.0]),
        (">=0.6", [0.6], [0.5]),
        (">= 0", [0.0, 1.0], []),
    ],
)
def test_a_condition_is_met_as_it_is_written(written: str, met: list[float], unmet: list[float]) -> None:
    requested = condition(written)

    assert all(requested.holds(level) for level in met)
    assert not any(requested.holds(level) for level in unmet)


def test_float_noise_decides_no_condition() -> None:
    noisy = 0.7 - 0.25  # 0.44999999999999996

    assert condition(">= 0.45").holds(noisy)
    assert condition("<= 0.45").holds(0.15 + 0.3)
    assert not condition("< 0.45").holds(noisy)
    assert not condition("> 0.3").holds(abs(0.8 - 0.5))  # 0.30000000000000004


@pytest.mark.parametrize("written", [*COMPARISONS])
def test_what_is_unknown_meets_no_comparison(written: str) -> None:
    assert not condition(f"{written} 0.5").holds(None)


def test_only_the_wish_for_the_unknown_is_met_by_it() -> None:
    assert condition("unknown").holds(None)
    assert not condition("unknown").holds(0.0)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("0.6", "must be an operator"),
        ("= 0.6", "must be an operator"),
        ("=> 0.6", "must be an operator"),
        (">= high", "'high' in '>= high' is no number"),
        (">= 60", "60 in '>= 60' must lie in"),
        (">= -0.1", "must lie in [0, 1]"),
        (">= nan", "must lie in [0, 1]"),
        ("> 1", "can never be met"),
        ("< 0", "can never be met"),
        ("Unknown?", "must be an operator"),
        ("", "must be an operator"),
    ],
)
def test_a_condition_that_means_nothing_is_rejected(written: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        condition(written)


def test_the_first_row_that_matches_decides() -> None:
    table = Policy(version="v", rows=[row("high", {"conflict": ">= 0.6"}), row("rest", strategy="dialectic")])

    high, rest = (table.first({"conflict": level}, always=False) for level in (0.6, 0.5))

    assert (high.name if high else "", rest.name if rest else "") == ("high", "rest")


def test_all_conditions_of_a_row_must_hold() -> None:
    both = row("both", {"conflict": ">= 0.6", "importance": "> 0.5"})

    assert both.matches({"conflict": 0.6, "importance": 0.51})
    assert not both.matches({"conflict": 0.6, "importance": 0.5})
    assert not both.matches({"conflict": 0.6})


def test_rows_that_are_always_tried_stand_apart_from_the_others() -> None:
    table = Policy(version="v", rows=[row("other"), row("first", {"conflict": "< 0.2"}, always=True)])

    calm = table.first({"conflict": 0.1}, always=True)

    assert calm is not None
    assert calm.name == "first"
    assert table.first({"conflict": 0.3}, always=True) is None


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row("")], "name: it must not be empty"),
        ([row("a", {"conflict": "> 0.5"}), row("a")], "name: 'a' is used twice"),
        (
            [row("a", strategy="debate")],
            "strategy: 'debate' is none; there are system1, vote, cascade, dialectic, arbiter",
        ),
        ([row("a", {"conflict": "> 0.5"}), row("b", {"conflict": "> 0.5"})], "'b' can never be reached: 'a' is asked"),
        ([row("a"), row("b", {"conflict": "> 0.5"})], "'b' can never be reached: 'a' is asked before"),
        ([row("a"), row("b", {"conflict": "unknown"})], "'b' can never be reached"),
        ([row("a", {"conflict": ">= 0.5"}), row("b", {"conflict": "> 0.6", "experience": "< 0.5"})], "'b' can never"),
        ([row("a", {"conflict": ">= 0"}), row("b", {"conflict": "<= 0.2"})], "'b' can never be reached"),
        ([row("b", {"conflict": "> 0.6"}), row("a", always=True)], "'b' can never be reached: 'a' is asked before"),
    ],
)
def test_a_row_that_cannot_stand_where_it_is_is_rejected_with_the_reason(rows: list[PolicyRow], message: str) -> None:
    complaints = [result for place in range(len(rows)) if (result := row_error(rows, place))]

    assert len(complaints) == 1
    assert complaints[0].startswith(message)


@pytest.mark.parametrize(
    "rows",
    [
        [row("a", {"conflict": "> 0.5"}), row("b", {"conflict": ">= 0.5"})],
        [row("a", {"conflict": "> 0.5"}), row("b", {"experience": "> 0.5"})],
        [row("a", {"conflict": "> 0.5", "experience": "< 0.1"}), row("b", {"conflict": "> 0.5"})],
        [row("a", {"conflict": ">= 0"}), row("b", {"conflict": "unknown"})],
        [row("a", {"conflict": "> 0.5"}, always=True), row("b", {"conflict": ">= 0.5"})],
        [row("a"), row("b", always=True, when={"activation": "> 0.9"})],
    ],
)
def test_a_row_that_some_state_can_reach_may_stand(rows: list[PolicyRow]) -> None:
    assert [row_error(rows, place) for place in range(len(rows))] == ["", ""]


@given(ROWS, ROWS, STATES)
def test_what_a_row_covers_it_matches(wide: PolicyRow, narrow: PolicyRow, state: dict[str, float | None]) -> None:
    if wide.covers(narrow) and narrow.matches(state):
        assert wide.matches(state)


@given(CONDITIONS, CONDITIONS)
def test_a_condition_is_implied_exactly_for_every_level(one: object, other: object) -> None:
    finely = [None, *(place / 1000 for place in range(1001))]

    everywhere = all(one.holds(level) for level in finely if other.holds(level))  # type: ignore[attr-defined]

    assert one.implied_by(other) is everywhere  # type: ignore[attr-defined]
