"""Stages of an arbitration by models, inside its envelope: one call a stage, however many samples it draws."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from chassis.prompts import Prompt, shortened
from inference.errors import PromptTooLong
from inference.spend import Spend
from inference.values import Call, Completion, WorkKind
from inference.values import CompletionSample as Generated
from kernel.answers import without_thinking
from kernel.envelope import StageUsage
from kernel.errors import MetacogError
from kernel.seeds import derived_seed
from services.arbiter import prompts
from services.arbiter.service.agents import StageAgent, StageAgents
from services.arbiter.service.plan import Plan, Temperatures
from services.arbiter.service.samples import AnswerForm, DrawnSamples
from services.arbiter.service.stages import ARBITRATE, COMPARE, CRITIQUE, SOLVE, Batch, Represented
from services.arbiter.service.values import Critique

# An answer beside its trace is there to be named; long ones stand in the trace.
ANSWER_MAX_TOKENS = 128
# Texts are not shortened below this to fit a prompt into a small context [tokens].
SHORTEST_INPUT = 32
# Tokens of a judgement of meaning, for each answer and for what is around them.
MATCH_TOKENS, MATCH_TOKENS_EACH = 24, 6

Built = Callable[[int], tuple[Prompt, Sequence[str]]]


class SamplingStages:
    """Models at work on one arbitration.

    Args:
        plan: What is to be done.
        heat: Sampling temperatures.
        seats: Who does it.
        spend: What may be spent.
        seed: Seed of the run; None leaves chance to the backends.

    Attributes:
        digests: Digest of each prompt template used, by its name.
    """

    def __init__(self, plan: Plan, heat: Temperatures, seats: StageAgents, spend: Spend, seed: int | None) -> None:
        self._plan = plan
        self._heat = heat
        self._seats = seats
        self._spend = spend
        self._seed = seed
        self._shortened: dict[str, None] = {}
        self.digests: dict[str, str] = {}

    @property
    def shortened(self) -> Sequence[str]:
        """Names of the texts that were shortened to fit a prompt."""
        return list(self._shortened)

    def names(self, solver: int) -> tuple[str, str]:
        """Agent and model of a solver."""
        return _names(self._seats.solvers[solver])

    @property
    def arbiter_names(self) -> tuple[str, str]:
        """Agent and model of the arbiter."""
        return _names(self._seats.arbiter)

    def read(self, drawn: DrawnSamples, form: AnswerForm) -> DrawnSamples:
        """The sample with the answer of this form that its text gives."""
        return replace(drawn, found=form.found(drawn.text))

    async def solve(self, solver: int, form: AnswerForm, *, count: int, offset: int) -> Batch:
        """`count` samples of a solver, the first of which is its sample `offset`."""
        prompt = prompts.solve(question=self._plan.question, answer_type=form.answer_type)
        self._used(prompt, prompts.instructions(form.answer_type)[0])
        seat = self._seats.solvers[solver]
        call = self._call(seat, prompt, SOLVE, samples=count, names=(str(solver), str(offset)))
        return await self._batch(seat, call)

    async def criticise(self, solver: int, trace: DrawnSamples) -> Critique:
        """A critique of a solver's representative trace; a failure is told in it."""
        began = time.monotonic()
        seat = self._seats.critic or self._seats.solvers[solver]
        agent, model = _names(seat)
        told = Critique(solver=solver, agent=agent, model=model, usage=StageUsage())

        def built(tokens: int) -> tuple[Prompt, Sequence[str]]:
            text, cut = shortened(trace.text, tokens)
            return prompts.critique(question=self._plan.question, trace=text), [_trace_of(solver)] if cut else []

        def call(prompt: Prompt) -> Call:
            return self._call(seat, prompt, CRITIQUE, names=(str(solver), "0"))

        try:
            completion = await self._fitted(seat, built, call)
        except MetacogError as refusal:
            return replace(told, failure=f"{refusal.reason}: {refusal.message}", duration_ms=_since(began))
        made = _drawn(completion.samples[0])
        return replace(
            told,
            text=made.text.strip(),
            usage=completion.usage,
            truncated=made.truncated,
            succeeded=bool(made.text.strip()),
            failure="" if made.text.strip() else "the model returned no text",
            duration_ms=_since(began),
        )

    async def arbitrate(self, solvers: Sequence[Represented], form: AnswerForm, *, count: int, offset: int) -> Batch:
        """`count` samples of the arbiter, the first of which is its sample `offset`."""
        seat = self._seats.arbiter

        def built(tokens: int) -> tuple[Prompt, Sequence[str]]:
            shown = [_solution(each, tokens) for each in solvers]
            prompt = prompts.arbitrate(
                question=self._plan.question,
                solutions=[solution for solution, _ in shown],
                answer_type=form.answer_type,
            )
            return prompt, [name for _, cut in shown for name in cut]

        def call(prompt: Prompt) -> Call:
            self._used(*prompts.instructions(form.answer_type))
            return self._call(seat, prompt, ARBITRATE, samples=count, names=(str(offset),))

        try:
            return _as_batch(await self._fitted(seat, built, call))
        except MetacogError as refusal:
            return Batch(failure=refusal)

    async def match(self, references: Sequence[str], answers: Sequence[str]) -> Sequence[int]:
        """For each answer the place, from 1, of the reference that says the same; 0 for none.

        Raises:
            MetacogError: When the model cannot be asked, or answers something else.
        """
        seat = self._seats.arbiter
        prompt = prompts.same_meaning(
            question=self._plan.question,
            references=[shortened(text, ANSWER_MAX_TOKENS)[0] for text in references],
            answers=[shortened(text, ANSWER_MAX_TOKENS)[0] for text in answers],
        )
        self._used(prompt)
        call = self._call(seat, prompt, COMPARE, names=(prompt.text,))
        asked = replace(
            call,
            max_tokens=MATCH_TOKENS + MATCH_TOKENS_EACH * len(answers),
            temperature=0.0,
            thinking=False,
            schema=_match_schema(len(references), len(answers)),
        )
        return await seat.voice.read(asked, partial(_matches, count=len(answers)), self._spend)

    async def _batch(self, seat: StageAgent, call: Call) -> Batch:
        try:
            return _as_batch(await self._completed(seat, call))
        except MetacogError as refusal:
            return Batch(failure=refusal)

    async def _fitted(self, seat: StageAgent, built: Built, call: Callable[[Prompt], Call]) -> Completion:
        """The completion of a prompt whose texts are shortened until it fits into the model's context.

        Raises:
            PromptTooLong: When it does not fit however short they are.
            MetacogError: The refusal of the model.
        """
        tokens = self._plan.tokens.input
        while True:
            prompt, cut = built(tokens)
            try:
                completion = await self._completed(seat, call(prompt))
            except PromptTooLong:
                if tokens // 2 < SHORTEST_INPUT:
                    raise
                tokens //= 2
                continue
            self._used(prompt)
            self._shortened |= dict.fromkeys(cut)
            return completion

    async def _completed(self, seat: StageAgent, call: Call) -> Completion:
        completion = await seat.voice.complete(call, self._spend)
        if completion.cut and any(sample.finish_reason == "length" for sample in completion.samples):
            self._spend.ledger.exhausted = True
        return completion

    def _call(
        self, seat: StageAgent, prompt: Prompt, stage: str, *, samples: int = 1, names: Sequence[str] = ()
    ) -> Call:
        temperatures = {SOLVE: self._heat.solve, CRITIQUE: self._heat.critique, ARBITRATE: self._heat.arbitrate}
        sizes = self._plan.tokens
        head = [{"role": "system", "content": seat.agent.system_prompt}] if seat.agent.system_prompt else []
        return Call(
            messages=[*head, {"role": "user", "content": prompt.text}],
            max_tokens={SOLVE: sizes.solve, CRITIQUE: sizes.critique}.get(stage, sizes.arbitrate),
            stage=stage,
            work=WorkKind.STAGE,
            samples=samples,
            temperature=temperatures.get(stage, 0.0),
            seed=None if self._seed is None else derived_seed(self._seed, stage, seat.agent.id, *names),
            thinking=seat.agent.thinking,
        )

    def _used(self, *made: Prompt) -> None:
        self.digests |= {prompt.name: prompt.digest for prompt in made}


def _names(seat: StageAgent) -> tuple[str, str]:
    return seat.agent.id, seat.voice.model


def _trace_of(solver: int) -> str:
    return f"solver_{solver}.trace"


def _solution(each: Represented, tokens: int) -> tuple[prompts.Solution, Sequence[str]]:
    """A solver for the arbiter's prompt, and names of its texts that were shortened."""
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


def _drawn(sample: Generated) -> DrawnSamples:
    return DrawnSamples(
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


def _since(began: float) -> float:
    return round((time.monotonic() - began) * 1000, 3)
