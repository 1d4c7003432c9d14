"""States in a deliberation: agents before they answer, texts after they are written."""

from collections.abc import Mapping

from chassis.agents import AgentConfig
from chassis.inference.values import Call, Work
from chassis.prompts import Prompt
from chassis.spend import Spend
from kernel.errors import MetacogError
from kernel.msv import MSV, MSVKind
from kernel.ratings import RATING_MAX_TOKENS, RATING_SCHEMA, rated_msv, unrated_msv
from kernel.seeds import derived_seed
from services.assigner import prompts
from services.assigner.service.speaking import Voice, Voices, chat
from services.assigner.service.values import AgentAssessed

# Texts beside the one that is judged are for comparison only.
BESIDE_MAX_TOKENS = 256


class Assessing:
    """Takes ratings for one deliberation, inside its envelope."""

    def __init__(
        self, question: str, voices: Voices, spend: Spend, seed: int | None, emotions: Mapping[str, float]
    ) -> None:
        self._question = question
        self._voices = voices
        self._spend = spend
        self._seed = seed
        self._emotions = emotions

    async def agent(self, agent: AgentConfig, *, affordable: bool) -> AgentAssessed:
        """Prospective state of `agent` on the question; all unknown when the envelope or the model fails."""
        voice = self._voices.of(agent)
        kind = MSVKind.PROSPECTIVE
        if affordable:
            prompt = prompts.self_assessment(question=self._question)
            msv = await self._rated(voice, prompt, kind, "self_assessment", agent)
        else:
            msv = unrated_msv("the envelope is kept for the stages", kind=kind, emotional=self._emotions)
        return AgentAssessed(agent=agent.id, model=voice.model, msv=msv)

    async def text(self, text: str, others: Mapping[str, str], tokens_kept: int, generations_kept: int) -> MSV:
        """Retrospective state of a text, judged by the assessor that judges all of them."""
        ledger, kind = self._spend.ledger, MSVKind.RETROSPECTIVE
        if ledger.tokens_left - RATING_MAX_TOKENS < tokens_kept or ledger.generations_left <= generations_kept:
            return unrated_msv("the envelope is kept for the stages", kind=kind)
        prompt = prompts.text_assessment(question=self._question, others=others, text=text)
        return await self._rated(self._voices.assessor(), prompt, kind, "measure", None)

    async def _rated(self, voice: Voice, prompt: Prompt, kind: MSVKind, stage: str, agent: AgentConfig | None) -> MSV:
        seed = None if self._seed is None else derived_seed(self._seed, stage, agent.id if agent else "", prompt.text)
        emotions = self._emotions if kind is MSVKind.PROSPECTIVE else None
        call = Call(
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
        try:
            rating = await voice.rate(call, self._spend)
        except MetacogError as refusal:
            return unrated_msv(f"{refusal.reason}: {refusal.message}", kind=kind, emotional=emotions)
        return rated_msv(rating, kind=kind, emotional=emotions)
