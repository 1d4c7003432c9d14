"""Models write the texts of a deliberation's stages, inside its envelope.

Every prompt shortens the texts in it until the model's context takes them.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from chassis.clock import milliseconds_since
from chassis.prompts import Prompt, shortened
from chassis.serving.events import Emit
from configuration.agents import AgentConfig
from inference import (
    Call,
    Completion,
    DeadlineExceeded,
    Delta,
    InferenceError,
    ModelClient,
    ModelClients,
    PromptTooLong,
    Spend,
    WorkKind,
)
from kernel.answers import AnswerType
from kernel.conversation import chat_of_prompt
from kernel.envelope import BudgetExhausted, StageUsage
from kernel.errors import MetacogError
from kernel.msv.signals import EQUAL, PartWeights
from kernel.roles import AUTHOR, FINAL_STAGE, Stage
from kernel.seeds import derived_seed
from kernel.values import value
from services.assigner import prompts
from services.assigner.core.stages import STAGES
from services.assigner.service.values import (
    Event,
    StageFinished,
    StageStarted,
    StageToken,
)

# Texts are not shortened below this to fit a prompt into a small context [tokens].
SHORTEST_INPUT = 32
# Fewer tokens than these make no stage; the stage before it is then the better answer.
FLOOR_TOKENS = 8
# Share of the time left that a rating may take, and an attempt may take to begin where another attempt could follow.
PATIENCE = 1 / 3
# Time in which what has arrived is read once that time is over, since a process that was held up has read nothing [s].
READING_S = 0.3
# Name of a shortened draft among the shortened texts.
DRAFT = "DRAFT"


@value
class DialecticTask:
    """A dialectic task is the question of one deliberation, and what bounds the texts about it.

    Attributes:
        question: The question as one text.
        stage_max_tokens: Tokens of one stage's text [count].
        answer_max_tokens: Tokens of the final answer [count].
        input_max_tokens: Tokens that each earlier text in a prompt has at first [count].
        draft: A quick answer that is doubted.
        answer_type: Form of the answer; None where it is not known.
        seed: Seed of the deliberation; None leaves chance to the models.
        part_weights: What each part of a rating counts in its component.
    """

    question: str
    stage_max_tokens: int
    answer_max_tokens: int
    input_max_tokens: int
    draft: str = ""
    answer_type: AnswerType | None = None
    seed: int | None = None
    part_weights: PartWeights = EQUAL


@value
class StageAttempt:
    """A stage attempt is one attempt on a stage.

    Attributes:
        stage: The stage.
        agent: The agent that writes it.
        number: Number of the attempt, from 1.
        stages_left: Stages still to come, this one included; they share what is left of the tokens.
        is_last: Whether no other attempt could follow; else a model that does not begin is given up in time.
    """

    stage: Stage
    agent: AgentConfig
    number: int
    stages_left: int
    is_last: bool


class StageRunner:
    """The stage runner runs the stages of one deliberation.

    Attributes:
        error: The last error of a model; None if there was none.
    """

    def __init__(self, task: DialecticTask, model_clients: ModelClients, spend: Spend, emit: Emit[Event]) -> None:
        self._task = task
        self._model_clients = model_clients
        self._spend = spend
        self._emit = emit
        self.error: MetacogError | None = None

    async def run(self, attempt: StageAttempt, texts: Mapping[Stage, str]) -> StageFinished:
        """Make one attempt on a stage; the result reports an error of the model, and keeps the text up to a limit.

        Args:
            attempt: The attempt.
            texts: Texts of the earlier stages.

        Raises:
            BudgetExhausted: When the envelope has no room for the stage.
            DeadlineExceeded: When the time was over before any text.
        """
        client = self._model_clients.of(attempt.agent)
        output = StageOutput(attempt, client.model, self._emit)
        try:
            await self._write(output, client, texts)
        except (BudgetExhausted, DeadlineExceeded):
            if not output.text.strip():
                raise
            self._spend.ledger.exhausted = True
            output.truncated = True
        except MetacogError as error:
            self.error = error
            output.failure = f"{error.reason}: {error.message}"
        return output.finished()

    async def _write(self, output: "StageOutput", client: ModelClient, texts: Mapping[Stage, str]) -> None:
        """Generate the text from the first prompt that fits the model's context."""
        attempt = output.attempt
        too_long = PromptTooLong("no prompt was sent")
        for prompt in shorter_prompts(partial(self._prompt, attempt.stage, texts), self._task.input_max_tokens):
            output.prompt = prompt
            call = self._call(attempt, prompt.prompt)
            try:
                await self._generate(output, client, call)
            except PromptTooLong as error:
                too_long = error
                continue
            is_cut = output.truncated and call.max_tokens < self._wanted_tokens(attempt.stage)
            self._spend.ledger.exhausted |= is_cut
            return
        raise too_long

    async def _generate(self, output: "StageOutput", client: ModelClient, call: Call) -> None:
        patience_s = None if output.attempt.is_last else self._spend.seconds_left() * PATIENCE
        try:
            async with begun_within(patience_s, lambda: output.has_begun):
                stream = await client.stream(call, self._spend)
                try:
                    async for delta in stream:
                        output.add(delta)
                    output.complete(stream.completion)
                finally:
                    output.set_usage(stream.usage)
                    await stream.aclose()
        except TimeoutError:
            message = f"{client.model} did not begin within {patience_s:.1f} s"
            raise _SlowStart(message, model=client.model) from None

    def _call(self, attempt: StageAttempt, prompt: Prompt) -> Call:
        stage, agent, ledger = attempt.stage, attempt.agent, self._spend.ledger
        wanted = self._wanted_tokens(stage)
        floor = 1 if STAGES[stage].shortest else min(FLOOR_TOKENS, wanted)
        share = ledger.affordable_tokens(wanted, among=attempt.stages_left)
        seed = self._task.seed
        return Call(
            messages=chat_of_prompt(agent.system_prompt, prompt.text),
            max_tokens=max(floor, share, min(wanted, FLOOR_TOKENS, ledger.tokens_left)),
            temperature=agent.temperature,
            seed=None if seed is None else derived_seed(seed, stage, agent.id, str(attempt.number)),
            thinking=agent.thinking,
            stage=stage.lower(),
            work=WorkKind.STAGE,
            floor_tokens=floor,
        )

    def _wanted_tokens(self, stage: Stage) -> int:
        if stage is FINAL_STAGE:
            return self._task.answer_max_tokens
        return min(self._task.stage_max_tokens, STAGES[stage].most_tokens or self._task.stage_max_tokens)

    def _prompt(self, stage: Stage, texts: Mapping[Stage, str], tokens: int) -> "FittedPrompt":
        """Return the stage's prompt with texts of so many tokens at most, and the names of those that it shortens."""
        task = self._task
        fitted = {name: shortened(text, tokens) for name, text in texts.items()}
        draft, is_draft_cut = shortened(task.draft, tokens) if STAGES[stage].reads_draft else ("", False)
        prompt = prompts.stage(
            stage,
            question=task.question,
            texts={name: text for name, (text, _) in fitted.items()},
            draft=draft,
            answer_type=task.answer_type,
        )
        return FittedPrompt(
            prompt=prompt, shortened=[DRAFT] * is_draft_cut + [name.value for name, (_, cut) in fitted.items() if cut]
        )


