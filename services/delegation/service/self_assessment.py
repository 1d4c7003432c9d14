"""How agents see themselves before a task: what they say, what their record says, and the two combined."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress

from configuration.agents import AgentConfig
from inference.errors import UnparsableOutput
from inference.sampling.structured import read
from inference.values import Call
from inference.values import WorkKind as Pool
from kernel.confidence.decision import standing
from kernel.confidence.rules import Ablation
from kernel.envelope import BudgetExhausted, StageUsage
from kernel.errors import MetacogError
from kernel.learning.profiles import ProfileEstimate
from kernel.msv.ratings import SCALE, rating_schema, read_rating
from kernel.statistics.recalibration import Points, calibrated
from services.delegation import prompts
from services.delegation.metrics import ASSESSED
from services.delegation.service.task_context import TaskContext, chat
from services.delegation.service.values import AgentAssessed

# The three questions, in the order of the prompt.
QUESTIONS = ("expertise", "approach", "knowledge")
ASSESS_MAX_TOKENS = 48
ATTEMPTS = 2

Recalibrations = Callable[[], Mapping[str, Points]]


def affordable(work: TaskContext) -> int:
    """Assessments that the envelope pays for [count]."""
    ledger = work.spend.ledger
    return min(ledger.generations_left, ledger.tokens_left // ASSESS_MAX_TOKENS)


class SelfAssessor:
    """Takes self-assessments for one task, inside its envelope.

    Args:
        work: The task.
        recalibrations: Maps of what each agent says of itself to how it does.
        alone: Whether nothing comes after them; else each round of them gets half of the time that is left.
    """

    def __init__(self, work: TaskContext, recalibrations: Recalibrations, *, alone: bool = False) -> None:
        self._work = work
        self._alone = alone
        constant = Ablation.WITHOUT_SELF_ASSESSMENT in work.ablations
        self._maps = recalibrations() if work.rules.recalibrate and not constant else {}

    async def all(self, agents: Sequence[str], records: Mapping[str, ProfileEstimate]) -> list[AgentAssessed]:
        """Assessments of `agents`, taken in parallel and told as they come; of as many as the envelope pays for."""
        most = affordable(self._work)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self.one(agent, records[agent], pays=place < most))
                for place, agent in enumerate(agents)
            ]
        return [task.result() for task in tasks]

    async def one(self, agent: str, record: ProfileEstimate, *, pays: bool = True) -> AgentAssessed:
        """Assessment of one agent; what it says of itself is unknown where it cannot be asked or read."""
        ablations = self._work.ablations
        if Ablation.WITHOUT_VERBALIZED in ablations:
            made = self.unasked(agent, record, "ablation", profile_alone=True)
        elif Ablation.WITHOUT_SELF_ASSESSMENT in ablations:
            made = self._assessed(agent, record, self._work.rules.constant_verbalized, profile_alone=False)
        elif not pays:
            self._work.spend.ledger.exhausted = True
            made = self.unasked(agent, record, "budget")
        else:
            made = await self._asked(self._work.agents[agent], record)
        self._work.emit(made)
        return made

    def unasked(
        self, agent: str, record: ProfileEstimate, reason: str, *, profile_alone: bool = False
    ) -> AgentAssessed:
        """Assessment of an agent that is not asked, for `reason`: its profile stands for it."""
        ASSESSED.labels(reason).inc()
        return self._assessed(agent, record, None, profile_alone=profile_alone, unknown_reason=reason)

    async def _asked(self, agent: AgentConfig, record: ProfileEstimate) -> AgentAssessed:
        began = time.monotonic()
        prompt = self._work.note(prompts.self_assessment(question=self._work.question))
        heard = _Heard()
        try:
            async with nullcontext() if self._alone else self._work.half_the_time():
                await self._hear(heard, agent, prompt.text)
        except TimeoutError:
            heard.reason = "too_slow"
        ratings, reason = heard.ratings, heard.reason
        raw = round(sum(ratings.values()) / len(ratings), 12) if ratings else None
        ASSESSED.labels("rated" if ratings else reason).inc()
        return self._assessed(
            agent.id,
            record,
            raw,
            profile_alone=False,
            ratings=ratings,
            unknown_reason="" if ratings else reason,
            attempts=heard.attempts,
            prompt_digest=prompt.digest,
            usage=heard.usage,
            duration_ms=round((time.monotonic() - began) * 1000, 3),
        )

    async def _hear(self, heard: "_Heard", agent: AgentConfig, prompt: str) -> None:
        """Ask for the ratings, a second time where they cannot be read."""
        voice = self._work.voices.of(agent)
        try:
            for attempt in range(1, ATTEMPTS + 1):
                heard.attempts = attempt
                completion = await voice.complete(self._call(agent, prompt, attempt), self._work.spend)
                heard.usage = heard.usage.plus(completion.usage)
                with suppress(UnparsableOutput):
                    heard.ratings = read_ratings(completion.samples[0].text)
                    return
        except BudgetExhausted:
            heard.reason = "budget"
        except MetacogError as refusal:
            heard.reason = refusal.reason

    def _assessed(
        self, agent: str, record: ProfileEstimate, raw: float | None, *, profile_alone: bool, **more: object
    ) -> AgentAssessed:
        said = None if raw is None else calibrated(self._maps.get(agent, ()), raw)
        stands = standing(said, record, self._work.rules, profile_alone=profile_alone)
        facts: dict[str, object] = {
            "agent": agent,
            "model": self._work.voices.of(self._work.agents[agent]).model,
            "verbalized": said,
            "profile": record.profile,
            "confidence": round(stands.confidence, 12),
            "disagreement": None if stands.disagreement is None else round(stands.disagreement, 12),
            "threshold": round(stands.threshold, 12),
            "verbalized_raw": raw,
            "limiting_dimension": record.limiting_dimension,
            "observations": record.observations,
            "eligible": stands.eligible,
            "ineligible_reason": stands.ineligible_reason,
            **more,
        }
        return AgentAssessed(**facts)  # type: ignore[arg-type]

    def _call(self, agent: AgentConfig, prompt: str, attempt: int) -> Call:
        return Call(
            messages=chat(agent.system_prompt, prompt),
            max_tokens=ASSESS_MAX_TOKENS,
            schema=rating_schema(QUESTIONS),
            temperature=0.0 if attempt == 1 else 0.7,
            seed=self._work.seed_of("assess", agent.id, str(attempt)),
            thinking=False,
            stage="assess",
            work=Pool.ASSESS,
            floor_tokens=min(ASSESS_MAX_TOKENS, 16),
        )


class _Heard:
    """What one agent has said of itself so far."""

    def __init__(self) -> None:
        self.ratings: Mapping[str, float] = {}
        self.reason = "unparseable"
        self.attempts = 0
        self.usage = StageUsage()


def read_ratings(text: str) -> dict[str, float]:
    """An agent's answers to the three questions by name [0..1].

    Raises:
        UnparsableOutput: When they are not there.

    Example:
        >>> read_ratings('{"r": [90, 45, 0]}')
        {'expertise': 0.9, 'approach': 0.45, 'knowledge': 0.0}
    """
    document = read(text, rating_schema(QUESTIONS)).content
    try:
        return {name: number / SCALE for name, number in read_rating(document, QUESTIONS).items()}
    except ValueError as wrong:
        raise UnparsableOutput(f"the rating cannot be used: {wrong}", problem=str(wrong)) from wrong
