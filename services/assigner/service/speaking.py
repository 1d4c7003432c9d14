"""Stages in a deliberation: an agent's voice, and what became of one attempt to use it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol, TypeVar

from chassis.agents import AgentConfig
from chassis.events import Emit
from chassis.inference.errors import DeadlineExceeded, InferenceError
from chassis.inference.values import Call, Completion, Delta, Structured, Work
from chassis.prompts import shortened
from chassis.spend import Spend
from kernel.envelope import BudgetExhausted, StageUsage
from kernel.errors import MetacogError
from kernel.prices import Price
from kernel.seeds import derived_seed
from kernel.values import value
from services.assigner import prompts
from services.assigner.core.roles import AUTHOR, Stage
from services.assigner.service.fitting import Built, fitted
from services.assigner.service.values import DeliberateRequest, Event, StageFinished, StageStarted, StageToken

NOTE_MAX_TOKENS = 128
# Fewer tokens than these make no stage; the stage before it is then the better answer.
FLOOR_TOKENS = 8
# Share of the time left that an attempt may take to begin, where another attempt could follow.
PATIENCE = 1 / 3
# How a draft that was shortened is named among the shortened texts.
DRAFT = "DRAFT"

T = TypeVar("T")


class Stream(Protocol):
    """A text as it is generated."""

    @property
    def completion(self) -> Completion:
        """The whole text and its cost, once the iteration has ended."""

    @property
    def usage(self) -> StageUsage:
        """What has been seen so far."""

    def __aiter__(self) -> AsyncIterator[Delta]:
        """Pieces of the text."""

    async def aclose(self) -> None:
        """Stop the generation."""


class Voice(Protocol):
    """A model that speaks for an agent."""

    model: str
    price: Price | None

    async def stream(self, call: Call, spend: Spend) -> Stream:
        """The text of one call, as it is generated."""

    async def structured(self, call: Call, parse: Callable[[object], T], spend: Spend) -> Structured[T]:
        """The documents of one call that follow its schema, as `parse` reads them, with what they cost."""


class Voices(Protocol):
    """Everybody's voice."""

    def of(self, agent: AgentConfig) -> Voice:
        """Voice of an agent."""

    def assessor(self) -> Voice:
        """Voice that judges all texts alike."""


@value
class Attempt:
    """One attempt on a stage.

    Attributes:
        stage: The stage.
        agent: Who writes it.
        number: From 1.
        stages_left: Stages still to come, this one included; they share what is left of the tokens.
        is_last: Whether no other attempt could follow; else a model that does not begin is given up in time.
    """

    stage: Stage
    agent: AgentConfig
    number: int
    stages_left: int
    is_last: bool


def chat(system: str, user: str) -> list[dict[str, str]]:
    """Messages of one prompt."""
    head = [{"role": "system", "content": system}] if system else []
    return [*head, {"role": "user", "content": user}]


