"""The System 1 answer of the default model votes first; where that model fails or hangs, the others vote without it."""

import asyncio

from inference import DeadlineExceeded, Spend
from kernel.envelope import BudgetExhausted
from kernel.errors import MetacogError
from kernel.values import value
from kernel.votes.votes import OVERDUE_TIME_SHARE
from services.router.service.assessment.subject import DraftAnswer, Drafter


@value
class VotingDraft:
    """A voting draft is the System 1 answer as a vote.

    Attributes:
        draft: The answer; None where the default model gave none.
        problem: Why there is none, as `CODE: message`; empty where there is one.
    """

    draft: DraftAnswer | None
    problem: str = ""


async def voting_draft(drafter: Drafter, spend: Spend, *, others_vote: bool) -> VotingDraft:
    """Return the System 1 answer as a vote, or why the votes go on without it.

    Args:
        drafter: Writes it.
        spend: What may be spent.
        others_vote: Whether other sources are named: a draft then takes at most the share of the time of any vote.

    Raises:
        BudgetExhausted, DeadlineExceeded: When the envelope has no room for it.
    """
    within_s = spend.seconds_left() * OVERDUE_TIME_SHARE if others_vote else None
    try:
        async with asyncio.timeout(within_s):
            return VotingDraft(draft=await drafter(spend))
    except (BudgetExhausted, DeadlineExceeded):
        raise
    except MetacogError as error:
        problem = f"{error.reason}: {error.message}"
    except TimeoutError:
        problem = f"no answer within {within_s:.3g} s, its share of the time"
    return VotingDraft(draft=None, problem=f"SOURCE_LEFT_OUT: draft: {problem}")
