"""Whether solvers agree, and what is certain of it early (papers.md 2.4)."""

from itertools import product
from math import log

from hypothesis import given
from hypothesis import strategies as st

from kernel.arbitration.consensus import (
    first_step_samples,
    is_certain_consensus,
    is_consensus,
    must_disagree,
    solvers_agree,
)
from kernel.arbitration.tallies import Tally

# 9 of 10 say the same: H = 0.9 ln(1/0.9) + 0.1 ln 10.
NINE_OF_TEN = 0.9 * log(1 / 0.9) + 0.1 * log(10)


def test_solvers_agree_up_to_the_required_entropy() -> None:
    assert solvers_agree({"12": 9, "13": 1}, NINE_OF_TEN)
    assert not solvers_agree({"12": 9, "13": 1}, NINE_OF_TEN - 1e-6)
    assert not solvers_agree({"12": 9, "13": 1})


def test_one_dissent_makes_disagreement_certain_at_entropy_zero() -> None:
    assert must_disagree({"12": 4, "13": 1}, remaining=5)
    assert not must_disagree({"12": 5}, remaining=5)


def test_disagreement_is_not_certain_where_the_rest_could_drown_it() -> None:
    # All five to the leader make 9 of 10.
    assert not must_disagree({"12": 4, "13": 1}, 5, NINE_OF_TEN)
    assert must_disagree({"12": 3, "13": 2}, 5, NINE_OF_TEN)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 4), st.floats(0, 1))
def test_where_disagreement_is_certain_no_outcome_agrees(counts: list[int], left: int, most: float) -> None:
    start = {str(place): count for place, count in enumerate(counts)}
    outcomes = [
        {**start, **{name: start.get(name, 0) + drawn.count(name) for name in set(drawn) - {"invalid"}}}
        for drawn in product([*start, "new", "invalid"], repeat=left)
    ]

    assert must_disagree(start, left, most) == (not any(solvers_agree(outcome, most) for outcome in outcomes))


@given(st.integers(1, 12), st.integers(1, 4))
def test_after_the_first_step_unanimous_solvers_cannot_be_outvoted(samples: int, solvers: int) -> None:
    step = first_step_samples(samples)

    assert step <= samples
    assert is_certain_consensus({"12": solvers * step}, solvers * (samples - step))


def test_a_consensus_needs_two_solvers_and_half_of_the_samples() -> None:
    def said(*solvers: dict[str, int], invalid: int) -> bool:
        return is_consensus(Tally(solvers=solvers, solver_invalid=invalid, arbiter={}))

    assert said({"12": 3}, {"12": 2}, invalid=5)
    assert not said({"12": 3}, {"12": 1}, invalid=6)
    assert not said({"12": 5}, {}, invalid=0)
    assert not said({"12": 5}, {"13": 5}, invalid=0)
    # Where only one solver was asked, it speaks for itself.
    assert said({"12": 5}, invalid=0)
    assert not said({}, {}, invalid=10)
