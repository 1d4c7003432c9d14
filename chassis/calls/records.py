"""Calls are recorded without delaying their answers, and read later."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import orjson
from sqlalchemy import Table

from chassis import database as db
from chassis.calls.store import PostgresCalls, PostgresOldCalls
from chassis.calls.values import CallPage, CallsNotStored, ListCallsRequest, StoredCall, StoredKind
from chassis.ids import new_id
from chassis.journal.journal import RETRY_S, WRITE_WITHIN_S, Journal
from chassis.journal.lookup import recorded
from chassis.json_text import dumps
from chassis.redaction import messages
from chassis.serving.health import Check
from chassis.serving.server import closing
from chassis.serving.stored import from_stored
from chassis.worker.retention import EVERY_S, Retention
from kernel.conversation import Turn, question_text

T = TypeVar("T")
E = TypeVar("E")

# Connections of a service that records calls [count].
CONNECTIONS = 8


class CallRequest(Protocol):
    """This request may name the run that it is a part of."""

    @property
    def run_id(self) -> str:
        """Return the name of the run; empty where it is a part of none."""

    @property
    def question(self) -> str:
        """Return the question; empty where there are messages."""

    @property
    def messages(self) -> Sequence[Turn]:
        """Return the conversation; empty where there is a question."""


Q = TypeVar("Q", bound=CallRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStorage:
    """These options say what is stored of calls, where, and for how long.

    Attributes:
        url: SQLAlchemy URL of the database.
        spool: File in which calls wait while the database is away.
        contents: Whether questions and answers are stored.
        days: Age from which calls are deleted [days]; 0: never.
        retry_s: Time between two attempts to reach the database again [s].
        retention_every_s: Time between two looks at what is too old [s].
    """

    url: str
    spool: Path
    contents: bool = True
    days: int = 0
    retry_s: float = RETRY_S
    retention_every_s: float = EVERY_S


class CallRecords:
    """A service records its calls here, and reads them.

    Args:
        storage: What is stored, where, and for how long.
        table: The table that `calls_table` made.

    Attributes:
        checks: Checks of readiness, by part.
    """

    def __init__(self, storage: CallStorage, table: Table) -> None:
        self._engine = db.build_engine(storage.url, connections=CONNECTIONS)
        records = db.build_sessions(self._engine)
        reads = db.build_sessions(self._engine, per_caller=CONNECTIONS // 2)
        self.store = PostgresCalls(reads, table)
        self.contents = storage.contents
        self.journal = Journal(
            PostgresCalls(records.within(WRITE_WITHIN_S), table),
            storage.spool,
            kind=StoredCall,
            name="calls",
            retry_s=storage.retry_s,
        )
        self._workers: dict[str, Journal[StoredCall] | Retention] = {"journal": self.journal}
        if storage.days:
            self._workers["retention"] = Retention(
                "calls",
                PostgresOldCalls(records.within(db.BACKGROUND_WITHIN_S), table),
                days=storage.days,
                delete_files=self.journal.rejected.remove_older,
                every_s=storage.retention_every_s,
            )
        self.checks: Mapping[str, Check] = {
            "database": partial(db.check, self._engine),
            **{name: worker.check for name, worker in self._workers.items()},
        }

    def start(self) -> None:
        """Begin to write and to delete."""
        for worker in self._workers.values():
            worker.start()

    async def close(self) -> None:
        """Write what waits, and stop."""
        await closing(*(worker.close for worker in self._workers.values()), self._engine.dispose)


class Calls(Generic[T]):
    """These are the calls of one kind.

    Args:
        records: Where they are recorded; None where they are not.
        kind: How they are stored.
        service: Name of the service, for the error where they are not.
    """

    def __init__(self, records: CallRecords | None, kind: StoredKind[T], service: str) -> None:
        self._records = records
        self._kind = kind
        self._service = service

    def recording(self, work: Callable[[Q], AsyncGenerator[E, None]]) -> Callable[..., AsyncGenerator[E, None]]:
        """Return `work` as a use case that records its calls before it yields their last event.

        A call that is a part of a run is not recorded: the run is. The others get an identifier, which is the `run_id`
        of their events.
        """

        async def recorded_call(request: Q, *, key_name: str) -> AsyncGenerator[E, None]:
            began, run_id = datetime.now(UTC), new_id()
            async with aclosing(work(request)) as events:
                async for event in events:
                    if self._records is None or request.run_id:
                        yield event
                        continue
                    named = _named(event, run_id)
                    if isinstance(event, self._kind.finished):
                        await self._record(self._records, request, named, key_name, began, run_id)
                    yield named

        return recorded_call

    async def get(self, run_id: str, *, key_name: str = "") -> T:
        """Return one call of a key; an empty name finds the calls of all keys. One on its way to the database is found.

        Raises:
            CallsNotStored: Where calls are not stored.
            RunNotFound: When there is none.
            RecordUnreadable: When another version stored it in a form that this one cannot read.
            DatabaseUnavailable: When the database is away, or the call may be among those that wait for it on disk.
        """
        records = self._stored()
        find = partial(_found, records.store, self._kind.name, self._read)
        return await recorded(run_id, key_name=key_name, find=find, journal=records.journal)

    async def page(self, request: ListCallsRequest, *, key_name: str = "") -> CallPage[T]:
        """Return a page of the calls of a key, newest first; an empty name finds the calls of all keys.

        Raises:
            CallsNotStored: Where calls are not stored.
            MalformedRequest: For a page size out of range.
            InvalidPageToken: For a token that this service did not give.
            DatabaseUnavailable: When the database is away.
        """
        return await self._stored().store.page(self._kind.name, request, self._read, key_name=key_name)

    def _stored(self) -> CallRecords:
        if self._records is None:
            raise CallsNotStored(
                f"the {self._service} stores no calls, since METACOG_DATABASE_URL is not set for it: set it, run"
                f" `python -m services.{self._service} migrate`, and start the {self._service} again",
                setting="METACOG_DATABASE_URL",
            )
        return self._records

    async def _record(
        self, records: CallRecords, request: CallRequest, finished: object, key_name: str, began: datetime, run_id: str
    ) -> None:
        make: Any = self._kind.shown
        question = question_text(request.question, request.messages)
        shown = make(created_at=began, question=question, finished=finished)
        if not records.contents:
            shown = messages.without_contents(shown, self._kind.message)
        records.journal.record(
            StoredCall(
                run_id=run_id,
                kind=self._kind.name,
                key_name=key_name,
                created_at=began,
                document=orjson.loads(dumps(shown)),
            )
        )
        await records.journal.settle()

    def _read(self, run_id: str, document: object) -> T:
        return from_stored(document, self._kind.shown, record=self._kind.name, record_id=run_id)


def start_of(records: CallRecords | None) -> Callable[[], None]:
    """Return what starts the workers of `records`; where there are none, it does nothing."""
    return _start_nothing if records is None else records.start


def _start_nothing() -> None:
    pass


async def _found(
    store: PostgresCalls, kind: str, read: Callable[[str, Any], T], run_id: str, *, key_name: str = ""
) -> T:
    return await store.get(kind, run_id, read, key_name=key_name)


def _named(event: E, run_id: str) -> E:
    """Return an event with the identifier of its call, where it has a field for it."""
    changed: Any = event
    return replace(changed, run_id=run_id) if hasattr(event, "run_id") else event
