"""The assigner answers alike on both APIs."""

import pytest
from metacog.assigner.v1 import assigner_pb2 as pb

from tests.contract.conftest import Served
from tests.support.apis import Api, ApiError, Body

ROLES = ("EXPERT", "CRITIC", "EVALUATOR", "SYNTHESIZER", "GENERALIST")
QUESTION = "Is it so?"

# Each agent is best at the role of its place, but `a` is better than `b` at what `b` does best.
FITNESS = {
    "EXPERT": {"a": 0.9, "b": 0.8, "c": 0.1, "d": 0.1, "e": 0.1},
    "CRITIC": {"a": 0.9, "b": 0.1, "c": 0.1, "d": 0.1, "e": 0.1},
    "EVALUATOR": {"a": 0.1, "b": 0.1, "c": 0.7, "d": 0.1, "e": 0.1},
    "SYNTHESIZER": {"a": 0.1, "b": 0.1, "c": 0.1, "d": 0.6, "e": 0.1},
    "GENERALIST": {"a": 0.1, "b": 0.1, "c": 0.1, "d": 0.1, "e": 0.5},
}
NAMED = [{"id": name} for name in "abcde"]


def state(**levels: float) -> Body:
    return {"correctness": 0.5, "experience": 0.5, "conflict": 0.5, "importance": 0.5, **levels}


async def test_ready_fitness_is_assigned_as_one_whole(assigner: Api) -> None:
    reply = await assigner.ask("Assign", agents=NAMED, fitness=FITNESS)

    assert reply["assignment"] == dict(zip(ROLES, "bacde", strict=True))
    assert reply["total_fitness"] == pytest.approx(0.8 + 0.9 + 0.7 + 0.6 + 0.5)
    assert reply["greedy"]["assignment"]["EXPERT"] == "a"
    assert reply["greedy"]["total_fitness"] == pytest.approx(0.9 + 0.1 + 0.7 + 0.6 + 0.5)
    assert (reply["fitness"], reply["terms"], reply["weights"]) == (FITNESS, {}, {})


async def test_states_make_the_fitness_with_the_terms_of_each_cell(assigner: Api) -> None:
    agents = [{"id": "a", "msv": state(correctness=0.9, experience=0.5), "capacity": 5}]

    reply = await assigner.ask("Assign", agents=agents)

    assert set(reply["assignment"].values()) == {"a"}
    assert reply["fitness"]["EXPERT"]["a"] == pytest.approx(0.6 * 0.9 + 0.4 * 0.5)
    assert reply["terms"]["EXPERT"]["a"] == pytest.approx({"correctness": 0.54, "experience": 0.2})
    assert reply["weights"]["CRITIC"] == {"conflict": 0.6, "incorrectness": 0.4}


async def test_what_a_fitness_had_to_leave_out_is_named(assigner: Api) -> None:
    reply = await assigner.ask("Assign", agents=[{"id": "a", "msv": {"correctness": 0.9}, "capacity": 5}])

    assert {"role": "CRITIC", "agent": "a", "unknown": ["conflict"]} in reply["partial"]
    assert reply["fitness"]["CRITIC"]["a"] == pytest.approx(0.1)


async def test_a_brief_answer_leaves_out_what_there_is_of_every_cell(assigner: Api) -> None:
    agents = [{"id": "a", "msv": state(), "capacity": 5}]

    whole, brief = [await assigner.ask("Assign", agents=agents, brief=each) for each in (False, True)]

    assert (brief["fitness"], brief["terms"], brief["partial"]) == ({}, {}, [])
    left = {name: item for name, item in whole.items() if name not in ("fitness", "terms", "partial")}
    assert left.items() <= brief.items()
    assert (whole["weights_version"], len(whole["partial"])) == ("default", 1)


async def test_equal_agents_get_the_roles_in_their_own_order(assigner: Api) -> None:
    agents = [{"id": name, "msv": state()} for name in "edcbaf"]

    reply = await assigner.ask("Assign", agents=agents)

    assert reply["assignment"] == dict(zip(ROLES, "abcde", strict=True))


async def test_a_tie_is_called_a_tie(assigner: Api) -> None:
    alike = [{"id": name, "msv": state()} for name in "abcde"]

    tied = await assigner.ask("Assign", agents=alike)
    decided = await assigner.ask("Assign", agents=NAMED, fitness=FITNESS, pins={"EXPERT": "b"})

    assert (tied["tie"], decided["tie"]) == (True, False)
    assert set(tied["margins"].values()) == {0.0}


async def test_roles_that_must_be_apart_are_kept_apart_and_released_where_agents_are_too_few(assigner: Api) -> None:
    roomy = [{"id": name, "msv": state(), "capacity": 5} for name in "abc"]

    free = await assigner.ask("Assign", agents=roomy)
    three = await assigner.ask("Assign", agents=roomy, keep_apart=True)
    one = await assigner.ask("Assign", agents=roomy[:1], keep_apart=True)

    chain_and_generalist = [{"first": role, "second": "GENERALIST"} for role in ROLES[:4]]
    pairs = [{"first": "CRITIC", "second": "EVALUATOR"}, *chain_and_generalist]
    assert (set(free["assignment"].values()), free["kept_apart"], free["released"]) == ({"a"}, [], [])
    assert three["assignment"] == dict(zip(ROLES, "aabac", strict=True))
    assert (three["kept_apart"], three["released"]) == (pairs, [])
    assert (one["kept_apart"], one["released"]) == ([], pairs)


