from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, cast

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from metacog.arbiter.v1 import arbiter_pb2 as arbiter_pb
from metacog.arbiter.v1 import vote_pb2 as vote_pb
from metacog.assigner.v1 import assigner_pb2 as assigner_pb
from metacog.common.v1 import answer_pb2, msv_pb2, stage_pb2
from metacog.delegation.v1 import tasks_pb2
from metacog.router.v1 import router_pb2 as router_pb

from chassis.serving.wire import event, event_name, event_to_proto, from_plain, from_proto, json_schema, plain, to_proto
from kernel.activation import Activation, Route
from kernel.answers import AnswerType
from kernel.envelope import Envelope, InvalidEnvelope, Usage
from kernel.errors import Code, MalformedRequest
from kernel.msv import COMPONENTS, MSV, MSVKind, MSVOutOfRange
from kernel.outcomes import Outcome
from kernel.roles import Role, Stage
from services.assigner.service import values as assigner
from services.router.service.answering import values as router
from services.router.service.assessment import values as assessment
from services.router.service.runs import values as runs

REQUESTS = [
    (assigner_pb.AssignRequest, assigner.AssignRequest),
    (assigner_pb.DeliberateRequest, assigner.DeliberateRequest),
    (router_pb.AssessRequest, assessment.AssessRequest),
    (router_pb.RouteRequest, assessment.RouteRequest),
    (router_pb.AnswerRequest, router.AnswerRequest),
    (router_pb.ListRunsRequest, runs.ListRunsRequest),
]
REPLIES = [
    (assigner_pb.AssignResponse, assigner.AssignResponse),
    (router_pb.AssessResponse, assessment.AssessResponse),
    (router_pb.RouteResponse, assessment.RouteResponse),
    (router_pb.GetRunResponse, runs.GetRunResponse),
    (router_pb.ListRunsResponse, runs.ListRunsResponse),
]
ASSIGNER_EVENTS: list[type[object]] = [
    assigner.DeliberationStarted,
    assigner.AgentAssessed,
    assigner.RolesAssigned,
    assigner.StageStarted,
    assigner.StageToken,
    assigner.StageFinished,
    assigner.StageMeasured,
    assigner.DeliberationFinished,
]
ROUTER_EVENTS: list[type[object]] = [
    router.RunStarted,
    assessment.Routed,
    router.AnswerToken,
    runs.FellBack,
    router.RunFinished,
]

# Maps whose keys are not free: everything else may have any key.
KEYS = {"unknown_reasons": "experience"} | dict.fromkeys(
    ("fitness", "weights", "pins", "terms", "margins", "assignment", "fixed_assignment"), "EXPERT"
)
FREE_KEYS = {router_pb.Activation.DESCRIPTOR.full_name}
# What the gRPC API alone puts into a message: a run's account, which the value holds under one name.
BY_THE_API = {f"{router_pb.Run.DESCRIPTOR.full_name}.{name}" for name in ("arbitration", "task", "vote")}
SCALARS = {float: 0.5, int: 3, bool: True, str: "words"}


def fields_of(kind: type[Message]) -> Sequence[FieldDescriptor]:
    # The stubs name the descriptors of the C implementation as well; both are the same to a caller.
    return cast("Sequence[FieldDescriptor]", kind.DESCRIPTOR.fields)


def message_name(field: FieldDescriptor) -> str:
    """The message that a field of the contract holds."""
    assert field.message_type is not None
    return field.message_type.full_name


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
    return {
        FieldDescriptor.CPPTYPE_DOUBLE: SCALARS[float],
        FieldDescriptor.CPPTYPE_INT32: SCALARS[int],
        FieldDescriptor.CPPTYPE_INT64: SCALARS[int],
        FieldDescriptor.CPPTYPE_BOOL: SCALARS[bool],
        FieldDescriptor.CPPTYPE_STRING: SCALARS[str],
    }[field.cpp_type]


def short(kind: object) -> str | None:
    return getattr(kind, "__name__", None)


@pytest.mark.parametrize(("message", "kind"), REQUESTS + REPLIES, ids=short)
def test_every_field_of_the_contract_reaches_the_value_and_comes_back(
    message: type[Message], kind: type[object]
) -> None:
    said = full(message)

    assert to_proto(from_proto(said, kind), message) == said


