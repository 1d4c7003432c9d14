"""The services have what the protos promise."""

import importlib
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Iterator
from filecmp import dircmp
from pathlib import Path
from typing import Any

import httpx
import pytest
from grpc import aio
from grpc_reflection.v1alpha import reflection_pb2
from metacog.common.v1 import error_reason_pb2
from opentelemetry.trace import SpanKind

import chassis
import configuration
import inference
import kernel
import sandbox
import services
from chassis.serving.contract import http_rule
from kernel.errors import MetacogError
from services.assigner.compose import CONTRACT as ASSIGNER
from services.delegation.compose import CONTRACT as DELEGATION
from tests.contract.conftest import Served
from tests.support.apis import ApiError
from tests.support.arbiter import ARBITER
from tests.support.spans import exported_spans, one_span
from tests.support.stack import ROOT, ROUTER

OPENAI_PATHS = {
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{model}"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/embeddings"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
    ("POST", "/v1/rerank"),
    ("POST", "/rerank"),
    ("POST", "/v1/score"),
    ("POST", "/score"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/responses"),
    ("GET", "/v1/responses/{response_id}"),
    ("DELETE", "/v1/responses/{response_id}"),
    ("GET", "/v1/responses/{response_id}/input_items"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1/files"),
    ("GET", "/v1/files"),
    ("GET", "/v1/files/{file_id}"),
    ("DELETE", "/v1/files/{file_id}"),
    ("GET", "/v1/files/{file_id}/content"),
    ("POST", "/v1/batches"),
    ("GET", "/v1/batches"),
    ("GET", "/v1/batches/{batch_id}"),
    ("POST", "/v1/batches/{batch_id}/cancel"),
}
CONTRACTS = {"router": ROUTER, "assigner": ASSIGNER, "arbiter": ARBITER, "delegation": DELEGATION}


@pytest.fixture(params=sorted(CONTRACTS))
def served(request: pytest.FixtureRequest, services: dict[str, Served]) -> Served:
    """Each service in turn."""
    return services[request.param]


async def openapi(served: Served) -> dict[str, dict[str, object]]:
    async with httpx.AsyncClient(base_url=served.running.rest) as client:
        paths: dict[str, dict[str, object]] = (await client.get("/openapi.json")).raise_for_status().json()["paths"]
    return paths


async def test_the_paths_of_rest_are_those_of_the_contract(served: Served) -> None:
    paths = await openapi(served)

    there = {(verb.upper(), path) for path, operations in paths.items() for verb in operations}
    openai = OPENAI_PATHS if served.contract is ROUTER else set()
    assert there == {http_rule(method) for method in served.contract.methods} | openai


def malformed_body(operation: Any) -> dict[str, Any]:  # noqa: ANN401
    """A body of the type that an operation takes, with a field that there is not."""
    is_form = "multipart/form-data" in operation.get("requestBody", {}).get("content", {})
    return {"files": {"no_such_field": b"x"}} if is_form else {"json": {"no_such_field": 1}}


async def test_openapi_lists_the_errors_that_there_are_and_calls_nothing_unserved_that_is_served(
    served: Served,
) -> None:
    async with httpx.AsyncClient(base_url=served.running.rest) as client:
        document = (await client.get("/openapi.json")).json()
        malformed = {
            path: await client.post(path, **malformed_body(operations["post"]))
            for path, operations in document["paths"].items()
            if "post" in operations and "{" not in path
        }
    operations = {(verb, path): one for path, verbs in document["paths"].items() for verb, one in verbs.items()}

    assert "422" not in str([list(operation["responses"]) for operation in operations.values()])
    assert "ValidationError" not in str(document["components"])
    for path, reply in malformed.items():
        listed = operations["post", path]["responses"]["400"]["content"]
        assert (path, reply.status_code, list(listed)) == (path, 400, [reply.headers["content-type"]])
    for operation in operations.values():
        assert "not served" not in operation.get("summary", "")
        assert {"400", "default"} < set(operation["responses"])


async def test_a_problem_document_is_as_openapi_describes_it(services: dict[str, Served]) -> None:
    async with httpx.AsyncClient(base_url=services["router"].running.rest) as client:
        described = (await client.get("/openapi.json")).json()["components"]["schemas"]["Problem"]
        problem = (await client.post("/v1/route", json={"colour": "red"})).json()

    assert set(problem) == set(described["properties"]) == set(described["required"])


async def test_the_documentation_of_rest_can_be_read(served: Served) -> None:
    async with httpx.AsyncClient(base_url=served.running.rest) as client:
        page = await client.get("/docs")

    assert page.status_code == 200
    assert "openapi.json" in page.text


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_reflection_lists_the_service(services: dict[str, Served], version: str) -> None:
    served = services["delegation"]

    async with aio.insecure_channel(served.running.grpc) as channel:
        listing: Any = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        call = listing(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
        [reply] = [reply async for reply in call]

    assert served.contract.full_name in [service.name for service in reply.list_services_response.service]


@pytest.mark.parametrize(
    ("name", "operation"), [("router", "Route"), ("router", "Answer"), ("assigner", "Assign"), ("arbiter", "Measure")]
)
async def test_unknown_fields_are_rejected_on_rest(services: dict[str, Served], name: str, operation: str) -> None:
    with pytest.raises(ApiError) as raised:
        await services[name].rest.ask(operation, question="?", agents=[{"id": "a"}], colour="red")

    assert raised.value.reason == "MALFORMED_REQUEST"
    assert "colour" in raised.value.metadata


async def test_a_problem_document_has_every_field_of_its_standard(services: dict[str, Served]) -> None:
    async with httpx.AsyncClient(base_url=services["router"].running.rest) as client:
        reply = await client.post("/v1/route", json={"msv": {"conflict": 1.2}})

    assert (reply.status_code, reply.headers["content-type"]) == (400, "application/problem+json")
    assert reply.json() == {
        "type": "urn:metacog:error:msv-out-of-range",
        "title": "Msv out of range",
        "status": 400,
        "detail": "conflict is 1.2; it must lie in [0, 1]",
        "code": "INVALID_ARGUMENT",
        "reason": "MSV_OUT_OF_RANGE",
        "metadata": {"component": "conflict", "value": "1.2"},
        "errors": [{"field": "msv.conflict", "description": "conflict is 1.2; it must lie in [0, 1]"}],
    }


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [
        ("GET", "/v1/route", "POST"),
        ("POST", "/healthz", "GET"),
        ("PUT", "/v1/knowledge", "GET, POST"),
        ("POST", "/v1/runs/abc", "GET"),
    ],
)
async def test_a_method_that_a_path_does_not_take_is_named_with_those_it_takes(
    services: dict[str, Served], verb: str, path: str, allowed: str
) -> None:
    async with httpx.AsyncClient(base_url=services["router"].running.rest) as client:
        reply = await client.request(verb, path)

    assert (reply.status_code, reply.headers["allow"]) == (405, allowed)
    assert (reply.json()["status"], reply.json()["reason"]) == (405, "METHOD_NOT_ALLOWED")
    assert reply.json()["detail"] == f"{path} does not take {verb}; it takes {allowed}"


@pytest.mark.parametrize(("name", "path"), [("router", "/nothing"), ("assigner", "/v1/nothing")])
async def test_a_path_that_is_not_there_is_a_problem_too(services: dict[str, Served], name: str, path: str) -> None:
    async with httpx.AsyncClient(base_url=services[name].running.rest) as client:
        reply = await client.get(path)

    assert (reply.status_code, reply.json()["status"], reply.json()["reason"]) == (404, 404, "PATH_NOT_FOUND")


async def test_below_v1_of_the_router_a_path_that_is_not_there_has_openais_shape(services: dict[str, Served]) -> None:
    async with httpx.AsyncClient(base_url=services["router"].running.rest) as client:
        unknown = await client.post("/v1/images/generations", json={"prompt": "a cat"})
        own = await client.get("/v1/runs?page_size=no")

    assert (unknown.status_code, unknown.headers["content-type"]) == (404, "application/json")
    assert unknown.json()["error"]["code"] == "path_not_found"
    assert "/v1/images/generations" in unknown.json()["error"]["message"]
    assert own.json()["reason"] == "MALFORMED_REQUEST"


async def test_every_reply_has_an_identifier_of_its_request(services: dict[str, Served]) -> None:
    async with httpx.AsyncClient(base_url=services["router"].running.rest) as client:
        replies = [await client.get(path) for path in ("/healthz", "/nothing", "/v1/route", "/v1/models")]

    assert len({reply.headers["x-request-id"] for reply in replies}) == 4


async def test_the_call_of_the_encoder_is_a_span_of_the_request_that_made_it(
    services: dict[str, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    with exported_spans(monkeypatch) as exported:
        async with httpx.AsyncClient(base_url=services["router"].running.rest) as client:
            found = (await client.post("/v1/knowledge:search", json={"query": "How deep is it?"})).json()
        request = one_span(exported, "POST /v1/knowledge:search")
        call = one_span(exported, f"embeddings {found['encoder']}")

    assert request.context is not None
    assert call.parent is not None
    assert (call.parent.span_id, call.kind) == (request.context.span_id, SpanKind.CLIENT)


def test_every_error_has_a_reason_of_the_contract() -> None:
    known = {name.removeprefix("ERROR_REASON_") for name in error_reason_pb2.ErrorReason.keys()}  # noqa: SIM118

    reasons = {error.reason for error in errors()} - {MetacogError.reason}

    assert reasons <= known


PACKAGES = (kernel, chassis, inference, configuration, sandbox, services)


def errors() -> Iterator[type[MetacogError]]:
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(("__main__", ".env", ".runner")) and ".versions" not in module.name:
                importlib.import_module(module.name)
    found = [MetacogError]
    for kind in found:
        found.extend(kind.__subclasses__())
    return (kind for kind in found if kind.__module__.partition(".")[0] in {package.__name__ for package in PACKAGES})


def test_the_generated_code_is_fresh(tmp_path: Path) -> None:
    protos = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "proto").rglob("*.proto"))
    outs = [f"--{kind}={flags}{tmp_path}" for kind, flags in PLUGINS.items()]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", "proto", "-I", "third_party", *outs, *protos]

    subprocess.run(command, cwd=ROOT, check=True, env={"PATH": str(Path(sys.executable).parent)})

    assert list(differences(dircmp(ROOT / "gen", tmp_path, ignore=["__pycache__", "__init__.py", "py.typed"]))) == []


PLUGINS = {"python_out": "", "grpc_python_out": "", "mypy_out": "quiet:", "mypy_grpc_out": "quiet:"}


def differences(found: "dircmp[str]") -> Iterator[str]:
    for name in [*found.left_only, *found.right_only, *found.diff_files]:
        yield f"{found.left}/{name}"
    for below in found.subdirs.values():
        yield from differences(below)


@pytest.mark.parametrize("arguments", [["lint"], ["format", "--diff", "--exit-code"]], ids=["lint", "format"])
def test_the_protos_are_as_buf_wants_them(arguments: list[str]) -> None:
    buf = Path(sys.executable).parent / "buf"

    done = subprocess.run([buf, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_field_that_is_renamed_breaks_the_contract_of_the_last_release(tmp_path: Path) -> None:
    for part in ("proto", "third_party", "buf.yaml"):
        (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, tmp_path / part)
    command = [str(Path(sys.executable).with_name("buf")), "breaking", "proto", "--against", "proto/baseline.binpb"]
    changed = tmp_path / "proto" / "metacog" / "common" / "v1" / "msv.proto"

    before = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    changed.write_text(changed.read_text().replace(" conflict = ", " quarrel = "))
    after = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)

    assert (before.returncode, before.stdout) == (0, "")
    assert after.returncode == 100
    assert 'from "conflict" to "quarrel"' in after.stdout
