"""How near short answers are in meaning, by the sentence encoder."""

import time
from collections.abc import Sequence

import numpy as np

from chassis.embeddings import Embeddings
from chassis.errors import EncoderUnavailable
from chassis.inference.breaker import Breaker
from chassis.inference.config import BreakerSettings
from chassis.inference.errors import CircuitOpen
from chassis.spend import Spend

# Time that comparing a handful of words may take, inside the request's own [s].
TIMEOUT_S = 0.5
LEFT_ALONE = BreakerSettings(failures=3, cool_down_s=10.0)


class Meanings:
    """Cosines of short texts; none while the encoder is away, which is then left alone for a while."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        self._breaker = Breaker("meaning", LEFT_ALONE, time.monotonic)

    async def __call__(self, texts: Sequence[str], spend: Spend) -> Sequence[Sequence[float]] | None:
        """Cosine of each text with each other, in their order [-1..1]."""
        try:
            with self._breaker.admitted() as admission:
                try:
                    embedded = await self._embeddings.embed(texts, timeout_s=min(TIMEOUT_S, spend.seconds_left()))
                except EncoderUnavailable:
                    admission.failed()
                    return None
                admission.worked()
        except CircuitOpen:
            return None
        lengths = np.linalg.norm(embedded.vectors, axis=1, keepdims=True)
        directions = embedded.vectors / np.where(lengths > 0, lengths, 1.0)
        cosines: list[list[float]] = (directions @ directions.T).tolist()
        return cosines
