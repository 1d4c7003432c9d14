from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from metacog.assigner.v1 import assigner_pb2 as assigner_pb
from metacog.common.v1 import answer_pb2, msv_pb2, rest_pb2, stage_pb2
from metacog.delegation.v1 import tasks_pb2
from metacog.router.v1 import router_pb2 as router_pb

from chassis.serving.wire import event, event_to_proto, from_plain, from_proto, json_schema, plain, to_proto
from kernel.activation import Activation
from kernel.envelope import Envelope, InvalidEnvelope, Usage
from kernel.errors import Code, MalformedRequest
from kernel.msv import COMPONENTS, MSV, MSVOutOfRange
from kernel.roles import Role
from services.assigner.service import values as assigner
from services.router.service.answering import values as router
from services.router.service.assessment import values as assessment
from services.router.service.runs import values as runs
from tests.support.contracts.messages import every_enum
from tests.support.contracts.values import Pair, enums, pairs

# Every request, reply and event of the four services that has a value; those that the router relays have none there.
VALUES = [pair for pair in pairs() if pair.kind is not None]
EVENTS = [pair for pair in VALUES if pair.event]
RELAYED = [pair for pair in pairs() if pair.kind is None]
# What another service sends before and after its work, and the executor's text, which the router sends as its own.
NOT_RELAYED = {
    f"{work}_{end}" for work in ("deliberation", "arbitration", "vote", "task") for end in ("started", "finished")
}
NOT_RELAYED |= {"answer_token"}
# Enums of the contract that no value has: the reasons of errors are texts in the kernel, and the last is an option's.
WITHOUT_VALUES = {"metacog.common.v1.ErrorReason", "metacog.common.v1.Text"}
# Maps whose keys are not free: everything else may have any key.
KEYS = {"unknown_reasons": "experience"} | dict.fromkeys(
    ("fitness", "weights", "pins", "terms", "margins", "assignment", "fixed_assignment"), "EXPERT"
)
FREE_KEYS = {router_pb.Activation.DESCRIPTOR.full_name}
# What the gRPC API alone puts into a message: a run's account, which the value holds under one name.
BY_THE_API = {f"{router_pb.Run.DESCRIPTOR.full_name}.{name}" for name in ("arbitration", "task", "vote")}
SCALARS = {float: 0.5, int: 3, bool: True, str: "words"}
# Numbers whose range does not hold that one.
IN_RANGE: dict[str, float] = {
    "metacog.delegation.v1.DiscoverCategoriesRequest.tasks": 20,
    "metacog.router.v1.CostGuard.times_system1": 2.5,
}


def fields_of(kind: type[Message]) -> Sequence[FieldDescriptor]:
    # The stubs name the descriptors of the C implementation as well; both are the same to a caller.
    return cast("Sequence[FieldDescriptor]", kind.DESCRIPTOR.fields)


def full(kind: type[Message]) -> Message:
    """A message of `kind` in which every field of the contract says something."""
    message = kind()
    for field in fields_of(kind):
        if field.full_name not in BY_THE_API:
            fill(message, field)
    return message


def fill(message: Message, field: FieldDescriptor) -> None:
    held = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        free = message.DESCRIPTOR.full_name in FREE_KEYS
        key = "name" if free else KEYS.get(field.name, "name")
        item = field.message_type.fields_by_name["value"]
        if item.message_type is not None:
            held[key].CopyFrom(full(type(held[key])))
        else:
            held[key] = scalar(item)
    elif isinstance(held, Timestamp):
        held.FromJsonString("2026-03-01T12:30:00.250Z")
    elif field.is_repeated and field.message_type is not None:
        one = held.add()
        one.CopyFrom(full(type(one)))
    elif field.is_repeated:
        held.append(scalar(field))
    elif field.message_type is not None:
        held.CopyFrom(full(type(held)))
    else:
        setattr(message, field.name, scalar(field))


