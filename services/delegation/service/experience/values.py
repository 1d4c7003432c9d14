"""These values are requests, results and records of agents' experience; field names are the contract's."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from kernel.conversation import Turn
from kernel.values import value
from services.delegation.service.values import MAX_AGENTS


@value
class AgentExperience:
    """This value states how far an agent has experience with a question."""

    agent: str
    experience: float | None
    unknown_reason: str = ""
    questions: int = 0


@value
class MatchExperienceRequest:
    """This request asks how far agents have experience with a question."""

    question: str = ""
    messages: Sequence[Turn] = ()
    agents: Annotated[Sequence[str], Field(max_length=MAX_AGENTS)] = ()


@value
class MatchExperienceResponse:
    """This response states how far each agent has experience with a question, and which encoder compared it."""

    agents: Sequence[AgentExperience]
    encoder: str = ""


@value
class NearestQuestion:
    """This value is the nearest question that an agent answered right.

    Attributes:
        cosine: Its cosine [-1..1]; None where all are of another encoder.
        questions: Questions compared [count].
        other_encoder: An encoder of those that cannot be compared; empty where there are none.
    """

    cosine: float | None = None
    questions: int = 0
    other_encoder: str = ""


@value
class PendingQuestion:
    """A pending question was answered right and has no vector yet."""

    task_id: str
    question: str
