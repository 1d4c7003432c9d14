"""Requests of any content, by both APIs of the four services: each ends in a reply or a named error, in time."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import grpc
import hypothesis
import pytest
import requests
import schemathesis
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from hypothesis import strategies as st
from metacog.arbiter.v1 import arbiter_pb2
from metacog.assigner.v1 import assigner_pb2
from metacog.common.v1.error_reason_pb2 import ErrorReason
from metacog.delegation.v1 import delegation_pb2
from metacog.router.v1 import router_pb2
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok

from chassis.serving.contract import http_rule
from chassis.serving.wire import to_proto
from configuration.services import SERVICES
from kernel.errors import Code
from services.router.service.gateway.chat_reply import ERROR_CODES
from tests.support.hostile.messages import messages, mutated
from tests.support.hostile.suite import Suite, authorization, suite
from tests.support.models.scripted_llm import ScriptedLLM

T = TypeVar("T")

AnyCase = Case[Any]

CONTRACTS: dict[str, ServiceDescriptor] = {
    "router": router_pb2.DESCRIPTOR.services_by_name["RouterService"],
    "assigner": assigner_pb2.DESCRIPTOR.services_by_name["AssignerService"],
    "arbiter": arbiter_pb2.DESCRIPTOR.services_by_name["ArbiterService"],
    "delegation": delegation_pb2.DESCRIPTOR.services_by_name["DelegationService"],
}
# Cases of one service and API [count]: in `make test`, and in `make test-hard`.
CASES, MANY_CASES = 200, 10_000
# Time of one call; a call that takes longer hangs [s].
DEADLINE_S = 60.0

# Errors with these codes are of the server's making; the other ones with a status from 500 on are documented states of
# a part that is away, late or not built in.
SERVER_ERRORS = frozenset({"UNKNOWN", "INTERNAL", "DATA_LOSS"})
STATUSES_OF_STATES = frozenset({501, 503, 504})

# What a chat may hold; the document leaves open what the model's server takes.
CHAT: dict[str, Any] = {
    "type": "object",
    "required": ["model", "messages"],
    "properties": {
        "model": {"enum": ["metacog", "metacog/system1", "metacog/vote", "metacog/dialectic", "scripted", "none"]},
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["role", "content"],
                "properties": {"role": {"enum": ["user", "assistant", "system"]}, "content": {"type": "string"}},
            },
        },
        "max_tokens": {"type": "integer", "minimum": 1},
        "temperature": {"type": "number"},
        "n": {"type": "integer", "minimum": 1, "maximum": 4},
        "stop": {"type": "array", "items": {"type": "string"}},
        "stream": {"type": "boolean"},
        "stream_options": {"type": "object"},
        "logprobs": {"type": "boolean"},
        "tools": {"type": "array"},
        "response_format": {"type": "object"},
        "metacog": {"type": "object"},
    },
}

# Requests that are answered, by operation; the others start from nothing.
QUESTION: dict[str, Any] = {"messages": [{"role": "user", "content": "What is 2 + 2?"}]}
GOOD: dict[str, dict[str, Any]] = {
    "Assess": QUESTION,
    "Route": QUESTION,
    "Answer": {**QUESTION, "answer_type": "NUMBER", "strategy": "vote"},
    "Assign": {"agents": [{"id": name, "msv": {"correctness": 0.5}} for name in ("ada", "ben", "cleo", "dan", "eve")]},
    "Deliberate": QUESTION,
    "Arbitrate": QUESTION,
    "Vote": {**QUESTION, "answer_type": "NUMBER"},
    "Measure": {"solver_answers": ["4", "5", "4"], "answer_type": "NUMBER"},
    "Process": QUESTION,
    "SelfAssess": QUESTION,
    "MatchExperience": QUESTION,
    "AddKnowledge": {"documents": [{"title": "Sums", "text": "2 + 2 is 4."}]},
    "SearchKnowledge": {"query": "sums"},
}

Cases = pytest.mark.parametrize(
    "cases",
    [
        pytest.param(CASES, id=str(CASES), marks=pytest.mark.timeout(900)),
        pytest.param(MANY_CASES, id=str(MANY_CASES), marks=[pytest.mark.hard, pytest.mark.timeout(7200)]),
    ],
)


@pytest.fixture(scope="module")
def running(new_database: Callable[[], str]) -> Iterator[Suite]:
    """A suite in a loop and a thread of its own, since hypothesis makes its cases outside of one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    stack = AsyncExitStack()

    def wait_for(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    with TemporaryDirectory() as folder, ScriptedLLM() as llm:
        encoder = {"METACOG_ENCODER_URL": f"{llm.url}/v1"}
        try:
            yield wait_for(stack.enter_async_context(suite(llm.url, new_database(), Path(folder), **encoder)))
        finally:
            wait_for(stack.aclose())
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def fuzzed(cases: int) -> hypothesis.settings:
    """Return settings for so many cases: always the same ones in `make test`, others each time in `make test-hard`."""
    return hypothesis.settings(
        max_examples=cases,
        derandomize=cases == CASES,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )


@Cases
@pytest.mark.parametrize("service", SERVICES)
def test_whatever_is_sent_by_rest_is_answered_or_rejected_by_name(running: Suite, service: str, cases: int) -> None:
    url = running.services[service].rest
    with requests.Session() as session:
        session.headers.update(authorization())
        document = session.get(f"{url}/openapi.json", timeout=DEADLINE_S).json()
        answered = Counter[int]()

        @fuzzed(cases)
        @hypothesis.given(case=rest_cases(document, CONTRACTS[service]))
        def ask(case: AnyCase) -> None:
            reply = case.call(base_url=url, session=session, timeout=DEADLINE_S)
            answered[reply.status_code] += 1
            check_reply(reply.status_code, reply.content)

        ask()

    assert answered.total() >= cases
    assert answered[200] > cases / 20
    assert running.errors() == []


def rest_cases(document: dict[str, Any], contract: ServiceDescriptor) -> st.SearchStrategy[AnyCase]:
    """Return a strategy of requests that follow an OpenAPI document, of others, and of good ones with a few changes."""
    if chat := document["paths"].get("/v1/chat/completions"):
        chat["post"]["requestBody"] = {"content": {"application/json": {"schema": CHAT}}, "required": True}
    found = list(schemathesis.openapi.from_dict(document).get_all_operations())
    operations = [operation.ok() for operation in found if isinstance(operation, Ok)]
    assert len(operations) == len(found)
    good = {http_rule(method): GOOD.get(method.name) for method in contract.methods}

    @st.composite
    def near(draw: st.DrawFn, operation: schemathesis.schemas.APIOperation[Any, Any, Any, Any]) -> AnyCase:
        case: AnyCase = draw(operation.as_strategy())
        changed = case.body if isinstance(case.body, dict) else {}
        names = draw(st.lists(st.sampled_from(sorted(changed)), max_size=2)) if changed else []
        base = good.get((operation.method.upper(), operation.path)) or {}
        case.body = {**base, **{name: changed[name] for name in names}}
        return case

    any_content = [operation.as_strategy(mode) for operation in operations for mode in GenerationMode]
    nearly_good = [near(operation) for operation in operations if good.get((operation.method.upper(), operation.path))]
    return st.one_of(any_content) | st.one_of(nearly_good)


def check_reply(status: int, content: bytes) -> None:
    """Check that an error is one that the contract names, and none of the server's making."""
    if status < 400:
        return
    told = json.loads(content)
    error = told.get("error", told)
    named = error.get("reason") or str(error.get("code", "")).upper()
    assert status < 500 or status in STATUSES_OF_STATES, content
    is_openais_word = named.lower() in ERROR_CODES.values()
    assert is_openais_word or f"ERROR_REASON_{named}" in ErrorReason.keys(), content  # noqa: SIM118 - protobuf's enum


@Cases
@pytest.mark.parametrize("service", SERVICES)
def test_whatever_is_sent_by_grpc_is_answered_or_rejected_by_name(running: Suite, service: str, cases: int) -> None:
    ended = Counter[str]()
    with grpc.insecure_channel(running.services[service].grpc) as channel:

        @fuzzed(cases)
        @hypothesis.given(call=grpc_calls(CONTRACTS[service]))
        def ask(call: tuple[MethodDescriptor, bytes]) -> None:
            ended[outcome(channel, *call)] += 1

        ask()

    assert ended.total() >= cases
    assert ended["OK"] > cases / 20
    assert running.errors() == []


def grpc_calls(contract: ServiceDescriptor) -> st.SearchStrategy[tuple[MethodDescriptor, bytes]]:
    """Return a strategy of calls: messages of any content, messages that are nearly good, and bytes that are none."""

    def calls(method: MethodDescriptor) -> st.SearchStrategy[tuple[MethodDescriptor, bytes]]:
        kind = GetMessageClass(method.input_type)
        near = messages(kind, base=to_proto(GOOD.get(method.name, {}), kind))
        sent = st.one_of(near.map(kind.SerializeToString), messages(kind).map(kind.SerializeToString), mutated(near))
        return st.tuples(st.just(method), sent)

    return st.sampled_from(list(contract.methods)).flatmap(calls)


def outcome(channel: grpc.Channel, method: MethodDescriptor, message: bytes) -> str:
    """Return `OK` or the reason of the error, after checking that it is one that the contract names."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    metadata = tuple(authorization().items())
    try:
        if method.server_streaming:
            streamed: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(path)
            for _ in streamed(message, timeout=DEADLINE_S, metadata=metadata):
                pass
        else:
            asked: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
            asked(message, timeout=DEADLINE_S, metadata=metadata)
    except grpc.RpcError as error:
        return reason_of(error)
    return "OK"


def reason_of(error: grpc.RpcError) -> str:
    """Return the reason of an error that the contract names; any other one fails the test."""
    status = rpc_status.from_call(error)
    assert status is not None, f"an error without a name: {error}"
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert Code.from_grpc(status.code).name not in SERVER_ERRORS, status
    assert f"ERROR_REASON_{info.reason}" in ErrorReason.keys(), status  # noqa: SIM118 - an enum of protobuf
    return str(info.reason)