def scalar(field: FieldDescriptor) -> Any:  # noqa: ANN401 - of the field's own kind
    if field.enum_type is not None:
        return field.enum_type.values[-1].number
    if field.full_name in IN_RANGE:
        return IN_RANGE[field.full_name]
    return {
        FieldDescriptor.CPPTYPE_DOUBLE: SCALARS[float],
        FieldDescriptor.CPPTYPE_FLOAT: SCALARS[float],
        FieldDescriptor.CPPTYPE_INT32: SCALARS[int],
        FieldDescriptor.CPPTYPE_INT64: SCALARS[int],
        FieldDescriptor.CPPTYPE_BOOL: SCALARS[bool],
        FieldDescriptor.CPPTYPE_STRING: SCALARS[str],
    }[field.cpp_type]


def value_of(pair: Pair) -> type:
    assert pair.kind is not None
    return pair.kind


@pytest.mark.parametrize("pair", VALUES, ids=str)
def test_every_field_of_the_contract_reaches_the_value_and_comes_back(pair: Pair) -> None:
    said = full(GetMessageClass(pair.message))

    made: object = from_proto(said, value_of(pair))

    assert to_proto(made, GetMessageClass(pair.message)) == said
    assert from_proto(to_proto(made, GetMessageClass(pair.message)), value_of(pair)) == made


@pytest.mark.parametrize("pair", VALUES, ids=str)
def test_a_value_has_no_field_that_the_contract_lacks(pair: Pair) -> None:
    by_the_api = {field.name for field in pair.message.fields if field.full_name in BY_THE_API}

    assert {field.name for field in fields(value_of(pair))} == set(pair.message.fields_by_name) - by_the_api


@pytest.mark.parametrize("pair", EVENTS, ids=str)
def test_every_event_has_its_place_in_the_stream_and_comes_back(pair: Pair) -> None:
    assert pair.stream is not None
    stream = GetMessageClass(pair.stream)
    body = full(GetMessageClass(pair.message))

    sent = event_to_proto(from_proto(body, value_of(pair)), stream)

    assert sent.WhichOneof("event") == pair.event
    assert getattr(sent, pair.event) == body
    assert event(sent) == (pair.event, plain(body))


def test_the_router_relays_every_event_of_the_other_services_as_it_is() -> None:
    sent = [pair for pair in EVENTS if pair.service != "router" and pair.event not in NOT_RELAYED]
    taken = {pair.event for pair in sent if pair.service == "assigner"}

    expected = {
        (f"task_{pair.event}" if pair.service == "delegation" and pair.event in taken else pair.event, pair.message)
        for pair in sent
    }

    assert {(pair.event, pair.message) for pair in RELAYED} == expected
    assert {pair.service for pair in RELAYED} == {"router"}


def test_a_stream_message_without_an_event_is_no_event() -> None:
    assert event(router_pb.AnswerResponse()) == ("", {})


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(COMPONENTS, st.floats(0, 1))))
@settings(deadline=None)
def test_every_measured_number_arrives_exactly_and_every_unknown_one_as_unknown(known: dict[str, float]) -> None:
    msv = MSV(**known)  # type: ignore[arg-type]

    arrived = from_proto(to_proto(msv, msv_pb2.MSV), MSV)

    assert arrived == msv
    assert arrived.unknown == msv.unknown


def test_an_omitted_component_is_unknown_and_a_zero_is_zero() -> None:
    arrived = from_proto(msv_pb2.MSV(correctness=0.0), MSV)

    assert arrived.correctness == 0.0
    assert arrived.conflict is None


