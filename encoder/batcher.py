"""The batcher encodes requests that arrive while a batch runs together, in the next batch.

One thread does all encoding, so that the event loop never waits for it. Long requests take turns with short ones: of
each request that waits, as many texts go into a batch as have room, and the rest joins the queue again at its end.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from chassis.worker import BackgroundWorker, RoundTooLong, round_within
from encoder.errors import EncodingFailed, Overloaded
from encoder.model import Encoded

Encode = Callable[[list[str]], Encoded]

# Pauses after a failed batch, before the model is tried again [s].
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
# Time that a batch may take before it counts as hung [s].
BATCH_WITHIN_S = 60.0
# A text that shows whether the model works again after a failure.
TRIAL = ["warm"]


@dataclass(slots=True)
class _Job:
    """A job is one request: its texts, how many of them have been taken, and the results of those that are done."""

    texts: list[str]
    done: asyncio.Future[Encoded]
    taken: int = 0
    vectors: list[NDArray[np.float32]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def add(self, vectors: NDArray[np.float32], tokens: list[int]) -> None:
        """Add the results of the next texts; answer the request when they are the last ones."""
        self.vectors.append(vectors)
        self.tokens += tokens
        if len(self.tokens) == len(self.texts) and not self.done.done():
            self.done.set_result(Encoded(np.concatenate(self.vectors), self.tokens))


@dataclass(frozen=True, slots=True)
class _Share:
    """A share is the part of one job that goes into a batch."""

    job: _Job
    texts: list[str]


class Batcher:
    """The batcher gathers texts into batches for one thread, from `start` until `close`.

    Args:
        encode: Turns a batch into vectors.
        thread: The one thread on which it runs.
        max_batch: Texts in a batch at most.
        max_waiting: Texts that may wait.
        within_s: Time that a batch may take before it counts as hung [s].
    """

    def __init__(
        self,
        encode: Encode,
        thread: ThreadPoolExecutor,
        *,
        max_batch: int,
        max_waiting: int,
        within_s: float = BATCH_WITHIN_S,
    ) -> None:
        self._encode = encode
        self._thread = thread
        self._max_batch = max_batch
        self._max_waiting = max_waiting
        self._jobs: deque[_Job] = deque()
        self._arrived = asyncio.Event()
        self._has_failed = False
        self._within_s = within_s
        # Why no batch is encoded for now: one hangs, or the model fails again and again.
        self._down = ""
        self._worker = BackgroundWorker(
            "encoder batches", self._round, first_pause_s=FIRST_PAUSE_S, longest_pause_s=LONGEST_PAUSE_S
        )

    @property
    def waiting(self) -> int:
        """Return how many texts wait for a batch [count]."""
        return sum(len(job.texts) - job.taken for job in self._jobs)

    def start(self) -> None:
        """Begin to encode batches."""
        self._worker.start()

    async def check(self) -> None:
        """Return while batches are encoded.

        Raises:
            WorkerFailing: While the model fails.
        """
        await self._worker.check()

    async def close(self) -> None:
        """Stop encoding; requests that still wait fail."""
        await self._worker.close(within_s=0)
        self._reject(self._jobs, "the encoder is stopping")

    async def encode(self, texts: list[str]) -> Encoded:
        """Return the vectors of `texts`, in their order.

        Raises:
            Overloaded: Too many texts wait already; nothing was queued. A request for more than may wait is taken
                only by an idle encoder.
            EncodingFailed: The model failed on a batch while the request waited, or has failed since, or hangs.
        """
        if self._down:
            raise _failure(self._down)
        waiting = self.waiting
        if waiting and waiting + len(texts) > self._max_waiting:
            raise Overloaded(f"{waiting} texts wait to be encoded, of at most {self._max_waiting}; try again later")
        job = _Job(texts, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._arrived.set()
        return await job.done

    async def _round(self, _stop: asyncio.Event) -> None:
        """Encode one batch, after a failure first a trial; a failure fails all requests that wait."""
        shares: list[_Share] = []
        try:
            if self._has_failed:
                await self._encoded(TRIAL)
                self._has_failed, self._down = False, ""
                return
            await self._arrived.wait()
            shares = self._next_batch()
            if not shares:
                self._arrived.clear()
                return
            _hand_out(shares, await self._encoded([text for share in shares for text in share.texts]))
        except BaseException as error:
            problem = f"{type(error).__name__}: {error}"
            self._down = problem if self._has_failed or isinstance(error, RoundTooLong) else ""
            self._has_failed = True
            self._reject([*(share.job for share in shares), *self._jobs], problem)
            raise

    async def _encoded(self, texts: list[str]) -> Encoded:
        async with round_within(self._within_s):
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._encode, texts)

    def _next_batch(self) -> list[_Share]:
        """Take the next batch off the queue, without the requests whose clients have gone."""
        shares: list[_Share] = []
        room = self._max_batch
        for _ in range(len(self._jobs)):
            if not room:
                break
            job = self._jobs.popleft()
            if job.done.done():
                continue
            texts = job.texts[job.taken : job.taken + room]
            job.taken += len(texts)
            room -= len(texts)
            shares.append(_Share(job, texts))
            if job.taken < len(job.texts):
                self._jobs.append(job)
        return shares

    def _reject(self, jobs: Iterable[_Job], reason: str) -> None:
        """Fail `jobs` and empty the queue."""
        for job in jobs:
            if not job.done.done():
                job.done.set_exception(_failure(reason))
        self._jobs.clear()


def _failure(reason: str) -> EncodingFailed:
    return EncodingFailed(f"The texts could not be encoded ({reason}); try again")


def _hand_out(shares: list[_Share], encoded: Encoded) -> None:
    """Give each job its part of a batch."""
    start = 0
    for share in shares:
        end = start + len(share.texts)
        share.job.add(encoded.vectors[start:end], encoded.tokens[start:end])
        start = end
