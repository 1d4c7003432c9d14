"""States in a deliberation: agents before they answer, texts after they are written."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from chassis.agents import AgentConfig
from chassis.inference.errors import DeadlineExceeded
from chassis.inference.values import Call, Structured, Work
from chassis.prompts import Prompt, shortened
from chassis.spend import Spend
from kernel.envelope import NOTHING_SPENT, StageUsage
from kernel.errors import MetacogError
from kernel.msv import MSV, MSVKind
from kernel.ratings import RATING_MAX_TOKENS, RATING_SCHEMA, rated_msv, read_rating, unrated_msv
from kernel.seeds import derived_seed
from services.assigner import prompts
from services.assigner.core.roles import Stage
from services.assigner.service.fitting import Built, fitted
from services.assigner.service.speaking import Voice, Voices, chat
from services.assigner.service.values import AgentAssessed, StageFinished, StageMeasured

# Texts beside the one that is judged are for comparison only; they have half its room.
BESIDE_SHARE = 0.5
# Share of the time left that one rating may take: whoever hangs must not hold up the answer.
PATIENCE = 1 / 3

KEPT = "the envelope is kept for the stages"

Rating = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """What came of one rating.

    Attributes:
        msv: The state; all unknown where there is no rating.
        usage: What it spent; None when the call failed, and only the totals know.
        duration_ms: Time it took [ms].
        cut: Names of the texts that were shortened.
    """

    msv: MSV
    usage: StageUsage | None = NOTHING_SPENT
    duration_ms: float = 0.0
    cut: tuple[str, ...] = ()


class Assessing:
    """Takes ratings for one deliberation, inside its envelope."""

    def __init__(
        self,
        question: str,
        voices: Voices,
        spend: Spend,
        *,
        seed: int | None,
        emotions: Mapping[str, float],
        input_max_tokens: int,
    ) -> None:
        self._question = question
        self._voices = voices
        self._spend = spend
        self._seed = seed
        self._emotions = emotions
        self._input_max_tokens = input_max_tokens

    async def agent(self, agent: AgentConfig, *, affordable: bool) -> AgentAssessed:
        """Prospective state of `agent` on the question; all unknown when the envelope or the model fails."""
        voice = self._voices.of(agent)
        prompt = prompts.self_assessment(question=self._question)
        if affordable:
            made = await self._rated(voice, lambda _: Built(prompt=prompt), "self_assessment", agent)
        else:
            made = Rated(msv=self._unrated(KEPT, MSVKind.PROSPECTIVE))
        return AgentAssessed(
            agent=agent.id,
            model=voice.model,
            msv=made.msv,
            prompt_digest=prompt.digest,
            usage=made.usage,
            duration_ms=made.duration_ms,
        )

    async def text(
        self, finished: StageFinished, earlier: Mapping[Stage, str], *, tokens_kept: int, generations_kept: int
    ) -> StageMeasured:
        """Retrospective state of a stage's text beside the `earlier` ones, by the assessor that judges all of them.

        Nothing is asked where the envelope would not keep `tokens_kept` and `generations_kept` for the stages to come.
        """
        voice, ledger = self._voices.assessor(), self._spend.ledger

        def build(tokens: int) -> Built:
            return self._beside(finished, earlier, tokens)

        prompt = build(self._input_max_tokens).prompt
        if ledger.tokens_left - RATING_MAX_TOKENS < tokens_kept or ledger.generations_left <= generations_kept:
            made = Rated(msv=self._unrated(KEPT, MSVKind.RETROSPECTIVE))
        else:
            made = await self._rated(voice, build, "measure", None)
        return StageMeasured(
            stage=finished.stage,
            msv=made.msv,
            model=voice.model,
            prompt=prompt.name,
            prompt_digest=prompt.digest,
            usage=made.usage,
            duration_ms=made.duration_ms,
            beside=list(earlier),
            shortened_inputs=made.cut,
        )

    def _beside(self, finished: StageFinished, earlier: Mapping[Stage, str], tokens: int) -> Built:
        text, was_cut = shortened(finished.text, tokens)
        others = {stage: shortened(other, int(tokens * BESIDE_SHARE)) for stage, other in earlier.items()}
        prompt = prompts.text_assessment(
            question=self._question, others={stage: other for stage, (other, _) in others.items()}, text=text
        )
        cut = [stage.value for stage, (_, other_cut) in others.items() if other_cut]
        return Built(prompt=prompt, cut=[*cut, *([finished.stage.value] if was_cut else [])])

    async def _rated(self, voice: Voice, build: Callable[[int], Built], stage: str, agent: AgentConfig | None) -> Rated:
        kind = MSVKind.RETROSPECTIVE if agent is None else MSVKind.PROSPECTIVE
        began, patience_s = time.monotonic(), self._spend.seconds_left() * PATIENCE

        async def send(built: Built) -> Structured[Rating]:
            return await voice.structured(self._call(built.prompt, stage, agent), read_rating, self._spend)

        try:
            async with asyncio.timeout(patience_s):
                made, built = await fitted(build, send, input_max_tokens=self._input_max_tokens)
        except TimeoutError:
            reason = f"{DeadlineExceeded.reason}: no rating within {patience_s:.1f} s"
        except MetacogError as refusal:
            reason = f"{refusal.reason}: {refusal.message}"
        else:
            return Rated(
                msv=rated_msv(made.values[0], kind=kind, emotional=self._emotions_of(kind)),
                usage=made.completion.usage,
                duration_ms=_since(began),
                cut=tuple(built.cut),
            )
        return Rated(msv=self._unrated(reason, kind), usage=None, duration_ms=_since(began))

    def _unrated(self, reason: str, kind: MSVKind) -> MSV:
        return unrated_msv(reason, kind=kind, emotional=self._emotions_of(kind))

    def _emotions_of(self, kind: MSVKind) -> Mapping[str, float] | None:
        """Affect is measured in the question: it is known of agents on it, not of texts."""
        return self._emotions if kind is MSVKind.PROSPECTIVE else None

    def _call(self, prompt: Prompt, stage: str, agent: AgentConfig | None) -> Call:
        seed = None if self._seed is None else derived_seed(self._seed, stage, agent.id if agent else "", prompt.text)
        return Call(
            messages=chat(agent.system_prompt if agent else "", prompt.text),
            max_tokens=RATING_MAX_TOKENS,
            schema=RATING_SCHEMA,
            temperature=0.0,
            seed=seed,
            thinking=False,
            stage=stage,
            work=Work.ASSESS,
            floor_tokens=RATING_MAX_TOKENS,
        )


def _since(began: float) -> float:
    return round((time.monotonic() - began) * 1000, 3)
