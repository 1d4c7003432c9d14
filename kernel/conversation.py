"""A conversation has turns, which are checked and rendered as one text."""

from collections.abc import Mapping, Sequence
from typing import Any

from kernel.errors import MalformedRequest, cut_text
from kernel.values import value

ChatMessage = Mapping[str, Any]

# Messages of a chat at most, and parts of messages at most [count]: reading takes time for each.
MOST_MESSAGES = 10_000
# What an error quotes of a role that does not exist, at most [bytes].
MOST_ROLE_BYTES = 40
# Roles that a chat message may have.
CHAT_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
# Parts of a chat message that are text.
TEXT_PARTS = ("text", "refusal")


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


def question_text(question: str, messages: Sequence[Turn]) -> str:
    r"""Return the question as one text: a conversation of several turns as its transcript, without turns without text.

    Raises:
        MalformedRequest: Without a question, or with two.

    Example:
        >>> question_text("", [Turn(role="user", content="Where is Oslo?"), Turn(role="user", content=" ")])
        'Where is Oslo?'
    """
    if not question.strip() and not any(turn.content.strip() for turn in messages):
        raise MalformedRequest("give a question, or messages with some text", field="question")
    return transcript([turn for turn in conversation(question, messages) if turn.content.strip()])


def checked_turns(messages: Sequence[Turn]) -> Sequence[Turn]:
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


def user_text(messages: Sequence[Turn]) -> str:
    """Return what the user wrote, in every turn; the last turn where none is the user's."""
    turns = [turn for turn in messages if turn.role == "user"] or messages[-1:]
    return "\n".join(turn.content for turn in turns)


def latest_texts(messages: Sequence[Turn], *, longest: int) -> Sequence[str]:
    r"""Return the texts by which a conversation is looked up: its last turn, and its last turns together.

    The last turn alone finds what is asked again; a follow-up means something only with what came before it.
    System turns are left out.

    Args:
        messages: Turns, oldest first.
        longest: Length of a text at most [characters, >= 1]; the end is used, as it is nearest to what is asked.

    Example:
        >>> turns = [Turn(role="user", content=text) for text in ("Where is Oslo?", "And Bergen?")]
        >>> latest_texts(turns, longest=40)
        ('And Bergen?', 'Where is Oslo?\n\nAnd Bergen?')
    """
    contents = [text for turn in messages if turn.role != "system" and (text := turn.content.strip())]
    together = "\n\n".join(contents)[-longest:].strip()
    last = contents[-1][-longest:].strip() if contents else ""
    return tuple(dict.fromkeys(text for text in (last, together) if text))


def chat_of_turns(messages: Sequence[Turn]) -> list[ChatMessage]:
    """Return the conversation as messages of a chat completion.

    Example:
        >>> chat_of_turns([Turn(role="user", content="Where is Oslo?")])
        [{'role': 'user', 'content': 'Where is Oslo?'}]
    """
    return [{"role": turn.role, "content": turn.content} for turn in messages]


def chat_of_prompt(system: str, user: str) -> list[ChatMessage]:
    """Return the messages of one prompt; an empty system prompt is left out.

    Example:
        >>> chat_of_prompt("", "Where is Oslo?")
        [{'role': 'user', 'content': 'Where is Oslo?'}]
    """
    head = [{"role": "system", "content": system}] if system else []
    return [*head, {"role": "user", "content": user}]


def turns_of_chat(chat: object) -> list[Turn]:
    r"""Return the messages of a chat completion as turns of text; parts that are no text are named in brackets.

    Raises:
        MalformedRequest: For what is no list of messages with a role of `CHAT_ROLES` and a text or parts, and for more
            than `MOST_MESSAGES` messages or parts; names the field.

    Example:
        >>> turns_of_chat([{"role": "user", "content": [{"type": "text", "text": "Who?"}, {"type": "image_url"}]}])
        [Turn(role='user', content='Who?\n[image_url]')]
    """
    if not isinstance(chat, list) or not chat:
        raise MalformedRequest("messages: give at least one message", field="messages")
    contents = [message.get("content") for message in chat if isinstance(message, dict)]
    counts = {"messages": len(chat), "parts of messages": sum(len(one) for one in contents if isinstance(one, list))}
    for what, count in counts.items():
        if count > MOST_MESSAGES:
            raise MalformedRequest(f"messages: at most {MOST_MESSAGES:,} {what}, not {count:,}", field="messages")
    return [_turn(place, message) for place, message in enumerate(chat)]


def non_text_field(chat: Sequence[ChatMessage]) -> str:
    """Return the field of `chat` with the first part that is no text, such as an image; empty if all is text."""
    for place, message in enumerate(chat):
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        if any(part.get("type", "text") not in TEXT_PARTS for part in parts):
            return f"messages.{place}.content"
    return ""


def has_images(chat: Sequence[ChatMessage]) -> bool:
    """Return whether a message of `chat` has an image."""
    contents = [message.get("content") for message in chat]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return any(isinstance(part, Mapping) and part.get("type") in ("image_url", "image") for part in parts)


def _turn(place: int, message: object) -> Turn:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str) or not message["role"]:
        raise MalformedRequest(f"messages.{place}: give an object with a role", field=f"messages.{place}")
    if message["role"] not in CHAT_ROLES:
        field = f"messages.{place}.role"
        named = cut_text(message["role"], MOST_ROLE_BYTES)
        raise MalformedRequest(f"{field}: there is no role {named!r}; roles are {', '.join(CHAT_ROLES)}", field=field)
    texts = [_text(place, message.get("content")), *_tool_calls(message)]
    return Turn(role=message["role"], content="\n".join(text for text in texts if text))


def _text(place: int, content: object) -> str:
    """Return the text of a message's content; parts that are no text are named."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        problem = f"messages.{place}.content: give a text or a list of parts"
        raise MalformedRequest(problem, field=f"messages.{place}.content")
    return "\n".join(_part(part) for part in content)


def _part(part: Mapping[str, Any]) -> str:
    kind = part.get("type", "text")
    return str(part.get(kind, "")) if kind in TEXT_PARTS else f"[{kind}]"


def _tool_calls(message: Mapping[str, Any]) -> list[str]:
    """Return the tools that a message calls, as text."""
    listed = message.get("tool_calls")
    calls = [call for call in listed if isinstance(call, dict)] if isinstance(listed, list) else []
    functions = [call.get("function") or call.get("custom") for call in calls] + [message.get("function_call")]
    return [
        f"[calls {call.get('name', '')} with {call.get('arguments') or call.get('input') or ''}]"
        for call in functions
        if isinstance(call, dict)
    ]
