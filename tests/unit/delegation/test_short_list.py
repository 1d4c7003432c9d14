import numpy as np
import pytest

from kernel.confidence.rules import Exploration
from kernel.learning.profiles import Profile, ProfileEstimate
from services.delegation.core.keywords import keyword_dimension, skilled_agent
from services.delegation.core.routine import Routine, is_routine
from services.delegation.core.short_list import short_list


def profiles(**competences: float) -> dict[str, list[Profile]]:
    return {
        name: [Profile(agent=name, dimension="d", competence=level, observations=60, memory=19)]
        for name, level in competences.items()
    }


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_without_exploration_the_best_profiles_are_listed_ties_by_name() -> None:
    listed = short_list(profiles(d=0.4, c=0.9, b=0.6, a=0.6), 3, Exploration.NONE, generator())

    assert [(each.agent, each.rank_value) for each in listed] == [("c", 0.9), ("a", 0.6), ("b", 0.6)]


def test_the_list_has_the_given_size_for_any_number_of_agents() -> None:
    many = profiles(**{f"agent{place:03}": place / 200 for place in range(100)})

    for exploration in Exploration:
        assert len(short_list(many, 4, exploration, generator())) == 4


def test_the_upper_bound_prefers_an_agent_with_few_observations() -> None:
    known = profiles(known=0.6)
    new = {"new": [Profile(agent="new", dimension="d")]}

    listed = short_list(known | new, 1, Exploration.UPPER_BOUND, generator())

    assert listed[0].agent == "new"


def test_thompson_sampling_lists_every_new_agent_sometimes() -> None:
    good = profiles(good=0.8)
    new = {f"new{place}": [Profile(agent=f"new{place}", dimension="d")] for place in range(5)}
    rng = generator(1)

    first = [short_list(good | new, 1, Exploration.THOMPSON, rng)[0].agent for _ in range(200)]

    assert set(first) == set(good | new)


def test_thompson_sampling_prefers_the_best_of_known_agents() -> None:
    known = profiles(best=0.95, worse=0.3, worst=0.1)
    rng = generator(2)

    first = [short_list(known, 1, Exploration.THOMPSON, rng)[0].agent for _ in range(200)]

    assert first.count("best") > 195


def test_the_same_seed_gives_the_same_list() -> None:
    one, other = (short_list(profiles(a=0.5, b=0.5, c=0.5), 3, Exploration.THOMPSON, generator(7)) for _ in range(2))

    assert one == other


@pytest.mark.parametrize(
    ("estimate", "certainty", "routine"),
    [
        ({}, 1.0, True),
        ({}, 0.79, False),
        ({"profile": 0.79}, 1.0, False),
        ({"observations": 19}, 1.0, False),
        ({"low": 0.49}, 1.0, False),
    ],
)
def test_a_task_is_routine_only_within_every_limit(estimate: dict[str, float], certainty: float, routine: bool) -> None:
    facts = {"profile": 0.8, "observations": 20, "low": 0.5, **estimate}
    first = ProfileEstimate(agent="a", limiting_dimension="d", **facts)  # type: ignore[arg-type]

    assert is_routine(first, certainty, threshold=0.5, limits=Routine()) is routine


def test_keywords_route_by_whole_words_and_the_first_of_equals() -> None:
    words = {"math": ["sum", "how many"], "code": ["python", "sum"]}

    assert keyword_dimension("How many are in the SUM?", words) == "math"
    assert keyword_dimension("A summary of pythons", words) is None
    assert keyword_dimension("the sum", words) == "math"


def test_the_default_agent_takes_tasks_without_a_skilled_agent() -> None:
    skills = {"alpha": ["math"], "gamma": ["code"]}

    assert skilled_agent("code", skills) == "gamma"
    assert skilled_agent(None, skills) == skilled_agent("music", skills) == "alpha"
