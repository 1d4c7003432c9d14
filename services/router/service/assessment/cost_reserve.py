"""Money for one plain answer, kept while something dearer is tried; it matters only where the cost is limited."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from inference.sampling.sampler import most_prompt_tokens
from inference.spend import Spend
from kernel.conversation import Turn
from kernel.ledger import Ledger
from services.router.service.assessment.measures import STAGE
from services.router.service.assessment.subject import Subject

# An answer of a few words [tokens].
FEW_TOKENS = 64
# What an assessment asks beside the conversation, schema included, and what it answers [tokens, at most].
ASSESSING_PROMPT_TOKENS, ASSESSING_TOKENS = 1536, 64


def prompt_tokens(messages: Sequence[Turn], chat: Sequence[Mapping[str, Any]] = ()) -> int:
    """Tokens that a conversation has as a prompt, at most [count]."""
    turns = [{"role": turn.role, "content": turn.content} for turn in messages]
    return most_prompt_tokens({"messages": list(chat) or turns}, None)


def affords_assessing(ledger: Ledger, subject: Subject) -> bool:
    """Whether there is money for the simplest assessment and for an answer of a few words."""
    if ledger.cost_left is None:
        return True
    prompt = prompt_tokens(subject.messages, subject.chat)
    needed = ledger.worst_cost(2 * prompt + ASSESSING_PROMPT_TOKENS, ASSESSING_TOKENS + FEW_TOKENS)
    return (needed or 0) <= ledger.cost_left


@contextmanager
def kept_for_an_answer(spend: Spend, subject: Subject) -> Iterator[None]:
    """Keep what an answer of a few words costs until the block ends, if there is as much."""
    ledger = spend.ledger
    cost = None
    if ledger.cost_left is not None:
        cost = ledger.worst_cost(prompt_tokens(subject.messages, subject.chat), FEW_TOKENS)
    if cost is None or cost > (ledger.cost_left or 0):
        yield
        return
    kept = ledger.reserve(STAGE, 0, 0, cost)
    try:
        yield
    finally:
        kept.release()


def fallback_cost(ledger: Ledger, messages: Sequence[Turn], tokens: int) -> int:
    """What a plain call of so many tokens costs; of what is left after its prompt a quarter at most [units]."""
    left = ledger.cost_left or 0
    prompt = min(left, ledger.worst_cost(prompt_tokens(messages), 0) or 0)
    return prompt + min((left - prompt) // 4, ledger.worst_cost(0, tokens) or 0)
