import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.learning.profiles import (
    Change,
    Lesson,
    Profile,
    ProfileChange,
    beta_reading,
    full_memory,
    interval,
    lessons,
    memory,
    memory_rate,
    outcome_mean,
    profile_estimate,
    replayed_competence,
    updated_competence,
)

OUTCOMES = st.lists(st.integers(0, 1), max_size=60)


def outcome(r: int, rate: float = 0.1) -> Change:
    return Change(change=ProfileChange.OUTCOME, outcome=r, learning_rate=rate)


def test_an_outcome_moves_a_tenth_of_the_way() -> None:
    assert updated_competence(0.5, 1) == pytest.approx(0.55)
    assert updated_competence(0.55, 0) == pytest.approx(0.495)
    assert updated_competence(0.5, 1, 0.3) == pytest.approx(0.65)


def test_a_replay_depends_on_the_order() -> None:
    assert replayed_competence([outcome(1), outcome(0)]) == pytest.approx(0.495)
    assert replayed_competence([outcome(0), outcome(1)]) == pytest.approx(0.505)


def test_a_reset_and_an_import_put_the_profile_at_their_competence() -> None:
    reset = Change(change=ProfileChange.RESET, competence_after=0.5)
    given_ = Change(change=ProfileChange.IMPORT, competence_after=0.8)

    assert replayed_competence([outcome(1), reset, outcome(1)]) == pytest.approx(0.55)
    assert replayed_competence([outcome(1), given_]) == 0.8


@given(OUTCOMES, st.floats(0.01, 1))
def test_competence_stays_a_probability(outcomes: list[int], rate: float) -> None:
    assert 0 <= replayed_competence([outcome(r, rate) for r in outcomes]) <= 1


def test_the_one_who_executed_learns() -> None:
    assert lessons(executor="b", voters=[], winners=set(), correct=False) == [Lesson(agent="b", outcome=0)]


def test_a_right_vote_teaches_everybody_and_a_wrong_one_those_who_gave_it() -> None:
    voters, winners = ["a", "b", "c"], {"a", "c"}

    right = lessons(executor="", voters=voters, winners=winners, correct=True)
    wrong = lessons(executor="", voters=voters, winners=winners, correct=False)

    assert [(one.agent, one.outcome) for one in right] == [("a", 1), ("b", 0), ("c", 1)]
    assert [(one.agent, one.outcome) for one in wrong] == [("a", 0), ("c", 0)]


def test_a_vote_that_no_answer_won_teaches_no_agent() -> None:
    for correct in (True, False):
        assert lessons(executor="", voters="ab", winners=set(), correct=correct) == []


def test_a_mean_with_step_a_tenth_rests_on_nineteen_observations() -> None:
    assert full_memory(0.1) == pytest.approx(19)
    assert full_memory(0.2) == pytest.approx(9)


@given(st.integers(1, 300), st.sampled_from([0.05, 0.1, 0.3]))
def test_memory_grows_from_one_to_what_the_step_allows(count: int, rate: float) -> None:
    weight = squares = 0.0
    for _ in range(count):
        weight, squares = weight + rate * (1 - weight), squares * (1 - rate) ** 2 + rate**2

    assert 1 - 1e-9 <= memory(weight, squares) <= min(count, full_memory(rate)) + 1e-6


def test_a_recent_change_makes_the_step_longer_until_the_memory_has_grown_again() -> None:
    rates = [memory_rate(0.1, since) for since in (5, 10, 17, 18, 19)]

    assert rates == pytest.approx([2 / 7, 2 / 12, 2 / 19, 0.1, 0.1])


def test_nothing_learned_is_read_as_anything_equally_likely() -> None:
    start = Profile(agent="a", dimension="d")

    assert beta_reading(start) == (1, 1)
    assert (interval(start).low, interval(start).high) == pytest.approx((0.025, 0.975))


def test_the_interval_holds_its_competence_and_narrows_with_memory() -> None:
    for competence in (0.0, 0.3, 1.0):
        few = interval(Profile(agent="a", dimension="d", competence=competence, memory=3))
        many = interval(Profile(agent="a", dimension="d", competence=competence, memory=19))
        assert few.low <= competence <= few.high
        assert many.high - many.low < few.high - few.low


@pytest.mark.parametrize("truth", [0.5, 0.7, 0.9])
def test_the_interval_holds_the_truth_nineteen_times_in_twenty(truth: float) -> None:
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(400):
        competence = replayed_competence([outcome(int(r)) for r in rng.random(80) < truth])
        limits = interval(Profile(agent="a", dimension="d", competence=competence, memory=19))
        held += limits.low <= truth <= limits.high

    assert 0.93 <= held / 400 <= 0.995


@pytest.mark.parametrize("count", [5, 10, 20])
@pytest.mark.parametrize("truth", [0.1, 0.5, 0.95])
def test_an_interval_of_few_outcomes_rests_on_these_and_not_on_the_start(truth: float, count: int) -> None:
    rng = np.random.default_rng(6)
    weight, squares = 1 - 0.9**count, 0.1 * (1 - 0.9 ** (2 * count)) / 1.9
    held = 0
    for _ in range(400):
        competence = replayed_competence([outcome(int(r)) for r in rng.random(count) < truth])
        profile = Profile(
            agent="a", dimension="d", competence=competence, memory=memory(weight, squares), weight=weight
        )
        limits = interval(profile)
        held += limits.low <= truth <= limits.high

    assert held / 400 >= 0.91


def test_the_mean_of_the_outcomes_is_found_again_under_the_start() -> None:
    competence = replayed_competence([outcome(1), outcome(0), outcome(1)])
    weights = np.array([0.81, 0.9, 1.0]) * 0.1

    assert outcome_mean(competence, weights.sum()) == pytest.approx((weights[0] + weights[2]) / weights.sum())


def test_a_task_of_several_dimensions_rests_on_the_weakest() -> None:
    strong = Profile(agent="a", dimension="math", competence=0.9, observations=30, memory=19)
    weak = Profile(agent="a", dimension="code", competence=0.4, observations=3, memory=2.8)

    result = profile_estimate([strong, weak])

    assert (result.profile, result.limiting_dimension, result.observations) == (0.4, "code", 3)
    assert result.low == interval(weak).low
