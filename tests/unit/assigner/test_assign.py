from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.assignment import InfeasibleAssignment
from kernel.errors import MalformedRequest
from kernel.msv import COMPONENTS, MSV
from kernel.roles import ROLES, InvalidWeights, Role
from services.assigner.service.assignment import MAX_AGENTS, assign
from services.assigner.service.values import AssignRequest, Candidate, ForbiddenPair, PartialFitness

ADA = MSV(correctness=0.8, experience=0.5, conflict=0.3, importance=0.6, emotional_response=0.2)
FITNESS = {
    Role.EXPERT: {"ada": 0.9, "ben": 0.8},
    Role.CRITIC: {"ada": 0.9, "ben": 0.1},
    Role.EVALUATOR: {"ada": 0.0, "ben": 0.5},
    Role.SYNTHESIZER: {"ada": 0.0, "ben": 0.5},
    Role.GENERALIST: {"ada": 0.0, "ben": 0.5},
}
TWO = [Candidate(id="ada"), Candidate(id="ben", capacity=4)]


async def test_one_agent_that_may_hold_five_roles_gets_them_all() -> None:
    answer = await assign(AssignRequest(agents=[Candidate(id="ada", msv=ADA, capacity=5)]))

    assert answer.assignment == dict.fromkeys(ROLES, "ada")
    assert answer.total_fitness == pytest.approx(2.51)  # 0.68 + 0.26 + 0.56 + 0.62 + 0.39
    assert answer.margins == dict.fromkeys(ROLES, None)
    assert answer.partial == []


async def test_the_response_holds_every_fitness_with_its_terms() -> None:
    answer = await assign(AssignRequest(agents=[Candidate(id="ada", msv=ADA, capacity=5)]))

    assert answer.fitness[Role.EVALUATOR]["ada"] == pytest.approx(0.56)
    assert answer.terms[Role.EVALUATOR]["ada"] == pytest.approx(
        {"correctness": 0.32, "conflict": 0.09, "experience": 0.15}
    )
    assert answer.weights[Role.EVALUATOR] == {"correctness": 0.4, "conflict": 0.3, "experience": 0.3}


async def test_an_agent_holds_one_role_unless_it_may_hold_more() -> None:
    four = [Candidate(id=name, msv=ADA) for name in "abcd"]

    with pytest.raises(InfeasibleAssignment) as raised:
        await assign(AssignRequest(agents=four))

    assert raised.value.metadata["constraint"] == "capacity"


async def test_given_fitness_is_used_as_it_is_with_greedy_as_a_baseline() -> None:
    answer = await assign(AssignRequest(agents=TWO, fitness=FITNESS))

    assert answer.assignment == {
        Role.EXPERT: "ben",
        Role.CRITIC: "ada",
        Role.EVALUATOR: "ben",
        Role.SYNTHESIZER: "ben",
        Role.GENERALIST: "ben",
    }
    assert answer.total_fitness == pytest.approx(3.2)
    assert answer.fitness == FITNESS
    assert answer.greedy is not None
    assert answer.greedy.assignment[Role.EXPERT] == "ada"
    assert answer.greedy.total_fitness == pytest.approx(2.5)
    assert answer.margins == pytest.approx(dict(zip(ROLES, (0.7, 0.7, 1.3, 1.3, 1.3), strict=True)))


async def test_given_fitness_has_no_terms_and_no_weights() -> None:
    answer = await assign(AssignRequest(agents=TWO, fitness=FITNESS))

    assert (answer.terms, answer.weights, answer.partial) == ({}, {}, ())


async def test_where_greedy_gets_stuck_there_is_no_greedy() -> None:
    stuck = [ForbiddenPair(role=Role.GENERALIST, agent="ben")]

    answer = await assign(AssignRequest(agents=TWO, fitness=FITNESS, forbidden=stuck))

    assert answer.greedy is None
    assert answer.assignment[Role.GENERALIST] == "ada"


async def test_a_pin_and_a_forbidden_pair_hold() -> None:
    request = AssignRequest(
        agents=[Candidate(id=name, msv=ADA, capacity=5) for name in ("ada", "ben", "cleo")],
        pins={Role.CRITIC: "cleo"},
        forbidden=[ForbiddenPair(role=role, agent="ada") for role in ROLES if role is not Role.CRITIC],
    )

    answer = await assign(request)

    assert answer.assignment[Role.CRITIC] == "cleo"
    assert "ada" not in answer.assignment.values()
    assert answer.margins[Role.CRITIC] is None


async def test_a_partial_fitness_is_flagged_with_what_it_left_out() -> None:
    newcomer = MSV(correctness=0.8, conflict=0.3, importance=0.6, emotional_response=0.2)

    answer = await assign(AssignRequest(agents=[Candidate(id="ada", msv=newcomer, capacity=5)]))

    assert answer.partial == [
        PartialFitness(role=Role.EXPERT, agent="ada", unknown=("experience",)),
        PartialFitness(role=Role.EVALUATOR, agent="ada", unknown=("experience",)),
        PartialFitness(role=Role.SYNTHESIZER, agent="ada", unknown=("experience",)),
    ]
    assert answer.fitness[Role.EXPERT]["ada"] == pytest.approx(0.8)


