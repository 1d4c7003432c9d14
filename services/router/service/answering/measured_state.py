"""The state of a question is measured by answering it, where several answers were asked for.

Answers of earlier runs are looked up by digests, so that this works where contents are not stored; the time for it is
short, and a database that is away or slow leaves the instability unknown.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from chassis.errors import DatabaseUnavailable
from chassis.json_text import dumps
from kernel.answers import AnswerType
from kernel.errors import Overloaded
from kernel.msv import MSV
from kernel.values import value
from kernel.votes.measured_state import NO_EARLIER_RUN, NO_VALID_VOTE, instability, measured_state, valid_votes
from kernel.votes.votes import source_name
from services.router.service.answering.run_confidence import WHOLE_REPLIES

# Time that looking earlier runs up may take, inside the request's own [s].
EARLIER_WITHIN_S = 0.25
# Earlier runs of a question that are looked at, the newest [count].
MOST_EARLIER = 50

NOT_COMPARED = "programs of different runs are not compared"
NOT_LOOKED_UP = "earlier runs are not looked up"
NO_TIME_LEFT = "no time is left to look earlier runs up"
STRONGER_MODEL = "the stronger model answered, and the votes do not say how probably it is right"


@value
class AskedQuestion:
    """An asked question is what earlier runs of the same question have in common.

    Attributes:
        key_name: Name of the API key of the request.
        messages_digest: Digest of the conversation.
        config_version: Version of the configuration in force.
    """

    key_name: str
    messages_digest: str
    config_version: str


# Returns the digests of the winning answers of earlier runs of a question, newest first; may raise
# `DatabaseUnavailable` or `Overloaded`.
EarlierWinners = Callable[[AskedQuestion], Awaitable[Sequence[str]]]


@value
class VotedAnswer:
    """A voted answer is what a run with votes ended with.

    Attributes:
        account: The account of the vote, as REST spells it.
        confidence: Probability that the answer is right [0..1]; None where the votes do not say.
        is_escalated: Whether a stronger model gave the answer.
        has_evidence: Whether labels of such votes say how probably the answer is right.
    """

    account: Mapping[str, Any]
    confidence: float | None
    is_escalated: bool = False
    has_evidence: bool = True


def winner_digest(account: Mapping[str, Any], messages_digest: str) -> str:
    """Return the digest of the winning answer of a vote [sha256, hexadecimal]; empty where it cannot be compared.

    Equal answers to the same conversation have the same digest; those to different conversations have different ones.

    Args:
        account: The account of the vote, as REST spells it.
        messages_digest: Digest of the conversation.
    """
    winner = account.get("winner")
    if not winner or account.get("answer_type") == AnswerType.CODE:
        return ""
    return sha256(dumps([messages_digest, str(winner).casefold()])).hexdigest()


async def state_after_vote(
    voted: VotedAnswer,
    asked: AskedQuestion,
    *,
    before: MSV | None,
    earlier: EarlierWinners | None,
    seconds_left: float,
) -> MSV:
    """Return the state that the votes measured; never raises, and waits for `EARLIER_WITHIN_S` at most.

    Args:
        voted: The votes and their answer.
        asked: By what earlier runs of the same question are found.
        before: The state before the vote; None where there was none.
        earlier: Looks the answers of earlier runs up; None: they are not looked up.
        seconds_left: Time left to the request [s].
    """
    votes = voted.account.get("votes") or ()
    groups = [group["votes"] for group in voted.account.get("groups") or ()]
    return measured_state(
        valid_votes(groups, [_source(vote) for vote in votes]),
        probability=voted.confidence,
        probability_unknown=_unknown(voted),
        over_time=await _instability(voted, asked, earlier, min(EARLIER_WITHIN_S, seconds_left)),
        before=before,
    )


def _unknown(voted: VotedAnswer) -> str:
    """Return why the probability of being right is unknown, where it is."""
    if voted.is_escalated:
        return STRONGER_MODEL
    return NO_VALID_VOTE if voted.has_evidence or not voted.account.get("winner") else WHOLE_REPLIES


async def _instability(
    voted: VotedAnswer, asked: AskedQuestion, earlier: EarlierWinners | None, within_s: float
) -> float | str:
    """Return the instability [0..1], or why it is unknown."""
    digest = winner_digest(voted.account, asked.messages_digest)
    if not digest:
        return NOT_COMPARED if voted.account.get("winner") else NO_VALID_VOTE
    if earlier is None:
        return NOT_LOOKED_UP
    if within_s <= 0:
        return NO_TIME_LEFT
    try:
        async with asyncio.timeout(within_s):
            found = await earlier(asked)
    except TimeoutError:
        return f"{DatabaseUnavailable.reason}: looking earlier runs up took more than {within_s:.3g} s"
    except (DatabaseUnavailable, Overloaded) as error:
        return f"{error.reason}: {error.message}"
    share = instability(digest, found)
    return NO_EARLIER_RUN if share is None else share


def _source(vote: Mapping[str, Any]) -> str:
    return f"{vote['mode']} {source_name(vote['agent'], vote.get('source_model') or '')}"
