"""The cost reserve is what one single-pass answer costs, reserved while something dearer is tried.

It matters only where the cost is limited.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from inference import Spend, max_prompt_tokens
from kernel.conversation import ChatMessage, Turn, chat_of_turns
from kernel.ledger import Ledger
from services.router.service.assessment.measures import STAGE
from services.router.service.assessment.subject import Subject

# An answer of a few words [tokens].
SHORT_ANSWER_TOKENS = 64
# What an assessment adds to the conversation, schema included, and what it answers [tokens, at most].
ASSESSMENT_PROMPT_TOKENS, ASSESSMENT_TOKENS = 1536, 64


def prompt_tokens(messages: Sequence[Turn], chat: Sequence[ChatMessage] = ()) -> int:
    """Return the tokens that a conversation has as a prompt, at most [count]."""
    return max_prompt_tokens({"messages": list(chat) or chat_of_turns(messages)}, None)


def affords_assessment(ledger: Ledger, subject: Subject) -> bool:
    """Return whether the cost left pays for the simplest assessment and for an answer of a few words."""
    if ledger.cost_left is None:
        return True
    prompt = prompt_tokens(subject.messages, subject.chat)
    needed = ledger.worst_cost(2 * prompt + ASSESSMENT_PROMPT_TOKENS, ASSESSMENT_TOKENS + SHORT_ANSWER_TOKENS)
    return (needed or 0) <= ledger.cost_left


@contextmanager
def answer_reserved(spend: Spend, subject: Subject) -> Iterator[None]:
    """Reserve what an answer of a few words costs until the block ends, if as much is left."""
    ledger = spend.ledger
    cost = None
    if ledger.cost_left is not None:
        cost = ledger.worst_cost(prompt_tokens(subject.messages, subject.chat), SHORT_ANSWER_TOKENS)
    if cost is None or cost > (ledger.cost_left or 0):
        yield
        return
    reservation = ledger.reserve(STAGE, 0, 0, cost)
    try:
        yield
    finally:
        reservation.release()


def fallback_cost(ledger: Ledger, messages: Sequence[Turn], tokens: int) -> int:
    """Return the cost of a single-pass call of so many tokens; at most a quarter of what its prompt leaves [units]."""
    left = ledger.cost_left or 0
    prompt = min(left, ledger.worst_cost(prompt_tokens(messages), 0) or 0)
    return prompt + min((left - prompt) // 4, ledger.worst_cost(0, tokens) or 0)
