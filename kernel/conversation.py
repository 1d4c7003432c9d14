"""A conversation has turns, which are checked and rendered as one text."""

from collections.abc import Sequence

from kernel.errors import MalformedRequest
from kernel.values import value


@value
class Turn:
    """A turn is one message of a conversation."""

    role: str
    content: str


def conversation(question: str, messages: Sequence[Turn]) -> Sequence[Turn]:
    """Return the turns to look at: `messages`, or `question` as the only one.

    Raises:
        MalformedRequest: For both or neither.
    """
    if bool(question.strip()) == bool(messages):
        raise MalformedRequest("give either question or messages", field="question")
    return messages or [Turn(role="user", content=question)]


def assessable(messages: Sequence[Turn]) -> Sequence[Turn]:
    """Return `messages`, if their last turn has a text.

    Raises:
        MalformedRequest: When it has no text.
    """
    if not messages[-1].content.strip():
        raise MalformedRequest("the last turn has no text to think about", field="messages")
    return messages


def transcript(messages: Sequence[Turn]) -> str:
    """Return the conversation as one text."""
    if len(messages) == 1:
        return messages[0].content
    return "\n\n".join(f"{turn.role}: {turn.content}" for turn in messages)
