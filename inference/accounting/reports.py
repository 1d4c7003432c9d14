"""This module reports each call that ends to an observer, such as telemetry."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from inference.accounting.accounts import CallAccount
from inference.config import BackendConfig
from inference.values import CHAT, Place, WorkKind
from kernel.envelope import NO_USAGE, StageUsage
from kernel.errors import MetacogError
from kernel.values import value

OK = "OK"
CANCELLED = "CANCELLED"
INTERNAL = "INTERNAL"


@value
class CallEnd:
    """A call end describes one call that has ended.

    Attributes:
        backend: The backend's name.
        model: Name of the model.
        work: Kind of work.
        stage: Label for usage.
        seconds: Time from the call to its end, waiting included [s].
        usage: Its known usage.
        operation: What the server did.
        outcome: `OK`, an error's reason, `CANCELLED` when the caller disconnected, or `INTERNAL` for a bug.
    """

    backend: str
    model: str
    work: WorkKind
    stage: str
    seconds: float
    usage: StageUsage
    outcome: str
    operation: str = CHAT.operation


class Observer(Protocol):
    """An observer receives a report of every call."""

    def on_call_end(self, end: CallEnd) -> None:
        """Receive `end`; this must be quick and must not fail."""


class NoObserver:
    """This observer ignores every report."""

    def on_call_end(self, end: CallEnd) -> None:
        """Do nothing."""


class CallReports:
    """Call reports are opened for each call of one backend.

    Args:
        config: The backend.
        observer: Receives them.
        clock: Monotonic clock [s].
    """

    def __init__(self, config: BackendConfig, observer: Observer, clock: Callable[[], float]) -> None:
        self._config = config
        self._observer = observer
        self._clock = clock

    def open(self, work: WorkKind, stage: str, place: Place = CHAT) -> "CallReport":
        """Return the report of a call that begins now."""
        started = self._clock()

        def send(usage: StageUsage, error: BaseException | None) -> None:
            self._observer.on_call_end(
                CallEnd(
                    backend=self._config.name,
                    model=self._config.model,
                    work=work,
                    stage=stage,
                    seconds=self._clock() - started,
                    usage=usage,
                    outcome=outcome(error),
                    operation=place.operation,
                )
            )

        return CallReport(send)


class CallReport:
    """A call report is sent once, at the latest when its context ends."""

    __slots__ = ("_send", "usage")

    def __init__(self, send: Callable[[StageUsage, BaseException | None], None]) -> None:
        self._send: Callable[[StageUsage, BaseException | None], None] | None = send
        self.usage = NO_USAGE

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(self.usage, error)

    def account_open(self, account: CallAccount) -> "OpenAccount":
        """Hold `account` open, and report what it has spent in the end."""
        return OpenAccount(self, account)

    def end_on_failure(self) -> "EndOnFailure":
        """End the report if what is inside fails."""
        return EndOnFailure(self)

    def end(self, usage: StageUsage, error: BaseException | None) -> None:
        """Report how the call ended. No-op once reported."""
        send, self._send = self._send, None
        if send is not None:
            send(usage, error)


class OpenAccount:
    """This context holds an account open and returns it."""

    __slots__ = ("_account", "_report")

    def __init__(self, report: CallReport, account: CallAccount) -> None:
        self._report = report
        self._account = account

    def __enter__(self) -> CallAccount:
        return self._account

    def __exit__(self, *_: object) -> None:
        self._account.close()
        self._report.usage = self._account.spent


class EndOnFailure:
    """This context ends a report if what is inside fails."""

    __slots__ = ("_report",)

    def __init__(self, report: CallReport) -> None:
        self._report = report

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._report.end(self._report.usage, error)


def outcome(error: BaseException | None) -> str:
    """Return the name of how a call ended."""
    if error is None:
        return OK
    if isinstance(error, MetacogError):
        return error.reason
    return CANCELLED if isinstance(error, asyncio.CancelledError | GeneratorExit) else INTERNAL
