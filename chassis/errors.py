"""This module defines the errors that any service may raise.

MetacogError
├── MalformedRequest         chassis.serving.wire
├── ConfigurationInvalid     a setting or a configuration file is wrong; raised at start
├── BodyTooLarge             a request body is over the limit
├── RequestOverLimit         a number or size of a request is over the service's limit
├── Unauthenticated          no key, or an unknown one
├── NotImplementedYet        the operation is in the contract and not served by this build
├── ClientGone               the client disconnected before its answer was complete
├── PeerUnavailable          another service could not be reached
├── PeerError                another service returned an error, with its own code and reason
├── DatabaseUnavailable      PostgreSQL could not be reached
│   └── SchemaLocked         chassis.schema.locks: a migration did not get its locks
├── RecordUnreadable         chassis.serving.stored: another version stored a document in another form
└── (inference)              inference.errors
"""

from kernel.errors import Code, MetacogError


class ConfigurationInvalid(MetacogError):
    """A setting or a configuration file is wrong."""

    code = Code.FAILED_PRECONDITION
    reason = "CONFIGURATION_INVALID"


class BodyTooLarge(MetacogError):
    """A request body is over the limit."""

    code = Code.INVALID_ARGUMENT
    reason = "BODY_TOO_LARGE"


class RequestOverLimit(MetacogError):
    """A number or size of a request is over the service's limit."""

    code = Code.INVALID_ARGUMENT
    reason = "REQUEST_OVER_LIMIT"


class Unauthenticated(MetacogError):
    """No API key was given, or an unknown one."""

    code = Code.UNAUTHENTICATED
    reason = "UNAUTHENTICATED"


class NotImplementedYet(MetacogError):
    """The contract has this operation, and this build does not serve it."""

    code = Code.UNIMPLEMENTED
    reason = "NOT_IMPLEMENTED"


class PathNotFound(MetacogError):
    """The service has no such path."""

    code = Code.NOT_FOUND
    reason = "PATH_NOT_FOUND"


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