async def test_an_unknown_fitness_is_null_on_rest_and_absent_on_grpc(services: dict[str, Served]) -> None:
    served, body = services["assigner"], {"agents": [{"id": "a", "msv": {"correctness": 0.9}, "capacity": 5}]}

    document = (await served.rest.send("Assign", body)).json()
    message = (await served.rpc.messages("Assign", body))[0]

    assert document["fitness"]["GENERALIST"] == {"a": None}
    assert document["margins"]["EXPERT"] is None
    assert isinstance(message, pb.AssignResponse)
    assert "a" not in message.fitness["GENERALIST"].by_agent
    assert "EXPERT" not in message.margins


async def test_pins_and_forbidden_pairs_hold(assigner: Api) -> None:
    reply = await assigner.ask(
        "Assign",
        agents=NAMED,
        fitness=FITNESS,
        pins={"EXPERT": "a"},
        forbidden=[{"role": "CRITIC", "agent": "b"}],
    )

    assert reply["assignment"]["EXPERT"] == "a"
    assert reply["assignment"]["CRITIC"] != "b"


async def test_the_events_of_a_deliberation_come_in_their_order(assigner: Api) -> None:
    events = await assigner.events("Deliberate", question=QUESTION, measure_stages=False)

    stage = ["stage_started", "stage_token", "stage_token", "stage_finished"]
    assert [name for name, _ in events] == [
        "deliberation_started",
        *["agent_assessed"] * 5,
        "roles_assigned",
        *stage * 4,
        "deliberation_finished",
    ]
    started = [data["stage"] for name, data in events if name == "stage_started"]
    assert started == ["THESIS", "ANTITHESIS", "RESOLUTION", "SYNTHESIS"]


async def test_a_finished_deliberation_explains_itself(assigner: Api) -> None:
    finished = await assigner.ask("Deliberate", question=QUESTION, run_id="run-1")

    assert (finished["answer"], finished["outcome"]) == ("the synthesis", "ANSWERED")
    assert finished["note_reason"] == "importance 0.10 is below 0.70"
    assert [measured["stage"] for measured in finished["measurements"]] == [
        stage["stage"] for stage in finished["stages"]
    ]
    assert finished["assessments"][0]["msv"]["conflict"] is None
    assert finished["assessments"][0]["msv"]["unknown_reasons"]["conflict"] == "the rating left it out"
    assert finished["usage"]["generations"] == 4


async def test_each_agents_experience_is_its_own(assigner: Api) -> None:
    known = {"agents": [{"agent": "ada", "experience": 0.75}, {"agent": "ben", "unknown_reason": "none yet"}]}

    finished = await assigner.ask("Deliberate", question=QUESTION, experience=known)

    states = {each["agent"]: each["msv"] for each in finished["assessments"]}
    assert (states["ada"]["experience"], states["ben"]["experience"]) == (0.75, None)
    assert states["ben"]["unknown_reasons"]["experience"] == "none yet"
    assert states["cleo"]["unknown_reasons"]["experience"] == "the experience of this agent was not stated"


@pytest.mark.parametrize(
    ("operation", "body", "code", "reason"),
    [
        ("Assign", {}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        ("Assign", {"agents": [{"id": "a"}, {"id": "a"}]}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        ("Assign", {"agents": [{"id": "a", "msv": {"conflict": -0.1}}]}, "INVALID_ARGUMENT", "MSV_OUT_OF_RANGE"),
        ("Assign", {"agents": [{"id": "a", "msv": state()}]}, "FAILED_PRECONDITION", "INFEASIBLE_ASSIGNMENT"),
        (
            "Assign",
            {"agents": [{"id": "a", "msv": state()}], "weights": {"EXPERT": {"correctness": 0.5}}},
            "INVALID_ARGUMENT",
            "INVALID_WEIGHTS",
        ),
        ("Deliberate", {}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
        (
            "Deliberate",
            {"question": "?", "experience": {"agents": [{"agent": "ada", "experience": 1.5}]}},
            "INVALID_ARGUMENT",
            "MALFORMED_REQUEST",
        ),
        ("Deliberate", {"question": "?", "agents": ["zoe"]}, "INVALID_ARGUMENT", "UNKNOWN_AGENT"),
        ("Deliberate", {"question": "?", "assignment_kind": "FIXED"}, "INVALID_ARGUMENT", "MALFORMED_REQUEST"),
    ],
)
async def test_an_error_has_one_code_and_one_reason(
    assigner: Api, operation: str, body: Body, code: str, reason: str
) -> None:
    with pytest.raises(ApiError) as raised:
        await assigner.ask(operation, **body)

    assert (raised.value.code, raised.value.reason) == (code, reason)


async def test_an_infeasible_problem_names_the_constraint(assigner: Api) -> None:
    with pytest.raises(ApiError) as raised:
        await assigner.ask("Assign", agents=[{"id": "a", "msv": state(), "capacity": 4}])

    assert raised.value.metadata == {"constraint": "capacity", "capacity": "4"}
