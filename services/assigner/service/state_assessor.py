"""Agents rate themselves before they write, and one assessor rates every text after, inside the envelope."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from chassis.clock import milliseconds_since
from chassis.prompts import Prompt, reordered, shortened
from configuration.agents import AgentConfig
from inference import Call, DeadlineExceeded, ModelClient, ModelClients, PromptTooLong, Spend, WorkKind, rated
from kernel.conversation import chat_of_prompt
from kernel.envelope import NO_USAGE, StageUsage
from kernel.errors import MetacogError
from kernel.msv import MSV, MSVKind
from kernel.msv.affect import AffectAnalyser
from kernel.msv.ratings import ORDER, RATING_MAX_TOKENS, RATING_SCHEMA, places_of, rated_msv, unrated_msv
from kernel.roles import Stage
from kernel.seeds import derived_seed
from kernel.values import value
from services.assigner import prompts
from services.assigner.service.stage_runner import PATIENCE, DialecticTask, FittedPrompt, shorter_prompts
from services.assigner.service.values import AgentAssessed, KnownAgentExperience, StageFinished, StageMeasured

# Texts beside the rated one are for comparison only; each has this share of its room.
OTHER_TEXTS_SHARE = 0.5
KEPT_FOR_STAGES = "the envelope is kept for the stages"
NOT_AFFORDABLE = "the envelope has nothing left for a rating"
EXPERIENCE = "experience"


@value
class RatedState:
    """A rated state is the state that one rating gives.

    Attributes:
        msv: The state; all unknown but affect where there is no rating.
        usage: Cost of the rating; None when the call failed, and only the totals hold it.
        duration_ms: Time it took [ms].
        shortened: Names of the texts that were shortened for it.
    """

    msv: MSV
    usage: StageUsage | None = NO_USAGE
    duration_ms: float = 0.0
    shortened: Sequence[str] = ()


@value
class RatingSubject:
    """A rating subject is what one rating is about.

    Attributes:
        stage: Name of the call.
        kind: Whether a text exists already.
        affect: Affect of the question before there is a text, else of the text, by signal [0..1].
        agent: The agent that rates itself; None for the assessor.
    """

    stage: str
    kind: MSVKind
    affect: Mapping[str, float]
    agent: AgentConfig | None = None

    def unrated(self, reason: str) -> MSV:
        """Return the state without a rating, for `reason`; affect is known all the same."""
        return unrated_msv(reason, kind=self.kind, emotional=self.affect)


class StateAssessor:
    """The assessor takes ratings for one deliberation: of agents before they write, and of texts after.

    Args:
        task: The question.
        model_clients: The model clients of all agents.
        spend: The envelope.
        affect: Measures affect in a text.
    """

    def __init__(self, task: DialecticTask, model_clients: ModelClients, spend: Spend, affect: AffectAnalyser) -> None:
        self._task = task
        self._model_clients = model_clients
        self._spend = spend
        self._affect = affect
        self._affect_of_question = affect(task.question)

    async def agent(self, agent: AgentConfig, *, affordable: bool, repeatable: bool) -> AgentAssessed:
        """Return the prospective state of `agent` on the question; all unknown when the envelope or the model fails.

        Args:
            agent: The agent.
            affordable: Whether the envelope pays for a rating.
            repeatable: Whether it pays for a second one, should the first count its places.
        """
        client = self._model_clients.of(agent)
        prompt = FittedPrompt(prompt=prompts.self_assessment(question=self._task.question))
        subject = RatingSubject(
            stage="self_assessment", kind=MSVKind.PROSPECTIVE, affect=self._affect_of_question, agent=agent
        )
        if affordable:
            state = await self._rated(client, [prompt], subject, repeatable=repeatable)
        else:
            state = RatedState(msv=subject.unrated(KEPT_FOR_STAGES))
        return AgentAssessed(
            agent=agent.id,
            model=client.model,
            msv=state.msv,
            prompt_digest=prompt.prompt.digest,
            usage=state.usage,
            duration_ms=state.duration_ms,
        )

    async def text(
        self, finished: StageFinished, others: Mapping[Stage, str], *, affordable: bool, repeatable: bool
    ) -> StageMeasured:
        """Return the retrospective state of a text, by the assessor that rates all of them; its experience is unknown.

        Args:
            finished: The stage with the text.
            others: The texts that the assessor reads beside it, in the order in which it reads them.
            affordable: Whether the envelope pays for a rating.
            repeatable: Whether it pays for a second one, should the first count its places.
        """
        client = self._model_clients.assessor()
        build = partial(self._text_prompt, finished, others)
        prompt = build(self._task.input_max_tokens).prompt
        subject = RatingSubject(stage="measure", kind=MSVKind.RETROSPECTIVE, affect=self._affect(finished.text))
        if affordable:
            fitting = shorter_prompts(build, self._task.input_max_tokens)
            state = await self._rated(client, fitting, subject, repeatable=repeatable)
        else:
            state = RatedState(msv=subject.unrated(NOT_AFFORDABLE))
        return StageMeasured(
            stage=finished.stage,
            msv=state.msv,
            model=client.model,
            prompt=prompt.name,
            prompt_digest=prompt.digest,
            usage=state.usage,
            duration_ms=state.duration_ms,
            beside=list(others),
            shortened_inputs=state.shortened,
        )

    def _text_prompt(self, finished: StageFinished, others: Mapping[Stage, str], tokens: int) -> FittedPrompt:
        text, is_cut = shortened(finished.text, tokens)
        shown = {stage: shortened(other, int(tokens * OTHER_TEXTS_SHARE)) for stage, other in others.items()}
        prompt = prompts.text_assessment(
            question=self._task.question, others={stage: other for stage, (other, _) in shown.items()}, text=text
        )
        cut = [stage.value for stage, (_, is_other_cut) in shown.items() if is_other_cut]
        return FittedPrompt(prompt=prompt, shortened=cut + [finished.stage.value] * is_cut)

    async def _rated(
        self, client: ModelClient, alternatives: Iterable[FittedPrompt], subject: RatingSubject, *, repeatable: bool
    ) -> RatedState:
        """Return the rating that the first prompt gives that fits the model's context."""
        started_at, patience_s = time.monotonic(), self._spend.seconds_left() * PATIENCE
        reason = ""
        try:
            async with asyncio.timeout(patience_s):
                for each in alternatives:
                    build = partial(self._call, each.prompt, subject)
                    try:
                        ratings = await rated(client, build, ORDER, self._spend, repeatable=repeatable)
                    except PromptTooLong as error:
                        reason = f"{error.reason}: {error.message}"
                        continue
                    return RatedState(
                        msv=rated_msv(
                            ratings.values[0],
                            kind=subject.kind,
                            emotional=subject.affect,
                            weights=self._task.part_weights,
                        ),
                        usage=ratings.completion.usage,
                        duration_ms=milliseconds_since(started_at),
                        shortened=each.shortened,
                    )
        except TimeoutError:
            reason = f"{DeadlineExceeded.reason}: no rating within {patience_s:.1f} s"
        except MetacogError as error:
            reason = f"{error.reason}: {error.message}"
        return RatedState(msv=subject.unrated(reason), usage=None, duration_ms=milliseconds_since(started_at))

    def _call(self, prompt: Prompt, subject: RatingSubject, order: Sequence[str]) -> Call:
        seed, agent, prompt = self._task.seed, subject.agent, reordered(prompt, places_of(order))
        return Call(
            messages=chat_of_prompt(agent.system_prompt if agent else "", prompt.text),
            max_tokens=RATING_MAX_TOKENS,
            schema=RATING_SCHEMA,
            temperature=0.0,
            seed=None if seed is None else derived_seed(seed, subject.stage, agent.id if agent else "", prompt.text),
            thinking=False,
            stage=subject.stage,
            work=WorkKind.ASSESS,
            floor_tokens=RATING_MAX_TOKENS,
        )


def with_experience(msv: MSV, found: KnownAgentExperience) -> MSV:
    """Return the state with the experience that was found; unknown, with its reason, where that is unknown."""
    reasons = {name: reason for name, reason in msv.unknown_reasons.items() if name != EXPERIENCE}
    if found.experience is None:
        reasons[EXPERIENCE] = found.unknown_reason
    return replace(msv, experience=found.experience, unknown_reasons=reasons)
