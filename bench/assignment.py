"""Roles for agents: what the best assignment gains over greedy, and what it costs beside the other ways to find one.

    python -m bench assignment
    python -m bench.assignment --gain       # without the times

The gain depends on what each agent has of its own: where agents share a component, fitness separates them less. Five
simulated agents, one role each, every component uniform in [0, 1]; a shared one is drawn once for all.

Five roles, agents with room for one role each or for up to three; every way that finds an optimum must find the same
total, or the bench fails. Times are the median of the repeats, on the processor's own account.
"""

import argparse
import heapq
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import networkx as nx  # type: ignore[import-untyped]
import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linear_sum_assignment, milp
from scipy.sparse import csr_array, eye_array, kron
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from kernel.assignment import (
    Problem,
    best_assignment,
    build_problem,
    greedy_assignment,
    is_tie,
    margins,
    total_fitness,
)
from kernel.msv import MSV
from kernel.roles import ROLES, VersionedWeights, fitness_matrix
from services.assigner.service.assignment import assignment_problem, explained
from services.assigner.service.values import AssignRequest, Candidate

SIZES = (5, 20, 100, 1_000, 10_000)
REPEATS = 15
# A way that takes longer than this for a size is not tried on larger ones [ms].
PATIENCE_MS = 200.0
# Repeats end when they have taken this long together [s].
ENOUGH_S = 2.0
TOLERANCE = 1e-9
# Simulated questions for each gain [count].
QUESTIONS = 4_000
NAMES = ("correctness", "experience", "conflict", "importance", "emotional_response")
# What agents share, from the question, by what each has of its own; ER and PI are judged on the request.
SHARED: Mapping[str, Sequence[str]] = {
    "nothing": NAMES,
    "CE, CI (experience is the query's)": ("experience", "importance", "emotional_response"),
    "CE, CI, EM (experience is the agent's)": ("importance", "emotional_response"),
    "everything": (),
}


def ours(problem: Problem) -> float:
    """Assign as the service does: the six best agents of each role, SciPy on their seats, ties by identifier."""
    return total_fitness(problem, best_assignment(problem))


def with_margins(problem: Problem) -> float:
    """The same with the margins of all roles and the greedy baseline, as every answer has them."""
    chosen = best_assignment(problem)
    margins(problem, chosen)
    greedy_assignment(problem)
    return total_fitness(problem, chosen)


def scipy_on_all_seats(problem: Problem) -> float:
    """SciPy's `linear_sum_assignment` on every agent, its column repeated for each role it may hold."""
    seats = np.repeat(problem.values, problem.capacities, axis=1)
    rows, columns = linear_sum_assignment(seats, maximize=True)
    return float(seats[rows, columns].sum())


def scipy_sparse_matching(problem: Problem) -> float:
    """SciPy's sparse matching (LAPJVsp) on the same seats."""
    seats = np.repeat(problem.values, problem.capacities, axis=1)
    rows, columns = min_weight_full_bipartite_matching(csr_array(2.0 - seats))
    return float(seats[rows, columns].sum())


def scipy_milp(problem: Problem) -> float:
    """A min-cost flow as a linear programme (HiGHS): each role once, each agent as often as it may."""
    roles, agents = problem.values.shape
    once = kron(eye_array(roles), np.ones((1, agents)), format="csr")
    room = kron(np.ones((1, roles)), eye_array(agents), format="csr")
    found = milp(
        -problem.values.ravel(),
        constraints=[LinearConstraint(once, 1, 1), LinearConstraint(room, -np.inf, problem.capacities)],
        bounds=Bounds(0, 1),
    )
    return -float(found.fun or 0.0)


def networkx_flow(problem: Problem) -> float:
    """NetworkX's min-cost flow (network simplex), on whole numbers."""
    graph = nx.DiGraph()
    graph.add_node("s", demand=-len(ROLES))
    graph.add_node("t", demand=len(ROLES))
    for row, role in enumerate(ROLES):
        graph.add_edge("s", role, capacity=1, weight=0)
        for column in range(len(problem.agents)):
            graph.add_edge(role, column, capacity=1, weight=-round(float(problem.values[row, column]) * 1e12))
    for column, room in enumerate(problem.capacities.tolist()):
        graph.add_edge(column, "t", capacity=room, weight=0)
    cost, _ = nx.network_simplex(graph)
    return float(-cost / 1e12)


