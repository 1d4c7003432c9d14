"""Prompts that are made to fit: the texts in them are shortened until the model's context takes them."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from chassis.prompts import Prompt, shortened
from chassis.serving.events import Emit
from configuration.agents import AgentConfig
from inference.errors import DeadlineExceeded, InferenceError, PromptTooLong
from inference.spend import Spend
from inference.values import Call, Completion, Delta, Structured, WorkKind
from kernel.envelope import NOTHING_SPENT, BudgetExhausted, StageUsage
from kernel.errors import MetacogError
from kernel.msv import MSV, MSVKind
from kernel.msv.ratings import RATING_MAX_TOKENS, RATING_SCHEMA, rated_msv, read_rating, unrated_msv
from kernel.prices import Price
from kernel.roles import AUTHOR, Stage
from kernel.seeds import derived_seed
from kernel.values import value
from services.assigner import prompts
from services.assigner.service.values import (
    AgentAssessed,
    DeliberateRequest,
    Event,
    StageFinished,
    StageMeasured,
    StageStarted,
    StageToken,
)

# Texts are not shortened below this to fit a prompt into a small context [tokens].
SHORTEST_INPUT = 32

T = TypeVar("T")


@value
class BuiltPrompt:
    """A prompt, and the names of the texts that were shortened for it."""

    prompt: Prompt
    cut: Sequence[str] = ()


async def fitted(
    build: Callable[[int], BuiltPrompt], send: Callable[[BuiltPrompt], Awaitable[T]], *, input_max_tokens: int
) -> tuple[T, BuiltPrompt]:
    """What comes of the first prompt that fits, and that prompt.

    Args:
        build: The prompt whose texts have so many tokens at most.
        send: Asks the model.
        input_max_tokens: Tokens that each text may have at first [count]; halved as long as the prompt is too long.

    Raises:
        PromptTooLong: When it does not fit however short its texts are.
        MetacogError: The refusal of the model.
    """
    tokens, built = input_max_tokens, build(input_max_tokens)
    while True:
        try:
            return await send(built), built
        except PromptTooLong:
            before = built.prompt.text
            while built.prompt.text == before:
                tokens //= 2
                if tokens < SHORTEST_INPUT:
                    raise
                built = build(tokens)


NOTE_MAX_TOKENS = 128
# Fewer tokens than these make no stage; the stage before it is then the better answer.
FLOOR_TOKENS = 8
# Share of the time left that an attempt may take to begin, where another attempt could follow.
PATIENCE = 1 / 3
# How a draft that was shortened is named among the shortened texts.
DRAFT = "DRAFT"


class StageStream(Protocol):
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


class StageModelClient(Protocol):
    """A model that speaks for an agent."""

    model: str
    price: Price | None

    async def stream(self, call: Call, spend: Spend) -> StageStream:
        """The text of one call, as it is generated."""

    async def structured(self, call: Call, parse: Callable[[object], T], spend: Spend) -> Structured[T]:
        """The documents of one call that follow its schema, as `parse` reads them, with what they cost."""


class StageModelClients(Protocol):
    """Everybody's voice."""

    def of(self, agent: AgentConfig) -> StageModelClient:
        """Voice of an agent."""

    def assessor(self) -> StageModelClient:
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


class StageRunner:
    """Runs stages for one deliberation, inside its envelope.

    Attributes:
        refusal: The last refusal of a model; None if there was none.
    """

    def __init__(
        self,
        question: str,
        voices: StageModelClients,
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
        voice, heard = self._voices.of(attempt.agent), StageOutput(attempt, self._emit)

        def build(tokens: int) -> BuiltPrompt:
            return self._built(attempt.stage, texts, tokens)

        async def send(built: BuiltPrompt) -> None:
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

    async def _listen(self, heard: "StageOutput", voice: StageModelClient, call: Call) -> None:
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

    def _call(self, attempt: Attempt, built: BuiltPrompt) -> Call:
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
            work=WorkKind.STAGE,
            floor_tokens=floor,
        )

    def _wanted_tokens(self, stage: Stage) -> int:
        per_stage = self._ask.stage_max_tokens or self._sizes.stage_max_tokens
        if stage is Stage.SYNTHESIS:
            return self._ask.answer_max_tokens or per_stage
        return min(per_stage, NOTE_MAX_TOKENS) if stage is Stage.NOTE else per_stage

    def _built(self, stage: Stage, texts: Mapping[Stage, str], tokens: int) -> BuiltPrompt:
        """The stage's prompt with texts of so many tokens at most, and the names of those that were shortened."""
        fit = {name: shortened(text, tokens) for name, text in texts.items()}
        cut = [name.value for name, (_, was_cut) in fit.items() if was_cut]
        by_name = {name.lower(): text for name, (text, _) in fit.items()}
        match stage:
            case Stage.THESIS:
                draft, draft_cut = shortened(self._ask.draft, tokens)
                made = prompts.thesis(question=self._question, draft=draft, answer_type=self._ask.answer_type)
                return BuiltPrompt(prompt=made, cut=[DRAFT] if draft_cut else cut)
            case Stage.ANTITHESIS:
                return BuiltPrompt(
                    prompt=prompts.antithesis(question=self._question, thesis=by_name["thesis"]), cut=cut
                )
            case Stage.RESOLUTION:
                return BuiltPrompt(prompt=prompts.resolution(question=self._question, **by_name), cut=cut)
            case Stage.SYNTHESIS:
                made = prompts.synthesis(question=self._question, answer_type=self._ask.answer_type, **by_name)
                return BuiltPrompt(prompt=made, cut=cut)
            case Stage.NOTE:
                answer = by_name.pop("synthesis")
                return BuiltPrompt(prompt=prompts.note(question=self._question, stages=by_name, answer=answer), cut=cut)


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


