from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernel.assignment import (
    AssignedAgents,
    InfeasibleAssignment,
    NoAgents,
    Problem,
    best_assignment,
    build_problem,
    count_assignments,
    explored_assignment,
    greedy_assignment,
    margins,
    random_assignment,
    shared_capacities,
    total_fitness,
)
from kernel.errors import Code
from kernel.roles import ROLES, Floats, Role

NAMES = ("ada", "ben", "cleo", "dan", "eve", "fay")
PATHS = {n: np.array(list(product(range(n), repeat=5))) for n in range(1, 7)}
UNIFORM_FIVE = np.full((5, 5), 0.5)

# Two agents: ada may hold one role, ben four. Greedy gives ada the expert's role, for which ben is nearly as good.
GREEDY_TRAP = np.array([[0.9, 0.8], [0.9, 0.1], [0.0, 0.5], [0.0, 0.5], [0.0, 0.5]])


def feasible(problem: Problem) -> np.ndarray:
    """Every assignment that satisfies the constraints, by trying all maps of roles to agents."""
    paths = PATHS[len(problem.agents)]
    kept = problem.allowed[np.arange(5), paths].all(axis=1)
    for agent, capacity in enumerate(problem.capacities):
        kept &= (paths == agent).sum(axis=1) <= capacity
    satisfying: np.ndarray = paths[kept]
    return satisfying


def among(chosen: AssignedAgents, paths: np.ndarray) -> bool:
    return bool((paths == np.array(chosen)).all(axis=1).any())


def totals(problem: Problem, paths: np.ndarray) -> Floats:
    sums: Floats = problem.values[np.arange(5), paths].sum(axis=1)
    return sums


def problem_of(
    fitness: Floats,
    capacities: Sequence[int] | None = None,
    pins: Mapping[Role, str] | None = None,
    forbidden: Sequence[tuple[Role, str]] = (),
) -> Problem:
    count = fitness.shape[1]
    return build_problem(NAMES[:count], fitness, capacities=capacities or [1] * count, pins=pins, forbidden=forbidden)


def named(problem: Problem, chosen: AssignedAgents) -> list[str]:
    return [problem.agents[agent] for agent in chosen]


@st.composite
def problems(draw: st.DrawFn, *, levels: int = 1000, size: int = 0) -> Problem:
    """Problems of `size` agents with room for all roles, or of one to six with any; few levels make many ties."""
    count = size or draw(st.integers(1, 6))
    least = -(-5 // count) if size else 1
    cells = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).integers(-1, levels + 1, (5, count))
    fitness = np.where(cells < 0, np.nan, cells / levels)
    pairs = st.tuples(st.sampled_from(ROLES), st.sampled_from(NAMES[:count]))
    forbidden = draw(st.lists(pairs, max_size=count - 1 if size else 4, unique=True))
    pins = dict(draw(st.lists(pairs, max_size=2, unique=True)))
    assume(not set(forbidden) & set(pins.items()))
    capacities = draw(st.lists(st.integers(least, 5), min_size=count, max_size=count))
    return problem_of(fitness, capacities, pins, forbidden)


@pytest.mark.parametrize("size", range(1, 7))
@pytest.mark.parametrize("levels", [2, 1000])
@given(data=st.data())
@settings(deadline=None, max_examples=15)
def test_the_assignment_is_the_first_of_the_best_among_all_that_satisfy_the_constraints(
    size: int, levels: int, data: st.DataObject
) -> None:
    problem = data.draw(problems(levels=levels, size=size))
    paths = feasible(problem)
    assume(len(paths))

    chosen = best_assignment(problem)

    best = totals(problem, paths).max()
    assert total_fitness(problem, chosen) == pytest.approx(best)
    assert chosen == min(map(tuple, paths[totals(problem, paths) > best - 1e-9].tolist()))


@given(problems())
@settings(deadline=None, max_examples=30)
def test_it_is_rejected_exactly_when_no_assignment_satisfies_the_constraints(problem: Problem) -> None:
    possible = len(feasible(problem)) > 0

    if possible:
        best_assignment(problem)
    else:
        with pytest.raises(InfeasibleAssignment):
            best_assignment(problem)


