from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernel.assignment import (
    APART,
    InfeasibleAssignment,
    Problem,
    RolePair,
    best_assignment,
    build_problem,
    count_assignments,
    greedy_assignment,
    is_tie,
    margins,
    random_assignment,
    total_fitness,
    with_roles_apart,
)
from kernel.roles import ROLES, Floats, Role

NAMES = ("ada", "ben", "cleo", "dan", "eve", "fay")
CRITIC_AND_EVALUATOR = (Role.CRITIC, Role.EVALUATOR)
# Ada is best for everything; alone she would hold all roles.
ADA_LEADS = np.array([[0.9, 0.5, 0.4]] * 5)

Path = tuple[int, ...]


def keeps(path: Path, pairs: Sequence[RolePair]) -> bool:
    return all(path[ROLES.index(first)] != path[ROLES.index(second)] for first, second in pairs)


def feasible(problem: Problem, pairs: Sequence[RolePair]) -> list[Path]:
    """Every assignment that satisfies the constraints and keeps `pairs` apart, by trying all maps."""
    count = len(problem.agents)
    return [
        path
        for path in product(range(count), repeat=5)
        if all(problem.allowed[role, agent] for role, agent in enumerate(path))
        and all(path.count(agent) <= problem.capacities[agent] for agent in range(count))
        and keeps(path, pairs)
    ]


def problem_of(fitness: Floats, capacities: Sequence[int], **constraints: object) -> Problem:
    return build_problem(NAMES[: fitness.shape[1]], fitness, capacities=capacities, **constraints)  # type: ignore[arg-type]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Problems of one to five agents; few levels of fitness make many ties."""
    count, levels = draw(st.integers(1, 5)), draw(st.sampled_from([2, 1000]))
    cells = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).integers(0, levels + 1, (5, count))
    pair = st.tuples(st.sampled_from(ROLES), st.sampled_from(NAMES[:count]))
    forbidden = draw(st.lists(pair, max_size=2, unique=True))
    pins = dict(draw(st.lists(pair, max_size=1)))
    assume(not set(forbidden) & set(pins.items()))
    capacities = draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))
    return problem_of(cells / levels, capacities, pins=pins, forbidden=forbidden)


@given(problems())
@settings(deadline=None, max_examples=60)
def test_of_all_assignments_that_keep_the_roles_apart_the_first_of_the_best_is_found(problem: Problem) -> None:
    apart = with_roles_apart(problem)
    paths = feasible(problem, apart.apart)
    assume(paths)

    chosen = best_assignment(apart)

    totals = {path: total_fitness(problem, path) for path in paths}
    assert chosen == min(path for path in paths if totals[path] > max(totals.values()) - 1e-9)


@given(problems())
@settings(deadline=None, max_examples=60)
def test_a_pair_is_released_only_where_it_cannot_hold_beside_those_before_it(problem: Problem) -> None:
    assume(feasible(problem, ()))

    apart = with_roles_apart(problem)

    kept: list[RolePair] = []
    for pair in APART:
        if feasible(problem, [*kept, pair]):
            kept.append(pair)
    assert list(apart.apart) == kept
    assert list(apart.released) == [pair for pair in APART if pair not in kept]


@given(problems())
@settings(deadline=None, max_examples=40)
def test_margins_counts_greedy_and_drawn_assignments_keep_the_roles_apart_too(problem: Problem) -> None:
    apart = with_roles_apart(problem)
    paths = feasible(problem, apart.apart)
    assume(paths)
    chosen = best_assignment(apart)

    lost = margins(apart, chosen)
    greedy = greedy_assignment(apart)

    for role in range(5):
        others = [total_fitness(problem, path) for path in paths if path[role] != chosen[role]]
        expected = total_fitness(problem, chosen) - max(others) if others else None
        assert lost[role] == (None if expected is None else pytest.approx(expected, abs=1e-9))
    assert greedy is None or greedy in paths
    assert count_assignments(apart) == len(paths)
    assert random_assignment(apart, np.random.default_rng(1)) in paths
    equals = [path for path in paths if total_fitness(problem, path) > total_fitness(problem, chosen) - 1e-9]
    assert is_tie(lost) == (len(equals) > 1)


def test_three_agents_suffice_to_keep_all_roles_apart() -> None:
    problem = with_roles_apart(problem_of(ADA_LEADS, [5, 5, 5]))

    # Ada holds as many as she may: three roles of the chain, but not critic and evaluator both.
    assert [problem.agents[agent] for agent in best_assignment(problem)] == ["ada", "ada", "ben", "ada", "cleo"]
    assert problem.released == ()


def test_without_the_constraint_one_agent_holds_roles_that_should_be_apart() -> None:
    problem = problem_of(ADA_LEADS, [5, 5, 5])

    assert best_assignment(problem) == (0, 0, 0, 0, 0)
    assert problem.apart == problem.released == ()


def test_two_agents_keep_critic_and_evaluator_apart_and_release_one_of_them_from_the_generalist() -> None:
    problem = with_roles_apart(problem_of(ADA_LEADS[:, :2], [3, 3]))

    chosen = dict(zip(ROLES, best_assignment(problem), strict=True))

    assert chosen[Role.CRITIC] != chosen[Role.EVALUATOR]
    assert problem.released == ((Role.EVALUATOR, Role.GENERALIST),)


def test_one_agent_holds_all_roles_and_every_pair_is_released() -> None:
    problem = with_roles_apart(problem_of(ADA_LEADS[:, :1], [5]))

    assert best_assignment(problem) == (0, 0, 0, 0, 0)
    assert problem.released == APART


def test_pins_go_before_roles_that_should_be_apart() -> None:
    pins = {Role.CRITIC: "ben", Role.EVALUATOR: "ben"}

    problem = with_roles_apart(problem_of(ADA_LEADS, [5, 5, 5], pins=pins))

    assert best_assignment(problem)[1:3] == (1, 1)
    assert problem.released == (CRITIC_AND_EVALUATOR,)


def test_a_problem_without_an_assignment_is_rejected_for_what_it_lacks() -> None:
    problem = with_roles_apart(problem_of(ADA_LEADS[:, :2], [2, 2]))

    with pytest.raises(InfeasibleAssignment, match="raise a capacity or add agents"):
        best_assignment(problem)


def test_among_thousands_of_agents_roles_are_kept_apart_with_the_best_total() -> None:
    rng = np.random.default_rng(5)
    fitness = rng.random((5, 3000))
    names = [f"agent-{place:05}" for place in range(3000)]
    # One agent is the best for every role; each role's runner-up differs.
    fitness[:, 7] = 1.0
    problem = build_problem(names, fitness, capacities=[5] * 3000)

    chosen = best_assignment(with_roles_apart(problem))

    runners_up = np.delete(problem.values, 7, axis=1).max(axis=1)
    # Agent 7 holds three roles of the chain; another one is the evaluator or the critic, another one the generalist.
    expected = 5 - min(1 - runners_up[1], 1 - runners_up[2]) - (1 - runners_up[4])
    assert total_fitness(problem, chosen) == pytest.approx(expected)


def test_a_tie_is_two_assignments_with_one_total() -> None:
    alike = problem_of(np.full((5, 5), 0.5), [1] * 5)
    distinct = replace(alike, values=np.eye(5))

    assert is_tie(margins(alike, best_assignment(alike)))
    assert not is_tie(margins(distinct, best_assignment(distinct)))
