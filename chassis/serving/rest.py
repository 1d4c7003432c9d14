"""Every service has this REST API: problems, limits, keys, health, metrics, server-sent events."""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar, cast

from fastapi import FastAPI, Request
from fastapi.datastructures import DefaultPlaceholder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from fastapi.utils import create_model_field
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from chassis.admission import MAX_HELD_BODY_BYTES
from chassis.errors import EXACT_STATUSES, ClientGone, MethodNotAllowed, PathNotFound
from chassis.json_text import dumps
from chassis.serving.auth import ApiKey, Keyring
from chassis.serving.edge import OPERATION, RestEdge
from chassis.serving.health import Health
from chassis.serving.named_errors import named_error
from chassis.serving.swagger import add_docs
from chassis.serving.swagger.document import complete
from chassis.serving.wire import body_of_json, checked_text, from_plain, json_schema, malformed
from chassis.telemetry import EVENT_LOOP_TASKS
from kernel.envelope import BudgetExhausted
from kernel.errors import MalformedRequest, MetacogError

T = TypeVar("T")
Shape = Callable[[MetacogError], Mapping[str, Any]]
Handler = Callable[[Request], Awaitable[Response]]


class Json(Response):
    """This response writes values as JSON; non-finite numbers become null."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """Return the bytes of `content`."""
        return dumps(content)


class StrictRequest(Request):
    """A strict request has a body that every reader of JSON understands alike, and that can be stored.

    See `chassis.json_text.loads_request`.
    """

    async def json(self) -> Any:  # noqa: ANN401 - JSON is of any kind
        """Return the body as plain data.

        Raises:
            MalformedRequest: When it is none; names the place.
        """
        return body_of_json(await self.body())


class StrictRoute(APIRoute):
    """A strict route reads bodies strictly, and returns the responses of its endpoint as they are.

    `response_model` only describes them, in the OpenAPI document. FastAPI would build it for each route at the start,
    which takes longer than everything else there; so it is built when the document is asked for.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        response_model: Any = None,  # noqa: ANN401 - any type
        **options: Any,  # noqa: ANN401 - FastAPI's own
    ) -> None:
        super().__init__(path, endpoint, response_model=None, **options)
        self._described = None if isinstance(response_model, DefaultPlaceholder) else response_model

    def describe_response(self) -> None:
        """Build the description of the response, once."""
        if self._described is not None and self.response_field is None:
            name = f"Response_{self.unique_id}"
            self.response_field = create_model_field(name, self._described, mode="serialization")

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler that gets a strict request."""
        inner = super().get_route_handler()

        async def handler(request: Request) -> Response:
            return await inner(StrictRequest(request.scope, request.receive))

        return handler


class Application(FastAPI):
    """An application is FastAPI behind our edge; `serve_directly` adds a path that skips FastAPI's own layers.

    Those layers cost more than the work of such a path. The paths stay on FastAPI's list of routes, for the docs.
    """

    edge: RestEdge

    def serve_directly(self, method: str, path: str, handle: Handler) -> None:
        """Serve `path` by `handle`, as a route with all its errors; the handler reads the request itself."""
        self.state.direct[method, path] = handle

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document: that of FastAPI, completed by the contract."""
        if self.openapi_schema is None:
            for route in self.routes:
                if isinstance(route, StrictRoute):
                    route.describe_response()
            complete(super().openapi(), self.state.methods, self._error_schema)
        assert self.openapi_schema is not None
        return self.openapi_schema

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self.edge(scope, receive, send)

    async def inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request that the edge let in."""
        handle = self.state.direct.get((scope.get("method"), scope["path"])) if scope["type"] == "http" else None
        if handle is None:
            await super().__call__(scope, receive, send)
            return
        scope[OPERATION] = path = scope["path"]
        try:
            reply = await handle(Request(scope, receive))
        except MetacogError as error:
            reply = self.error_response(error, path)
        except Exception as error:  # noqa: BLE001 - the edge: any other exception is a bug, logged and named
            reply = self.error_response(named_error(error, path=path), path)
        await reply(scope, receive, send)

    def error_response(self, error: MetacogError, path: str) -> Response:
        """Return the response that carries an error, as `path` spells it."""
        return problem(error, self.shape(path))

    def _error_schema(self, path: str) -> Mapping[str, Any] | None:
        shape = self.shape(path)
        return None if shape is None else cast("Mapping[str, Any]", self.state.error_schemas[shape])

    def shape(self, path: str) -> Shape | None:
        """Return how `path`, or what it lies under, spells an error; None: as the other paths do."""
        shapes = self.state.shapes
        if path in shapes:
            return cast("Shape", shapes[path])
        under = (shapes[place] for place in shapes if place.endswith("/") and path.startswith(place))
        unknown = self.state.unknown_shapes
        foreign = (unknown[place] for place in unknown if path.startswith(place) and not self.methods(path))
        return next(under, None) or next(foreign, None)

    def methods(self, path: str) -> Sequence[str]:
        """Return the HTTP methods that `path` takes; none where there is no such path."""
        routes = [route for route in self.routes if isinstance(route, Route) and route.path_regex.match(path)]
        return sorted({method for route in routes for method in route.methods or ()})


def build_app(
    title: str,
    *,
    health: Health,
    keyring: Keyring,
    max_body_bytes: int,
    max_held_body_bytes: int = MAX_HELD_BODY_BYTES,
    body_limits: Mapping[str, int] | None = None,
) -> Application:
    """Return the application with everything but the service's own paths.

    Args:
        title: Name of the service.
        health: Its readiness.
        keyring: Keys that are accepted.
        max_body_bytes: Largest request body [bytes].
        max_held_body_bytes: Bodies of all requests in progress together [bytes]; more get a 429.
        body_limits: The same for single paths.
    """
    app = Application(title=f"metacog {title}", version="0.1.0", docs_url=None, redoc_url=None)
    add_docs(app)
    app.add_exception_handler(MetacogError, _reply_error)
    app.add_exception_handler(RequestValidationError, _reply_malformed)
    app.add_exception_handler(HTTPException, _reply_http)
    app.add_exception_handler(Exception, _reply_bug)
    # How paths spell errors, and how those do that do not exist, by what they begin with.
    app.state.shapes, app.state.unknown_shapes, app.state.direct = {}, {}, {}
    # Operations of the contract by verb and path, and the schemas of the shapes of errors.
    app.state.methods, app.state.error_schemas = {}, {}
    app.router.route_class = StrictRoute

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        return Json({"status": "alive"})

    @app.get("/readyz", include_in_schema=False)
    async def readyz(request: Request) -> Response:
        """Return readiness; the state of the parts for a caller with a key only, where there are keys."""
        report = await health.report()
        knows_parts = not keyring or keyring.has(request.headers.get("authorization", ""))
        return Json(report if knows_parts else report.without_parts(), status_code=200 if report.ready else 503)

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        EVENT_LOOP_TASKS.set(len(asyncio.all_tasks()))
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    limits = {**(body_limits or {}), "": max_body_bytes}
    app.edge = RestEdge(
        app.inside,
        keyring=keyring,
        max_body_bytes=limits,
        max_held_bytes=max_held_body_bytes,
        error_response=app.error_response,
    )
    return app


def caller(request: Request) -> ApiKey:
    """Return the key of a request."""
    key: ApiKey = request.scope["metacog.key"]
    return key


def problem_body(error: MetacogError) -> dict[str, Any]:
    """Return the problem document of an error, by RFC 9457."""
    return {
        "type": f"urn:metacog:error:{error.reason.lower().replace('_', '-')}",
        "title": error.reason.replace("_", " ").capitalize(),
        "status": error.code.http,
        "detail": error.message,
        "code": error.code.name,
        "reason": error.reason,
        "metadata": error.metadata,
        "errors": [{"field": field, "description": text} for field, text in error.violations.items()],
    }


def problem(error: MetacogError, shape: Shape | None = None, *, status: int | None = None) -> Response:
    """Return the response that carries an error, as a problem document or in the `shape` that its path has.

    Args:
        error: The error.
        shape: How the path spells errors; None for problem documents.
        status: HTTP status, where it is more exact than the canonical code's.
    """
    status = status or EXACT_STATUSES.get(error.reason, error.code.http)
    document = shape(error) if shape else {**problem_body(error), "status": status}
    wait = error.metadata.get("retry_after_s")
    headers = {} if wait is None else {"retry-after": _whole_seconds(wait)}
    if error.reason == BudgetExhausted.reason:
        headers["x-should-retry"] = "false"  # the same envelope would be exhausted again
    media = "application/json" if shape else "application/problem+json"
    return Response(dumps(document), status_code=status, media_type=media, headers=headers)


def _whole_seconds(seconds: str) -> str:
    """Return `seconds` [s] as a `Retry-After`, which has no fractions; at least one.

    Example:
        >>> [_whole_seconds(seconds) for seconds in ("90", "2.5", "0")]
        ['90', '3', '1']
    """
    return str(max(1, math.ceil(float(seconds))))


def query(request: Request, kind: type[T]) -> T:
    """Return the query string of a request as a value of `kind`.

    Raises:
        MalformedRequest: When it does not make a valid value, or has a parameter twice; names the parameter.
    """
    given = request.query_params.multi_items()
    fields = dict(given)
    if len(fields) < len(given):
        twice = next(name for name, count in Counter(name for name, _ in given).items() if count > 1)
        raise MalformedRequest(f"{twice}: give it once", field=twice)
    return from_plain(checked_text(fields), kind)


def query_parameters(kind: type) -> dict[str, Any]:
    """Return openAPI's account of a query string that is read into a value of `kind`."""
    schema = json_schema(kind)
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": about}
            for name, about in schema["properties"].items()
        ]
    }


