"""A client of one service's REST API, one request at a time.

    router = Service("router", "http://127.0.0.1:8080", key="mc-...")
    router.get("/v1/runs", page_size=10)
    for name, content in router.stream("/v1/answers", {"question": "Is 91 prime?"}):
        ...

It uses the standard library only, so that every command starts fast.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from cli.terminal.exits import UnusableInput
from kernel.errors import Code, MetacogError

PORTS = {"router": 8080, "assigner": 8081, "arbiter": 8082, "delegation": 8083}
TIMEOUT_S = 60.0
# A stream sends a heartbeat at least every 15 seconds.
STREAM_IDLE_S = 120.0

Body = Mapping[str, Any]
Events = Iterator[tuple[str, Body]]


class Unreachable(MetacogError):
    """A service cannot be reached, or its reply breaks off."""

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


class _NoRedirect(HTTPRedirectHandler):
    """A handler that treats a redirection as an error, so that a key goes to no other address."""

    def redirect_request(self, *_: Any) -> None:  # noqa: ANN401 - urllib's own
        return None


def address(name: str) -> str:
    """Return the URL of a service: METACOG_<NAME>_URL, else METACOG_<NAME>_REST_PORT here, else the default port."""
    prefix = f"METACOG_{name.upper()}"
    port = os.environ.get(f"{prefix}_REST_PORT") or PORTS[name]
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
            raise UnusableInput(f"{self.url} is not a URL; it must be like http://127.0.0.1:{PORTS[name]}")
        self.key = key or os.environ.get("METACOG_API_KEY", "")
        authorization = {"authorization": f"Bearer {self.key}"} if self.key else {}
        self._headers = {"content-type": "application/json", **authorization}
        self._opener = build_opener(ProxyHandler({}), _NoRedirect())

    def get(self, path: str, **query: object) -> Body:
        """Return the reply to a GET of `path`, without the query parameters that are None or empty.

        Raises:
            Unreachable: The service cannot be reached.
            ServiceError: The service returned an error.
        """
        parameters = {name: _query_text(item) for name, item in query.items() if item not in (None, "")}
        return self._send(self._request(f"{path}?{urlencode(parameters)}" if parameters else path))

    def pages(self, path: str, field: str, *, page_size: int, **query: object) -> Iterator[Body]:
        """Yield every item of a list; a page is requested when its first item is needed.

        Items that the service could not read are reported on the error output.
        """
        token: str | None = None
        while token != "":
            page = self.get(path, page_size=page_size, page_token=token, **query)
            if left_out := page.get("unreadable"):
                sys.stderr.write(f"{left_out} {field} cannot be read by this version of the {self.name}; see its log\n")
            yield from page[field]
            token = page["next_page_token"]

    def post(self, path: str, body: Body) -> Body:
        """Return the reply to a POST of `body`.

        Raises:
            Unreachable: The service cannot be reached.
            ServiceError: The service returned an error.
        """
        return self._send(self._request(path, json.dumps(body, ensure_ascii=False).encode()))

    def delete(self, path: str) -> Body:
        """Delete the resource at `path`; raises as `post` does."""
        return self._send(self._request(path, verb="DELETE"))

    def stream(self, path: str, body: Body) -> Events:
        """Yield the events that answer `body`, each with its name; closing the iterator ends the request.

        Raises:
            Unreachable: The service cannot be reached, or the stream breaks off.
            ServiceError: The service returned an error, at once or within the stream.
        """
        request = self._request(path, json.dumps(body, ensure_ascii=False).encode())
        request.add_header("accept", "text/event-stream")
        try:
            with self._opener.open(request, timeout=STREAM_IDLE_S) as reply:
                for name, content in _events(reply):
                    if name == "error":
                        raise ServiceError(self.name, int(content.get("status", 500)), content)
                    yield name, content
        except HTTPError as error:
            raise ServiceError(self.name, error.code, _problem(error.read())) from error
        except (OSError, HTTPException, ValueError) as error:
            raise self._unreachable(error) from error

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
        return content

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


def _events(lines: Any) -> Events:  # noqa: ANN401 - an HTTP reply, or another iterable of lines of bytes
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
