"""Competences that are drawn towards an agent's other dimensions, computed by hand."""

import numpy as np
import pytest

from kernel.learning.profiles import Profile, beta_reading, interval, sampled_competence
from kernel.learning.shrinkage import OverallRecord, overall_record, shrunk_profile, shrunk_profiles


def profile(competence: float, memory: float, dimension: str = "d", weight: float = 1.0) -> Profile:
    return Profile(agent="a", dimension=dimension, competence=competence, memory=memory, weight=weight)


def test_the_overall_record_weighs_each_dimension_by_its_observations() -> None:
    record = overall_record([profile(0.8, 6.0), profile(0.5, 2.0, "e"), Profile(agent="a", dimension="f")])

    # By hand: (6 * .8 + 2 * .5) / 8.
    assert (record.mean, record.memory) == pytest.approx((0.725, 8.0))


def test_the_start_that_a_competence_still_holds_has_no_part_in_the_record() -> None:
    # One right outcome: .5 + .1 * (1 - .5) = .55, of which the outcome has the weight .1.
    assert overall_record([profile(0.55, 1.0, weight=0.1)]).mean == pytest.approx(1.0)


def test_a_dimension_without_outcomes_is_read_from_the_other_ones() -> None:
    shrunk = shrunk_profile(Profile(agent="a", dimension="d"), OverallRecord(mean=0.9, memory=30.0))

    # With k = 10: (1 + 10 * .9) / (2 + 10), Beta(1 + 9, 1 + 1)
    assert shrunk.competence == pytest.approx(10 / 12)
    assert beta_reading(shrunk) == pytest.approx((10.0, 2.0))


def test_a_few_outcomes_are_drawn_far_and_many_a_little() -> None:
    other = OverallRecord(mean=0.9, memory=19.0)

    few, many = shrunk_profile(profile(0.3, 4.0), other), shrunk_profile(profile(0.3, 19.0), other)

    # By hand: (1 + 4 * .3 + 10 * .9) / (2 + 4 + 10) and (1 + 19 * .3 + 9) / (2 + 19 + 10)
    assert few.competence == pytest.approx(11.2 / 16)
    assert many.competence == pytest.approx(15.7 / 31)
    assert beta_reading(few) == pytest.approx((11.2, 4.8))


def test_what_is_known_elsewhere_counts_for_no_more_than_it_rests_on() -> None:
    shrunk = shrunk_profile(profile(0.3, 4.0), OverallRecord(mean=0.9, memory=2.0))

    # By hand: (1 + 1.2 + 1.8) / (2 + 4 + 2).
    assert shrunk.competence == pytest.approx(4.0 / 8)


def test_without_another_record_the_reading_stays_as_it_was() -> None:
    alone, new = profile(0.7, 9.0), Profile(agent="a", dimension="d")

    assert beta_reading(shrunk_profile(alone, OverallRecord())) == pytest.approx(beta_reading(alone))
    assert shrunk_profile(new, OverallRecord()).competence == 0.5
    assert beta_reading(shrunk_profile(new, OverallRecord())) == pytest.approx((1.0, 1.0))


def test_each_of_a_tasks_dimensions_is_drawn_towards_all_others() -> None:
    math, code, logic = profile(0.9, 10.0, "math"), profile(0.1, 10.0, "code"), profile(0.5, 10.0, "logic")

    first, second = shrunk_profiles([math, code], [logic])

    # math: q = (10 * .1 + 10 * .5) / 20 = .3; code: q = .7
    assert first.competence == pytest.approx((1 + 9 + 3) / 22)
    assert second.competence == pytest.approx((1 + 1 + 7) / 22)


def test_interval_and_draws_follow_the_drawn_competence() -> None:
    shrunk = shrunk_profile(Profile(agent="a", dimension="d"), OverallRecord(mean=0.9, memory=30.0))
    rng = np.random.default_rng(0)

    draws = [sampled_competence([shrunk], rng) for _ in range(4_000)]

    assert np.mean(draws) == pytest.approx(10 / 12, abs=0.01)
    assert interval(shrunk).low < 10 / 12 < interval(shrunk).high
