"""Models carry out the stages of an arbitration inside its envelope: a call a stage, however many samples it draws."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from chassis.clock import milliseconds_since
from chassis.prompts import Prompt, shortened
from inference import Call, Completion, PromptTooLong, Spend, WorkKind
from inference import CompletionSample as Generated
from kernel.answers import without_thinking
from kernel.conversation import chat_of_prompt
from kernel.envelope import StageUsage
from kernel.errors import MetacogError
from kernel.seeds import derived_seed
from services.arbiter import prompts
from services.arbiter.service.plan import Plan, Temperatures
from services.arbiter.service.samples import AnswerForm, DrawnSample
from services.arbiter.service.stage_agents import StageAgent, StageAgents
from services.arbiter.service.stages import ARBITRATE, COMPARE, CRITIQUE, SOLVE, Batch, Represented
from services.arbiter.service.values import Critique

# An answer beside its trace only names it; a long one is in the trace as well.
ANSWER_MAX_TOKENS = 128
# Texts are not shortened below this to fit a prompt into a small context [tokens].
SHORTEST_INPUT = 32
# Tokens of a comparison by meaning, for each answer and for the rest of the document.
MATCH_TOKENS, MATCH_TOKENS_EACH = 24, 6

# A prompt, and the names of the texts that were shortened for it; made from the tokens that each text may have.
BuildPrompt = Callable[[int], tuple[Prompt, Sequence[str]]]


class SamplingStages:
    """Models carry out these stages.

    Args:
        plan: The stages and their sizes.
        temperatures: Sampling temperatures.
        agents: The agents that take part.
        spend: The envelope.
        seed: Seed of the run; None leaves chance to the backends.

    Attributes:
        digests: Digest of each prompt template used, by its name.
    """

    def __init__(
        self, plan: Plan, temperatures: Temperatures, agents: StageAgents, spend: Spend, seed: int | None
    ) -> None:
        self._plan = plan
        self._temperatures = temperatures
        self._agents = agents
        self._spend = spend
        self._seed = seed
        self._shortened: dict[str, None] = {}
        self.digests: dict[str, str] = {}

    @property
    def shortened(self) -> Sequence[str]:
        """Return the names of the texts that were shortened to fit a prompt."""
        return list(self._shortened)

    def names(self, solver: int) -> tuple[str, str]:
        """Return agent and model of a solver."""
        return _names(self._agents.solvers[solver])

    @property
    def arbiter_names(self) -> tuple[str, str]:
        """Return agent and model of the arbiter."""
        return _names(self._agents.arbiter)

    def read(self, drawn: DrawnSample, form: AnswerForm) -> DrawnSample:
        """Return the sample with the answer of this form that its text holds."""
        return replace(drawn, found=form.found(drawn.text))

    async def solve(self, solver: int, form: AnswerForm, *, count: int, offset: int) -> Batch:
        """Draw `count` samples of a solver, the first of which is its sample `offset`."""
        prompt = prompts.solve(question=self._plan.question, answer_type=form.answer_type)
        self._record_prompts(prompt, prompts.instructions(form.answer_type)[0])
        agent = self._agents.solvers[solver]
        call = self._call(agent, prompt, SOLVE, samples=count, names=(str(solver), str(offset)))
        try:
            return _as_batch(await self._complete(agent, call))
        except MetacogError as error:
            return Batch(failure=error)

    async def criticise(self, solver: int, trace: DrawnSample) -> Critique:
        """Criticise a solver's representative trace; the critique reports a failure."""
        started_at = time.monotonic()
        critic = self._agents.critic or self._agents.solvers[solver]
        agent, model = _names(critic)
        critique = Critique(solver=solver, agent=agent, model=model, usage=StageUsage())

        def build(tokens: int) -> tuple[Prompt, Sequence[str]]:
            text, is_cut = shortened(trace.text, tokens)
            return prompts.critique(question=self._plan.question, trace=text), [_trace_of(solver)] * is_cut

        try:
            completion = await self._complete_fitted(critic, build, CRITIQUE, names=(str(solver), "0"))
        except MetacogError as error:
            failure = f"{error.reason}: {error.message}"
            return replace(critique, failure=failure, duration_ms=milliseconds_since(started_at))
        drawn = _drawn(completion.samples[0])
        text = drawn.text.strip()
        return replace(
            critique,
            text=text,
            usage=completion.usage,
            truncated=drawn.truncated,
            succeeded=bool(text),
            failure="" if text else "the model returned no text",
            duration_ms=milliseconds_since(started_at),
        )

    async def arbitrate(self, solvers: Sequence[Represented], form: AnswerForm, *, count: int, offset: int) -> Batch:
        """Draw `count` samples of the arbiter, the first of which is its sample `offset`."""

        def build(tokens: int) -> tuple[Prompt, Sequence[str]]:
            shown = [_solution(each, tokens) for each in solvers]
            prompt = prompts.arbitrate(
                question=self._plan.question,
                solutions=[solution for solution, _ in shown],
                answer_type=form.answer_type,
            )
            return prompt, [name for _, cut in shown for name in cut]

        self._record_prompts(*prompts.instructions(form.answer_type))
        try:
            completion = await self._complete_fitted(
                self._agents.arbiter, build, ARBITRATE, samples=count, names=(str(offset),)
            )
        except MetacogError as error:
            return Batch(failure=error)
        return _as_batch(completion)

    async def match(self, references: Sequence[str], answers: Sequence[str]) -> Sequence[int]:
        """Return for each answer the place, from 1, of the reference that means the same; 0 for none.

        Raises:
            MetacogError: When the model cannot be called, or does not return a list of places.
        """
        agent = self._agents.arbiter
        prompt = prompts.same_meaning(
            question=self._plan.question,
            references=[shortened(text, ANSWER_MAX_TOKENS)[0] for text in references],
            answers=[shortened(text, ANSWER_MAX_TOKENS)[0] for text in answers],
        )
        self._record_prompts(prompt)
        call = self._call(agent, prompt, COMPARE, names=(prompt.text,))
        comparison = replace(
            call,
            max_tokens=MATCH_TOKENS + MATCH_TOKENS_EACH * len(answers),
            temperature=0.0,
            thinking=False,
            schema=_match_schema(len(references), len(answers)),
        )
        return await agent.client.read(comparison, partial(_matches, count=len(answers)), self._spend)

    async def _complete_fitted(
        self, agent: StageAgent, build: BuildPrompt, stage: str, *, samples: int = 1, names: Sequence[str] = ()
    ) -> Completion:
        """Complete a prompt whose texts are shortened until it fits into the model's context.

        Raises:
            PromptTooLong: When it does not fit however short they are.
            MetacogError: The error of the model.
        """
        tokens = self._plan.tokens.input
        while True:
            prompt, cut = build(tokens)
            try:
                completion = await self._complete(agent, self._call(agent, prompt, stage, samples=samples, names=names))
            except PromptTooLong:
                tokens //= 2
                if tokens < SHORTEST_INPUT:
                    raise
                continue
            self._record_prompts(prompt)
            self._shortened |= dict.fromkeys(cut)
            return completion

    async def _complete(self, agent: StageAgent, call: Call) -> Completion:
        completion = await agent.client.complete(call, self._spend)
        if completion.cut and any(sample.finish_reason == "length" for sample in completion.samples):
            self._spend.ledger.exhausted = True
        return completion

    def _call(
        self, agent: StageAgent, prompt: Prompt, stage: str, *, samples: int = 1, names: Sequence[str] = ()
    ) -> Call:
        sizes, temperatures, config = self._plan.tokens, self._temperatures, agent.config
        return Call(
            messages=chat_of_prompt(config.system_prompt, prompt.text),
            max_tokens={SOLVE: sizes.solve, CRITIQUE: sizes.critique}.get(stage, sizes.arbitrate),
            stage=stage,
            work=WorkKind.STAGE,
            samples=samples,
            temperature={
                SOLVE: temperatures.solve,
                CRITIQUE: temperatures.critique,
                ARBITRATE: temperatures.arbitrate,
            }.get(stage, 0.0),
            seed=None if self._seed is None else derived_seed(self._seed, stage, config.id, *names),
            thinking=config.thinking,
        )

    def _record_prompts(self, *used: Prompt) -> None:
        self.digests |= {prompt.name: prompt.digest for prompt in used}


