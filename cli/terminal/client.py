"""A client of one service's REST API, one request at a time, whose replies are messages of the contract.

    router = Service("router", "http://127.0.0.1:8080", key="mc-...")
    for run in router.pages("/v1/runs", "runs", Run, page_size=10):
        print(run.message.run_id)
    for event in router.stream("/v1/answers", {"question": "Is 91 prime?"}, AnswerResponse):
        ...

It sends and receives by the standard library, so that every command starts fast.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from chassis.serving.wire import from_rest
from cli.terminal.exits import UnusableInput
from configuration.services import REST_PORTS
from kernel.errors import Code, MetacogError

if TYPE_CHECKING:
    from google.protobuf.message import Message

M = TypeVar("M", bound="Message")

TIMEOUT_S = 60.0
# A stream sends a heartbeat at least every 15 seconds.
STREAM_IDLE_S = 120.0

Body = Mapping[str, Any]


class Unreachable(MetacogError):
    """A service cannot be reached, or its reply breaks off, or is none of the contract's."""

    code = Code.UNAVAILABLE
    reason = "PEER_UNAVAILABLE"


class ServiceError(MetacogError):
    """A service returned an error; the exception has the service's own reason."""

    def __init__(self, service: str, status: int, problem: Body) -> None:
        self.code = Code.from_http(status)
        self.reason = str(problem.get("reason", self.code.name))
        unknown = f"it answered {status}, and not as metacog does; is the address right?"
        detail = problem.get("detail", "") if "reason" in problem else unknown
        hint = "; set METACOG_API_KEY to a key that it knows" if status == 401 else ""
        super().__init__(f"{service}: {self.reason}: {detail}{hint}")


@dataclass(frozen=True)
class Reply(Generic[M]):
    """A reply of a service, an item of one, or an event.

    Attributes:
        message: The message of the contract; what commands read.
        document: What REST sent; what they print for programs.
    """

    message: M
    document: object

    def part(self, field: str) -> object:
        """Return what REST sent in one field; None where it sent none."""
        return self.document.get(field) if isinstance(self.document, dict) else None

    def document_with(self, field: str, content: object) -> object:
        """Return what REST sent, with other content in one field."""
        return {**self.document, field: content} if isinstance(self.document, dict) else self.document

    def items(self, field: str) -> Sequence[object]:
        """Return what REST sent in one list; nothing where it sent none."""
        found = self.part(field)
        return found if isinstance(found, list) else ()


class _NoRedirect(HTTPRedirectHandler):
    """A handler that treats a redirection as an error, so that a key goes to no other address."""

    def redirect_request(self, *_: Any) -> None:  # noqa: ANN401 - urllib's own
        return None


def address(name: str) -> str:
    """Return the URL of a service: METACOG_<NAME>_URL, else METACOG_<NAME>_REST_PORT here, else the default port."""
    prefix = f"METACOG_{name.upper()}"
    port = os.environ.get(f"{prefix}_REST_PORT") or REST_PORTS[name]
    return os.environ.get(f"{prefix}_URL") or f"http://127.0.0.1:{port}"


