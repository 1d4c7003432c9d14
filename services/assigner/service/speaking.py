"""Stages in a deliberation: an agent's voice, and what became of one attempt to use it."""

import time
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from chassis.agents import AgentConfig
from chassis.events import Emit
from chassis.inference.errors import DeadlineExceeded, PromptTooLong
from chassis.inference.values import Call, Completion, Delta, Work
from chassis.prompts import Prompt, shortened
from chassis.spend import Spend
from kernel.envelope import BudgetExhausted, StageUsage
from kernel.errors import MetacogError
from kernel.seeds import derived_seed
from services.assigner import prompts
from services.assigner.core.roles import AUTHOR, Stage
from services.assigner.service.values import DeliberateRequest, Event, StageFinished, StageStarted, StageToken

NOTE_MAX_TOKENS = 128
# Fewer tokens than these make no stage; the stage before it is then the better answer.
FLOOR_TOKENS = 8
# How a draft that was shortened is named among the shortened texts.
DRAFT = "DRAFT"


class Stream(Protocol):
    """A text as it is generated."""

    @property
    def completion(self) -> Completion:
        """The whole text and its cost, once the iteration has ended."""

    def __aiter__(self) -> AsyncIterator[Delta]:
        """Pieces of the text."""

    async def aclose(self) -> None:
        """Stop the generation."""


class Voice(Protocol):
    """A model that speaks for an agent."""

    model: str

    async def stream(self, call: Call, spend: Spend) -> Stream:
        """The text of one call, as it is generated."""

    async def rate(self, call: Call, spend: Spend) -> Mapping[str, float]:
        """The numbers of one structured rating."""


class Voices(Protocol):
    """Everybody's voice."""

    def of(self, agent: AgentConfig) -> Voice:
        """Voice of an agent."""

    def assessor(self) -> Voice:
        """Voice that judges all texts alike."""


def chat(system: str, user: str) -> list[dict[str, str]]:
    """Messages of one prompt."""
    head = [{"role": "system", "content": system}] if system else []
    return [*head, {"role": "user", "content": user}]


