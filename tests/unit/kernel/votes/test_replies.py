"""Whole replies are compared as votes: by hand-computed cases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.votes.replies import ToolCall, canonical_calls, canonical_json, most_majority_fields

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}, True),
        ({"city": "Oslo"}, {"city": " Oslo\n"}, True),
        ({"city": "Cafe\u0301"}, {"city": "Caf\u00e9"}, True),
        ({"city": "Oslo"}, {"city": "oslo"}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 0}, {"a": False}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": None}, {}, False),
        ({"a": 0.5}, {"a": 0.50}, True),
    ],
)
def test_documents_are_equal_by_value(one: object, other: object, equal: bool) -> None:
    assert (canonical_json(one) == canonical_json(other)) is equal


def test_parallel_calls_have_no_order() -> None:
    oslo, rome = (ToolCall(name="weather", arguments={"city": city}) for city in ("Oslo", "Rome"))

    assert canonical_calls([oslo, rome]) == canonical_calls([rome, oslo])
    assert canonical_calls([oslo, rome]) != canonical_calls([oslo])
    assert canonical_calls([oslo, oslo]) != canonical_calls([oslo])


@pytest.mark.parametrize(
    ("documents", "winner"),
    [
        # name: Ada 2 of 3; year: 1815 2 of 3; city: Rome 2 of 3. The third has all three, as no other has.
        (
            [
                {"name": "Ada", "year": 1816, "city": "Rome"},
                {"name": "Bea", "year": 1815, "city": "Bonn"},
                {"name": "Ada", "year": 1815, "city": "Rome"},
            ],
            2,
        ),
        # no field has a majority: the first
        ([{"a": 1}, {"a": 2}], 0),
        # two of three lack `b`: that is the majority's value
        ([{"a": 1, "b": 2}, {"a": 1}, {"a": 1}], 1),
        # lists are compared by place: 1 at place 0 has a majority, 2 at place 1 too
        ([[1, 3], [4, 2], [1, 2]], 2),
        # 2 of 5 against 1, 1, 1 is the majority's value: more than any other has
        ([{"a": 1}, {"a": 2}, {"a": 3}, {"a": 4}, {"a": 2}], 1),
        # a name with a slash is no path
        ([{"a/b": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}], 1),
        (["x"], 0),
    ],
)
def test_the_document_with_most_fields_of_the_majority_wins(documents: list[object], winner: int) -> None:
    assert most_majority_fields(documents) == winner


@given(st.lists(DOCUMENTS, min_size=1, max_size=4))
def test_a_document_that_most_are_equal_to_wins(documents: list[object]) -> None:
    with_majority = [*documents, *[{"k": "v"}] * (len(documents) + 1)]

    assert with_majority[most_majority_fields(with_majority)] == {"k": "v"}