class StageOutput:
    """A stage output is the output of one attempt so far; it emits what a client sees of it.

    Attributes:
        attempt: The attempt.
        prompt: The prompt that the model was sent last.
        text: The text so far.
        failure: The error that ended the attempt; empty without one.
        truncated: Whether a limit ended the text.
        has_begun: Whether the model has begun.
    """

    def __init__(self, attempt: StageAttempt, model: str, emit: Emit[Event]) -> None:
        self.attempt = attempt
        self.prompt: FittedPrompt
        self.text = ""
        self.failure = ""
        self.truncated = False
        self.has_begun = False
        self._model = model
        self._emit = emit
        self._started_at = time.monotonic()
        self._usage = StageUsage()
        stage, agent = attempt.stage, attempt.agent.id
        emit(StageStarted(stage=stage, role=AUTHOR[stage], agent=agent, model=model, attempt=attempt.number))

    def add(self, delta: Delta) -> None:
        """Add a piece; what is not text is reasoning, which shows that the model is at work."""
        self.has_begun = True
        if delta.text:
            self.text += delta.text
            self._emit(StageToken(stage=self.attempt.stage, text=delta.text))

    def set_usage(self, usage: StageUsage) -> None:
        """Record the cost; that of a generation that never began is unknown."""
        self._usage = usage if self.has_begun else StageUsage()

    def complete(self, completion: Completion) -> None:
        """Record that the text is whole."""
        self.truncated = completion.samples[0].finish_reason == "length"
        if not self.text.strip():
            self.failure = "the model returned no text"

    def finished(self) -> StageFinished:
        """Return the attempt as an event."""
        stage, agent = self.attempt.stage, self.attempt.agent
        return StageFinished(
            stage=stage,
            role=AUTHOR[stage],
            agent=agent.id,
            model=self._model,
            text=self.text.strip() if not self.failure else "",
            prompt=self.prompt.prompt.name,
            prompt_digest=self.prompt.prompt.digest,
            usage=self._usage,
            duration_ms=milliseconds_since(self._started_at),
            truncated=self.truncated,
            shortened_inputs=self.prompt.shortened,
            attempts=self.attempt.number,
            succeeded=not self.failure,
            failure=self.failure,
        )


@value
class FittedPrompt:
    """A fitted prompt has the names of the texts that were shortened for it."""

    prompt: Prompt
    shortened: Sequence[str] = ()


def shorter_prompts(build: Callable[[int], FittedPrompt], input_max_tokens: int) -> Iterator[FittedPrompt]:
    """Yield prompts to try in turn while a model's context is too small; each is shorter than the one before.

    Args:
        build: Makes the prompt whose texts have so many tokens at most.
        input_max_tokens: Tokens that each text may have at first [count]; halved from prompt to prompt.
    """
    tokens, prompt = input_max_tokens, build(input_max_tokens)
    yield prompt
    while (tokens := tokens // 2) >= SHORTEST_INPUT:
        shorter = build(tokens)
        if shorter.prompt.text != prompt.prompt.text:
            prompt = shorter
            yield prompt


@asynccontextmanager
async def begun_within(seconds: float | None, has_begun: Callable[[], bool]) -> AsyncIterator[None]:
    """Give up a block in which nothing has begun after so many seconds, and some more in which what arrived is read.

    Args:
        seconds: Time until something must have begun [s]; None: any.
        has_begun: Returns whether it has.

    Raises:
        TimeoutError: When nothing has.
    """
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []
    async with asyncio.timeout(None) as limit:

        def give_up() -> None:
            if not has_begun():
                limit.reschedule(loop.time())

        def read_first() -> None:
            timers.append(loop.call_later(READING_S, give_up))

        if seconds is not None:
            timers.append(loop.call_later(seconds, read_first))
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()


class _SlowStart(InferenceError):
    """A model did not begin in time; there is time left for another attempt."""

    code = DeadlineExceeded.code
    reason = DeadlineExceeded.reason