@pytest.mark.parametrize(("message", "kind"), REQUESTS + REPLIES, ids=short)
def test_a_value_survives_the_journey_there_and_back(message: type[Message], kind: type[object]) -> None:
    made = from_proto(full(message), kind)

    assert from_proto(to_proto(made, message), kind) == made


@pytest.mark.parametrize(
    ("kind", "stream"),
    [(kind, assigner_pb.DeliberateResponse) for kind in ASSIGNER_EVENTS]
    + [(kind, router_pb.AnswerResponse) for kind in ROUTER_EVENTS],
    ids=short,
)
def test_every_event_has_its_place_in_the_stream_and_comes_back(kind: type[object], stream: type[Message]) -> None:
    name = event_name(kind.__new__(kind))
    body = type(getattr(stream(), name))
    happened = from_proto(full(body), kind)

    sent = event_to_proto(happened, stream)

    assert sent.WhichOneof("event") == name
    assert getattr(sent, name) == full(body)
    assert event(sent) == (name, plain(full(body)))


def test_the_streams_carry_no_event_that_this_file_forgets() -> None:
    deliberation = {field.name for field in assigner_pb.DeliberateResponse.DESCRIPTOR.fields}
    answer = {field.name for field in router_pb.AnswerResponse.DESCRIPTOR.fields}

    told = {event_name(kind.__new__(kind)) for kind in ASSIGNER_EVENTS}
    assert told == deliberation
    own = {event_name(kind.__new__(kind)) for kind in ROUTER_EVENTS}
    assert own | (told & answer) | ARBITRATED.keys() | DELEGATED.keys() == answer


def relayed(stream: type[Message], prefix: str) -> dict[str, str]:
    """Kinds of the events of another service between its first and its last, by their name at the router."""
    fields = [field for field in fields_of(stream) if not field.name.endswith(("_started", "_finished"))]
    fields += [field for field in fields_of(stream) if field.name in ("solvers_finished", "critique_finished")]
    taken = {event_name(kind.__new__(kind)) for kind in (*ROUTER_EVENTS, *ASSIGNER_EVENTS)}
    return {f"{prefix if f.name in taken else ''}{f.name}": message_name(f) for f in fields}


ARBITRATED = relayed(arbiter_pb.ArbitrateResponse, "") | relayed(vote_pb.VoteResponse, "")
DELEGATED = relayed(tasks_pb2.ProcessResponse, "task_")
del DELEGATED["task_answer_token"]  # the executor's text is the answer's: the router tells it as its own `answer_token`


def test_the_router_relays_every_event_of_arbiter_and_delegation_as_it_is() -> None:
    fields = router_pb.AnswerResponse.DESCRIPTOR.fields_by_name

    for name, kind in {**ARBITRATED, **DELEGATED}.items():
        assert message_name(fields[name]) == kind, name


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


@pytest.mark.parametrize(
    ("ours", "theirs", "prefix"),
    [
        (Role, stage_pb2.Role, "ROLE_"),
        (Stage, stage_pb2.Stage, "STAGE_"),
        (MSVKind, msv_pb2.MSVKind, "MSV_KIND_"),
        (AnswerType, answer_pb2.AnswerType, "ANSWER_TYPE_"),
        (Outcome, answer_pb2.Outcome, "OUTCOME_"),
        (assigner.AssignmentKind, assigner_pb.AssignmentKind, "ASSIGNMENT_KIND_"),
        (Route, router_pb.Route, "ROUTE_"),
    ],
    ids=short,
)
def test_enums_have_the_contracts_names_without_their_prefix(
    ours: type[StrEnum], theirs: EnumTypeWrapper, prefix: str
) -> None:
    names = [name.removeprefix(prefix) for name in theirs.keys()]  # noqa: SIM118 - an enum wrapper is no mapping

    assert ["UNSPECIFIED", *ours] == names


def test_an_enum_is_spelled_without_its_prefix() -> None:
    pair = assigner_pb.ForbiddenPair(role=stage_pb2.ROLE_CRITIC, agent="ada")

    assert plain(pair) == {"role": "CRITIC", "agent": "ada"}
    assert to_proto({"role": "CRITIC", "agent": "ada"}, assigner_pb.ForbiddenPair) == pair
    assert to_proto(assigner.ForbiddenPair(role=Role.CRITIC, agent="ada"), assigner_pb.ForbiddenPair) == pair


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

    assert list(raised.value.metadata) == ["until"]


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