class Service:
    """A client of one running service.

    Args:
        name: Name of the service.
        url: URL of its REST API; empty: that of the environment, else the default.
        key: API key; empty: METACOG_API_KEY.

    Raises:
        UnusableInput: `url` is not a URL.
    """

    def __init__(self, name: str, url: str = "", *, key: str = "") -> None:
        self.name = name
        self.url = (url or address(name)).rstrip("/")
        place = urlsplit(self.url)
        if place.scheme not in ("http", "https") or not place.hostname:
            raise UnusableInput(f"{self.url} is not a URL; it must be like http://127.0.0.1:{REST_PORTS[name]}")
        self.key = key or os.environ.get("METACOG_API_KEY", "")
        authorization = {"authorization": f"Bearer {self.key}"} if self.key else {}
        self._headers = {"content-type": "application/json", **authorization}
        self._opener = build_opener(ProxyHandler({}), _NoRedirect())

    def get(self, path: str, kind: type[M], **query: object) -> Reply[M]:
        """Return the reply to a GET of `path`, without the query parameters that are None or empty.

        Raises:
            Unreachable: The service cannot be reached, or its reply has another form than the contract's.
            ServiceError: The service returned an error.
        """
        return self._reply(self._get(path, **query), kind)

    def get_document(self, path: str, **query: object) -> object:
        """Return the JSON reply of a path that is none of the contract's, such as OpenAI's; raises as `get` does."""
        return self._get(path, **query)

    def _get(self, path: str, **query: object) -> Body:
        parameters = {name: _query_text(item) for name, item in query.items() if item not in (None, "")}
        return self._send(self._request(f"{path}?{urlencode(parameters)}" if parameters else path))

    def pages(self, path: str, field: str, kind: type[M], *, page_size: int, **query: object) -> Iterator[Reply[M]]:
        """Yield every item of a list; a page is requested when its first item is needed.

        Items that the service could not read are reported on the error output.

        Args:
            path: Path of the list.
            field: Field of a page that has its items.
            kind: Message of an item.
            page_size: Items of a page at most [count].
            query: The other query parameters.
        """
        token: str | None = None
        while token != "":
            page = self._get(path, page_size=page_size, page_token=token, **query)
            if left_out := page.get("unreadable"):
                sys.stderr.write(f"{left_out} {field} cannot be read by this version of the {self.name}; see its log\n")
            yield from (self._reply(item, kind) for item in page.get(field, ()))
            token = page.get("next_page_token") or ""

    def post(self, path: str, body: Body, kind: type[M]) -> Reply[M]:
        """Return the reply to a POST of `body`; raises as `get` does."""
        return self._reply(self._send(self._request(path, json.dumps(body, ensure_ascii=False).encode())), kind)

    def delete(self, path: str, kind: type[M]) -> Reply[M]:
        """Delete the resource at `path`; raises as `get` does."""
        return self._reply(self._send(self._request(path, verb="DELETE")), kind)

    def stream(self, path: str, body: Body, kind: type[M]) -> Iterator[Reply[M]]:
        """Yield the events that answer `body`, each as the streamed message; closing the iterator ends the request.

        An event that the contract does not have, of a newer service, is left out.

        Raises:
            Unreachable: The service cannot be reached, the stream breaks off, or an event has another form than the
                contract's.
            ServiceError: The service returned an error, at once or within the stream.
        """
        request = self._request(path, json.dumps(body, ensure_ascii=False).encode())
        request.add_header("accept", "text/event-stream")
        try:
            with self._opener.open(request, timeout=STREAM_IDLE_S) as reply:
                for name, content in _events(reply):
                    if name == "error":
                        raise ServiceError(self.name, int(content.get("status", 500)), content)
                    message = self._reply({name: content}, kind).message
                    if message.WhichOneof("event"):
                        yield Reply(message=message, document=content)
        except HTTPError as error:
            raise ServiceError(self.name, error.code, _problem(error.read())) from error
        except (OSError, HTTPException, ValueError) as error:
            raise self._unreachable(error) from error

    def _reply(self, document: object, kind: type[M]) -> Reply[M]:
        try:
            return Reply(message=from_rest(document, kind), document=document)
        except ValueError as error:
            raise self.foreign(error) from error

    def _request(self, path: str, content: bytes | None = None, *, verb: str | None = None) -> Request:
        return Request(f"{self.url}{path}", data=content, headers=self._headers, method=verb)

    def _send(self, request: Request) -> Body:
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as reply:
                content: Body = json.loads(reply.read())
        except HTTPError as error:
            raise ServiceError(self.name, error.code, _problem(error.read())) from error
        except (OSError, HTTPException, ValueError) as error:
            raise self._unreachable(error) from error
        if not isinstance(content, dict):
            raise self.foreign(f"it is {type(content).__name__}, and no JSON object")
        return content

    def foreign(self, problem: object) -> Unreachable:
        """Return the error for a reply that is not as metacog replies."""
        return Unreachable(
            f"the {self.name} at {self.url} does not answer as metacog does: {problem}\n"
            f"is the address right? --{self.name} or METACOG_{self.name.upper()}_URL set another"
        )

    def _unreachable(self, cause: Exception) -> Unreachable:
        reason = getattr(cause, "reason", cause)
        return Unreachable(
            f"the {self.name} at {self.url} cannot be reached: {reason}\n"
            f"`metacog up` starts the suite, `metacog doctor` finds the problem; "
            f"--{self.name} or METACOG_{self.name.upper()}_URL set another address"
        )


def in_path(name: str) -> str:
    """Quote `name` as one segment of a path."""
    return quote(name, safe="")


def _events(lines: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - an HTTP reply, or another iterable of lines of bytes
    """Yield server-sent events with their parsed content; comments are skipped."""
    name, data = "", ""
    for raw in lines:
        line = raw.decode().rstrip("\r\n")
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data += line.removeprefix("data: ")
        elif not line and data:
            yield name, json.loads(data)
            name, data = "", ""


def _query_text(item: object) -> str:
    return str(item).lower() if isinstance(item, bool) else str(item)


def _problem(content: bytes) -> Body:
    try:
        problem = json.loads(content)
    except ValueError:
        problem = None
    return problem if isinstance(problem, dict) else {}
