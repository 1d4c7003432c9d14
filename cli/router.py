"""The router as any client sees it: its public REST face, one request at a time."""

import json
import os
from collections.abc import Mapping
from http.client import HTTPException
from typing import Annotated, Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

import typer

from kernel.errors import Code, MetacogError

ROUTER = "http://127.0.0.1:8080"
TIMEOUT_S = 60.0

RouterUrl = Annotated[str, typer.Option("--router", help="REST face of the router.")]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]

Body = Mapping[str, Any]


class RouterAway(MetacogError):
    """The router cannot be reached."""

    code = Code.UNAVAILABLE
    reason = "PEER_UNAVAILABLE"


class RouterRefused(MetacogError):
    """The router refused, with its own reason."""

    def __init__(self, status: int, problem: Body) -> None:
        hint = "; set METACOG_API_KEY to a key of the router" if status == 401 else ""
        super().__init__(f"{problem.get('reason', status)}: {problem.get('detail', 'no reason was given')}{hint}")
        self.code = Code.from_http(status)
        self.reason = str(problem.get("reason", self.code.name))


class Router:
    """Asks a running router.

    Args:
        url: Its REST face, e.g. `http://127.0.0.1:8080`.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        key = os.environ.get("METACOG_API_KEY", "")
        self._headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
        self._opener = build_opener(ProxyHandler({}))

    def get(self, path: str, **query: object) -> Body:
        """What is at `path`; a part of the query that is None is left out.

        Raises:
            RouterAway: When the router cannot be reached.
            RouterRefused: When it refuses.
        """
        given = {name: _spelled(item) for name, item in query.items() if item is not None}
        return self._asked(Request(f"{self._url}{path}?{urlencode(given)}", headers=self._headers))

    def post(self, path: str, body: Body) -> Body:
        """Reply to `body`.

        Raises:
            RouterAway: When the router cannot be reached.
            RouterRefused: When it refuses.
        """
        content = json.dumps(body).encode()
        return self._asked(Request(f"{self._url}{path}", data=content, headers=self._headers))

    def _asked(self, request: Request) -> Body:
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as reply:
                read: Body = json.loads(reply.read())
        except HTTPError as refused:
            raise RouterRefused(refused.code, _problem(refused.read())) from refused
        except (OSError, HTTPException, ValueError) as away:
            raise RouterAway(f"the router at {self._url} cannot be reached: {getattr(away, 'reason', away)}") from away
        return read


def in_path(name: str) -> str:
    """`name` as one step of a path."""
    return quote(name, safe="")


def _spelled(item: object) -> str:
    return str(item).lower() if isinstance(item, bool) else str(item)


def _problem(said: bytes) -> Body:
    try:
        problem = json.loads(said)
    except ValueError:
        problem = None
    return problem if isinstance(problem, dict) else {}
