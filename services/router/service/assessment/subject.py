"""The subject of an assessment is a conversation, and how a System 1 answer to it is drafted."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from inference import Spend
from kernel.conversation import ChatMessage, Turn, chat_of_turns
from kernel.values import value
from services.router.service.answering.values import AnswerRequest

# Account of the System 1 answer, drafted or not.
DRAFT_STAGE = "system1"


@value
class DraftAnswer:
    """A draft answer is a System 1 answer that exists before System 1 is chosen.

    Attributes:
        text: The answer, without reasoning.
        model: Model that wrote it.
        finish_reason: Why it ended, as the backend reports.
        logprobs: Its tokens with their log-probabilities [nats, <= 0]; None where the backend has none.
        document: The backend's own reply, where the caller gets it as it came.
        cut: Whether the envelope cut it.
        tokens: Tokens generated for it [count]; 0 where the backend reports none.
    """

    text: str
    model: str = ""
    finish_reason: str = "stop"
    logprobs: Sequence[tuple[str, float]] | None = None
    document: Mapping[str, Any] | None = None
    cut: bool = False
    tokens: int = 0


class Drafter(Protocol):
    """A drafter writes the System 1 answer to one request."""

    async def __call__(self, spend: Spend) -> DraftAnswer:
        """Return the answer, with log-probabilities where the backend has them.

        Raises:
            MetacogError: As a System 1 call.
        """


class DrafterFactory(Protocol):
    """A factory makes drafters."""

    def __call__(self, request: AnswerRequest, messages: Sequence[Turn]) -> Drafter:
        """Return the drafter of the System 1 answer to `request`."""


@value
class Subject:
    """A subject is what an assessor looks at.

    Attributes:
        messages: The conversation, last turn last.
        chat: The same as the client sent it, with everything that is not text; empty: as `messages` has it.
        key_name: Name of the API key of the request, whose own experience counts.
        seed: Makes the assessment repeatable.
        draft: Writes the System 1 answer; None where there is no use for one.
        kind: Kind of the question; empty: unknown.
    """

    messages: Sequence[Turn]
    chat: Sequence[ChatMessage] = ()
    key_name: str = ""
    seed: int | None = None
    draft: Drafter | None = None
    kind: str = ""

    def chat_with_instruction(self, instruction: str) -> list[ChatMessage]:
        """Return the conversation as a chat, with `instruction` at the end of its last turn."""
        *before, last = self.chat or chat_of_turns(self.messages)
        if last.get("role") != "user":
            return [*before, last, {"role": "user", "content": instruction}]
        content = last.get("content")
        if isinstance(content, str):
            return [*before, {**last, "content": f"{content}\n\n{instruction}"}]
        return [*before, {**last, "content": [*(content or ()), {"type": "text", "text": instruction}]}]

    def chat_after_answer(self, answer: str, question: str) -> list[ChatMessage]:
        """Return the conversation as a chat, continued with `answer` and a `question` about it."""
        chat = self.chat or chat_of_turns(self.messages)
        return [*chat, {"role": "assistant", "content": answer}, {"role": "user", "content": question}]
