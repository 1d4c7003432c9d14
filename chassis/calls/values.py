"""These values are a stored call and requests for calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import Descriptor

from kernel.errors import Code, MetacogError
from kernel.values import value

T = TypeVar("T")


class CallsNotStored(MetacogError):
    """This service stores no calls."""

    code = Code.FAILED_PRECONDITION
    reason = "CALLS_NOT_STORED"


@value
class StoredCall:
    """A call is stored with the columns that it is searched by, and all of it as a document.

    Attributes:
        run_id: Its identifier.
        kind: The name of its `StoredKind`.
        key_name: Name of the API key of its request; empty without keys.
        created_at: When it began.
        document: What is shown of it.
    """

    run_id: str
    kind: str
    key_name: str
    created_at: datetime
    document: Any


@value
class ListCallsRequest:
    """This request asks for a page of calls, newest first."""

    page_size: int = 50
    page_token: str = ""
    since: datetime | None = None
    until: datetime | None = None


@value
class CallPage(Generic[T]):
    """This value is a page of calls, with the number of those that this version cannot read."""

    calls: Sequence[T]
    next_page_token: str
    unreadable: int = 0

    def position(self) -> Mapping[str, Any]:
        """Return what a page says beside its calls, by the names that every contract has for it."""
        return {"next_page_token": self.next_page_token, "unreadable": self.unreadable}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKind(Generic[T]):
    """A kind of call states how one is stored.

    Attributes:
        name: Its name, such as `vote`.
        finished: The type of its last event.
        shown: The type of what is stored and shown: `created_at`, `question` and `finished`, the last event.
        message: The message of the contract that `shown` has the form of.
    """

    name: str
    finished: type[Any]
    shown: type[T]
    message: Descriptor
