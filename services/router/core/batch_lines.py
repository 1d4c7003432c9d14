"""A file of a batch is cut into lines, each line is checked, and its result becomes a line of another file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

# Characters of a `custom_id` at most, and problems of a file that are listed [count].
MOST_CUSTOM_ID, MOST_PROBLEMS = 512, 100
FIELDS = frozenset({"custom_id", "method", "url", "body"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LineProblem:
    """This problem of a line of an input file is reported as OpenAI does.

    Attributes:
        code: Its stable name.
        message: What is wrong, and what to do.
        line: Number of the line [>= 1]; None: it is about the whole file.
        param: The field; None: the whole line.
    """

    code: str
    message: str
    line: int | None = None
    param: str | None = None


class LineSplitter:
    r"""A splitter cuts a file into lines, as its pieces come; each line keeps its end.

    Args:
        most_bytes: Bytes of a line at most, its end included [bytes].

    Attributes:
        count: Lines so far [count].

    Example:
        >>> splitter = LineSplitter(8)
        >>> [*splitter.lines(b"ab\nc"), *splitter.lines(b"d\n\ne"), *splitter.rest()]
        [b'ab\n', b'cd\n', b'\n', b'e']
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held = bytearray()
        self.count = 0

    def lines(self, piece: bytes) -> Iterator[bytes]:
        """Yield the lines that end in `piece`.

        Raises:
            LineTooLong: For a line that is longer than it may be.
        """
        begin = 0
        while (end := piece.find(b"\n", begin)) >= 0:
            self._hold(piece[begin : end + 1])
            begin = end + 1
            yield self._take()
        self._hold(piece[begin:])

    def rest(self) -> Iterator[bytes]:
        """Yield the last line, where it has no end."""
        if self._held:
            yield self._take()

    def _hold(self, more: bytes) -> None:
        if len(self._held) + len(more) > self._most:
            raise LineTooLong(self.count + 1)
        self._held += more

    def _take(self) -> bytes:
        line = bytes(self._held)
        self._held.clear()
        self.count += 1
        return line


class LineTooLong(ValueError):
    """A line is longer than it may be.

    Args:
        line: Its number [>= 1].
    """

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line} is too long")
        self.line = line


class LineChecker:
    """A checker checks the lines of one input file, in their order.

    Args:
        endpoint: Path that every line must name.

    Attributes:
        problems: What is wrong so far, the first 100 problems.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._seen: set[bytes] = set()
        self.problems: list[LineProblem] = []

    def note(self, number: int | None, code: str, message: str, param: str | None = None) -> None:
        """Note a problem.

        Args:
            number: Number of the line [>= 1]; None: it is about the whole file.
            code: Its stable name.
            message: What is wrong, and what to do.
            param: The field; None: the whole line.
        """
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(LineProblem(code=code, message=message, line=number, param=param))

    def check(self, number: int, line: object) -> str | None:
        """Return the `custom_id` of a line, or None after noting what is wrong with it.

        Args:
            number: Number of the line [>= 1].
            line: The line as JSON has it.
        """
        if not isinstance(line, dict):
            self.note(number, "invalid_json_line", "the line must be a JSON object")
            return None
        found = [*self._problems_of(line), *self._repeated(line.get("custom_id"))]
        for code, message, param in found:
            self.note(number, code, message, param)
        return None if found else str(line["custom_id"])

    def _problems_of(self, line: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
        custom_id, method, body = line.get("custom_id"), line.get("method"), line.get("body")
        if "custom_id" not in line:
            yield "missing_required_parameter", "custom_id: give each line a name of its own", "custom_id"
        elif not isinstance(custom_id, str) or not 1 <= len(custom_id) <= MOST_CUSTOM_ID:
            message = f"custom_id: it must be a text of 1 to {MOST_CUSTOM_ID} characters"
            yield "invalid_custom_id", message, "custom_id"
        if method != "POST":
            yield "invalid_method", f"method: it must be 'POST', not {_shown(method)}", "method"
        if line.get("url") != self._endpoint:
            message = f"url: it must be {self._endpoint!r}, the endpoint of the batch, not {_shown(line.get('url'))}"
            yield "invalid_url", message, "url"
        if not isinstance(body, dict):
            yield "invalid_body", "body: it must be an object, the request of the line", "body"
        elif body.get("stream") not in (None, False):
            yield "invalid_body", "body.stream: a batch has whole replies; leave it out", "body.stream"
        for name in sorted(line.keys() - FIELDS):
            yield "unknown_parameter", f"{str(name)[:100]}: there is no such field; leave it out", str(name)[:100]

    def _repeated(self, custom_id: object) -> Iterator[tuple[str, str, str]]:
        if not isinstance(custom_id, str):
            return
        digest = blake2b(custom_id.encode(errors="replace"), digest_size=16).digest()
        if digest in self._seen:
            yield "duplicate_custom_id", f"custom_id: {_shown(custom_id)} is there twice in the file", "custom_id"
        self._seen.add(digest)


def _shown(item: object) -> str:
    text = repr(item)
    return text if len(text) <= 100 else f"{text[:99]}…"


def listed_problems(problems: Sequence[LineProblem]) -> list[dict[str, Any]]:
    """Return the problems as a batch lists them."""
    return [{"code": one.code, "line": one.line, "message": one.message, "param": one.param} for one in problems]


def result_line(
    batch_id: str, number: int, custom_id: str, *, status: int, request_id: str, body: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the line of a file of results for a line that got a reply, or an error of its own.

    Args:
        batch_id: Its batch.
        number: Its number [>= 1].
        custom_id: The name that its caller gave.
        status: HTTP status of the reply [200..599].
        request_id: The run; empty: there was none.
        body: The reply.
    """
    response = {"status_code": status, "request_id": request_id, "body": body}
    return {"id": line_id(batch_id, number), "custom_id": custom_id, "response": response, "error": None}


def unanswered_line(batch_id: str, number: int, custom_id: str, *, code: str, message: str) -> dict[str, Any]:
    """Return the line of a file of errors for a line that was not answered.

    Args:
        batch_id: Its batch.
        number: Its number [>= 1].
        custom_id: The name that its caller gave.
        code: Why it was not answered.
        message: The same for a person.
    """
    error = {"code": code, "message": message}
    return {"id": line_id(batch_id, number), "custom_id": custom_id, "response": None, "error": error}


def line_id(batch_id: str, number: int) -> str:
    """Return the name of a line of a batch: the same, however often it is answered.

    Args:
        batch_id: The batch.
        number: Number of the line [>= 1].

    Example:
        >>> line_id("batch_01a", 7)
        'batch_req_01a-7'
    """
    return f"batch_req_{batch_id.removeprefix('batch_')}-{number}"
