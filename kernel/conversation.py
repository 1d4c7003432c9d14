"""TODO docstring."""

from collections.abc import Sequence

from kernel.errors import MalformedRequest
from kernel.values import value


@value
class Turn:
    """One turn of a conversation."""

    role: str
    content: str


def conversation(query: str, messages: Sequence[Turn]) -> Sequence[Turn]:
    """The turns to look at: `messages`, or `query` as the only one.

    Raises:
        MalformedRequest: For both or neither.
    """
    if bool(query.strip()) == bool(messages):
        raise MalformedRequest("give either query or messages", field="query")
    return messages or [Turn(role="user", content=query)]


def assessable(messages: Sequence[Turn]) -> Sequence[Turn]:
    """`messages`, if their last turn can be thought about.

    Raises:
        MalformedRequest: When it has no text.
    """
    if not messages[-1].content.strip():
        raise MalformedRequest("the last turn has no text to think about", field="messages")
    return messages


def transcript(messages: Sequence[Turn]) -> str:
    """The conversation as one text."""
    if len(messages) == 1:
        return messages[0].content
    return "\n\n".join(f"{turn.role}: {turn.content}" for turn in messages)