def own_flow(problem: Problem) -> float:
    """Successive shortest paths in plain Python: each role takes the cheapest chain of exchanges."""
    values, free = problem.values.tolist(), problem.capacities.tolist()
    held: list[int] = [-1] * len(ROLES)
    for role in range(len(ROLES)):
        _augment(role, values, free, held)
    return float(sum(values[role][agent] for role, agent in enumerate(held)))


def _augment(first: int, values: list[list[float]], free: list[int], held: list[int]) -> None:
    """Give `first` an agent, moving others where that costs least (Bellman-Ford over the roles)."""
    cost, previous = {first: 0.0}, {first: (-1, -1)}
    waiting, best = [(0.0, first)], (float("inf"), -1, -1)
    while waiting:
        so_far, role = heapq.heappop(waiting)
        if so_far > cost[role]:
            continue
        for agent, value in enumerate(values[role]):
            through = so_far - value
            if free[agent] > 0 and through < best[0]:
                best = (through, role, agent)
            for other in [r for r, holder in enumerate(held) if holder == agent and r != role]:
                moved = through + values[other][agent]
                if moved < cost.get(other, float("inf")) - 1e-12:
                    cost[other], previous[other] = moved, (role, agent)
                    heapq.heappush(waiting, (moved, other))
    _, role, agent = best
    free[agent] -= 1
    while role != -1:
        held[role], (role, agent) = agent, previous[role]


def by_dynamic_programming(problem: Problem) -> float:
    """Over agents and sets of roles, in plain Python."""
    best = [0.0] + [-1.0] * ((1 << len(ROLES)) - 1)
    parts = [part for part in range(1, 1 << len(ROLES))]
    for column, room in enumerate(problem.capacities.tolist()):
        values = problem.values[:, column].tolist()
        gains = {p: sum(values[r] for r in range(len(ROLES)) if p >> r & 1) for p in parts if p.bit_count() <= room}
        following = best[:]
        for mask, so_far in enumerate(best):
            if so_far >= 0:
                for part, gain in gains.items():
                    if not mask & part and so_far + gain > following[mask | part]:
                        following[mask | part] = so_far + gain
        best = following
    return best[-1]


def greedy(problem: Problem) -> float:
    """Greedy first-available: no optimum, the baseline that every answer is compared with."""
    chosen = greedy_assignment(problem)
    return 0.0 if chosen is None else total_fitness(problem, chosen)


WAYS: Mapping[str, Callable[[Problem], float]] = {
    "the service's (SciPy on the contenders, ties by identifier)": ours,
    "... with margins and greedy": with_margins,
    "SciPy linear_sum_assignment on all seats": scipy_on_all_seats,
    "SciPy min_weight_full_bipartite_matching": scipy_sparse_matching,
    "min-cost flow, HiGHS (SciPy milp)": scipy_milp,
    "min-cost flow, NetworkX network simplex": networkx_flow,
    "shortest augmenting paths, plain Python": own_flow,
    "dynamic programming, plain Python": by_dynamic_programming,
    "greedy (no optimum)": greedy,
}


def a_problem(agents: int, rooms: tuple[int, int]) -> Problem:
    """Agents whose fitness is drawn evenly, with room for a number of roles in `rooms`."""
    rng = np.random.default_rng(agents)
    names = [f"agent-{number:05}" for number in range(agents)]
    capacities = rng.integers(rooms[0], rooms[1] + 1, agents).tolist()
    return build_problem(names, np.round(rng.random((len(ROLES), agents)), 12), capacities=capacities)


def median_ms(work: Callable[[], object]) -> float:
    """Median time of `work` on the processor [ms]."""
    took: list[float] = []
    while not took or (len(took) < REPEATS and sum(took) < ENOUGH_S):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return statistics.median(took) * 1000


def measured(rooms: tuple[int, int]) -> dict[str, dict[int, float]]:
    """Time of every way by size [ms]; a way that is too slow is left out of larger sizes.

    Raises:
        SystemExit: When two ways disagree about the optimum.
    """
    times: dict[str, dict[int, float]] = {name: {} for name in WAYS}
    for size in SIZES:
        problem = a_problem(size, rooms)
        total = ours(problem)
        for name, way in WAYS.items():
            if max(times[name].values(), default=0.0) > PATIENCE_MS:
                continue
            found = way(problem)
            if way is not greedy and abs(found - total) > TOLERANCE:
                raise SystemExit(f"{name} finds {found} for {size} agents, and not {total}")
            times[name][size] = median_ms(lambda way=way, problem=problem: way(problem))  # type: ignore[misc]
    return times


