"""The requests and results of a batch: lines in the format of OpenAI's batch files."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from chassis.json_text import InvalidJson, loads_request
from cli.terminal.exits import UnusableInput
from cli.terminal.input_files import read_text
from kernel.values import value

Body = Mapping[str, Any]

# Number of problems that an error lists.
MOST_PROBLEMS = 10


@value
class BatchRequest:
    """One request of a batch.

    Attributes:
        custom_id: Name of the request, chosen by the user.
        url: Path at the router, e.g. `/v1/chat/completions`.
        body: Body of the POST request.
        digest: Digest of path and body; a result is valid only for the request with its digest.
    """

    custom_id: str
    url: str
    body: Body
    digest: str


def read_requests(path: Path) -> Sequence[BatchRequest]:
    """Read the requests of a file.

    Raises:
        UnusableInput: A line is not a request, or two have the same name; the message lists the lines.
    """
    batch_requests: list[BatchRequest] = []
    lines: dict[str, int] = {}
    problems: list[str] = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            one = request(line)
        except ValueError as error:
            problems.append(f"line {number}: {error}")
            continue
        if one.custom_id in lines:
            problems.append(f"line {number}: custom_id {one.custom_id!r} is also that of line {lines[one.custom_id]}")
        lines.setdefault(one.custom_id, number)
        batch_requests.append(one)
    if problems:
        more = f"\n... and {len(problems) - MOST_PROBLEMS} more" if len(problems) > MOST_PROBLEMS else ""
        shown = "\n".join(problems[:MOST_PROBLEMS])
        raise UnusableInput(f"{path} is invalid, and nothing was sent:\n{shown}{more}")
    if not batch_requests:
        raise UnusableInput(f"{path} contains no request")
    return batch_requests


def request(line: str) -> BatchRequest:
    """Parse the request of a line.

    Raises:
        ValueError: The line is not a request; the message has the reason.

    Example:
        >>> request('{"custom_id": "a", "method": "POST", "url": "/v1/route", "body": {}}').url
        '/v1/route'
    """
    try:
        parsed = loads_request(line)
    except InvalidJson as error:
        raise ValueError(str(error)) from error
    if not isinstance(parsed, dict):
        raise ValueError("it is not a JSON object")
    custom_id, url, body = parsed.get("custom_id"), parsed.get("url"), parsed.get("body")
    if not isinstance(custom_id, str) or not custom_id:
        raise ValueError("custom_id must be a name that you choose")
    if parsed.get("method") != "POST":
        raise ValueError(f'method of {custom_id!r} must be "POST"')
    if not isinstance(url, str) or not url.startswith("/v1/"):
        raise ValueError(f"url of {custom_id!r} must be a path of the router, e.g. /v1/chat/completions")
    if not isinstance(body, dict) or body.get("stream"):
        raise ValueError(f"body of {custom_id!r} must be an object, without stream")
    spelled = json.dumps([url, body], sort_keys=True)
    return BatchRequest(custom_id=custom_id, url=url, body=body, digest=sha256(spelled.encode()).hexdigest())


@value
class BatchResult:
    """The result of one request.

    Attributes:
        custom_id: Name of the request.
        digest: Digest of the request.
        status: HTTP status; None without a reply.
        request_id: Name of the run; empty if the reply has none.
        body: The reply; None without one.
        error: `code` and `message` of the failure; None with a reply.
    """

    custom_id: str
    digest: str
    status: int | None = None
    request_id: str = ""
    body: object = None
    error: Mapping[str, str] | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the reply is an answer."""
        return self.status is not None and self.status < 400

    @property
    def chat_text(self) -> str:
        """The text of a chat completion; empty where the reply is none."""
        reply: Any = self.body if isinstance(self.body, dict) else {}
        choices = reply.get("choices") or [{}]
        return str((choices[0].get("message") or {}).get("content") or "")

    @property
    def explanation(self) -> object:
        """The `metacog` field of a chat completion, which has fields of a run; None where there is none."""
        return self.body.get("metacog") if isinstance(self.body, dict) else None

    @property
    def error_message(self) -> str:
        """The reason of the failure."""
        if self.error is not None:
            return self.error["message"]
        reply: Any = self.body if isinstance(self.body, dict) else {}
        error: Any = reply["error"] if isinstance(reply.get("error"), dict) else reply
        return str(error.get("message") or error.get("detail") or f"status {self.status}")


def result_line(name: str, answered: BatchResult) -> str:
    """Format a result as a line of OpenAI's batch output."""
    response = {"status_code": answered.status, "request_id": answered.request_id, "body": answered.body}
    document = {
        "id": name,
        "custom_id": answered.custom_id,
        "response": None if answered.status is None else response,
        "error": answered.error,
    }
    return json.dumps(document, ensure_ascii=False) + "\n"