class Speaking:
    """Runs stages for one deliberation, inside its envelope."""

    def __init__(
        self,
        question: str,
        voices: Voices,
        spend: Spend,
        ask: DeliberateRequest,
        emit: Emit[Event],
        defaults: "StageDefaults",
    ) -> None:
        self._question = question
        self._voices = voices
        self._spend = spend
        self._ask = ask
        self._emit = emit
        self._defaults = defaults
        self.refusal: MetacogError | None = None

    async def stage(
        self, stage: Stage, agent: AgentConfig, texts: Mapping[Stage, str], *, attempt: int, stages_left: int
    ) -> StageFinished:
        """One attempt on a stage; a refusal of the model is told in the result, a limit reached keeps what there is.

        Raises:
            BudgetExhausted: When the envelope has no room for the stage.
            DeadlineExceeded: When the time was over before any text.
            PromptTooLong: When the prompt does not fit into the model's context.
        """
        voice = self._voices.of(agent)
        prompt, cut = self._prompt(stage, texts)
        self._emit(StageStarted(stage=stage, role=AUTHOR[stage], agent=agent.id, model=voice.model, attempt=attempt))
        heard = _Heard()
        try:
            await self._listen(heard, stage, voice, self._call(stage, agent, prompt, attempt, stages_left))
        except (BudgetExhausted, DeadlineExceeded, PromptTooLong):
            if not heard.text.strip():
                raise
            self._spend.ledger.exhausted = True
            heard.truncated = True
        except MetacogError as refusal:
            self.refusal = refusal
            heard.failure = f"{refusal.reason}: {refusal.message}"
        return heard.finished(stage, agent.id, voice.model, prompt, attempt=attempt, cut=cut)

    async def _listen(self, heard: "_Heard", stage: Stage, voice: Voice, call: Call) -> None:
        stream = await voice.stream(call, self._spend)
        try:
            async for delta in stream:
                if delta.text:
                    heard.text += delta.text
                    self._emit(StageToken(stage=stage, text=delta.text))
            heard.usage = stream.completion.usage
            heard.truncated = stream.completion.samples[0].finish_reason == "length"
        finally:
            await stream.aclose()
        if not heard.text.strip():
            heard.failure = "the model returned no text"

    def _call(self, stage: Stage, agent: AgentConfig, prompt: Prompt, attempt: int, stages_left: int) -> Call:
        wanted = self._wanted_tokens(stage)
        floor = 1 if stage is Stage.THESIS else min(FLOOR_TOKENS, wanted)
        ledger = self._spend.ledger
        share = ledger.affordable_tokens(wanted, among=stages_left)
        tokens = max(floor, share, min(wanted, FLOOR_TOKENS, ledger.tokens_left))
        seed = None
        if self._ask.seed is not None:
            seed = derived_seed(self._ask.seed, stage, agent.id, str(attempt))
        return Call(
            messages=chat(agent.system_prompt, prompt.text),
            max_tokens=tokens,
            temperature=agent.temperature,
            seed=seed,
            thinking=agent.thinking,
            stage=stage.lower(),
            work=Work.STAGE,
            floor_tokens=floor,
        )

    def _wanted_tokens(self, stage: Stage) -> int:
        per_stage = self._ask.stage_max_tokens or self._defaults.stage_max_tokens
        if stage is Stage.SYNTHESIS:
            return self._ask.answer_max_tokens or per_stage
        return min(per_stage, NOTE_MAX_TOKENS) if stage is Stage.NOTE else per_stage

    def _prompt(self, stage: Stage, texts: Mapping[Stage, str]) -> tuple[Prompt, list[str]]:
        """The stage's prompt, and the names of the texts that were shortened to fit it."""
        fitted = {name: shortened(text, self._defaults.input_max_tokens) for name, text in texts.items()}
        cut = [name.value for name, (_, was_cut) in fitted.items() if was_cut]
        by_name = {name.lower(): text for name, (text, _) in fitted.items()}
        match stage:
            case Stage.THESIS:
                draft, draft_cut = shortened(self._ask.draft, self._defaults.input_max_tokens)
                made = prompts.thesis(question=self._question, draft=draft, answer_type=self._ask.answer_type)
                return made, [DRAFT] if draft_cut else cut
            case Stage.ANTITHESIS:
                return prompts.antithesis(question=self._question, thesis=by_name["thesis"]), cut
            case Stage.RESOLUTION:
                return prompts.resolution(question=self._question, **by_name), cut
            case Stage.SYNTHESIS:
                texts_of = {name: by_name[name] for name in ("thesis", "antithesis", "resolution")}
                made = prompts.synthesis(question=self._question, answer_type=self._ask.answer_type, **texts_of)
                return made, cut
            case Stage.NOTE:
                answer = by_name.pop("synthesis")
                return prompts.note(question=self._question, stages=by_name, answer=answer), cut


class StageDefaults(Protocol):
    """Sizes of stages where the request names none."""

    @property
    def stage_max_tokens(self) -> int:
        """Tokens of one stage's text [count]."""

    @property
    def input_max_tokens(self) -> int:
        """Tokens of each earlier text in a prompt [count]."""


class _Heard:
    """What one attempt has brought so far."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.text = ""
        self.usage = StageUsage()
        self.truncated = False
        self.failure = ""

    def finished(
        self, stage: Stage, agent: str, model: str, prompt: Prompt, *, attempt: int, cut: list[str]
    ) -> StageFinished:
        """The attempt as an event."""
        return StageFinished(
            stage=stage,
            role=AUTHOR[stage],
            agent=agent,
            model=model,
            text=self.text.strip() if not self.failure else "",
            prompt=prompt.name,
            prompt_digest=prompt.digest,
            usage=self.usage,
            duration_ms=round((time.monotonic() - self.began) * 1000, 3),
            truncated=self.truncated,
            shortened_inputs=cut,
            attempts=attempt,
            succeeded=not self.failure,
            failure=self.failure,
        )