@given(problems(levels=4))
@settings(deadline=None, max_examples=30)
def test_a_margin_is_what_the_best_assignment_without_that_pair_loses(problem: Problem) -> None:
    paths = feasible(problem)
    assume(len(paths))
    chosen = best_assignment(problem)

    lost = margins(problem, chosen)

    for role in range(5):
        others = paths[paths[:, role] != chosen[role]]
        if len(others):
            best = totals(problem, others).max()
            assert lost[role] == pytest.approx(total_fitness(problem, chosen) - best, abs=1e-9)
        else:
            assert lost[role] is None


@given(problems(levels=2), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=30)
def test_ties_fall_the_same_way_in_whatever_order_the_agents_are_listed(problem: Problem, shuffler: object) -> None:
    assume(len(feasible(problem)))
    order = list(range(len(problem.agents)))
    shuffler.shuffle(order)  # type: ignore[attr-defined]
    shuffled = build_problem(
        [problem.agents[index] for index in order],
        problem.fitness[:, order],
        capacities=[problem.capacities[index] for index in order],
        pins=problem.pins,
        forbidden=[
            (ROLES[row], problem.agents[column])
            for row, column in zip(*np.nonzero(~problem.allowed), strict=True)
            if ROLES[row] not in problem.pins
        ],
    )

    assert named(shuffled, best_assignment(shuffled)) == named(problem, best_assignment(problem))
    assert greedy_assignment(shuffled) == greedy_assignment(problem)
    assert margins(shuffled, best_assignment(shuffled)) == margins(problem, best_assignment(problem))


@given(problems())
@settings(deadline=None, max_examples=30)
def test_greedy_never_gets_more_than_the_best_assignment(problem: Problem) -> None:
    assume(len(feasible(problem)))

    greedy = greedy_assignment(problem)

    assume(greedy is not None)
    assert greedy is not None
    assert among(greedy, feasible(problem))
    assert total_fitness(problem, greedy) <= total_fitness(problem, best_assignment(problem)) + 1e-9


@given(problems())
@settings(deadline=None, max_examples=30)
def test_assignments_are_counted_as_they_can_be_listed(problem: Problem) -> None:
    assert count_assignments(problem) == len(feasible(problem))