class StageOutput:
    """What one attempt has brought so far."""

    def __init__(self, attempt: Attempt, emit: Emit[Event]) -> None:
        self.attempt = attempt
        self.text = ""
        self.failure = ""
        self.truncated = False
        self.has_begun = False
        self.built: BuiltPrompt
        self._emit = emit
        self._began = time.monotonic()
        self._model = ""
        self._usage = StageUsage()

    def begin(self, model: str, built: BuiltPrompt) -> None:
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


# Texts beside the one that is judged are for comparison only; they have half its room.
BESIDE_SHARE = 0.5
# Share of the time left that one rating may take: whoever hangs must not hold up the answer.
PATIENCE = 1 / 3

KEPT = "the envelope is kept for the stages"

Rating = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedState:
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


class StateAssessor:
    """Takes ratings for one deliberation, inside its envelope."""

    def __init__(
        self,
        question: str,
        voices: StageModelClients,
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
            made = await self._rated(voice, lambda _: BuiltPrompt(prompt=prompt), "self_assessment", agent)
        else:
            made = RatedState(msv=self._unrated(KEPT, MSVKind.PROSPECTIVE))
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

        def build(tokens: int) -> BuiltPrompt:
            return self._beside(finished, earlier, tokens)

        prompt = build(self._input_max_tokens).prompt
        if ledger.tokens_left - RATING_MAX_TOKENS < tokens_kept or ledger.generations_left <= generations_kept:
            made = RatedState(msv=self._unrated(KEPT, MSVKind.RETROSPECTIVE))
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

    def _beside(self, finished: StageFinished, earlier: Mapping[Stage, str], tokens: int) -> BuiltPrompt:
        text, was_cut = shortened(finished.text, tokens)
        others = {stage: shortened(other, int(tokens * BESIDE_SHARE)) for stage, other in earlier.items()}
        prompt = prompts.text_assessment(
            question=self._question, others={stage: other for stage, (other, _) in others.items()}, text=text
        )
        cut = [stage.value for stage, (_, other_cut) in others.items() if other_cut]
        return BuiltPrompt(prompt=prompt, cut=[*cut, *([finished.stage.value] if was_cut else [])])

    async def _rated(
        self, voice: StageModelClient, build: Callable[[int], BuiltPrompt], stage: str, agent: AgentConfig | None
    ) -> RatedState:
        kind = MSVKind.RETROSPECTIVE if agent is None else MSVKind.PROSPECTIVE
        began, patience_s = time.monotonic(), self._spend.seconds_left() * PATIENCE

        async def send(built: BuiltPrompt) -> Structured[Rating]:
            return await voice.structured(self._call(built.prompt, stage, agent), read_rating, self._spend)

        try:
            async with asyncio.timeout(patience_s):
                made, built = await fitted(build, send, input_max_tokens=self._input_max_tokens)
        except TimeoutError:
            reason = f"{DeadlineExceeded.reason}: no rating within {patience_s:.1f} s"
        except MetacogError as refusal:
            reason = f"{refusal.reason}: {refusal.message}"
        else:
            return RatedState(
                msv=rated_msv(made.values[0], kind=kind, emotional=self._emotions_of(kind)),
                usage=made.completion.usage,
                duration_ms=_since(began),
                cut=tuple(built.cut),
            )
        return RatedState(msv=self._unrated(reason, kind), usage=None, duration_ms=_since(began))

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
            work=WorkKind.ASSESS,
            floor_tokens=RATING_MAX_TOKENS,
        )


def _since(began: float) -> float:
    return round((time.monotonic() - began) * 1000, 3)
