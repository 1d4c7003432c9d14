"""Micro-batches: requests that arrive while a batch runs are encoded together in the next.

One worker thread does all encoding, so that the loop never waits for it. Long requests take turns with short ones: of
each request that waits, as many texts go into a batch as have room, and what is left joins the queue again at its end.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from encoder.errors import Overloaded
from encoder.model import Encoded

Encode = Callable[[list[str]], Encoded]


@dataclass(slots=True)
class _Job:
    """One request: its texts, how many of them have been taken, and the results of those that are done."""

    texts: list[str]
    done: asyncio.Future[Encoded]
    taken: int = 0
    vectors: list[NDArray[np.float32]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def add(self, vectors: NDArray[np.float32], tokens: list[int]) -> None:
        """Take in the results of its next texts; answer the request when they are its last."""
        self.vectors.append(vectors)
        self.tokens += tokens
        if len(self.tokens) == len(self.texts) and not self.done.done():
            self.done.set_result(Encoded(np.concatenate(self.vectors), self.tokens))


@dataclass(frozen=True, slots=True)
class _Share:
    """Texts of one job that go into a batch."""

    job: _Job
    texts: list[str]


class Batcher:
    """Gathers texts into batches for one worker thread.

    Args:
        encode: What turns a batch into vectors.
        thread: The one thread on which it runs.
        max_batch: Texts in a batch.
        max_waiting: Texts that may wait.
    """

    def __init__(self, encode: Encode, thread: ThreadPoolExecutor, *, max_batch: int, max_waiting: int) -> None:
        self._encode = encode
        self._thread = thread
        self._max_batch = max_batch
        self._max_waiting = max_waiting
        self._jobs: deque[_Job] = deque()
        self._arrived = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Texts that wait for a batch."""
        return sum(len(job.texts) - job.taken for job in self._jobs)

    async def encode(self, texts: list[str]) -> Encoded:
        """Vectors of `texts`, in their order.

        Raises:
            Overloaded: Too many texts wait already; nothing was queued. A request for more than may wait is taken
                only by an idle encoder.
        """
        waiting = self.waiting
        if waiting and waiting + len(texts) > self._max_waiting:
            raise Overloaded(f"{waiting} texts wait to be encoded, of at most {self._max_waiting}; try again later")
        job = _Job(texts, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._arrived.set()
        return await job.done

    async def run(self) -> None:
        """Encode batch after batch, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            shares = self._next_batch()
            if not shares:
                self._arrived.clear()
                continue
            texts = [text for share in shares for text in share.texts]
            try:
                encoded = await loop.run_in_executor(self._thread, self._encode, texts)
            except (RuntimeError, ValueError, MemoryError) as error:  # of torch; the next batch may fare better
                self._fail(shares, error)
            else:
                _hand_out(shares, encoded)

    def _next_batch(self) -> list[_Share]:
        """Take the next batch off the queue; requests that nobody waits for any more are dropped."""
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

    def _fail(self, shares: list[_Share], error: BaseException) -> None:
        for share in shares:
            if not share.job.done.done():
                share.job.done.set_exception(error)


def _hand_out(shares: list[_Share], encoded: Encoded) -> None:
    """Give each job its part of a batch."""
    start = 0
    for share in shares:
        end = start + len(share.texts)
        share.job.add(encoded.vectors[start:end], encoded.tokens[start:end])
        start = end
