"""Every error of metacog has one canonical code and one stable reason.

    MetacogError
    ├── MSVOutOfRange            kernel.msv
    ├── InvalidEnvelope          kernel.envelope
    ├── BudgetExhausted          kernel.envelope
    └── ...                      further ones stand at the head of each `errors.py`

What is not a `MetacogError` is a bug; the edge of a service logs it and answers `INTERNAL`.
"""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Self

# From `://` to the last `@` before the path; a password may contain an `@` that was not encoded.
_USER_INFO = re.compile(r"(?<=://)[^\s/?#\"'<>]*@")

# A message, and all metadata together, at most [bytes].
MAX_TEXT_BYTES = 4096
_CUT = "…"
# An entry of metadata that is cut below this says nothing [bytes].
_LEAST_ENTRY = 8


class Code(Enum):
    """A canonical status code is the one place where gRPC numbers and HTTP statuses meet."""

    CANCELLED = (1, 499)
    UNKNOWN = (2, 500)
    INVALID_ARGUMENT = (3, 400)
    DEADLINE_EXCEEDED = (4, 504)
    NOT_FOUND = (5, 404)
    ALREADY_EXISTS = (6, 409)
    PERMISSION_DENIED = (7, 403)
    RESOURCE_EXHAUSTED = (8, 429)
    FAILED_PRECONDITION = (9, 400)
    ABORTED = (10, 409)
    OUT_OF_RANGE = (11, 400)
    UNIMPLEMENTED = (12, 501)
    INTERNAL = (13, 500)
    UNAVAILABLE = (14, 503)
    UNAUTHENTICATED = (16, 401)

    @property
    def grpc(self) -> int:
        """Return the number of the gRPC status [1..16]."""
        return self.value[0]

    @property
    def http(self) -> int:
        """Return the HTTP status [400..599]."""
        return self.value[1]

    @classmethod
    def from_grpc(cls, number: int) -> "Code":
        """Return the code with gRPC status `number` [any integer]; `UNKNOWN` for a number that no code has."""
        return next((code for code in cls if code.grpc == number), cls.UNKNOWN)

    @classmethod
    def from_http(cls, status: int) -> "Code":
        """Return the first code with HTTP status `status` [any integer]; `UNKNOWN` for one that no code has."""
        return next((code for code in cls if code.http == status), cls.UNKNOWN)


def without_user_info(text: str) -> str:
    """Return `text` with the user information taken out of every URL in it.

    Example:
        >>> without_user_info("no answer from http://ann:p@ss@10.0.0.5:8000/v1; ask ann@example.org")
        'no answer from http://10.0.0.5:8000/v1; ask ann@example.org'
    """
    return _USER_INFO.sub("", text) if "@" in text else text


def cut_text(text: str, most_bytes: int) -> str:
    """Return the beginning of `text` in so many bytes of UTF-8, in whole characters, marked where it is cut.

    Args:
        text: The text.
        most_bytes: Bytes at most, the mark included [count, >= 3].

    Example:
        >>> cut_text("naïve", 6), cut_text("naïveté", 6), cut_text("naïveté", 7)
        ('naïve', 'na…', 'naï…')
    """
    whole = text.encode(errors="replace")
    if len(whole) <= most_bytes:
        return text
    return whole[: most_bytes - len(_CUT.encode())].decode(errors="ignore") + _CUT


def cut_metadata(metadata: Mapping[str, str], most_bytes: int) -> dict[str, str]:
    """Return the entries of `metadata` that fit into so many bytes, and under `left_out` how many more there were.

    Args:
        metadata: The entries.
        most_bytes: Bytes of names and texts at most, without those of `left_out` [count, >= 1].

    Example:
        >>> cut_metadata({"place": "a" * 50, "other": "b" * 50}, 40)
        {'place': 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…', 'left_out': '1'}
        >>> cut_metadata({"place": "line 2"}, 40)
        {'place': 'line 2'}
    """
    kept: dict[str, str] = {}
    left = most_bytes
    for name, text in metadata.items():
        room = left - len(name.encode(errors="replace"))
        if room < _LEAST_ENTRY:
            return {**kept, "left_out": str(len(metadata) - len(kept))}
        kept[name] = cut_text(text, room)
        left = room - len(kept[name].encode(errors="replace"))
    return kept


