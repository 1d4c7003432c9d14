"""What a recording holds of an item: short canonical answers, whether they are right, checks, tokens; no question."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Annotated, Self

from pydantic import Field

from kernel.answers import AnswerType
from kernel.values import value

Share = Annotated[float, Field(ge=0, le=1)]


@value
class RecordedAnswer:
    """One recorded answer.

    Attributes:
        answer: Its canonical form, equal for equal answers to an item; of a long one a digest. None where no answer
            could be read.
        right: Whether it is the known one.
        tokens: Tokens generated [count]; None where the backend reports none.
        seconds: Time that it took [s].
        invalid: Why there is no answer, without what was written; empty where there is one.
    """

    answer: str | None
    right: bool
    tokens: int | None = None
    seconds: float = 0.0
    invalid: str = ""

    def spelled(self, answer: str | None) -> Self:
        """Return the same answer in another spelling."""
        return replace(self, answer=answer)


@value
class CheckRecord:
    """Both framings of the one-token check of the System 1 answer.

    Attributes:
        inside: Probability of a yes inside the conversation, as the router measures it: the share of yes in the mass
            of yes and no [0..1]; None where it is unknown.
        inside_logprob: Its logarithm [nats]; the router reports no single token.
        alone: Probability of a yes in a fresh message with the question and the proposed answer, measured alike.
        alone_logprob: Log-probability of the likeliest yes token there [nats]; None where it is not among the first.
    """

    inside: Share | None = None
    inside_logprob: float | None = None
    alone: Share | None = None
    alone_logprob: float | None = None


@value
class ItemRecord:
    """Everything that is recorded of an item.

    Attributes:
        id: Name of the item.
        dataset: Name of its data set.
        dimension: What it takes; empty: unknown.
        answer_type: Form of its answer.
        options: Options that it lists [count]; 0 where the answer is free.
        digest: Digest of what was asked and of what is right.
        prompt_characters: Length of the prompt [characters].
        answers: Answers by source: `draft`, `reasoned`, `program`, `other`.
        checks: Both framings of the one-token check.
        state: Components of the state that the assessor `draft` measured [0..1].
        parts: Its finer measurements [0..1].
        spent: Tokens generated for the System 1 answer and its assessment, by stage [count].
    """

    id: str
    dataset: str
    dimension: str
    answer_type: AnswerType
    options: int
    digest: str
    prompt_characters: int
    answers: Mapping[str, Sequence[RecordedAnswer]]
    checks: CheckRecord = CheckRecord()
    state: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
    spent: Mapping[str, int] = field(default_factory=dict)


@value
class LiveAnswer:
    """What is kept of an answer that the router gave live to a recorded item.

    Attributes:
        id: Name of the item.
        arm: The model name: `system1`, `vote`, or `auto` for `metacog`.
        right: Whether it is the known one.
        tokens: Tokens generated, those of deciding among them [count].
        system: System that the router chose; empty where the reply does not say.
    """

    id: str
    arm: str
    right: bool
    tokens: int
    system: str = ""