@dataclass(frozen=True)
class Gain:
    """What the best assignment gains over greedy.

    Attributes:
        mean: Mean gain in total fitness [0..5].
        error: Half of its 95 % interval.
        ties: Share of the questions on which another assignment has the same total [0..1].
    """

    mean: float
    error: float
    ties: float


def gained(shared: Sequence[str], unknown: float = 0.0, *, questions: int = QUESTIONS, seed: int = 0) -> Gain:
    """Simulate what the best assignment gains where agents share some components.

    Args:
        shared: Components that are the same for all agents.
        unknown: Share of the agents whose experience is unknown [0..1].
        questions: Simulated questions [count].
        seed: Of everything.
    """
    rng = np.random.default_rng(seed)
    ids = ("ada", "ben", "cleo", "dan", "eve")
    gains, ties = np.empty(questions), 0
    for number in range(questions):
        own, common = rng.random((len(ids), len(NAMES))), rng.random(len(NAMES))
        levels = np.where([name in shared for name in NAMES], common, own).tolist()
        states = [MSV(**dict(zip(NAMES, row, strict=True))) for row in levels]
        states = [replace(state, experience=None) if rng.random() < unknown else state for state in states]
        problem = build_problem(ids, fitness_matrix(ids, states).fitness, capacities=[1] * len(ids))
        best, first = best_assignment(problem), greedy_assignment(problem)
        assert first is not None
        gains[number] = total_fitness(problem, best) - total_fitness(problem, first)
        ties += is_tie(margins(problem, best))
    return Gain(float(gains.mean()), 1.96 * float(gains.std(ddof=1)) / questions**0.5, ties / questions)


def _gains() -> None:
    sys.stdout.write(
        "| an agent has of its own | ties | gain [95 %] | EM of half of the agents unknown | of all |\n"
        "|---|---|---|---|---|\n"
    )
    for name, shared in SHARED.items():
        found = [gained(shared, unknown) for unknown in (0.0, 0.5, 1.0)]
        cells = " | ".join(f"{each.mean:.3f} ± {each.error:.3f}" for each in found)
        sys.stdout.write(f"| {name} | {found[0].ties:.0%} | {cells} |\n")
    sys.stdout.flush()


def answered() -> dict[str, dict[int, float]]:
    """Time of the whole use case, from states to the answer, in full and brief [ms]."""
    times: dict[str, dict[int, float]] = {"whole answer, every cell with its terms": {}, "brief answer": {}}
    rng = np.random.default_rng(0)
    for size in SIZES:
        levels = rng.random((size, len(NAMES))).tolist()
        agents = [
            Candidate(id=f"agent-{place:05}", msv=MSV(**dict(zip(NAMES, row, strict=True))))
            for place, row in enumerate(levels)
        ]
        full = AssignRequest(agents=agents)
        for name, request in zip(times, (full, replace(full, brief=True)), strict=True):
            times[name][size] = median_ms(lambda request=request: _answer(request))  # type: ignore[misc]
    return times


def _answer(request: AssignRequest) -> object:
    matrix, problem = assignment_problem(request, VersionedWeights())
    return explained(matrix, problem, version="", brief=request.brief)


def _table(title: str, times: Mapping[str, Mapping[int, float]]) -> None:
    sys.stdout.write(f"\n| {title} | " + " | ".join(f"{size:,}" for size in SIZES) + " |\n")
    sys.stdout.write("|---|" + "---|" * len(SIZES) + "\n")
    for name, by_size in times.items():
        cells = [f"{by_size[size]:.3g}" if size in by_size else "-" for size in SIZES]
        sys.stdout.write(f"| {name} | " + " | ".join(cells) + " |\n")
    sys.stdout.flush()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gain", action="store_true", help="only the gain over greedy, which is the same everywhere")
    only_gain = parser.parse_args().gain
    _gains()
    if only_gain:
        return
    sys.stdout.write("\nTime of one assignment of 5 roles [ms], by number of agents\n")
    _table("room for one role each", measured((1, 1)))
    _table("room for one to three roles", measured((1, 3)))
    _table("from states to the answer", answered())


if __name__ == "__main__":
    main()