@given(problems(), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_a_drawn_assignment_satisfies_the_constraints_and_is_repeated_with_its_seed(
    problem: Problem, seed: int
) -> None:
    paths = feasible(problem)
    assume(len(paths))

    drawn = random_assignment(problem, np.random.default_rng(seed))

    assert among(drawn, paths)
    assert drawn == random_assignment(problem, np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("capacities", "count"),
    [
        ([1, 1, 1, 1, 1], 120),  # 5!
        ([1, 1, 1, 1, 1, 1], 720),  # 6 x 5 x 4 x 3 x 2
        ([3, 2], 10),  # 5 over 2
        ([5, 5], 32),  # 2 to the 5
        ([5], 1),
        ([2, 2], 0),
        ([1, 1, 1, 1], 0),
    ],
)
def test_the_number_of_assignments_is_as_calculated(capacities: list[int], count: int) -> None:
    assert count_assignments(problem_of(np.full((5, len(capacities)), 0.5), capacities)) == count


def test_every_assignment_of_a_small_problem_is_drawn_about_equally_often() -> None:
    problem = problem_of(np.full((5, 2), 0.5), [3, 2])
    rng = np.random.default_rng(7)

    drawn = Counter(random_assignment(problem, rng) for _ in range(1000))

    assert set(drawn) == set(map(tuple, feasible(problem).tolist()))
    assert len(drawn) == 10
    assert all(50 < times < 150 for times in drawn.values())  # 100 expected, standard deviation 9.5


def test_a_drawn_assignment_does_not_depend_on_fitness() -> None:
    flat, steep = problem_of(np.full((5, 2), 0.5), [3, 2]), problem_of(GREEDY_TRAP, [3, 2])

    pairs = [
        (random_assignment(flat, np.random.default_rng(seed)), random_assignment(steep, np.random.default_rng(seed)))
        for seed in range(20)
    ]

    assert all(one == other for one, other in pairs)


def test_where_there_is_only_one_assignment_it_is_drawn() -> None:
    pins = {role: name for role, name in zip(ROLES, NAMES, strict=False)}

    drawn = random_assignment(problem_of(UNIFORM_FIVE, pins=pins), np.random.default_rng(1))

    assert drawn == (0, 1, 2, 3, 4)


def test_nothing_is_drawn_where_nothing_is_feasible() -> None:
    with pytest.raises(InfeasibleAssignment, match="may hold 4 roles in all"):
        random_assignment(problem_of(np.full((5, 4), 0.5)), np.random.default_rng(1))


def test_the_best_assignment_beats_greedy_where_greedy_falls_into_the_trap() -> None:
    problem = problem_of(GREEDY_TRAP, [1, 4])

    best, greedy = best_assignment(problem), greedy_assignment(problem)

    assert best == (1, 0, 1, 1, 1)
    assert total_fitness(problem, best) == pytest.approx(3.2)  # 0.8 + 0.9 + 3 x 0.5
    assert greedy == (0, 1, 1, 1, 1)
    assert total_fitness(problem, greedy) == pytest.approx(2.5)  # 0.9 + 0.1 + 3 x 0.5


def test_the_margins_of_the_trap_are_as_calculated() -> None:
    problem = problem_of(GREEDY_TRAP, [1, 4])

    lost = margins(problem, best_assignment(problem))

    # without either of the first two pairs: 2.5; with ada in one of the last three roles: 0.8 + 0.1 + 0.0 + 1.0
    assert lost == pytest.approx((0.7, 0.7, 1.3, 1.3, 1.3))


def test_of_equal_assignments_the_first_role_goes_to_the_first_agent_by_identifier() -> None:
    problem = build_problem(["zoe", "ada", "moe"], np.full((5, 3), 0.5), capacities=[5, 2, 2])

    assert named(problem, best_assignment(problem)) == ["ada", "ada", "moe", "moe", "zoe"]


def test_noise_far_behind_the_point_decides_nothing() -> None:
    noisy = np.full((5, 6), 0.3)
    noisy[:, 5] += 1e-13

    assert best_assignment(problem_of(noisy)) == greedy_assignment(problem_of(noisy)) == (0, 1, 2, 3, 4)


def test_among_thousands_of_agents_the_best_and_greedy_are_found() -> None:
    fitness = np.round(np.random.default_rng(5).random((5, 2000)) * 0.5, 3)
    wanted = (1999, 7, 1234, 600, 0)
    fitness[np.arange(5), wanted] = 1.0
    fitness[1, 1999] = fitness[4, 3] = 1.0  # the first is taken by the expert, the second ties with the first agent
    names = [f"agent-{number:04}" for number in range(2000)]
    problem = build_problem(names, fitness, capacities=[1] * 2000)

    assert best_assignment(problem) == greedy_assignment(problem) == wanted
    assert margins(problem, wanted)[1] == pytest.approx(1.0 - np.sort(np.delete(fitness[1], [7, 1999]))[-1])
    assert margins(problem, wanted)[4] == 0.0


def test_greedy_takes_the_roles_in_order_and_breaks_ties_by_identifier() -> None:
    problem = build_problem(["zoe", "ada", "moe"], np.full((5, 3), 0.5), capacities=[5, 2, 2])

    greedy = greedy_assignment(problem)

    assert greedy is not None
    assert named(problem, greedy) == ["ada", "ada", "moe", "moe", "zoe"]


def test_greedy_may_find_nothing_where_an_assignment_exists() -> None:
    fitness = np.array([[0.9, 0.8], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    problem = problem_of(fitness, [1, 4], forbidden=[(Role.GENERALIST, "ben")])

    assert greedy_assignment(problem) is None
    assert best_assignment(problem) == (1, 1, 1, 1, 0)


@pytest.mark.parametrize("capacity", [5, 6, 10**30])
def test_one_agent_may_hold_all_roles(capacity: int) -> None:
    problem = problem_of(np.full((5, 1), 0.4), [capacity])

    chosen = best_assignment(problem)

    assert chosen == greedy_assignment(problem) == random_assignment(problem, np.random.default_rng(0)) == (0,) * 5
    assert total_fitness(problem, chosen) == pytest.approx(2.0)
    assert margins(problem, chosen) == (None,) * 5


def test_of_more_agents_than_roles_some_stay_unassigned() -> None:
    fitness = np.full((5, 6), 0.1)
    fitness[np.arange(5), [5, 4, 3, 2, 1]] = 0.9

    chosen = best_assignment(problem_of(fitness))

    assert chosen == (5, 4, 3, 2, 1)


def test_two_models_with_several_roles_each_fill_five_roles() -> None:
    fitness = np.array([[0.9, 0.2], [0.1, 0.8], [0.6, 0.5], [0.7, 0.1], [0.2, 0.3]])

    assert best_assignment(problem_of(fitness, [3, 3])) == (0, 1, 0, 0, 1)


def test_fewer_agents_than_roles_are_rejected_by_their_capacity() -> None:
    with pytest.raises(InfeasibleAssignment) as rejected:
        best_assignment(problem_of(np.full((5, 2), 0.5), [1, 3]))

    assert rejected.value.metadata == {"constraint": "capacity", "capacity": "4"}
    assert "may hold 4 roles in all and there are 5" in rejected.value.message
    assert (rejected.value.code, rejected.value.reason) == (Code.FAILED_PRECONDITION, "INFEASIBLE_ASSIGNMENT")


def test_a_pin_holds_though_it_costs_fitness() -> None:
    problem = problem_of(GREEDY_TRAP, [1, 4], pins={Role.EXPERT: "ada"})

    chosen = best_assignment(problem)

    assert chosen == (0, 1, 1, 1, 1)
    assert margins(problem, chosen)[0] is None


def test_a_forbidden_pair_is_avoided_though_it_costs_fitness() -> None:
    problem = problem_of(GREEDY_TRAP, [1, 4], forbidden=[(Role.CRITIC, "ada")])

    assert best_assignment(problem) == (0, 1, 1, 1, 1)


def test_two_roles_pinned_to_one_agent_of_capacity_one_are_rejected_by_name() -> None:
    pins = {Role.EXPERT: "cleo", Role.SYNTHESIZER: "cleo"}

    with pytest.raises(InfeasibleAssignment) as rejected:
        best_assignment(problem_of(UNIFORM_FIVE, pins=pins))

    assert rejected.value.metadata == {"constraint": "pin", "roles": "EXPERT, SYNTHESIZER", "agents": "cleo"}


def test_two_roles_that_are_left_only_one_agent_of_capacity_one_are_rejected_by_name() -> None:
    others = [(role, name) for role in (Role.CRITIC, Role.EVALUATOR) for name in NAMES[1:5]]

    with pytest.raises(InfeasibleAssignment) as rejected:
        best_assignment(problem_of(UNIFORM_FIVE, forbidden=others))

    assert rejected.value.metadata == {"constraint": "forbidden pair", "roles": "CRITIC, EVALUATOR", "agents": "ada"}
    assert "leave only ada" in rejected.value.message


def test_three_roles_that_are_left_two_agents_are_rejected_though_each_pair_of_them_would_fit() -> None:
    others = [(role, name) for role in ROLES[:3] for name in NAMES[2:5]]

    with pytest.raises(InfeasibleAssignment) as rejected:
        best_assignment(problem_of(UNIFORM_FIVE, forbidden=others))

    assert rejected.value.metadata["roles"] == "EXPERT, CRITIC, EVALUATOR"
    assert rejected.value.metadata["agents"] == "ada, ben"


def test_a_role_forbidden_to_every_agent_is_rejected_by_name() -> None:
    with pytest.raises(InfeasibleAssignment) as rejected:
        best_assignment(problem_of(UNIFORM_FIVE, forbidden=[(Role.CRITIC, name) for name in NAMES[:5]]))

    assert rejected.value.metadata == {"constraint": "forbidden pair", "roles": "CRITIC", "agents": "no agent"}
    assert rejected.value.message == "CRITIC: pins and forbidden pairs leave no agent"


def test_a_pin_that_is_forbidden_is_rejected_as_such() -> None:
    with pytest.raises(InfeasibleAssignment, match="EXPERT is pinned to ada, and that pair is forbidden") as rejected:
        problem_of(UNIFORM_FIVE, pins={Role.EXPERT: "ada"}, forbidden=[(Role.EXPERT, "ada")])

    assert rejected.value.metadata == {"constraint": "pin", "role": "EXPERT", "agent": "ada"}


@pytest.mark.parametrize(
    ("constraints", "constraint"),
    [({"pins": {Role.CRITIC: "zoe"}}, "pin"), ({"forbidden": [(Role.CRITIC, "zoe")]}, "forbidden pair")],
)
def test_a_constraint_on_no_agent_is_rejected_by_name(constraints: dict[str, object], constraint: str) -> None:
    with pytest.raises(InfeasibleAssignment) as rejected:
        problem_of(UNIFORM_FIVE, **constraints)  # type: ignore[arg-type]

    assert rejected.value.metadata == {"constraint": constraint, "role": "CRITIC", "agent": "zoe"}


def test_without_agents_there_is_no_assignment() -> None:
    with pytest.raises(NoAgents) as rejected:
        build_problem([], np.empty((5, 0)), capacities=[])

    assert (rejected.value.code, rejected.value.reason) == (Code.FAILED_PRECONDITION, "NO_AGENTS")


def test_an_unknown_fitness_is_neither_a_recommendation_nor_an_exclusion() -> None:
    fitness = np.full((5, 3), np.nan)
    fitness[:, 0], fitness[:, 1] = 0.6, 0.4
    problem = problem_of(fitness, [1, 5, 4])

    chosen = best_assignment(problem)

    assert sorted(chosen) == [0, 2, 2, 2, 2]
    assert total_fitness(problem, chosen) == pytest.approx(2.6)  # 0.6 + 4 x 0.5


@pytest.mark.parametrize(
    ("stated", "shared"),
    [
        ([None], [5]),
        ([None, None], [3, 3]),
        ([None] * 5, [1] * 5),
        ([None] * 20, [1] * 20),
        ([3, None], [3, 3]),
        ([1, 1, None], [1, 1, 3]),  # the third makes up for the other two: a share of two would leave a role empty
        ([4, None, None], [4, 2, 2]),
        ([1, 1], [1, 1]),
    ],
)
def test_agents_without_a_stated_capacity_share_the_roles(stated: list[int | None], shared: list[int]) -> None:
    assert shared_capacities(stated) == shared


def test_without_exploration_the_best_is_certain() -> None:
    drawn = explored_assignment(problem_of(GREEDY_TRAP, [1, 4]), 0.0, np.random.default_rng(0))

    assert (drawn.chosen, drawn.propensity, drawn.explored) == ((1, 0, 1, 1, 1), 1.0, False)


def test_an_explored_assignment_reports_its_probability() -> None:
    problem = problem_of(GREEDY_TRAP, [3, 3])  # C(5, 2) + C(5, 3) = 20 assignments
    best, rng = best_assignment(problem), np.random.default_rng(3)

    drawn = [explored_assignment(problem, 0.2, rng) for _ in range(1000)]

    assert {round(each.propensity, 12) for each in drawn if each.chosen == best} == {0.81}  # 0.8 + 0.2 / 20
    assert {round(each.propensity, 12) for each in drawn if each.chosen != best} == {0.01}  # 0.2 / 20
    assert 150 < sum(each.explored for each in drawn) < 250  # 200 expected, standard deviation 12.6
    assert 760 < sum(each.chosen == best for each in drawn) < 860  # 810 expected, standard deviation 12.4


def test_with_nothing_but_exploration_every_assignment_is_as_likely() -> None:
    drawn = explored_assignment(problem_of(GREEDY_TRAP, [3, 3]), 1.0, np.random.default_rng(3))

    assert (drawn.propensity, drawn.explored) == (0.05, True)
