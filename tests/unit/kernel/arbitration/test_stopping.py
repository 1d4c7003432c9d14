"""When arbitration stops (papers.md 2.4): certain stops by enumeration, likely ones by exact calculation."""

from collections import Counter
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.arbitration.consensus import ranked_answers
from kernel.arbitration.polya import Look, change_probabilities, compositions_at_looks
from kernel.arbitration.stopping import (
    MOST_BOUNDED,
    MOST_JUDGED,
    StopRule,
    change_bound,
    error_bound,
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
        found.add(ranked_answers(final, solver)[0])
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
    leader = ranked_answers(counts, solver)[0]

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
    # One look after 1 of 3 samples, at which everything stops. The urn of one each: the first answer wins the tie, and
    # another one is drawn first with probability 2/3. No urn does worse.
    assert largest_error(3, 1, 1.0) == pytest.approx(2 / 3)


def test_the_level_holds_the_error_for_every_split_between_three_kinds_of_samples() -> None:
    for samples, first, probability in [(50, 6, 0.95), (25, 6, 0.95), (50, 8, 0.9), (50, 6, 0.99), (7, 2, 0.95)]:
        level = stopping_level(samples, first, probability)

        assert 0 <= level <= 1 - probability
        assert largest_error(samples, first, level) <= 1 - probability


def test_invalid_samples_make_a_level_too_lax_that_two_answers_alone_would_allow() -> None:
    # The largest level that holds for every split of 50 samples between two answers, without an invalid one.
    level = 0.016646

    without = change_probabilities(two_answers(50), 50, level, third_answers=False)
    assert max(without[first, 50 - first] for first in range(51)) == pytest.approx(0.0451, abs=1e-4)
    assert without[24, 25] == pytest.approx(0.0506, abs=1e-4)  # 24 : 25 and one invalid
    assert without[19, 19] == pytest.approx(0.0505, abs=1e-4)
    assert largest_error(50, 6, level) > 0.05
    assert stopping_level(50, 6, 0.95) < level


def test_the_bound_by_itself_would_not_do() -> None:
    assert largest_error(50, 6, 0.05) > 0.1


def two_answers(samples: int, first_batch: int = 6) -> tuple[Look, ...]:
    """Every composition of two answers and invalid samples at each look of the rule."""
    return compositions_at_looks(
        looks(samples, first_batch), lambda counts, left: change_bound(counts, {}, left), samples, third_answers=False
    )


@pytest.mark.parametrize("third", ["c", None], ids=["three answers", "two answers and invalid samples"])
@pytest.mark.parametrize("level", [0.0, 0.05, 0.2, 0.5])
def test_the_error_is_that_of_every_order_tried_out(third: str | None, level: float) -> None:
    samples, stops = 7, (2, 4, 7)
    tables = compositions_at_looks(
        stops, lambda counts, left: change_bound(counts, {}, left), samples, third_answers=third is not None
    )
    found = change_probabilities(tables, samples, level, third_answers=third is not None)
    wrong, orders = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for drawn in product("ab-", repeat=samples):
        urn = (drawn.count("a"), drawn.count("b"))
        answers = [third if name == "-" else name for name in drawn]
        orders[urn] += 1
        wrong[urn] += answer_after(answers, stops, level) != leader(answers)

    assert {urn: found[urn] for urn in orders} == {urn: pytest.approx(wrong[urn] / orders[urn]) for urn in orders}


def answer_after(answers: Sequence[str | None], stops: Sequence[int], level: float) -> str | None:
    """The answer where the rule stops."""
    for n in stops:
        counts = Counter(answer for answer in answers[:n] if answer is not None)
        if counts and change_bound(counts, {}, len(answers) - n) <= level:
            return leader(answers[:n])
    return leader(answers)


def leader(answers: Sequence[str | None]) -> str | None:
    counts = Counter(answer for answer in answers if answer is not None)
    return ranked_answers(counts, {})[0] if counts else None


def test_the_bound_of_the_error_by_hand() -> None:
    # Stop after 1 of 3 samples, whatever it is: of two samples of the two answers one is for the wrong one, which is
    # drawn first with probability 1/2; twice, for two answers that may lead wrongly.
    assert error_bound(3, 1, 1.0) == pytest.approx(1.0)
    # Stop after 2 of 4 only when both are alike: with two samples of each in all C(2, 2) / C(4, 2) = 1/6.
    assert error_bound(4, 2, change_bound({"b": 2}, {}, 2)) == pytest.approx(2 / 6)


def test_an_uncatchable_leader_adds_no_error() -> None:
    for samples, first in [(3, 2), (7, 6), (69, 6), (100, 6)]:
        assert error_bound(samples, first, 0.0) == 0.0


def test_the_bound_is_never_below_the_exact_error() -> None:
    for samples, first in [(12, 3), (30, 6), (50, 6), (64, 8)]:
        for level in (0.0005, 0.002, 0.01, 0.05):
            assert largest_error(samples, first, level) <= error_bound(samples, first, level)


@pytest.mark.parametrize("samples", [MOST_JUDGED + 1, 69, 100])
def test_more_samples_stop_early_too_with_the_error_that_is_allowed(samples: int) -> None:
    level = stopping_level(samples, 6, 0.95)

    assert error_bound(samples, 6, level) <= 0.05
    assert largest_error(samples, 6, level) <= 0.05
    # Clear questions cost a fraction: 16 alike are enough, where an uncatchable leader needs more than half.
    assert change_bound({"12": 16}, {}, samples - 16) <= level


def test_too_many_samples_stop_only_for_a_certain_leader() -> None:
    assert StopRule(samples=MOST_BOUNDED + 1, first_batch=6, probability=0.95).level == 0.0
    assert StopRule(samples=4_096, first_batch=1, probability=0.5).level == 0.0


def test_at_probability_one_only_a_certain_leader_stops() -> None:
    assert stopping_level(50, 6, 1.0) == 0.0


def test_clear_questions_cost_a_fraction() -> None:
    # Six alike are enough, and so are nine of ten.
    left, level = PAPER.samples - 6, PAPER.level

    assert change_bound({"12": 6}, {}, left) <= level
    assert change_bound({"12": 9, "13": 1}, {}, PAPER.samples - 10) <= level
    assert change_bound({"12": 5, "13": 1}, {}, left) > level


def test_the_walk_without_replacement_is_a_hypergeometric_one() -> None:
    # Stop after 2 of 4 only when both are alike. Urn of 2 and 2: the first answer wins the tie, so stopping on the
    # second is wrong: C(2, 2) / C(4, 2) = 1/6. Urn of 1 and 3: stopping on the first is impossible.
    level = change_bound({"b": 2}, {}, 2)
    assert change_bound({"a": 1, "b": 1}, {}, 2) > level
    wrong = change_probabilities(
        compositions_at_looks((2, 4), lambda counts, left: change_bound(counts, {}, left), 4, third_answers=False),
        4,
        level,
        third_answers=False,
    )

    assert wrong[2, 2] == pytest.approx(1 / 6)
    assert wrong[1, 3] == 0.0
