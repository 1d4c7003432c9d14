"""What REST writes becomes the message of the contract again, whatever the version of the server."""

from typing import Any, cast

import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp
from metacog.arbiter.v1 import arbiter_pb2, vote_pb2
from metacog.assigner.v1 import assigner_pb2
from metacog.common.v1 import msv_pb2, stage_pb2
from metacog.delegation.v1 import tasks_pb2
from metacog.router.v1 import feedback_pb2, route_pb2, router_pb2

from chassis.json_text import dumps, loads
from chassis.serving.wire import enum_names, from_rest, is_map, plain, wrapped_field
from tests.support.contracts.messages import every_message
from tests.unit.chassis.test_wire import fields_of, full

ACCOUNTS: dict[str, type[Message]] = {
    "deliberation": assigner_pb2.DeliberationFinished,
    "arbitration": arbiter_pb2.ArbitrationFinished,
    "task": tasks_pb2.TaskFinished,
    "vote": vote_pb2.VoteFinished,
}
LATER = {"added_by_the_next_version": {"depth": [1, {"colour": "red"}]}}


def over_rest(content: object) -> object:
    """Plain data as a client of REST has it."""
    return loads(dumps(content))


@pytest.mark.parametrize("message", every_message(), ids=lambda message: message.full_name)
def test_every_message_of_the_contract_goes_to_rest_and_comes_back(message: Descriptor) -> None:
    kind = GetMessageClass(message)
    said = full(kind)

    assert from_rest(over_rest(plain(said)), kind) == said
    assert from_rest(over_rest(plain(kind())), kind) == kind()


@pytest.mark.parametrize("message", every_message(), ids=lambda message: message.full_name)
def test_what_a_newer_server_adds_is_left_out_of_every_message(message: Descriptor) -> None:
    kind = GetMessageClass(message)
    said = full(kind)
    newer = of_newer_server(plain(said), said)

    assert from_rest(over_rest(newer), kind) == said


def of_newer_server(data: dict[str, Any], said: Message) -> dict[str, Any]:
    """Plain data of `said` with an unknown field in every object, and an unknown word in every list of words."""
    newer: dict[str, Any] = {}
    for field in fields_of(type(said)):
        held, item = getattr(said, field.name), data[field.name]
        if item is None or (field.message_type is None and field.enum_type is None) or isinstance(held, Timestamp):
            newer[field.name] = item
        elif field.enum_type is not None:
            newer[field.name] = [*item, "LATER_WORD"] if field.is_repeated else item
        elif is_map(field) or wrapped_field(cast("Descriptor", field.message_type)):
            newer[field.name] = item
        elif field.is_repeated:
            newer[field.name] = [of_newer_server(one, part) for one, part in zip(item, held, strict=True)]
        else:
            newer[field.name] = of_newer_server(item, held)
    return {**newer, **LATER}


@pytest.mark.parametrize("field", ACCOUNTS)
@pytest.mark.parametrize("added", [{}, LATER], ids=["same version", "newer server"])
def test_the_account_of_each_strategy_goes_into_its_own_field_of_the_run(field: str, added: dict[str, Any]) -> None:
    account = full(ACCOUNTS[field])

    run = from_rest(over_rest({"run_id": "r", "deliberation": {**plain(account), **added}}), router_pb2.Run)

    assert run == router_pb2.Run(run_id="r", **{field: account})  # type: ignore[arg-type]


def test_an_agents_assessment_of_itself_goes_into_the_field_of_the_service_that_it_comes_from() -> None:
    state, confidence = full(assigner_pb2.AgentAssessed), full(tasks_pb2.Assessment)

    for_roles = from_rest(over_rest({"agent_assessed": plain(state)}), router_pb2.AnswerResponse)
    for_a_task = from_rest(over_rest({"agent_assessed": plain(confidence)}), router_pb2.AnswerResponse)

    assert (for_roles.WhichOneof("event"), for_roles.agent_assessed) == ("agent_assessed", state)
    assert (for_a_task.WhichOneof("event"), for_a_task.task_agent_assessed) == ("task_agent_assessed", confidence)


def test_a_word_that_the_contract_lacks_is_not_stated_and_never_another_word() -> None:
    content = {"outcome": "POSTPONED", "route": {"system": "SYSTEM_THREE"}, "deliberation": None}

    run = from_rest(content, router_pb2.Run)

    assert run == router_pb2.Run(route=router_pb2.RouteResponse())
    assert enum_names(route_pb2.Route.DESCRIPTOR)[run.route.system] is None


def test_null_is_unset_and_zero_is_zero() -> None:
    content = {"correctness": 0.0, "conflict": None, "importance": 1, "kind": "RETROSPECTIVE"}

    msv = from_rest(content, msv_pb2.MSV)

    assert (msv.HasField("correctness"), msv.HasField("conflict"), msv.importance) == (True, False, 1.0)
    assert msv.kind == msv_pb2.MSV_KIND_RETROSPECTIVE


def test_a_cell_that_is_null_is_left_out_of_its_map() -> None:
    content = {"fitness": {"EXPERT": {"ada": 0.5, "ben": None}, "CRITIC": None}, "margins": {"EXPERT": None}}

    found = from_rest(content, assigner_pb2.AssignResponse)

    assert dict(found.fitness["EXPERT"].by_agent) == {"ada": 0.5}
    assert (set(found.fitness), dict(found.margins)) == ({"EXPERT"}, {})


def test_large_whole_numbers_and_times_arrive_exactly() -> None:
    asked = from_rest(over_rest({"seed": 2**63 - 1}), router_pb2.AnswerRequest)
    feedback = from_rest({"created_at": "2026-03-01T12:30:00.250001Z", "origin": "EXAM"}, router_pb2.RunFeedback)

    assert asked.seed == 2**63 - 1
    assert feedback.created_at.ToNanoseconds() == 1_772_368_200_250_001_000
    assert feedback.origin == feedback_pb2.LABEL_ORIGIN_EXAM


@pytest.mark.parametrize(
    "content",
    [
        [],
        "run",
        None,
        {"route": "SYSTEM_ONE"},
        {"usage": {"stages": ["thesis"]}},
        {"degraded_reasons": 3},
        {"created_at": "someday"},
        {"created_at": {"seconds": 3}},
        {"run_id": 7},
        {"confidence_labels": 2**40},
        {"duration_ms": "long"},
    ],
)
def test_what_has_another_form_is_named(content: object) -> None:
    with pytest.raises(ValueError, match="no Run of the contract"):
        from_rest(content, router_pb2.Run)


def test_an_unknown_event_is_no_event() -> None:
    later = from_rest({"run_postponed": {"until": "tomorrow"}}, router_pb2.AnswerResponse)
    known = from_rest({"stage_token": {"stage": "NOTE", "text": "so"}}, router_pb2.AnswerResponse)

    assert later.WhichOneof("event") is None
    assert known.stage_token == stage_pb2.StageToken(stage=stage_pb2.STAGE_NOTE, text="so")
