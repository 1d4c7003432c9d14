"""This use case states how far agents have experience with a question; no model is called."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from chassis.clock import seconds_for_caller
from chassis.serving.auth import ApiKey
from inference import Embedded, Embedder
from kernel.agents import participants
from kernel.errors import MetacogError
from kernel.msv.experience import DEFAULT_CALIBRATION, SimilarityCalibration, agent_experience
from services.delegation.service.experience.values import (
    AgentExperience,
    MatchExperienceRequest,
    MatchExperienceResponse,
    NearestQuestion,
)
from services.delegation.service.task_context import Agents, checked_question

# Questions are compared by their end, as it is nearest to what is asked [characters].
COMPARED_CHARACTERS = 800
# Matches at once [count]; more are rejected.
MATCHES = 64


class NearestQuestions(Protocol):
    """This store finds the nearest question that each agent answered right. It may raise `DatabaseUnavailable`."""

    async def nearest(self, query: Embedded, agents: Sequence[str], *, key_name: str) -> Mapping[str, NearestQuestion]:
        """Return them by agent; agents without any are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchContext:
    """The context holds everything that matching needs beside the question.

    Attributes:
        agents: The configured agents.
        embedder: The sentence encoder.
        store: The questions that agents answered right.
        calibration: What a cosine is worth.
        covers: Whether the questions that agents answered right cover those of the deployment.
        timeout_s: Time that a match may take, and less where its caller waits for less [s, > 0].
        task_characters: Characters that a question may have [count].
    """

    agents: Agents
    embedder: Embedder
    store: NearestQuestions
    calibration: SimilarityCalibration = DEFAULT_CALIBRATION
    covers: bool = False
    timeout_s: float = 1.0
    task_characters: int = 100_000


def compared_text(question: str) -> str:
    """Return the text by which a question is compared.

    Example:
        >>> len(compared_text("x" * 1000)), compared_text(" Where is Oslo? ")
        (800, 'Where is Oslo?')
    """
    return question.strip()[-COMPARED_CHARACTERS:].strip()


async def match_experience(
    request: MatchExperienceRequest, *, key: ApiKey, context: MatchContext
) -> MatchExperienceResponse:
    """Return how far agents have experience with a question, in what they answered right for the key.

    Raises:
        MalformedRequest, RequestOverLimit: For an unusable question.
        NoAgents: When no agent is named and none is configured.
    """
    question = checked_question(request.question, request.messages, context.task_characters)
    configured = {agent.id: agent for agent in context.agents()}
    names = list(dict.fromkeys(request.agents)) or list(participants((), configured))
    within_s = seconds_for_caller(context.timeout_s)
    try:
        async with asyncio.timeout(within_s):
            query = await context.embedder.embed([compared_text(question)], timeout_s=within_s)
            if query.encoder.name != context.calibration.encoder:
                return _unknown(names, _uncalibrated(query.encoder.name, context.calibration.encoder))
            nearest = await context.store.nearest(query, names, key_name=key.name)
    except MetacogError as error:
        return _unknown(names, f"{error.reason}: {error.message}")
    except TimeoutError:
        return _unknown(names, f"comparing the question took more than {within_s:.3g} s")
    found = [_of_agent(name, nearest.get(name, NearestQuestion()), query, context) for name in names]
    return MatchExperienceResponse(agents=found, encoder=query.encoder.name)


def _of_agent(name: str, nearest: NearestQuestion, query: Embedded, context: MatchContext) -> AgentExperience:
    match = agent_experience(nearest.cosine, calibration=context.calibration, covers=context.covers)
    reason = match.reason
    if nearest.cosine is None and nearest.other_encoder:
        reason = f"what it answered right is recorded for the encoder {nearest.other_encoder}, not {query.encoder.name}"
    return AgentExperience(agent=name, experience=match.value, unknown_reason=reason, questions=nearest.questions)


def _unknown(names: Sequence[str], reason: str) -> MatchExperienceResponse:
    return MatchExperienceResponse(
        agents=[AgentExperience(agent=name, experience=None, unknown_reason=reason) for name in names]
    )


def _uncalibrated(used: str, measured_on: str) -> str:
    return (
        f"similarities are calibrated for the encoder {measured_on} and {used} is in use; set "
        "METACOG_DELEGATION_SIMILARITY_ENCODER, _FLOOR and _CEILING to what `python -m bench similarity` prints"
    )