@pytest.mark.parametrize(
    ("message", "kind", "unsaid"),
    [
        (assigner_pb.Candidate(id="ada"), assigner.Candidate, {"capacity": None, "msv": None}),
        (
            assigner_pb.DeliberateRequest(),
            assigner.DeliberateRequest,
            {
                "seed": None,
                "assignment_seed": None,
                "stage_max_tokens": None,
                "answer_max_tokens": None,
                "answer_type": None,
                "envelope": None,
                "msv": None,
                "measure_stages": True,
                "assignment_kind": None,
            },
        ),
        (
            router_pb.AnswerRequest(),
            router.AnswerRequest,
            {
                "seed": None,
                "temperature": None,
                "max_tokens": None,
                "fallback": True,
                "assignment_kind": None,
                "assignment_seed": None,
                "stage_max_tokens": None,
            },
        ),
        (
            router_pb.ListRunsRequest(),
            runs.ListRunsRequest,
            {"page_size": 50, "system": None, "degraded": None, "since": None, "until": None},
        ),
        (router_pb.RouteRequest(), assessment.RouteRequest, {"msv": None, "envelope": None, "seed": None}),
        (router_pb.AssessRequest(), assessment.AssessRequest, {"envelope": None, "seed": None}),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, Message) else "",
)
def test_what_is_left_out_reads_as_unknown_or_as_documented_and_never_as_zero(
    message: Message, kind: type[object], unsaid: dict[str, object]
) -> None:
    made = from_proto(message, kind)

    assert {name: getattr(made, name) for name in unsaid} == unsaid


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (router_pb.AnswerRequest(seed=0), "seed"),
        (router_pb.AnswerRequest(temperature=0.0), "temperature"),
        (router_pb.AnswerRequest(fallback=False), "fallback"),
        (router_pb.AnswerRequest(assignment_seed=0), "assignment_seed"),
    ],
)
def test_a_zero_that_was_stated_is_a_zero(made: Message, field: str) -> None:
    assert getattr(from_proto(made, router.AnswerRequest), field) == 0


def test_an_unknown_number_is_null_in_plain_data_and_left_out_of_the_message() -> None:
    undetermined = Activation(value=None, threshold=0.45, terms={}, unknown=("conflict",), weights={})

    sent = to_proto(undetermined, router_pb.Activation)

    assert not sent.HasField("value")
    assert plain(sent)["value"] is None
    assert from_plain(plain(sent), Activation).value is None


def test_an_unknown_cell_is_left_out_of_its_map() -> None:
    answer = from_proto(full(assigner_pb.AssignResponse), assigner.AssignResponse)
    holed = {
        "fitness": {Role.EXPERT: {"ada": 0.5, "ben": None}, Role.CRITIC: {"ada": None, "ben": None}},
        "margins": {Role.EXPERT: None, Role.CRITIC: 0.0},
        "assignment": answer.assignment,
    }

    sent = to_proto(holed, assigner_pb.AssignResponse)

    assert dict(sent.fitness["EXPERT"].by_agent) == {"ada": 0.5}
    assert "CRITIC" in sent.fitness
    assert dict(sent.margins) == {"CRITIC": 0.0}


def test_enums_have_the_contracts_names_without_their_prefix() -> None:
    theirs = {enum.full_name: words(enum) for enum in every_enum() if enum.full_name not in WITHOUT_VALUES}

    ours = {name: [list(kind) for kind in kinds] for name, kinds in enums().items()}

    assert ours == {name: [expected] for name, expected in theirs.items()}


def words(enum: EnumDescriptor) -> list[str]:
    """The words of an enum without their prefix, and without the one for what is not stated."""
    zero, *others = (value.name for value in enum.values)
    names = [name.removeprefix(zero.removesuffix("UNSPECIFIED")) for name in others]
    return [name.lower() for name in names] if enum.GetOptions().Extensions[rest_pb2.lower_case] else names


def test_an_enum_is_spelled_without_its_prefix() -> None:
    pair = assigner_pb.ForbiddenPair(role=stage_pb2.ROLE_CRITIC, agent="ada")

    assert plain(pair) == {"role": "CRITIC", "agent": "ada"}
    assert to_proto({"role": "CRITIC", "agent": "ada"}, assigner_pb.ForbiddenPair) == pair
    assert to_proto(assigner.ForbiddenPair(role=Role.CRITIC, agent="ada"), assigner_pb.ForbiddenPair) == pair


