"""Questions that agents answered right get their vectors in the background, so that no label waits for the encoder."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from chassis.worker import BackgroundWorker, round_within
from inference import Embedded, Embedder
from services.delegation.service.experience.matching import compared_text
from services.delegation.service.experience.values import PendingQuestion

# Questions that are embedded together [count].
BATCH = 32
EMBED_TIMEOUT_S = 30.0
INTERVAL_S = 0.2
FIRST_PAUSE_S = 1.0
# Time that a batch may take before it counts as hung [s].
BATCH_WITHIN_S = 180.0
# Questions that stay of each agent and key [count].
QUESTIONS_PER_AGENT = 1000


class ExperienceRecords(Protocol):
    """This store holds the questions that agents answered right. Every method may raise `DatabaseUnavailable`."""

    async def pending(self, limit: int) -> Sequence[PendingQuestion]:
        """Return tasks whose question has no vector yet, the earliest first."""

    async def embed(self, task_ids: Sequence[str], embedded: Embedded) -> None:
        """Store the vectors of the questions of tasks, in their order."""

    async def forget(self, most: int) -> None:
        """Delete all but the `most` newest questions of each agent and key."""


class ExperienceRecorder:
    """The recorder embeds questions that were answered right, in a background worker.

    A label stores which agents were right in its own transaction; the vector is added here, also after a restart, and
    after the encoder was away.

    Args:
        store: The store of the questions.
        embedder: The sentence encoder.
        most: Questions that stay of each agent and key; the oldest are forgotten [count, >= 1].
        interval_s: Time between two rounds, at least [s].
        first_pause_s: Pause before the first restart after a failure [s].
        batch_within_s: Time that a batch may take before it counts as hung [s].
    """

    def __init__(
        self,
        store: ExperienceRecords,
        embedder: Embedder,
        *,
        most: int = QUESTIONS_PER_AGENT,
        interval_s: float = INTERVAL_S,
        first_pause_s: float = FIRST_PAUSE_S,
        batch_within_s: float = BATCH_WITHIN_S,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._most = most
        self._batch_within_s = batch_within_s
        self._due = asyncio.Event()
        self._worker = BackgroundWorker("experience", self._work, interval_s=interval_s, first_pause_s=first_pause_s)

    def on_label(self) -> None:
        """Note that there is a new label: a round is due."""
        self._due.set()

    def start(self) -> None:
        """Start to embed."""
        self._due.set()
        self._worker.start()

    async def check(self) -> None:
        """Return while questions are embedded.

        Raises:
            WorkerFailing: While rounds fail, or before `start`; names the last failure.
        """
        await self._worker.check()

    async def close(self) -> None:
        """Stop the worker, also in the middle of a round."""
        await self._worker.close(within_s=0.0)

    async def record(self) -> None:
        """Forget the oldest questions, and embed every question that has no vector.

        Raises:
            EncoderUnavailable: When the encoder cannot be reached.
            DatabaseUnavailable: When the database cannot be reached.
            RoundTooLong: When a batch takes too long.
        """
        async with round_within(self._batch_within_s):
            await self._store.forget(self._most)
        is_left = True
        while is_left:
            async with round_within(self._batch_within_s):
                is_left = await self._embed_batch()

    async def _embed_batch(self) -> bool:
        """Embed some questions that have no vector; return whether there were any."""
        pending = await self._store.pending(BATCH)
        if not pending:
            return False
        questions = {each.task_id: compared_text(each.question) or "-" for each in pending}
        embedded = await self._embedder.embed(list(questions.values()), timeout_s=EMBED_TIMEOUT_S)
        await self._store.embed(list(questions), embedded)
        return True

    async def _work(self, _stop: asyncio.Event) -> None:
        """Embed once, when that is due; after a failure it is due again."""
        await self._due.wait()
        self._due.clear()
        try:
            await self.record()
        except BaseException:
            self._due.set()
            raise
