"""The calibration error of the confidences served is measured for the metrics, now and then as feedback comes in."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Protocol

from chassis.shared_results import FairThreads
from kernel.statistics.reliability import reliability
from services.router.core.calibration import Progress
from services.router.metrics import CALIBRATION_ERROR
from services.router.service.calibration.values import GetCalibrationRequest, ObservedOutcomes

# A measurement reads up to 100,000 labels of each strategy: not after every rush of feedback [s].
EVERY_S = 60.0

# Fits and measures delay nothing else, and while one hangs no other begins.
FITTING = FairThreads("calibration", threads=1)


class LabelledAnswers(Protocol):
    """This store holds labelled answers; every method may raise `DatabaseUnavailable`."""

    async def progress(self) -> Sequence[Progress]:
        """Return the progress of each strategy and source."""

    async def observed(self, strategy: str, source: str, request: GetCalibrationRequest) -> ObservedOutcomes:
        """Return the newest labelled answers."""


class CalibrationErrors:
    """The calibration errors are kept up to date in `metacog_calibration_error`.

    Args:
        store: Stores labelled answers.
        every_s: Least time between two measurements [s].
        clock: Monotonic clock [s].
    """

    def __init__(
        self, store: LabelledAnswers, *, every_s: float = EVERY_S, clock: Callable[[], float] = monotonic
    ) -> None:
        self._store = store
        self._every_s = every_s
        self._clock = clock
        self._due_at = clock()
        self._is_stale = True

    def on_feedback(self) -> None:
        """Report that there is new feedback."""
        self._is_stale = True

    async def measure(self) -> None:
        """Measure, if feedback has come in since the last time and that is long enough ago.

        Raises:
            DatabaseUnavailable: When the database is away; the last measurements stay.
        """
        if not self._is_stale or self._clock() < self._due_at:
            return
        self._is_stale, self._due_at = False, self._clock() + self._every_s
        try:
            await self._measure()
        except Exception:
            self._is_stale = True
            raise

    async def _measure(self) -> None:
        for progress in await self._store.progress():
            pair = (progress.strategy, progress.confidence_source)
            observed = await self._store.observed(*pair, GetCalibrationRequest())
            error = (await FITTING.run(reliability, observed.served, observed.scores)).calibration_error
            if error is not None:
                CALIBRATION_ERROR.labels(*pair).set(error)
