"""A service with scripted replies: for exact cases of its clients, which no real service gives twice.

with ScriptedService() as service:
    service.reply("POST /v1/route", json={"system": "SYSTEM_ONE"})
    ...                                            # send requests to service.url
    assert service.asked[0].body == {"question": "Why?"}
"""

import json
import threading
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class Reply:
    """One reply: `events` are streamed, else `content` is sent."""

    status: int = 200
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs_up: bool = False


@dataclass(frozen=True)
class Request:
    """A request that was received."""

    line: str
    query: str
    headers: Mapping[str, str]
    body: Any


class ScriptedService:
    """The server, in threads of its own; a context manager.

    Attributes:
        url: Its address.
        asked: The requests received, in order.
        most_at_once: Requests that were under way at the same time, at most.
    """

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._replies: dict[str, deque[Reply]] = defaultdict(deque)
        self._always: dict[str, Reply] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.gate: threading.Event | None = None

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reply(self, line: str, *, json: Any = None, status: int = 200, **headers: str) -> None:  # noqa: ANN401
        """Queue a reply to the next request of `line`, e.g. `POST /v1/route`."""
        self._replies[line].append(_json_reply(json, status, headers))

    def always(self, line: str, *, json: Any = None, status: int = 200) -> None:  # noqa: ANN401
        """Set the reply for every request of `line` without a queued one."""
        self._always[line] = _json_reply(json, status, {})

    def hang_up(self, line: str) -> None:
        """Close the connection of the next request of `line` without a reply."""
        self._replies[line].append(Reply(hangs_up=True))

    def stream(self, line: str, *events: tuple[str, Any], comment: str = "still here") -> None:
        """Queue a stream of events, with a comment before each."""
        text = "".join(f": {comment}\n\nevent: {name}\ndata: {json.dumps(content)}\n\n" for name, content in events)
        self._replies[line].append(Reply(content=text.encode(), headers={"content-type": "text/event-stream"}))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:  # noqa: ANN401
                """Write no log."""

            def do_GET(self) -> None:
                service._answer(self)

            do_POST = do_DELETE = do_GET  # noqa: N815

        return Handler

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        path, _, query = request.path.partition("?")
        raw = request.rfile.read(int(request.headers.get("content-length") or 0))
        line = f"{request.command} {path}"
        with self._lock:
            headers = {name.lower(): text for name, text in request.headers.items()}
            self.asked.append(Request(line, query, headers, json.loads(raw) if raw else None))
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            queued = self._replies[line]
            reply = (
                queued.popleft() if queued else self._always.get(line, _json_reply({"detail": "Not Found"}, 404, {}))
            )
        if self.gate is not None:
            self.gate.wait(10)
        with self._lock:
            self._at_once -= 1
        if reply.hangs_up:
            request.close_connection = True
            return
        request.send_response(reply.status)
        for name, text in {**reply.headers, "content-length": str(len(reply.content))}.items():
            request.send_header(name, text)
        request.end_headers()
        request.wfile.write(reply.content)


def _json_reply(document: Any, status: int, headers: Mapping[str, str]) -> Reply:  # noqa: ANN401
    spelled = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply(status, json.dumps(document).encode(), {"content-type": "application/json", **spelled})
