"""This module defines the errors that any service may raise.

MetacogError
├── MalformedRequest         chassis.serving.wire
├── ConfigurationInvalid     a setting or a configuration file is wrong; raised at start
├── HeadTooLarge             the request line and headers are over the limit
├── BodyTooLarge             a request body is over the limit
├── RequestTimeout           a request did not arrive within its time
├── TooManyCallers           as many connections or calls are open as may be
├── HostNotAllowed           the request names a host that this service does not answer to
├── OriginNotAllowed         the request comes from a page of another site
├── UnsupportedMediaType     the body is not JSON
├── RequestOverLimit         a number or size of a request is over the service's limit
├── Unauthenticated          no key, or an unknown one
├── PathNotFound             the service has no such path
├── MethodNotAllowed         the path does not take this method
├── NotImplementedYet        the operation is in the contract and not served by this build
├── ClientGone               the client disconnected before its answer was complete
├── PeerUnavailable          another service could not be reached
├── PeerError                another service returned an error, with its own code and reason
├── DatabaseUnavailable      PostgreSQL could not be reached
│   └── SchemaLocked         chassis.schema.locks: a migration did not get its locks
├── RecordUnreadable         chassis.serving.stored: another version stored a document in another form
└── (inference)              inference.errors
"""

from collections.abc import Mapping

from kernel.errors import Code, MetacogError


class ConfigurationInvalid(MetacogError):
    """A setting or a configuration file is wrong."""

    code = Code.FAILED_PRECONDITION
    reason = "CONFIGURATION_INVALID"


class HeadTooLarge(MetacogError):
    """The request line and headers are over the limit."""

    code = Code.INVALID_ARGUMENT
    reason = "HEAD_TOO_LARGE"


class BodyTooLarge(MetacogError):
    """A request body is over the limit."""

    code = Code.INVALID_ARGUMENT
    reason = "BODY_TOO_LARGE"


class RequestTimeout(MetacogError):
    """A request did not arrive within its time."""

    code = Code.DEADLINE_EXCEEDED
    reason = "REQUEST_TIMEOUT"


class TooManyCallers(MetacogError):
    """As many connections or calls are open as may be."""

    code = Code.UNAVAILABLE
    reason = "TOO_MANY_CALLERS"


class HostNotAllowed(MetacogError):
    """The request names a host that this service does not answer to."""

    code = Code.PERMISSION_DENIED
    reason = "HOST_NOT_ALLOWED"


class OriginNotAllowed(MetacogError):
    """The request comes from a page of another site."""

    code = Code.PERMISSION_DENIED
    reason = "ORIGIN_NOT_ALLOWED"


class UnsupportedMediaType(MetacogError):
    """The body is not JSON."""

    code = Code.INVALID_ARGUMENT
    reason = "UNSUPPORTED_MEDIA_TYPE"


class RequestOverLimit(MetacogError):
    """A number or size of a request is over the service's limit."""

    code = Code.INVALID_ARGUMENT
    reason = "REQUEST_OVER_LIMIT"


class Unauthenticated(MetacogError):
    """No API key was given, or an unknown one."""

    code = Code.UNAUTHENTICATED
    reason = "UNAUTHENTICATED"


class OwnerNotAllowed(MetacogError):
    """A key acts for another one, and may not."""

    code = Code.PERMISSION_DENIED
    reason = "OWNER_NOT_ALLOWED"


class NotImplementedYet(MetacogError):
    """The contract has this operation, and this build does not serve it."""

    code = Code.UNIMPLEMENTED
    reason = "NOT_IMPLEMENTED"


class PathNotFound(MetacogError):
    """The service has no such path."""

    code = Code.NOT_FOUND
    reason = "PATH_NOT_FOUND"


class MethodNotAllowed(MetacogError):
    """The path is there, and does not take this method."""

    code = Code.INVALID_ARGUMENT
    reason = "METHOD_NOT_ALLOWED"


class PeerUnavailable(MetacogError):
    """Another service of the suite could not be reached."""

    code = Code.UNAVAILABLE
    reason = "PEER_UNAVAILABLE"


class DatabaseUnavailable(MetacogError):
    """PostgreSQL could not be reached."""

    code = Code.UNAVAILABLE
    reason = "DATABASE_UNAVAILABLE"


class ClientGone(MetacogError):
    """The client disconnected before its answer was complete."""

    code = Code.CANCELLED
    reason = "CANCELLED"


class PeerError(MetacogError):
    """Another service returned an error, with its own code and reason."""

    def __init__(self, message: str, code: Code, reason: str, /, **metadata: str) -> None:
        super().__init__(message, **metadata)
        self.code = code
        self.reason = reason


# HTTP statuses that are more exact than those of the canonical codes, by reason.
EXACT_STATUSES: Mapping[str, int] = {
    MethodNotAllowed.reason: 405,
    RequestTimeout.reason: 408,
    BodyTooLarge.reason: 413,
    UnsupportedMediaType.reason: 415,
    HostNotAllowed.reason: 421,
    HeadTooLarge.reason: 431,
}
