import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import grpc
import pytest
from metacog.common.v1.error_reason_pb2 import ErrorReason

import chassis
import configuration
import inference
import kernel
import sandbox
import services
from chassis.errors import PeerError
from inference import InferenceError
from kernel.errors import Code, InvalidArgument, MetacogError

ROOT = Path(__file__).parents[3]
PREFIX = "ERROR_REASON_"
# One is never raised itself, the other carries the code and reason of another service.
WITHOUT_A_REASON_OF_THEIR_OWN = {InferenceError, PeerError}


PACKAGES = (kernel, chassis, inference, configuration, sandbox, services)


def errors() -> list[type[MetacogError]]:
    """Return every error that the services can raise."""
    for package in PACKAGES:
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if ".migrations" not in module.name and not module.name.endswith(("__main__", ".runner")):
                import_module(module.name)
    ours = {
        kind
        for kind in descendants(MetacogError)
        if kind.__module__.partition(".")[0] in {package.__name__ for package in PACKAGES}
    }
    return sorted(ours - WITHOUT_A_REASON_OF_THEIR_OWN, key=lambda kind: (kind.__module__, kind.__name__))


def descendants(kind: type[MetacogError]) -> Iterator[type[MetacogError]]:
    for child in kind.__subclasses__():
        yield child
        yield from descendants(child)


def documented_codes() -> dict[str, str]:
    """The comment above each reason of the contract, where its canonical codes stand first."""
    source = (ROOT / "proto/metacog/common/v1/error_reason.proto").read_text()
    return {
        reason: comment.partition(":")[0]
        for comment, reason in re.findall(rf"  // (.*)\n(?:  //.*\n)*  {PREFIX}(\w+) = ", source)
    }


@pytest.mark.parametrize("kind", errors(), ids=lambda kind: kind.__name__)
def test_every_error_has_a_reason_that_the_contract_lists(kind: type[MetacogError]) -> None:
    listed = {name.removeprefix(PREFIX) for name in ErrorReason.keys()}  # noqa: SIM118 - an enum wrapper is no mapping

    assert kind.reason in listed - {"UNSPECIFIED"}


@pytest.mark.parametrize("kind", errors(), ids=lambda kind: kind.__name__)
def test_every_error_has_the_code_that_the_contract_promises(kind: type[MetacogError]) -> None:
    assert kind.code.name in documented_codes()[kind.reason].split(" or ")


def test_the_code_base_has_the_errors_that_this_file_checks() -> None:
    names = {kind.__name__ for kind in errors()}

    assert {
        "MSVOutOfRange",
        "BudgetExhausted",
        "MalformedRequest",
        "UnknownStrategy",
        "NoAgents",
        "RunNotFound",
    } <= names


@pytest.mark.parametrize("code", Code)
def test_a_code_has_the_number_that_grpc_gives_its_name(code: Code) -> None:
    assert code.grpc == grpc.StatusCode[code.name].value[0]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (Code.INVALID_ARGUMENT, 400),
        (Code.OUT_OF_RANGE, 400),
        (Code.UNAUTHENTICATED, 401),
        (Code.PERMISSION_DENIED, 403),
        (Code.NOT_FOUND, 404),
        (Code.ALREADY_EXISTS, 409),
        (Code.ABORTED, 409),
        (Code.FAILED_PRECONDITION, 400),
        (Code.RESOURCE_EXHAUSTED, 429),
        (Code.CANCELLED, 499),
        (Code.UNKNOWN, 500),
        (Code.INTERNAL, 500),
        (Code.UNIMPLEMENTED, 501),
        (Code.UNAVAILABLE, 503),
        (Code.DEADLINE_EXCEEDED, 504),
    ],
)
def test_a_code_has_one_http_status(code: Code, status: int) -> None:
    assert code.http == status


@pytest.mark.parametrize("code", Code)
def test_a_code_is_found_again_by_its_grpc_number(code: Code) -> None:
    assert Code.from_grpc(code.grpc) is code


@pytest.mark.parametrize("code", Code)
def test_a_code_found_by_http_status_has_that_status(code: Code) -> None:
    assert Code.from_http(code.http).http == code.http


def test_numbers_that_no_code_has_are_unknown() -> None:
    assert Code.from_grpc(15) is Code.UNKNOWN
    assert Code.from_grpc(-1) is Code.UNKNOWN
    assert Code.from_http(418) is Code.UNKNOWN


def test_an_error_carries_its_message_and_its_values() -> None:
    error = InvalidArgument("scope is 7", component="scope", value="7")

    assert str(error) == error.message == "scope is 7"
    assert error.metadata == {"component": "scope", "value": "7"}


@pytest.mark.parametrize("name", ["message", "self", "code", "reason", "metadata"])
def test_metadata_may_have_any_name(name: str) -> None:
    ours = InvalidArgument("no", **{name: "x"})
    theirs = PeerError("assigner: no", Code.NOT_FOUND, "NO_AGENTS", **{name: "x"})

    assert ours.metadata == theirs.metadata == {name: "x"}
    assert (theirs.code, theirs.reason) == (Code.NOT_FOUND, "NO_AGENTS")
