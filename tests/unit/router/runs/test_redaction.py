"""With contents switched off not a sentence of a run survives, and every number and decision does."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from metacog.arbiter.v1 import arbiter_pb2, vote_pb2
from metacog.assigner.v1 import assigner_pb2
from metacog.delegation.v1 import tasks_pb2

from chassis.ids import new_id
from chassis.json_text import dumps
from chassis.redaction import messages
from chassis.serving.wire import plain, to_proto
from kernel.activation import Route, activation
from kernel.conversation import Turn
from kernel.envelope import Envelope, StageUsage, Usage
from kernel.msv import COMPONENTS, MSV
from kernel.outcomes import Outcome
from kernel.redaction.texts import bare_reason
from services.router.core.decision_rules import DecisionRule
from services.router.service.assessment.values import KindGain, RouteResponse
from services.router.service.runs.redaction import has_contents, without_contents
from services.router.service.runs.values import FellBack, Run

SECRET = "Ann is ill, and nobody but her doctor knows it."
ACCOUNTS = {
    "dialectic": assigner_pb2.DeliberationFinished.DESCRIPTOR,
    "arbiter": arbiter_pb2.ArbitrationFinished.DESCRIPTOR,
    "delegation": tasks_pb2.TaskFinished.DESCRIPTOR,
    "vote": vote_pb2.VoteFinished.DESCRIPTOR,
}


def full_of(descriptor: Descriptor, text: str) -> Message:
    """A message with everything in it, and `text` wherever there can be a text, names of maps included."""
    message = GetMessageClass(descriptor)()
    for field in descriptor.fields:
        _fill(message, field, text)
    return message


def _fill(message: Message, field: FieldDescriptor, text: str) -> None:
    held = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        item = field.message_type.fields_by_name["value"]
        if item.message_type is not None:
            held[text].CopyFrom(full_of(item.message_type, text))
        else:
            held[text] = _scalar(item, text)
    elif field.message_type is not None:
        part = held.add() if field.is_repeated else held
        part.CopyFrom(full_of(field.message_type, text))
    elif field.is_repeated:
        held.append(_scalar(field, text))
    else:
        setattr(message, field.name, _scalar(field, text))


def _scalar(field: FieldDescriptor, text: str) -> Any:  # noqa: ANN401 - of any kind
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return text
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return True
    return 1 if field.cpp_type != FieldDescriptor.CPPTYPE_DOUBLE else 0.5


@pytest.mark.parametrize("strategy", ACCOUNTS)
def test_no_sentence_of_an_account_survives(strategy: str) -> None:
    account = plain(full_of(ACCOUNTS[strategy], SECRET))
    assert SECRET.encode() in dumps(account)

    redacted = dumps(messages.without_contents(account, ACCOUNTS[strategy])).decode()

    assert not any(word in redacted for word in ("Ann", "ill", "doctor", "knows"))


@pytest.mark.parametrize("strategy", ACCOUNTS)
def test_numbers_decisions_and_names_of_an_account_stay(strategy: str) -> None:
    account = plain(full_of(ACCOUNTS[strategy], "ada"))

    redacted = messages.without_contents(account, ACCOUNTS[strategy])

    assert redacted.keys() == account.keys()
    assert (redacted["outcome"], redacted["usage"]["generations"], redacted["answer"]) == (account["outcome"], 1, "")
    assert dict(leaves(redacted)).items() <= dict(leaves(account)).items() | dict.fromkeys(
        _emptied(redacted), ""
    ).items() | {(path, "withheld") for path, item in leaves(redacted) if item == "withheld"}


@pytest.mark.parametrize("strategy", ACCOUNTS)
def test_a_redacted_account_still_has_the_form_of_the_contract(strategy: str) -> None:
    redacted = messages.without_contents(plain(full_of(ACCOUNTS[strategy], "ada")), ACCOUNTS[strategy])

    message = to_proto(redacted, GetMessageClass(ACCOUNTS[strategy]))

    assert plain(message)["duration_ms"] == 0.5


def test_what_the_contract_does_not_have_is_dropped() -> None:
    task = ACCOUNTS["delegation"]
    account = {"new": SECRET, "news": [SECRET], "newer": {"text": SECRET}, "count_of_ann": 3, "confidence": 0.5}
    mistyped = {"confidence": SECRET, "mode": SECRET, "votes": [SECRET], "usage": [SECRET], "created_at": SECRET}

    assert messages.without_contents(account, task) == {"confidence": 0.5}
    assert messages.without_contents(mistyped, task) == {"votes": [], "created_at": ""}


def test_answers_that_are_names_of_counts_are_dropped() -> None:
    arbitration = {"solver": {"Ann": 3, "confidence": 2}, "planned_generations": 6}

    assert messages.without_contents(arbitration, ACCOUNTS["arbiter"]) == {"solver": {}, "planned_generations": 6}
    assert messages.without_contents({"vote_weights": {"ill": 0.7}}, ACCOUNTS["delegation"]) == {"vote_weights": {}}


@pytest.mark.parametrize(
    ("reason", "redacted"),
    [
        ("BACKEND_UNAVAILABLE: the backend said 'Ann is ill'", "BACKEND_UNAVAILABLE"),
        ("SYNTHESIS failed: UNPARSABLE_OUTPUT: Ann is ill", "SYNTHESIS failed: UNPARSABLE_OUTPUT"),
        ("unparseable", "unparseable"),
        ("Ann", "withheld"),
        ("ill: Ann", "withheld"),
        ("", ""),
    ],
)
def test_a_reason_keeps_its_code_and_loses_its_words(reason: str, redacted: str) -> None:
    assert bare_reason(reason) == redacted


def test_no_word_of_a_run_survives_and_every_number_does() -> None:
    run = run_with_secrets()

    redacted = without_contents(run)

    content = dumps(redacted).decode()
    assert not any(word in content for word in ("Ann", "ill", "doctor", "knows"))
    assert (redacted.run_id, redacted.messages_digest, redacted.request_digest) == (run.run_id, "d" * 64, "r" * 64)
    assert (redacted.confidence, redacted.confidence_raw, redacted.outcome) == (0.5, 0.25, Outcome.ANSWERED)
    assert redacted.usage == run.usage
    assert redacted.route is not None
    assert run.route is not None
    assert (redacted.route.activation, redacted.route.reason) == (run.route.activation, "activation")
    assert (redacted.route.kind, redacted.route.decided_by) == ("math_computation", DecisionRule.ACTIVATION)
    assert (redacted.route.gain, redacted.route.kind_unknown_reason) == (run.route.gain, "withheld")
    assert redacted.route.msv is not None
    assert redacted.route.msv.correctness == 0.45
    assert redacted.state is not None
    assert (redacted.state.conflict, redacted.winner_digest) == (0.72, "e" * 64)
    assert (redacted.model, redacted.catalogue_name) == ("a-model", "small")
    assert redacted.fallbacks[0].reason == "PEER_UNAVAILABLE"
    assert redacted.degraded_reasons == ["dialectic: PEER_UNAVAILABLE"]
    assert redacted.deliberation is not None
    assert redacted.deliberation["task_id"] == "t-1"
    assert (has_contents(run), has_contents(redacted)) == (True, False)


# What identifies a run, or names a choice, is no content.
NAMED = {
    "run_id": new_id(),
    "messages_digest": "d" * 64,
    "request_digest": "r" * 64,
    "request_id": "req-1",
    "key_name": "ann-the-key",
    "strategy": "delegation",
    "confidence_source": "delegation",
    "error_reason": "",
    "config_version": "paper",
    "model": "a-model",
    "calibration_version": "c-1",
    "winner_digest": "e" * 64,
    "catalogue_name": "small",
}
NAMED_OF_ROUTE = {
    "strategy": "delegation",
    "reason": "activation",
    "config_version": "paper",
    "assessor": "draft",
    "policy_row": "low experience",
    "cached_from": "",
    "kind": "math_computation",
}


def run_with_secrets() -> Run:
    """A run with the secret in every text that is not listed as a name, also in those that are added one day."""
    of_run: dict[str, Any] = {field.name: SECRET for field in fields(Run) if field.type in ("str", str)}
    of_run |= {**NAMED, "key_name": "key"}
    of_route: dict[str, Any] = {field.name: SECRET for field in fields(RouteResponse) if field.type in ("str", str)}
    of_route |= NAMED_OF_ROUTE
    msv = MSV(correctness=0.45, conflict=0.72, unknown_reasons=dict.fromkeys(COMPONENTS, SECRET))
    route = RouteResponse(
        **of_route,
        system=Route.SYSTEM_TWO,
        activation=activation(msv),
        msv=msv,
        usage=Usage(),
        duration_ms=1.0,
        samples=[SECRET],
        decided_by=DecisionRule.ACTIVATION,
        gain=KindGain(labels=20, system_one=0.5, system_two=0.75, gain=0.25, shrunk=0.25, minimum=0.15),
    )
    return Run(
        **of_run,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        messages=[Turn(role="user", content=SECRET)],
        envelope=Envelope(),
        route=route,
        outcome=Outcome.ANSWERED,
        confidence=0.5,
        confidence_raw=0.25,
        usage=Usage(stages={"system1": StageUsage(generations=1)}),
        state=msv,
        deliberation={"task_id": "t-1", "answer": SECRET, SECRET: SECRET},
        degraded_reasons=[f"dialectic: PEER_UNAVAILABLE: {SECRET}"],
        fallbacks=[FellBack(from_strategy="dialectic", to_strategy="a", reason="PEER_UNAVAILABLE", message=SECRET)],
    )


def leaves(item: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401
    """Everything in plain data that has no parts, with its place."""
    if isinstance(item, Mapping):
        for name, part in item.items():
            yield from leaves(part, (*path, name))
    elif isinstance(item, list):
        for number, part in enumerate(item):
            yield from leaves(part, (*path, str(number)))
    else:
        yield path, item


def _emptied(redacted: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    return (path for path, item in leaves(redacted) if item == "")