def test_an_enum_in_lower_case_is_spelled_so_and_comes_back() -> None:
    chosen = tasks_pb2.ModeChosen(reason=tasks_pb2.MODE_REASON_BETTER_PEER)

    assert plain(chosen)["reason"] == "better_peer"
    assert to_proto({"reason": "better_peer"}, tasks_pb2.ModeChosen) == chosen
    with pytest.raises(KeyError):
        to_proto({"reason": "BETTER_PEER"}, tasks_pb2.ModeChosen)


@pytest.mark.parametrize("number", [0, 99])
def test_an_enum_number_that_states_nothing_reads_as_not_stated(number: int) -> None:
    ask = assigner_pb.DeliberateRequest(
        question="Q",
        # An older program may receive numbers that its own types do not have.
        answer_type=cast("answer_pb2.AnswerType.ValueType", number),
        assignment_kind=cast("assigner_pb.AssignmentKind.ValueType", number),
    )

    made = from_proto(ask, assigner.DeliberateRequest)

    assert plain(ask)["answer_type"] is None
    assert made.answer_type is None
    assert made.assignment_kind is None


@pytest.mark.parametrize("number", [0, 99])
def test_an_enum_that_must_be_stated_is_missed_by_its_place(number: int) -> None:
    role = cast("stage_pb2.Role.ValueType", number)
    ask = assigner_pb.AssignRequest(forbidden=[assigner_pb.ForbiddenPair(role=role, agent="ada")])

    with pytest.raises(MalformedRequest, match=r"forbidden\.0\.role: ") as raised:
        from_proto(ask, assigner.AssignRequest)

    assert list(raised.value.metadata) == ["forbidden.0.role"]


def test_a_moment_keeps_its_instant_and_its_zone() -> None:
    noon = datetime(2026, 3, 1, 12, 30, 0, 250_000, tzinfo=UTC)

    sent = to_proto(runs.ListRunsRequest(since=noon), router_pb.ListRunsRequest)

    assert (sent.since.seconds, sent.since.nanos) == (1772368200, 250_000_000)
    assert plain(sent)["since"] == "2026-03-01T12:30:00.250000+00:00"
    assert from_proto(sent, runs.ListRunsRequest).since == noon


def test_a_moment_may_be_given_as_text() -> None:
    sent = to_proto({"since": "2026-03-01T13:30:00.250+01:00"}, router_pb.ListRunsRequest)

    assert (sent.since.seconds, sent.since.nanos) == (1772368200, 250_000_000)


def test_a_moment_that_cannot_be_is_rejected_by_its_place() -> None:
    ask = router_pb.ListRunsRequest(until=Timestamp(seconds=10**15))

    with pytest.raises(MalformedRequest, match="until: ") as raised:
        from_proto(ask, runs.ListRunsRequest)

    assert raised.value.violations == {"until": "give a time between the years 1 and 9999"}


def test_a_message_with_a_single_by_field_is_spelled_as_that_field() -> None:
    answer = assigner_pb.AssignResponse()
    answer.fitness["EXPERT"].by_agent["ada"] = 0.68
    answer.terms["EXPERT"].by_agent["ada"].by_component["correctness"] = 0.48

    assert plain(answer)["fitness"] == {"EXPERT": {"ada": 0.68}}
    assert plain(answer)["terms"] == {"EXPERT": {"ada": {"correctness": 0.48}}}


def test_nested_maps_reach_the_message_through_their_wrappers() -> None:
    ask = assigner.AssignRequest(agents=[], weights={Role.EXPERT: {"correctness": 0.7, "experience": 0.3}})

    sent = to_proto(ask, assigner_pb.AssignRequest)

    assert dict(sent.weights["EXPERT"].by_component) == {"correctness": 0.7, "experience": 0.3}
    assert from_proto(sent, assigner.AssignRequest).weights == ask.weights


def test_an_empty_inner_map_is_still_there() -> None:
    sent = to_proto({"terms": {Role.EXPERT: {"ada": {}}}}, assigner_pb.AssignResponse)

    assert plain(sent)["terms"] == {"EXPERT": {"ada": {}}}


