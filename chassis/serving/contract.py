"""Operations of the contract that this build does not serve return `NOT_IMPLEMENTED` in both APIs."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from google.api import annotations_pb2
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from chassis.errors import NotImplementedYet
from chassis.serving.rest import problem


def http_rule(method: MethodDescriptor) -> tuple[str, str]:
    """Return HTTP verb and path that the contract gives a method, e.g. `("POST", "/v1/route")`."""
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    verb = rule.WhichOneof("pattern")
    return verb.upper(), getattr(rule, verb)


def reject_unserved_paths(app: FastAPI, service: ServiceDescriptor) -> None:
    """Answer `NOT_IMPLEMENTED` on every path of the contract that `app` does not have, and describe the others."""
    app.state.methods = {http_rule(method): method for method in service.methods}
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    served = {(verb, route.path_format) for route in routes for verb in route.methods or ()}
    for method in service.methods:
        verb, path = http_rule(method)
        if (verb, path) not in served:
            app.add_api_route(
                path,
                _rejecting_route(method),
                methods=[verb],
                name=method.name,
                status_code=501,
                summary=f"{method.name}: in the contract, not served by this build",
            )


def reject_unserved_calls(servicer: type, service: ServiceDescriptor) -> type:
    """Return `servicer` with every method of the contract that it lacks answering `NOT_IMPLEMENTED`."""
    missing = {
        method.name: _rejecting_stream(method) if method.server_streaming else _rejecting_call(method)
        for method in service.methods
        if all(method.name not in vars(base) for base in servicer.__mro__[:-2])
    }
    return type(servicer.__name__, (servicer,), missing)


def _not_implemented(method: MethodDescriptor) -> NotImplementedYet:
    return NotImplementedYet(f"{method.full_name} is in the contract and not served by this build", method=method.name)


def _rejecting_route(method: MethodDescriptor) -> Any:  # noqa: ANN401 - FastAPI takes any callable
    async def reject(_: Request) -> Response:
        return problem(_not_implemented(method))

    return reject


def _rejecting_call(method: MethodDescriptor) -> Any:  # noqa: ANN401 - grpc's handlers are untyped
    async def reject(_self: object, _request: object, _context: object) -> None:
        raise _not_implemented(method)

    return reject


def _rejecting_stream(method: MethodDescriptor) -> Any:  # noqa: ANN401 - grpc's handlers are untyped
    async def reject(_self: object, _request: object, _context: object) -> Any:  # noqa: ANN401
        raise _not_implemented(method)
        yield

    return reject
