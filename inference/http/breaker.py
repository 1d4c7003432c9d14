"""A circuit breaker sends no requests to a backend that keeps failing."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from inference.config import BreakerSettings
from inference.errors import CircuitOpen


class BreakerPermit:
    """A permit allows one request; call `record_success` or `record_failure` when the result is known.

    It is a context, which holds the trial open if the request is one.
    """

    __slots__ = ("_breaker", "on_trial")

    def __init__(self, breaker: "Breaker") -> None:
        self._breaker = breaker
        self.on_trial = False

    def __enter__(self) -> Self:
        self.on_trial = self._breaker.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.on_trial:
            self._breaker.end_trial()

    def record_success(self) -> None:
        """Record that the backend answered."""
        self._breaker.close()

    def record_failure(self) -> None:
        """Record that the backend could not be reached, broke off, failed, or did not answer in the time it had."""
        self._breaker.count_failure(on_trial=self.on_trial)


class Breaker:
    """A breaker counts failures in a row; after too many it rejects requests for a while, and then admits one on trial.

    Args:
        backend: Name for the message.
        settings: When it opens, and for how long.
        clock: Monotonic clock [s].
        address: Its address for the message; empty: none.
    """

    def __init__(
        self, backend: str, settings: BreakerSettings, clock: Callable[[], float], *, address: str = ""
    ) -> None:
        self._backend = backend
        self._at = f" at {address}" if address else ""
        self._settings = settings
        self._clock = clock
        self._failures = 0
        self._closed_again_at = 0.0
        self._trial_runs = False

    def admit(self) -> BreakerPermit:
        """Return the permit for one request, as a context.

        Raises:
            CircuitOpen: On entering, while the circuit is open, or the one request on trial has not ended.
        """
        return BreakerPermit(self)

    def begin(self) -> bool:
        """Begin one request; return whether it is on trial."""
        on_trial = self.is_open
        if on_trial:
            self._check_trial()
            self._trial_runs = True
        return on_trial

    def end_trial(self) -> None:
        """End the request on trial."""
        self._trial_runs = False

    @property
    def is_open(self) -> bool:
        """Return whether so many requests failed in a row that only a trial is admitted."""
        return self._failures >= self._settings.failures

    @property
    def admits(self) -> bool:
        """Return whether a request would be admitted now, be it on trial."""
        return not self.is_open or (self._clock() >= self._closed_again_at and not self._trial_runs)

    def close(self) -> None:
        """Forget the failures."""
        self._failures = 0

    def count_failure(self, *, on_trial: bool) -> None:
        """Count one failure, and open the circuit if it is one too many or the trial's."""
        self._failures += 1
        if on_trial or self._failures == self._settings.failures:
            self._closed_again_at = self._clock() + self._settings.cool_down_s

    def _check_trial(self) -> None:
        wait_s = max(0.0, self._closed_again_at - self._clock())
        if wait_s > 0.0 or self._trial_runs:
            raise CircuitOpen(
                f"backend {self._backend}{self._at} failed {self._failures} times in a row;"
                f" it is tried again in {wait_s:.1f} s",
                backend=self._backend,
                retry_after_s=wait_s,
            )
