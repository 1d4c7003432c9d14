"""Chats are bounded in messages and parts, which take time to read however short they are."""

from typing import Any

import pytest

from kernel.conversation import MOST_MESSAGES, turns_of_chat
from kernel.errors import MalformedRequest

MESSAGE: dict[str, Any] = {"role": "user", "content": "a"}
PART: dict[str, Any] = {"type": "text", "text": "a"}


def test_as_many_messages_or_parts_as_may_be_are_read() -> None:
    assert len(turns_of_chat([MESSAGE] * MOST_MESSAGES)) == MOST_MESSAGES
    [turn] = turns_of_chat([{"role": "user", "content": [PART] * MOST_MESSAGES}])
    assert turn.content.count("a") == MOST_MESSAGES


@pytest.mark.parametrize(
    ("chat", "problem"),
    [
        ([MESSAGE] * (MOST_MESSAGES + 1), "messages: at most 10,000 messages, not 10,001"),
        (
            [{"role": "user", "content": [PART] * 6_000}, {"role": "user", "content": [PART] * 4_001}],
            "messages: at most 10,000 parts of messages, not 10,001",
        ),
    ],
    ids=["messages", "parts"],
)
def test_more_are_rejected_by_their_number(chat: list[object], problem: str) -> None:
    with pytest.raises(MalformedRequest, match=problem):
        turns_of_chat(chat)
