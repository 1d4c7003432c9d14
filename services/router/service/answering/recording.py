"""The events of a run are framed by its beginning and its end, and the run is recorded however it ends."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Protocol

from inference import Spend
from kernel.errors import Code, InternalError, MetacogError
from services.router.service.answering.values import Event, PassedThrough, RunFinished, RunStarted
from services.router.service.runs.values import Run


class RunRecorder(Protocol):
    """A recorder stores runs."""

    def record(self, run: Run) -> None:
        """Queue `run` to be stored; never lost, never waited for."""

    async def settle(self) -> None:
        """Return when the runs queued so far are as safe as the operator wants them before an answer ends."""


class RecordableRun(Protocol):
    """A run in progress can be recorded once, as it ended."""

    @property
    def run_id(self) -> str:
        """Return the name of the run."""

    @property
    def spend(self) -> Spend:
        """Return what the run may spend."""

    def record(self) -> Run:
        """Record the run as it ended, and return it."""

    def record_failure(self, error: MetacogError) -> Run:
        """Record the run that ended without an answer, and return it."""

    def record_cancellation(self) -> Run:
        """Record the run whose client went away, and return it."""


async def recorded_events(
    run: RecordableRun,
    events: AsyncGenerator[Event | PassedThrough, None],
    recorder: RunRecorder,
    on_recorded: Callable[[Run], None] = lambda _: None,
) -> AsyncGenerator[Event | PassedThrough, None]:
    """Yield the beginning of `run`, its `events`, and its end; closing the generator closes them.

    Args:
        run: The run.
        events: What happens in it.
        recorder: Waits until the record is safe.
        on_recorded: Receives the run before its last event, after which many clients hang up.

    Raises:
        MetacogError: The error that left no answer; the run is recorded with its reason.
    """
    try:
        yield RunStarted(run_id=run.run_id)
        async with aclosing(events):
            async for event in events:
                yield event
    except MetacogError as error:
        _state_deadline(error, run.spend)
        error.metadata.setdefault("run_id", run.run_id)
        run.record_failure(error)
        await recorder.settle()
        raise
    except (asyncio.CancelledError, GeneratorExit):
        run.record_cancellation()
        raise
    except Exception:
        run.record_failure(InternalError())
        raise
    finished = RunFinished(run=run.record())
    await recorder.settle()
    on_recorded(finished.run)
    yield finished


def _state_deadline(error: MetacogError, spend: Spend) -> None:
    """Have an error about time state the time of the request, where it states the part that a service was given."""
    timeout_ms = str(spend.timeout_ms)
    if error.code is Code.DEADLINE_EXCEEDED and error.metadata.get("timeout_ms") != timeout_ms:
        error.metadata["timeout_ms"] = timeout_ms
        error.message = f"the request's {timeout_ms} ms were over: {error.message}"
