"""The kinds in force are those of the delegation service, adopted categories included; without it the configured ones.

They are read in the background, never by a request.
"""

import asyncio
from collections.abc import Awaitable, Callable

from chassis.log import logger
from chassis.worker import BackgroundWorker, round_within
from inference import KindClassifier, KindVectors
from kernel.errors import MetacogError

# Time between two looks at the kinds in force [s], and time that one may take [s].
EVERY_S, WITHIN_S = 30.0, 10.0
# Time that a round may take before it counts as hung [s].
ROUND_WITHIN_S = 60.0

_log = logger(__name__)


class KindsInForce:
    """This object keeps the classifier up to date, in the background.

    Args:
        classifier: Finds the kind of a question.
        read: Reads the kinds of the delegation service; None where there is none.
        every_s: Time between two looks [s].
        round_within_s: Time that a look may take before it counts as hung [s].
    """

    def __init__(
        self,
        classifier: KindClassifier,
        read: Callable[[], Awaitable[KindVectors]] | None,
        *,
        every_s: float = EVERY_S,
        round_within_s: float = ROUND_WITHIN_S,
    ) -> None:
        self._classifier = classifier
        self._read = read
        self._round_within_s = round_within_s
        self._problem = ""
        self._worker = BackgroundWorker("kinds", self._run_round, interval_s=every_s)

    async def refresh(self) -> None:
        """Read the kinds once. While the delegation service is away those read last stay, or the configured ones."""
        problem = ""
        try:
            # First, so that questions do not wait for it while the delegation service is slow.
            await self._classifier.prepare(timeout_s=WITHIN_S)
        except MetacogError as error:
            problem = f"{error.reason}: {error.message}"
        try:
            if self._read is not None:
                self._classifier.use(await self._read())
        except MetacogError as error:
            problem = f"{error.reason}: {error.message}"
        if problem and not self._problem:
            _log.warning("the kinds of questions stay as they are", reason=problem)
        self._problem = problem

    def start(self) -> None:
        """Begin to follow the kinds in force."""
        self._worker.start()

    async def check(self) -> None:
        """Return while they are followed.

        Raises:
            WorkerFailing: While the worker fails, or before `start`.
        """
        await self._worker.check()

    async def close(self) -> None:
        """Stop."""
        await self._worker.close()

    async def _run_round(self, _stop: asyncio.Event) -> None:
        async with round_within(self._round_within_s):
            await self.refresh()