class Speaking:
    """Runs stages for one deliberation, inside its envelope.

    Attributes:
        refusal: The last refusal of a model; None if there was none.
    """

    def __init__(
        self,
        question: str,
        voices: Voices,
        spend: Spend,
        ask: DeliberateRequest,
        emit: Emit[Event],
        sizes: "Sizes",
    ) -> None:
        self._question = question
        self._voices = voices
        self._spend = spend
        self._ask = ask
        self._emit = emit
        self._sizes = sizes
        self.refusal: MetacogError | None = None

    async def stage(self, attempt: Attempt, texts: Mapping[Stage, str]) -> StageFinished:
        """One attempt on a stage; a refusal of the model is told in the result, a limit reached keeps what there is.

        Args:
            attempt: What is attempted.
            texts: What was written before, by stage.

        Raises:
            BudgetExhausted: When the envelope has no room for the stage.
            DeadlineExceeded: When the time was over before any text.
        """
        voice, heard = self._voices.of(attempt.agent), _Heard(attempt, self._emit)

        def build(tokens: int) -> Built:
            return self._built(attempt.stage, texts, tokens)

        async def send(built: Built) -> None:
            call = self._call(attempt, built)
            await self._listen(heard, voice, call)
            self._spend.ledger.exhausted |= heard.truncated and call.max_tokens < self._wanted_tokens(attempt.stage)

        heard.begin(voice.model, build(self._sizes.input_max_tokens))
        try:
            _, heard.built = await fitted(build, send, input_max_tokens=self._sizes.input_max_tokens)
        except (BudgetExhausted, DeadlineExceeded):
            if not heard.text.strip():
                raise
            self._spend.ledger.exhausted = True
            heard.truncated = True
        except MetacogError as refusal:
            self.refusal = refusal
            heard.failure = f"{refusal.reason}: {refusal.message}"
        return heard.finished()

    async def _listen(self, heard: "_Heard", voice: Voice, call: Call) -> None:
        patience_s = None if heard.attempt.is_last else self._spend.seconds_left() * PATIENCE
        try:
            async with asyncio.timeout(patience_s) as waiting:
                stream = await voice.stream(call, self._spend)
                try:
                    async for delta in stream:
                        if not heard.has_begun:
                            waiting.reschedule(None)
                        heard.hear(delta)
                    heard.end(stream.completion)
                finally:
                    heard.spent(stream.usage)
                    await stream.aclose()
        except TimeoutError:
            raise _Slow(f"{voice.model} did not begin within {patience_s:.1f} s", model=voice.model) from None

    def _call(self, attempt: Attempt, built: Built) -> Call:
        stage, agent = attempt.stage, attempt.agent
        wanted = self._wanted_tokens(stage)
        floor = 1 if stage is Stage.THESIS else min(FLOOR_TOKENS, wanted)
        ledger = self._spend.ledger
        share = ledger.affordable_tokens(wanted, among=attempt.stages_left)
        tokens = max(floor, share, min(wanted, FLOOR_TOKENS, ledger.tokens_left))
        seed = None
        if self._ask.seed is not None:
            seed = derived_seed(self._ask.seed, stage, agent.id, str(attempt.number))
        return Call(
            messages=chat(agent.system_prompt, built.prompt.text),
            max_tokens=tokens,
            temperature=agent.temperature,
            seed=seed,
            thinking=agent.thinking,
            stage=stage.lower(),
            work=Work.STAGE,
            floor_tokens=floor,
        )

    def _wanted_tokens(self, stage: Stage) -> int:
        per_stage = self._ask.stage_max_tokens or self._sizes.stage_max_tokens
        if stage is Stage.SYNTHESIS:
            return self._ask.answer_max_tokens or per_stage
        return min(per_stage, NOTE_MAX_TOKENS) if stage is Stage.NOTE else per_stage

    def _built(self, stage: Stage, texts: Mapping[Stage, str], tokens: int) -> Built:
        """The stage's prompt with texts of so many tokens at most, and the names of those that were shortened."""
        fit = {name: shortened(text, tokens) for name, text in texts.items()}
        cut = [name.value for name, (_, was_cut) in fit.items() if was_cut]
        by_name = {name.lower(): text for name, (text, _) in fit.items()}
        match stage:
            case Stage.THESIS:
                draft, draft_cut = shortened(self._ask.draft, tokens)
                made = prompts.thesis(question=self._question, draft=draft, answer_type=self._ask.answer_type)
                return Built(prompt=made, cut=[DRAFT] if draft_cut else cut)
            case Stage.ANTITHESIS:
                return Built(prompt=prompts.antithesis(question=self._question, thesis=by_name["thesis"]), cut=cut)
            case Stage.RESOLUTION:
                return Built(prompt=prompts.resolution(question=self._question, **by_name), cut=cut)
            case Stage.SYNTHESIS:
                made = prompts.synthesis(question=self._question, answer_type=self._ask.answer_type, **by_name)
                return Built(prompt=made, cut=cut)
            case Stage.NOTE:
                answer = by_name.pop("synthesis")
                return Built(prompt=prompts.note(question=self._question, stages=by_name, answer=answer), cut=cut)


class Sizes(Protocol):
    """Sizes of stages where the request names none."""

    @property
    def stage_max_tokens(self) -> int:
        """Tokens of one stage's text [count]."""

    @property
    def input_max_tokens(self) -> int:
        """Tokens of each earlier text in a prompt [count]."""


class _Slow(InferenceError):
    """A model did not begin in time; there is time left for another attempt."""

    code = DeadlineExceeded.code
    reason = DeadlineExceeded.reason


class _Heard:
    """What one attempt has brought so far."""

    def __init__(self, attempt: Attempt, emit: Emit[Event]) -> None:
        self.attempt = attempt
        self.text = ""
        self.failure = ""
        self.truncated = False
        self.has_begun = False
        self.built: Built
        self._emit = emit
        self._began = time.monotonic()
        self._model = ""
        self._usage = StageUsage()

    def begin(self, model: str, built: Built) -> None:
        """Tell that the attempt begins."""
        self._model, self.built = model, built
        stage, agent = self.attempt.stage, self.attempt.agent.id
        self._emit(StageStarted(stage=stage, role=AUTHOR[stage], agent=agent, model=model, attempt=self.attempt.number))

    def hear(self, delta: Delta) -> None:
        """Take in a piece; what is not text is reasoning, which shows that the model is at work."""
        self.has_begun = True
        if delta.text:
            self.text += delta.text
            self._emit(StageToken(stage=self.attempt.stage, text=delta.text))

    def spent(self, usage: StageUsage) -> None:
        """Take in what was seen of the cost; of a generation that never began nothing is known."""
        self._usage = usage if self.has_begun else StageUsage()

    def end(self, completion: Completion) -> None:
        """Take in that the text is whole."""
        self.truncated = completion.samples[0].finish_reason == "length"
        if not self.text.strip():
            self.failure = "the model returned no text"

    def finished(self) -> StageFinished:
        """The attempt as an event."""
        stage, agent = self.attempt.stage, self.attempt.agent
        return StageFinished(
            stage=stage,
            role=AUTHOR[stage],
            agent=agent.id,
            model=self._model,
            text=self.text.strip() if not self.failure else "",
            prompt=self.built.prompt.name,
            prompt_digest=self.built.prompt.digest,
            usage=self._usage,
            duration_ms=round((time.monotonic() - self._began) * 1000, 3),
            truncated=self.truncated,
            shortened_inputs=self.built.cut,
            attempts=self.attempt.number,
            succeeded=not self.failure,
            failure=self.failure,
        )
