"""Requests and results of a batch, line by line, in the format of OpenAI's batch files."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from cli.terminal.exits import UnusableInput
from cli.terminal.input_files import read_text
from kernel.values import value

Body = Mapping[str, Any]

# What a person can mend at once; more would only scroll by.
MOST_PROBLEMS = 10


@value
class Asked:
    """One request.

    Attributes:
        custom_id: Name that the caller gave it.
        url: Path at the router, e.g. `/v1/chat/completions`.
        body: What is posted there.
        digest: Of path and body; a result counts only for the request that it was made for.
    """

    custom_id: str
    url: str
    body: Body
    digest: str


def read_requests(path: Path) -> Sequence[Asked]:
    """The requests of a file.

    Raises:
        UnusableInput: When a line is no request or two have one name; names the lines. Nothing is sent then.
    """
    asked: list[Asked] = []
    lines: dict[str, int] = {}
    problems: list[str] = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            one = request(line)
        except ValueError as wrong:
            problems.append(f"line {number}: {wrong}")
            continue
        if one.custom_id in lines:
            problems.append(f"line {number}: custom_id {one.custom_id!r} is that of line {lines[one.custom_id]} too")
        lines.setdefault(one.custom_id, number)
        asked.append(one)
    if problems:
        more = f"\n... and {len(problems) - MOST_PROBLEMS} more" if len(problems) > MOST_PROBLEMS else ""
        shown = "\n".join(problems[:MOST_PROBLEMS])
        raise UnusableInput(f"{path} cannot be used, and nothing was sent:\n{shown}{more}")
    if not asked:
        raise UnusableInput(f"{path} holds no request")
    return asked


def request(line: str) -> Asked:
    """The request of a line.

    Raises:
        ValueError: When it is none; says why.

    Example:
        >>> request('{"custom_id": "a", "method": "POST", "url": "/v1/route", "body": {}}').url
        '/v1/route'
    """
    try:
        said = json.loads(line)
    except json.JSONDecodeError as wrong:
        raise ValueError(f"it is not JSON: {wrong}") from wrong
    if not isinstance(said, dict):
        raise ValueError("it is no JSON object")
    custom_id, url, body = said.get("custom_id"), said.get("url"), said.get("body")
    if not isinstance(custom_id, str) or not custom_id:
        raise ValueError("custom_id must be a name of yours")
    if said.get("method") != "POST":
        raise ValueError(f'method of {custom_id!r} must be "POST"')
    if not isinstance(url, str) or not url.startswith("/v1/"):
        raise ValueError(f"url of {custom_id!r} must be a path of the router, e.g. /v1/chat/completions")
    if not isinstance(body, dict) or body.get("stream"):
        raise ValueError(f"body of {custom_id!r} must be an object, without stream")
    spelled = json.dumps([url, body], sort_keys=True)
    return Asked(custom_id=custom_id, url=url, body=body, digest=sha256(spelled.encode()).hexdigest())


@value
class Answered:
    """What came of a request.

    Attributes:
        custom_id: Its name.
        digest: That of the request.
        status: HTTP status; None when there was no reply at all.
        request_id: Name of the run, if the reply has one; else empty.
        body: The reply; None when there was none.
        error: Why there was none, `code` and `message`; None when there was.
    """

    custom_id: str
    digest: str
    status: int | None = None
    request_id: str = ""
    body: Any = None
    error: Mapping[str, str] | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the reply is what was asked for."""
        return self.status is not None and self.status < 400

    @property
    def complaint(self) -> str:
        """Why it did not succeed."""
        if self.error is not None:
            return self.error["message"]
        said: Any = self.body if isinstance(self.body, dict) else {}
        told: Any = said["error"] if isinstance(said.get("error"), dict) else said
        return str(told.get("message") or told.get("detail") or f"status {self.status}")


def result_line(name: str, answered: Answered) -> str:
    """A result as OpenAI's batches have it."""
    response = {"status_code": answered.status, "request_id": answered.request_id, "body": answered.body}
    document = {
        "id": name,
        "custom_id": answered.custom_id,
        "response": None if answered.status is None else response,
        "error": answered.error,
    }
    return json.dumps(document, ensure_ascii=False) + "\n"