async def test_a_fitness_without_a_known_component_is_none_and_not_zero() -> None:
    answer = await assign(AssignRequest(agents=[Candidate(id="ada", msv=MSV(), capacity=5)]))

    assert [answer.fitness[role]["ada"] for role in ROLES] == [None] * 5
    assert [answer.terms[role]["ada"] for role in ROLES] == [{}] * 5
    assert answer.total_fitness == pytest.approx(2.5)  # five unknowns at one half
    assert len(answer.partial) == 5


async def test_a_measured_zero_is_zero() -> None:
    nothing = MSV(correctness=0.0, experience=0.0, conflict=0.0, importance=0.0, emotional_response=0.0)

    answer = await assign(AssignRequest(agents=[Candidate(id="ada", msv=nothing, capacity=5)]))

    assert answer.fitness[Role.EXPERT]["ada"] == 0.0
    assert answer.fitness[Role.CRITIC]["ada"] == pytest.approx(0.4)  # nothing but doubt
    assert answer.total_fitness == pytest.approx(0.4)


async def test_weights_of_the_request_are_used_and_returned() -> None:
    request = AssignRequest(
        agents=[Candidate(id="ada", msv=ADA, capacity=5)], weights={Role.GENERALIST: {"importance": 1.0}}
    )

    answer = await assign(request)

    assert answer.fitness[Role.GENERALIST]["ada"] == pytest.approx(0.6)
    assert answer.weights[Role.GENERALIST] == {"importance": 1.0}
    assert answer.weights[Role.EXPERT] == {"correctness": 0.6, "experience": 0.4}


LEVELS = st.none() | st.integers(0, 4).map(lambda quarter: quarter / 4)
STATES = st.builds(MSV, **dict.fromkeys(COMPONENTS, LEVELS))


@given(st.lists(STATES, min_size=5, max_size=7), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=20)
async def test_the_same_agents_get_the_same_roles_in_whatever_order_they_are_listed(
    msvs: list[MSV], shuffler: object
) -> None:
    agents = [Candidate(id=name, msv=msv) for name, msv in zip("abcdefg", msvs, strict=False)]
    shuffled = list(agents)
    shuffler.shuffle(shuffled)  # type: ignore[attr-defined]

    one, other = await assign(AssignRequest(agents=agents)), await assign(AssignRequest(agents=shuffled))

    assert replace(one, partial=()) == replace(other, partial=())


@pytest.mark.parametrize(
    ("agents", "text"),
    [
        ([], "give 1 to 10000 agents, not 0"),
        ([Candidate(id=str(n)) for n in range(MAX_AGENTS + 1)], "give 1 to 10000 agents, not 10001"),
        ([Candidate(id="", msv=ADA)], "id '' is empty or used twice"),
        ([Candidate(id="ada", msv=ADA), Candidate(id="ada", msv=ADA)], "id 'ada' is empty or used twice"),
        ([Candidate(id="ada", msv=ADA, capacity=0)], "capacity of ada is 0; it must be at least 1"),
        ([Candidate(id="ada", capacity=5)], "ada has no msv"),
    ],
    ids=["none", "too many", "nameless", "twice", "no capacity", "no state"],
)
async def test_unusable_candidates_are_an_error_with_the_reason(agents: list[Candidate], text: str) -> None:
    with pytest.raises(MalformedRequest) as raised:
        await assign(AssignRequest(agents=agents))

    assert raised.value.message.startswith("agents: ")
    assert text in raised.value.message


@pytest.mark.parametrize("level", [None, -0.1, 1.1, float("nan")])
async def test_given_fitness_must_be_complete_and_in_range(level: float | None) -> None:
    cell = {} if level is None else {"ben": level}
    incomplete = {**FITNESS, Role.EVALUATOR: {"ada": 0.5, **cell}}

    with pytest.raises(MalformedRequest) as raised:
        await assign(AssignRequest(agents=TWO, fitness=incomplete))

    assert raised.value.metadata == {"field": "fitness", "role": "EVALUATOR", "agent": "ben"}


async def test_given_fitness_must_name_every_role() -> None:
    incomplete: dict[Role, dict[str, float]] = {
        role: cells for role, cells in FITNESS.items() if role is not Role.GENERALIST
    }

    with pytest.raises(MalformedRequest, match="GENERALIST needs a number"):
        await assign(AssignRequest(agents=TWO, fitness=incomplete))


async def test_unusable_weights_are_an_error() -> None:
    with pytest.raises(InvalidWeights):
        await assign(AssignRequest(agents=[Candidate(id="ada", msv=ADA)], weights={Role.EXPERT: {"correctness": 0.5}}))