def test_a_deliberation_stays_readable_in_its_run() -> None:
    run = from_proto(full(router_pb.Run), runs.Run)

    assert run.deliberation is not None
    assert run.deliberation["roles"]["optimum"]["fitness"] == {"EXPERT": {"name": 0.5}}
    assert run.deliberation["stages"][0]["stage"] == "NOTE"


@pytest.mark.parametrize(
    ("data", "kind", "place"),
    [
        ({"agents": [{"id": "ada", "colour": "red"}]}, assigner.AssignRequest, "agents.0.colour"),
        ({"agents": [{}]}, assigner.AssignRequest, "agents.0.id"),
        ({"agents": [], "pins": {"BARD": "ada"}}, assigner.AssignRequest, "pins.BARD"),
        ({"agents": [], "weights": {"EXPERT": {"correctness": "much"}}}, assigner.AssignRequest, "weights.EXPERT"),
        ({"msv": {"correctnes": 0.5}}, assessment.RouteRequest, "msv.correctnes"),
        ({"envelope": {"timeout_ms": "soon"}}, router.AnswerRequest, "envelope.timeout_ms"),
        ({"answer_type": "POEM"}, router.AnswerRequest, "answer_type"),
        ({"message": "hi"}, router.AnswerRequest, "message"),
        ({"self": "hi"}, router.AnswerRequest, "self"),
        ({"code": "hi"}, router.AnswerRequest, "code"),
        ([], router.AnswerRequest, "body"),
        (None, router.AnswerRequest, "body"),
        ("What is 2 + 2?", router.AnswerRequest, "body"),
    ],
)
def test_what_the_contract_does_not_know_is_rejected_by_its_place(data: object, kind: type[object], place: str) -> None:
    with pytest.raises(MalformedRequest) as raised:
        from_plain(data, kind)

    assert raised.value.message.startswith(place)
    assert next(iter(raised.value.metadata)).startswith(place)
    assert (raised.value.code, raised.value.reason) == (Code.INVALID_ARGUMENT, "MALFORMED_REQUEST")


def test_all_complaints_are_in_the_metadata() -> None:
    with pytest.raises(MalformedRequest) as raised:
        from_plain({"question": 7, "seed": "x", "colour": "red"}, router.AnswerRequest)

    assert set(raised.value.metadata) == {"question", "seed", "colour"}


@pytest.mark.parametrize("level", [1.2, -0.1, float("nan")])
def test_a_component_out_of_range_is_rejected_as_such_on_both_apis(level: float) -> None:
    with pytest.raises(MSVOutOfRange):
        from_proto(router_pb.RouteRequest(msv=msv_pb2.MSV(conflict=level)), assessment.RouteRequest)
    with pytest.raises(MSVOutOfRange):
        from_plain({"msv": {"conflict": level}}, assessment.RouteRequest)


def test_a_limit_of_zero_is_rejected_and_not_read_as_left_out() -> None:
    ask = router_pb.AnswerRequest()
    ask.envelope.timeout_ms = 0

    with pytest.raises(InvalidEnvelope):
        from_proto(ask, router.AnswerRequest)


def test_an_empty_envelope_is_an_envelope_without_limits() -> None:
    ask = router_pb.AnswerRequest()
    ask.envelope.SetInParent()

    assert from_proto(ask, router.AnswerRequest).envelope == Envelope()


def test_a_value_that_has_drifted_from_the_contract_is_a_bug_and_not_dropped() -> None:
    with pytest.raises(KeyError, match="colour"):
        to_proto({"colour": "red"}, router_pb.AnswerToken)


def test_what_is_neither_value_nor_plain_data_is_a_bug() -> None:
    with pytest.raises(TypeError, match="neither a value nor plain data"):
        to_proto(7, router_pb.AnswerToken)


def test_usage_of_nothing_is_zeros_and_no_stages() -> None:
    assert from_proto(to_proto(Usage(), type(router_pb.Run().usage)), Usage) == Usage()


def test_a_schema_names_every_field_and_rejects_others() -> None:
    schema = json_schema(runs.FellBack)

    assert set(schema["properties"]) == {"from_strategy", "to_strategy", "reason", "message"}
    assert schema["additionalProperties"] is False
