"""Measures of distributions (papers.md 2.2), each by hand."""

from collections.abc import Sequence
from itertools import product
from math import comb, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.answers import entropy
from kernel.arbitration.information import Information, divergences, entropies, information, leads, sampling_divergences
from kernel.arbitration.tallies import Tally, stacked_tallies

# H(8, 2) = 0.8 ln(1/0.8) + 0.2 ln 5 = 0.178515 + 0.321888.
EIGHT_TWO = 0.8 * log(1 / 0.8) + 0.2 * log(5)


def measured(*tallies: Tally) -> Information:
    return information(stacked_tallies(tallies))


def question(solvers: Sequence[dict[str, int]], arbiter: dict[str, int], **invalid: int) -> Tally:
    return Tally(solvers=solvers, arbiter=arbiter, **invalid)


def test_entropy_is_that_of_the_shares() -> None:
    assert pytest.approx(0.500402, abs=1e-6) == EIGHT_TWO
    assert entropies(np.array([[8, 2], [5, 5], [3, 0]])) == pytest.approx([EIGHT_TWO, log(2), 0.0])
    assert np.isnan(entropies(np.array([[0, 0]]))[0])


def test_reduction_and_compression_follow() -> None:
    # Solvers 5 : 5, arbiter 40 : 10.
    found = measured(question([{"12": 5}, {"13": 5}], {"12": 40, "13": 10}))

    assert found.entropy_reduction[0] == pytest.approx(log(2) - EIGHT_TWO)
    assert found.compression[0] == pytest.approx(1 - EIGHT_TWO / log(2))


def test_an_arbiter_that_is_less_certain_gives_negative_numbers() -> None:
    found = measured(question([{"12": 8, "13": 2}], {"12": 25, "13": 25}))

    assert found.entropy_reduction[0] == pytest.approx(EIGHT_TWO - log(2))
    assert found.entropy_reduction[0] < 0
    assert found.compression[0] == pytest.approx(1 - log(2) / EIGHT_TWO)


def test_compression_is_undefined_where_the_solvers_agree() -> None:
    found = measured(question([{"12": 10}], {"12": 45, "13": 5}))

    assert np.isnan(found.compression[0])
    assert found.entropy_reduction[0] == pytest.approx(-(0.9 * log(1 / 0.9) + 0.1 * log(10)))


def test_all_invalid_leaves_everything_undefined_but_the_invalid_share() -> None:
    found = measured(question([{}, {}], {}, solver_invalid=10, arbiter_invalid=50))

    levels = [found.entropy_solver, found.entropy_arbiter, found.entropy_reduction, found.compression]
    assert all(np.isnan(level[0]) for level in levels)
    assert (found.solver_invalid_share[0], found.arbiter_invalid_share[0]) == (1.0, 1.0)


def test_invalid_samples_count_in_their_share_only() -> None:
    found = measured(question([{"12": 3, "13": 1}], {"12": 4}, solver_invalid=1, arbiter_invalid=4))

    assert found.entropy_solver[0] == pytest.approx(0.75 * log(4 / 3) + 0.25 * log(4))
    assert (found.solver_invalid_share[0], found.arbiter_invalid_share[0]) == (0.2, 0.5)


def test_questions_of_different_size_do_not_touch_each_other() -> None:
    alone = measured(question([{"12": 2}, {"13": 1}], {"12": 1}))
    beside = measured(question([{"a": 1, "b": 2, "c": 3}] * 3, {"a": 9}), question([{"12": 2}, {"13": 1}], {"12": 1}))

    assert beside.entropy_solver[1] == alone.entropy_solver[0]
    assert beside.solver_divergence[1] == alone.solver_divergence[0]


def test_divergence_is_the_entropy_between_solvers_less_that_within() -> None:
    # (4, 1) and (1, 4): ln 2 - H(0.8, 0.2); the same twice: 0; of 4 and 1 samples the weights are 0.8 and 0.2.
    assert divergences(np.array([[[4, 1], [1, 4]]]))[0] == pytest.approx(log(2) - EIGHT_TWO)
    assert divergences(np.array([[[4, 1], [4, 1]]]))[0] == pytest.approx(0.0)
    assert divergences(np.array([[[4, 0], [0, 1]]]))[0] == pytest.approx(EIGHT_TWO)


def test_with_one_solver_that_answers_there_is_no_divergence() -> None:
    assert np.isnan(divergences(np.array([[[4, 1], [0, 0]]]))[0])
    assert np.isnan(sampling_divergences(np.array([[[4, 1], [0, 0]]]))[0])


def test_the_divergence_of_sampling_is_its_expectation_over_all_draws() -> None:
    # Solver one has (1, 1), solver two (2, 0). From (1/2, 1/2) all 16 ways to draw two parts of two are equally
    # likely; from (1, 0) the divergence is 0. The mean over the solvers is weighted by 2 : 2.
    def divergence(a: int, b: int) -> float:
        parts = np.array([[[a, 2 - a], [b, 2 - b]]])
        return float(divergences(parts)[0])

    drawn = sum(comb(2, a) * comb(2, b) / 16 * divergence(a, b) for a, b in product(range(3), repeat=2))

    assert sampling_divergences(np.array([[[1, 1], [2, 0]]]))[0] == pytest.approx(drawn / 2)


@pytest.mark.parametrize(
    ("first", "second", "structured"),
    [
        ({"12": 5}, {"13": 5}, True),  # 2 n JSD = 20 ln 2 = 13.9 on one degree of freedom: p = 0.0002
        ({"12": 5}, {"12": 1, "13": 4}, True),  # 2 n JSD = 8.5: p = 0.0036
        ({"12": 5}, {"12": 2, "13": 3}, False),  # 5.5: p = 0.02
        ({"12": 3, "13": 2}, {"12": 2, "13": 3}, False),
        ({"12": 5}, {"12": 5}, False),
    ],
)
def test_disagreement_is_structured_where_sampling_does_not_explain_it(
    first: dict[str, int], second: dict[str, int], structured: bool
) -> None:
    assert bool(measured(question([first, second], {})).structured[0]) is structured


def test_leads_break_ties_by_solvers_then_by_order() -> None:
    arbiter, solver = np.array([[2, 2, 1], [2, 2, 0], [0, 0, 0]]), np.array([[1, 3, 9], [2, 2, 0], [1, 0, 0]])

    found = leads(arbiter, solver)

    assert found.answer.tolist() == [1, 0, -1]
    assert found.share[:2].tolist() == [0.4, 0.5]


@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=6))
def test_many_at_once_are_as_one_at_a_time(rows: list[list[int]]) -> None:
    together = entropies(np.array(rows))

    for row, level in zip(rows, together, strict=True):
        one = entropy(row)
        assert np.isnan(level) if one is None else level == pytest.approx(one)


@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=2, max_size=4))
def test_a_divergence_lies_between_nothing_and_the_whole_entropy(rows: list[list[int]]) -> None:
    solvers = np.array([rows])
    level = divergences(solvers)[0]

    if not np.isnan(level):
        assert -1e-12 <= level <= entropies(solvers.sum(axis=1))[0] + 1e-12
