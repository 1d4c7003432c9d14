"""The kind of a question is that of the examples nearest to it."""

from math import exp

import pytest

from kernel.learning.kinds import kind_likelihoods, unit_vectors


def test_of_each_kind_the_three_nearest_examples_count() -> None:
    # Means of the three largest: 0.5 and 0.4; the difference of 0.1 is two times the sharpness of 0.05.
    found = kind_likelihoods({"near": [0.0, 0.4, 0.5, 0.6, -1.0], "far": [0.4, 0.4]})

    assert list(found) == ["near", "far"]
    assert found["near"] == pytest.approx(1 / (1 + exp(-2)))
    assert sum(found.values()) == pytest.approx(1.0)


def test_the_likeliest_kind_comes_first_and_of_equal_ones_the_first_given() -> None:
    assert list(kind_likelihoods({"a": [0.2], "b": [0.9], "c": [0.2]})) == ["b", "a", "c"]


def test_a_kind_without_an_example_is_none_and_without_any_there_is_none() -> None:
    assert list(kind_likelihoods({"a": [], "b": [-0.5]})) == ["b"]
    assert kind_likelihoods({"a": []}) == {}


def test_vectors_get_length_one_and_zeros_stay() -> None:
    assert unit_vectors([[0.0, -2.0], [0.0, 0.0]]).tolist() == [[0.0, -1.0], [0.0, 0.0]]