def wants_events(request: Request) -> bool:
    """Return whether the client requested server-sent events."""
    return "text/event-stream" in request.headers.get("accept", "")


async def until_disconnect(request: Request, work: Awaitable[T]) -> T:
    """Return the result of `work`, which is cancelled as soon as the client disconnects.

    Raises:
        ClientGone: When it does.
    """
    task = asyncio.current_task()
    assert task is not None
    has_gone = False

    async def watch() -> None:
        nonlocal has_gone
        await _disconnected(request)
        has_gone = True
        task.cancel()

    watching = asyncio.create_task(watch())
    try:
        return await work
    except asyncio.CancelledError:
        if has_gone and not task.uncancel():
            raise ClientGone("the client went away") from None
        raise
    finally:
        watching.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _reply_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, MetacogError)
    return problem(error, request.app.shape(request.url.path))


async def _reply_malformed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return await _reply_error(request, malformed(error.errors()))


async def _reply_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, MetacogError):
        return await _reply_error(request, error.__cause__)
    path = request.url.path
    if error.status_code == 405:
        return _reply_not_allowed(request, request.app.methods(path))
    if error.status_code == 404:
        return await _reply_error(
            request, PathNotFound(f"there is no path {path}; /docs lists what there is", path=path)
        )
    wrong = MalformedRequest(f"{request.method} {path}: {error.detail}")
    return problem(wrong, request.app.shape(path), status=error.status_code)


def _reply_not_allowed(request: Request, methods: Sequence[str]) -> Response:
    path, allowed = request.url.path, ", ".join(methods)
    wrong = MethodNotAllowed(f"{path} does not take {request.method}; it takes {allowed}", path=path, allowed=allowed)
    reply = problem(wrong, request.app.shape(path))
    reply.headers["allow"] = allowed
    return reply


async def _reply_bug(request: Request, error: Exception) -> Response:
    return await _reply_error(request, named_error(error, path=request.url.path))
