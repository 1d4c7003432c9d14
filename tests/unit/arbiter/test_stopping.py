"""When arbitration stops (SPEC 2.4 b): certain stops by enumeration, likely ones by calculation and simulation."""

from collections import Counter
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.arbiter.core.choosing import ranked
from services.arbiter.core.stopping import (
    StopRule,
    change_bound,
    is_uncatchable,
    largest_error,
    looks,
    stopping_level,
)

PAPER = StopRule(samples=50, first_batch=6, probability=0.95)


def test_batches_grow_until_all_samples_are_drawn() -> None:
    # 6, ceil(6 x 1.6) = 10, 16, ceil(25.6) = 26, ceil(41.6) = 42, then what is left of 50.
    assert PAPER.looks == (6, 10, 16, 26, 42, 50)
    assert looks(1, 6) == (1,)


def test_a_leader_is_uncatchable_once_it_has_more_than_all_that_is_left() -> None:
    assert is_uncatchable({"12": 26}, {}, 24)
    assert not is_uncatchable({"12": 25}, {}, 25)


def test_solver_samples_break_the_tie_that_is_left() -> None:
    assert is_uncatchable({"12": 25}, {"12": 1}, 25)
    assert not is_uncatchable({"12": 25}, {"13": 1}, 25)
    assert not is_uncatchable({"12": 30, "13": 5}, {"13": 6, "12": 4}, 25)


def final_answers(counts: dict[str, int], solver: dict[str, int], left: int) -> set[str]:
    """Every answer that some outcome of the remaining samples leads to."""
    found = set()
    for drawn in product([*{*counts, *solver}, "11", "99", None], repeat=left):
        final = Counter(counts) + Counter(answer for answer in drawn if answer is not None)
        found.add(ranked(final, solver)[0])
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["12", "13", "14"]), st.integers(1, 5), min_size=1),
    st.dictionaries(st.sampled_from(["12", "13", "15"]), st.integers(1, 3)),
    st.integers(0, 4),
)
def test_uncatchable_means_that_every_outcome_gives_the_same_answer(
    counts: dict[str, int], solver: dict[str, int], left: int
) -> None:
    leader = ranked(counts, solver)[0]

    assert is_uncatchable(counts, solver, left) == (final_answers(counts, solver, left) == {leader})


def test_the_bound_is_the_beta_binomial_tail() -> None:
    # Two samples, both for 12, and one to come: another answer ends ahead only by 12 = 2, other >= 2: impossible.
    assert change_bound({"12": 2}, {"12": 1}, 1) == 0.0
    # Two to come, both to a stranger, who then wins the tie: Beta(1/2, 5/2), E p^2 = (1/2 x 3/2) / (3 x 4) = 1/16.
    assert change_bound({"12": 2}, {"12": 1}, 2) == pytest.approx(1 / 16)


def test_rivals_are_summed_up() -> None:
    # 12: 2, 13: 1, one to come. 13 makes it a tie, which it wins by canonical order only against a higher name;
    # against 12 it loses. A stranger cannot reach 2.
    assert change_bound({"12": 2, "13": 1}, {}, 1) == 0.0
    # With 11 in its place the tie is lost: Beta(3/2, 5/2), E p = 3/8.
    assert change_bound({"12": 2, "11": 1}, {}, 1) == pytest.approx(3 / 8)


def test_without_a_valid_sample_nothing_is_known() -> None:
    assert change_bound({}, {"12": 5}, 44) == 1.0


def test_the_largest_error_is_exact() -> None:
    # One look after 1 of 3 samples, at which everything stops. Urn (1, 2): the first answer, in the minority, is drawn
    # first with probability 1/3; urn (2, 1) likewise. No split does worse.
    assert largest_error(3, 1, 1.0) == pytest.approx(1 / 3)


def test_the_level_holds_the_error_for_every_split_of_two_answers() -> None:
    for samples, first, probability in [(50, 6, 0.95), (25, 6, 0.95), (50, 8, 0.9), (50, 6, 0.99), (7, 2, 0.95)]:
        level = stopping_level(samples, first, probability)

        assert 0 <= level <= 1 - probability
        assert largest_error(samples, first, level) <= 1 - probability
    # The probability asked for, taken as the level itself, would not do.
    assert largest_error(50, 6, 0.05) > 0.1


def test_at_probability_one_only_a_certain_leader_stops() -> None:
    assert stopping_level(50, 6, 1.0) == 0.0


def simulated(shares: list[float], questions: int, rule: StopRule = PAPER) -> tuple[float, float]:
    """Share of questions whose answer early stopping changes, and mean samples; the last share is of invalid ones."""
    rng = np.random.default_rng(20_241)
    changed = used = 0
    for drawn in rng.choice(len(shares), size=(questions, rule.samples), p=shares):
        names = [None if place == len(shares) - 1 else f"{place:02}" for place in drawn]
        for n in rule.looks:
            counts = Counter(name for name in names[:n] if name is not None)
            if counts and change_bound(counts, {"00": 1}, rule.samples - n) <= rule.level:
                break
        final = Counter(name for name in names if name is not None)
        used += n
        changed += ranked(counts, {"00": 1})[0] != ranked(final, {"00": 1})[0]
    return changed / questions, used / questions


@pytest.mark.parametrize(
    "shares",
    [
        [0.5, 0.5, 0.0],
        [0.55, 0.45, 0.0],
        [0.48, 0.48, 0.04],
        [0.4, 0.3, 0.3, 0.0],
        [0.34, 0.33, 0.33, 0.0],
        [0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1],
        [0.3, 0.3, 0.4],
    ],
    ids=str,
)
def test_early_stopping_changes_the_answer_less_often_than_is_stated(shares: list[float]) -> None:
    questions = 600

    changed, _ = simulated(shares, questions)

    # Three standard errors of a share of 0.05 above it.
    assert changed <= 0.05 + 3 * (0.05 * 0.95 / questions) ** 0.5


def test_clear_questions_cost_a_fraction() -> None:
    assert simulated([1.0, 0.0], 5) == (0.0, 6.0)
    assert simulated([0.8, 0.2, 0.0], 300)[1] < 20


def test_the_walk_without_replacement_is_a_hypergeometric_one() -> None:
    # Stop after 2 of 4 only when both are alike. Urn of 2 and 2: the first answer wins the tie, so stopping on the
    # second is wrong: C(2, 2) / C(4, 2) = 1/6. Urn of 1 and 3: stopping on the first is impossible.
    level = change_bound({"b": 2}, {"a": 1, "b": 1}, 2)

    assert change_bound({"a": 1, "b": 1}, {"a": 1, "b": 1}, 2) > level
    assert largest_error(4, 2, level) == pytest.approx(comb(2, 2) / comb(4, 2))