def cut_violations(violations: Mapping[str, str], most_bytes: int) -> dict[str, str]:
    """Return the violations that fit into so many bytes.

    Args:
        violations: What is wrong, by field.
        most_bytes: Bytes of fields and texts at most [count, >= 1].

    Example:
        >>> cut_violations({"n": "give a number", "seed": "give a whole number"}, 20)
        {'n': 'give a number'}
    """
    kept = cut_metadata(violations, most_bytes)
    return {field: text for field, text in kept.items() if field in violations}


class MetacogError(Exception):
    """This is the base of all named errors.

    No URL in it has user information, and neither its message nor its metadata is longer than 4 KiB: errors reach
    callers and logs, and what they quote is often the caller's own text.

    Args:
        message: What was wrong and what to do about it, for a person.
        metadata: Every value of the message again, for a program.

    Attributes:
        violations: What is wrong with which fields of the request, by field; the one of `field` or `component` in the
            metadata where none were given.
    """

    code: Code = Code.UNKNOWN
    reason: str = "ERROR_REASON_UNSPECIFIED"

    def __init__(self, message: str, /, **metadata: str) -> None:
        self.message = cut_text(without_user_info(message), MAX_TEXT_BYTES)
        super().__init__(self.message)
        known = {name: without_user_info(text) for name, text in metadata.items()}
        self.metadata = cut_metadata(known, MAX_TEXT_BYTES)
        field = self.metadata.get("field") or self.metadata.get("component")
        self.violations: Mapping[str, str] = {field: self.message.removeprefix(f"{field}: ")} if field else {}

    def with_violations(self, violations: Mapping[str, str]) -> Self:
        """Return this error with what is wrong by field; what is over 4 KiB is left out."""
        known = {field: without_user_info(text) for field, text in violations.items()}
        self.violations = cut_violations(known, MAX_TEXT_BYTES)
        return self


class InternalError(MetacogError):
    """Something went wrong inside; only the log has the details."""

    code = Code.INTERNAL
    reason = "INTERNAL"

    def __init__(self) -> None:
        super().__init__("something went wrong inside the service; its log has the details")


class InvalidArgument(MetacogError):
    """A value of the request is not acceptable."""

    code = Code.INVALID_ARGUMENT
    reason = "MALFORMED_REQUEST"


class MalformedRequest(MetacogError):
    """A request does not have the form that the contract asks for."""

    code = Code.INVALID_ARGUMENT
    reason = "MALFORMED_REQUEST"


class UnknownAgent(MetacogError):
    """The request names an agent that is not configured."""

    code = Code.INVALID_ARGUMENT
    reason = "UNKNOWN_AGENT"


class NoAgents(MetacogError):
    """There is no agent to give a role to."""

    code = Code.FAILED_PRECONDITION
    reason = "NO_AGENTS"


class RunNotFound(MetacogError):
    """There is no such run, or stored call, for this key."""

    code = Code.NOT_FOUND
    reason = "RUN_NOT_FOUND"


class FeedbackConflict(MetacogError):
    """The run or task has a different label already."""

    code = Code.ALREADY_EXISTS
    reason = "FEEDBACK_CONFLICT"


class TeachingNotAllowed(MetacogError):
    """The key may not change what the suite has learned."""

    code = Code.PERMISSION_DENIED
    reason = "TEACHING_NOT_ALLOWED"


class Overloaded(MetacogError):
    """As much is in flight as may be, of all callers or of one."""

    code = Code.RESOURCE_EXHAUSTED
    reason = "OVERLOADED"
