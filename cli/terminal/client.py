"""A service as any client sees it: its public REST face, one request at a time.

    router = Service("router", "http://127.0.0.1:8080", key="mc-...")
    router.get("/v1/runs", page_size=10)
    for name, content in router.stream("/v1/answers", {"question": "Is 91 prime?"}):
        ...

Standard library only: whoever asks for help, or for one number, waits for no more than that.
"""

import json
import os
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
# A stream says at least every 15 seconds that it is still there.
STREAM_IDLE_S = 120.0

Body = Mapping[str, Any]
Events = Iterator[tuple[str, Body]]


class Unreachable(MetacogError):
    """A service cannot be reached, or stops answering."""

    code = Code.UNAVAILABLE
    reason = "PEER_UNAVAILABLE"


class Refused(MetacogError):
    """A service refused, with its own reason."""

    def __init__(self, service: str, status: int, problem: Body) -> None:
        self.code = Code.from_http(status)
        self.reason = str(problem.get("reason", self.code.name))
        strange = f"it answered {status}, and not as metacog does; is the address right?"
        detail = problem.get("detail", "") if "reason" in problem else strange
        hint = "; set METACOG_API_KEY to a key that it knows" if status == 401 else ""
        super().__init__(f"{service}: {self.reason}: {detail}{hint}")


class _NoRedirect(HTTPRedirectHandler):
    """Takes a redirection for a refusal: a key goes nowhere but where it was sent."""

    def redirect_request(self, *_: Any) -> None:  # noqa: ANN401 - urllib's own
        return None


def address(name: str) -> str:
    """REST face of a service: METACOG_<NAME>_URL, else METACOG_<NAME>_REST_PORT here, else the usual port."""
    prefix = f"METACOG_{name.upper()}"
    port = os.environ.get(f"{prefix}_REST_PORT") or PORTS[name]
    return os.environ.get(f"{prefix}_URL") or f"http://127.0.0.1:{port}"


class Service:
    """Asks a running service.

    Args:
        name: The service.
        url: Its REST face; empty: where it usually is, or where the environment says.
        key: API key; empty: METACOG_API_KEY.

    Raises:
        UnusableInput: When `url` is no address.
    """

    def __init__(self, name: str, url: str = "", *, key: str = "") -> None:
        self.name = name
        self.url = (url or address(name)).rstrip("/")
        place = urlsplit(self.url)
        if place.scheme not in ("http", "https") or not place.hostname:
            raise UnusableInput(f"{self.url} is no address; it must be like http://127.0.0.1:{PORTS[name]}")
        self.key = key or os.environ.get("METACOG_API_KEY", "")
        authorization = {"authorization": f"Bearer {self.key}"} if self.key else {}
        self._headers = {"content-type": "application/json", **authorization}
        self._opener = build_opener(ProxyHandler({}), _NoRedirect())

    def get(self, path: str, **query: object) -> Body:
        """What is at `path`; a part of the query that is None or empty is left out.

        Raises:
            Unreachable: When the service cannot be reached.
            Refused: When it refuses.
        """
        given = {name: _spelled(item) for name, item in query.items() if item not in (None, "")}
        return self._asked(self._request(f"{path}?{urlencode(given)}" if given else path))

    def pages(self, path: str, field: str, *, page_size: int, **query: object) -> Iterator[Body]:
        """Every item of a list, page after page, as long as somebody takes them."""
        token: str | None = None
        while token != "":
            page = self.get(path, page_size=page_size, page_token=token, **query)
            yield from page[field]
            token = page["next_page_token"]

    def post(self, path: str, body: Body) -> Body:
        """Reply to `body`.

        Raises:
            Unreachable: When the service cannot be reached.
            Refused: When it refuses.
        """
        return self._asked(self._request(path, json.dumps(body, ensure_ascii=False).encode()))

    def delete(self, path: str) -> Body:
        """Delete what is at `path`; raises as `post` does."""
        return self._asked(self._request(path, verb="DELETE"))

    def stream(self, path: str, body: Body) -> Events:
        """Events that answer `body`, by name; hanging up is closing the iterator.

        Raises:
            Unreachable: When the service cannot be reached, or the stream breaks.
            Refused: When it refuses, at once or midway.
        """
        request = self._request(path, json.dumps(body, ensure_ascii=False).encode())
        request.add_header("accept", "text/event-stream")
        try:
            with self._opener.open(request, timeout=STREAM_IDLE_S) as reply:
                for name, content in _events(reply):
                    if name == "error":
                        raise Refused(self.name, int(content.get("status", 500)), content)
                    yield name, content
        except HTTPError as refused:
            raise Refused(self.name, refused.code, _problem(refused.read())) from refused
        except (OSError, HTTPException, ValueError) as away:
            raise self._away(away) from away

    def _request(self, path: str, content: bytes | None = None, *, verb: str | None = None) -> Request:
        return Request(f"{self.url}{path}", data=content, headers=self._headers, method=verb)

    def _asked(self, request: Request) -> Body:
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as reply:
                read: Body = json.loads(reply.read())
        except HTTPError as refused:
            raise Refused(self.name, refused.code, _problem(refused.read())) from refused
        except (OSError, HTTPException, ValueError) as away:
            raise self._away(away) from away
        return read

    def _away(self, cause: Exception) -> Unreachable:
        said = getattr(cause, "reason", cause)
        return Unreachable(
            f"the {self.name} at {self.url} cannot be reached: {said}\n"
            f"`metacog up` starts the suite, `metacog doctor` looks for what is wrong; "
            f"--{self.name} or METACOG_{self.name.upper()}_URL name another address"
        )


def in_path(name: str) -> str:
    """`name` as one step of a path."""
    return quote(name, safe="")


def _events(lines: Any) -> Events:  # noqa: ANN401 - an HTTP reply, or anything else that gives lines of bytes
    """Server-sent events with their content read; comments are passed over."""
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


def _spelled(item: object) -> str:
    return str(item).lower() if isinstance(item, bool) else str(item)


def _problem(said: bytes) -> Body:
    try:
        problem = json.loads(said)
    except ValueError:
        problem = None
    return problem if isinstance(problem, dict) else {}
