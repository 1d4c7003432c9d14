"""Short ways to write requests down."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.recorded.asking import Request
from tests.recorded.suite import PROCESSES, PUPIL_KEY, TEACHER_KEY

ROUTER = "metacog.router.v1.RouterService"
ASSIGNER = "metacog.assigner.v1.AssignerService"
ARBITER = "metacog.arbiter.v1.ArbiterService"
DELEGATION = "metacog.delegation.v1.DelegationService"
SERVICES = {"router": ROUTER, "assigner": ASSIGNER, "arbiter": ARBITER, "delegation": DELEGATION}
SERVICE_OF = {name: service for name, service, _, _ in PROCESSES}

TEACHER = {"authorization": f"Bearer {TEACHER_KEY}"}
PUPIL = {"authorization": f"Bearer {PUPIL_KEY}"}
STRANGER = {"authorization": "Bearer nobody-knows-this-key"}

Body = dict[str, Any]


def post(to: str, name: str, path: str, body: Any = None, **more: Any) -> Request:  # noqa: ANN401 - a JSON document
    """A POST whose reply is one document."""
    return Request(id=name, to=to, kind="rest", path=path, body=body, **more)


def get(to: str, name: str, path: str, query: Mapping[str, str] | None = None, **more: Any) -> Request:  # noqa: ANN401
    """A GET."""
    return Request(id=name, to=to, kind="rest", method="GET", path=path, query=query or {}, **more)


def delete(to: str, name: str, path: str, **more: Any) -> Request:  # noqa: ANN401
    """A DELETE."""
    return Request(id=name, to=to, kind="rest", method="DELETE", path=path, **more)


def stream(to: str, name: str, path: str, body: Any = None, **more: Any) -> Request:  # noqa: ANN401 - a JSON document
    """A POST whose reply is a stream of events."""
    return Request(id=name, to=to, kind="sse", path=path, body=body, **more)


def call(to: str, name: str, method: str, body: Body | None = None, **more: Any) -> Request:  # noqa: ANN401
    """A gRPC call of a method of the service that `to` is."""
    service = SERVICES[SERVICE_OF[to]]
    return Request(id=name, to=to, kind="grpc", rpc=f"{service}/{method}", body=body or {}, **more)


def cli(name: str, *arguments: str, **more: Any) -> Request:  # noqa: ANN401
    """A run of the command line."""
    return Request(id=name, to="cli", kind="cli", arguments=arguments, **more)


def chat(name: str, text: str = "", *, model: str = "metacog", to: str = "router", **body: Any) -> Request:  # noqa: ANN401
    """A chat completion; `more` among `body` are fields of the request itself."""
    more: dict[str, Any] = body.pop("more", {})
    messages = body.pop("messages", [{"role": "user", "content": text}])
    return post(to, name, "/v1/chat/completions", {"model": model, "messages": messages, **body}, **more)


def with_bodies(to: str, prefix: str, path: str, bodies: Mapping[str, Any]) -> Sequence[Request]:
    """POSTs to one path, by what is special in each."""
    return [post(to, f"{prefix}-{name}", path, body) for name, body in bodies.items()]


def as_call(request: Request, method: str, name: str) -> Request:
    """The same request over gRPC."""
    made = call(request.to, name, method, request.body)
    return replace(made, headers=request.headers)
