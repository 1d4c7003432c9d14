"""Experience is how near a question is to documents and earlier questions."""

import asyncio
import time
from collections.abc import Mapping, Sequence

from inference import (
    Breaker,
    BreakerPermit,
    BreakerSettings,
    CircuitOpen,
    Embeddings,
    Encoder,
    Spend,
)
from kernel.conversation import Turn, latest_texts
from kernel.errors import MetacogError
from kernel.msv.experience import (
    DEFAULT_CALIBRATION,
    DEFAULT_WEIGHTS,
    ExperienceMatch,
    ExperienceWeights,
    SimilarityCalibration,
    experience_match,
)
from kernel.values import value
from services.router.service.knowledge.values import KnowledgeStore

EXPERIENCE_BREAKER = BreakerSettings(failures=5, cool_down_s=5.0)


@value
class ExperienceMatching:
    """These options say how EM is measured.

    Attributes:
        weights: What documents and experience count.
        calibration: What a cosine is worth.
        most: Text of a conversation that is looked up, at most [characters, >= 1].
        timeout_s: Time that looking up may take, inside the request's own [s, > 0].
        covers: Whether what is stored covers the questions of the deployment, so that nothing near means not known.
    """

    weights: ExperienceWeights = DEFAULT_WEIGHTS
    calibration: SimilarityCalibration = DEFAULT_CALIBRATION
    covers: bool = False
    most: int = 800
    timeout_s: float = 1.0


class ExperienceMatcher:
    """This matcher finds EM by one call of the encoder and one statement; never by a model call.

    An encoder or a database that keeps failing is not called for a while, so that no request waits for it.
    """

    def __init__(self, embeddings: Embeddings, store: KnowledgeStore, matching: ExperienceMatching) -> None:
        self._embeddings = embeddings
        self._store = store
        self._matching = matching
        self._breaker = Breaker("experience", EXPERIENCE_BREAKER, time.monotonic)
        self._last_failure = ""

    async def __call__(self, messages: Sequence[Turn], key_name: str, spend: Spend) -> ExperienceMatch:
        """Return EM of `messages` by what the key of that name may see; never raises."""
        timeout_s = min(spend.seconds_left(), self._matching.timeout_s)
        texts = latest_texts(messages, longest=self._matching.most)
        if not texts:
            return _unknown("there is no text to look up")
        try:
            with self._breaker.admit() as permit:
                return await self._attempt(texts, key_name, timeout_s, permit)
        except CircuitOpen:
            return _unknown(f"{self._last_failure} (tried again in some seconds)")

    async def _attempt(
        self, texts: Sequence[str], key_name: str, timeout_s: float, permit: BreakerPermit
    ) -> ExperienceMatch:
        try:
            async with asyncio.timeout(timeout_s):
                match = await self._lookup(texts, key_name, timeout_s)
        except MetacogError as error:
            self._last_failure = f"{error.reason}: {error.message}"
        except TimeoutError:
            self._last_failure = f"looking it up took more than {timeout_s:.3g} s"
        else:
            permit.record_success()
            return match
        if timeout_s == self._matching.timeout_s:  # less time shows nothing of the encoder
            permit.record_failure()
        return _unknown(self._last_failure)

    async def _lookup(self, texts: Sequence[str], key_name: str, timeout_s: float) -> ExperienceMatch:
        query = await self._embeddings.embed(texts, timeout_s=timeout_s)
        measured_on = self._matching.calibration.encoder
        if query.encoder.name != measured_on:
            return _unknown(
                f"similarities are calibrated for the encoder {measured_on} and {query.encoder.name} is in use; "
                "set METACOG_ROUTER_SIMILARITY_ENCODER, _FLOOR and _CEILING to what `python -m bench similarity` prints"
            )
        cosines = await self._store.nearest(query, key_name=key_name)
        if not any(cosine is not None for cosine in cosines.values()):
            return _unknown(await self._no_match_reason(query.encoder, key_name))
        return self._match_of(cosines)

    def _match_of(self, cosines: Mapping[str, float | None]) -> ExperienceMatch:
        matching = self._matching
        return experience_match(
            cosines, weights=matching.weights, calibration=matching.calibration, covers=matching.covers
        )

    async def _no_match_reason(self, encoder: Encoder, key_name: str) -> str:
        others = [name for name in await self._store.encoders(key_name=key_name) if name != encoder.name]
        if not others:
            return self._match_of({}).reason
        return f"nothing is stored yet for the encoder {encoder.name}; what is stored is of {', '.join(others)}"


def _unknown(reason: str) -> ExperienceMatch:
    return ExperienceMatch(value=None, reason=reason, parts={})