def _names(agent: StageAgent) -> tuple[str, str]:
    return agent.config.id, agent.client.model


def _trace_of(solver: int) -> str:
    return f"solver_{solver}.trace"


def _solution(each: Represented, tokens: int) -> tuple[prompts.Solution, Sequence[str]]:
    """Return a solver for the arbiter's prompt, and the names of its texts that were shortened."""
    name = f"Solver {each.solver + 1}"
    if each.trace is None:
        return prompts.Solution(name=name), []
    trace, trace_cut = shortened(each.trace.text, tokens)
    critique, critique_cut = shortened(each.critique.text if each.critique else "", tokens)
    answer, _ = shortened(each.answer, min(tokens, ANSWER_MAX_TOKENS))
    cut = [_trace_of(each.solver)] * trace_cut + [f"solver_{each.solver}.critique"] * critique_cut
    return prompts.Solution(name=name, trace=trace, answer=answer, critique=critique), cut


def _as_batch(completion: Completion) -> Batch:
    return Batch(samples=[_drawn(sample) for sample in completion.samples], failure=completion.shortfall)


def _drawn(sample: Generated) -> DrawnSample:
    return DrawnSample(
        text=without_thinking(sample.text),
        found=None,
        tokens=sample.tokens or None,
        truncated=sample.finish_reason == "length",
    )


def _match_schema(references: int, answers: int) -> Mapping[str, Any]:
    places = {
        "type": "array",
        "items": {"type": "integer", "minimum": 0, "maximum": references},
        "minItems": answers,
        "maxItems": answers,
    }
    return {"type": "object", "properties": {"same": places}, "required": ["same"], "additionalProperties": False}


def _matches(document: object, count: int) -> Sequence[int]:
    places = document.get("same") if isinstance(document, dict) else None
    if not isinstance(places, list) or len(places) != count or not all(isinstance(place, int) for place in places):
        raise ValueError(f"a judgement of meaning lists {count} whole numbers")
    return places
