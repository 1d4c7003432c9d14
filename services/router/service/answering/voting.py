"""The strategy `vote`: the arbiter asks for votes, and their agreement says how probably the answer is right."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from inference import Spend
from kernel.votes.probability import ProbabilityModel, VoteEvidence
from services.router.service.answering.answer import AnswerStrategy, StrategyEvent, StrategyResult, StrategyTask
from services.router.service.answering.values import AnswerToken

# Source of the confidence of a vote.
VOTES = "votes"


class Voting:
    """Voting adds the probability of being right to what the arbiter returns.

    Args:
        votes: The vote of the arbiter; its result has no confidence yet.
        model: Returns the probability model in force.
    """

    def __init__(self, votes: AnswerStrategy, model: Callable[[], ProbabilityModel]) -> None:
        self._votes = votes
        self._model = model

    async def __call__(self, task: StrategyTask, spend: Spend) -> AsyncGenerator[StrategyEvent, None]:
        """Yield every vote, then the text and the result.

        Raises:
            MetacogError: As the arbiter.
        """
        async with aclosing(self._votes(task, spend)) as events:
            async for event in events:
                if isinstance(event, StrategyResult):
                    event = self._with_probability(event)
                    if event.text:
                        yield AnswerToken(text=event.text)
                yield event

    def _with_probability(self, result: StrategyResult) -> StrategyResult:
        evidence = evidence_of(result.deliberation or {})
        if evidence is None:
            return result
        model = self._model()
        return replace(
            result,
            confidence=round(model.probability(evidence), 9),
            confidence_source=VOTES,
            state=model.state,
            labels=model.labels,
        )


def evidence_of(account: Mapping[str, Any]) -> VoteEvidence | None:
    """Return the evidence in the account of a vote; None where it abstained."""
    evidence = account.get("evidence")
    return VoteEvidence(**evidence) if evidence else None
