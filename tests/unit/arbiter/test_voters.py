"""Voters over parts that are known."""

import asyncio

from inference import Spend
from kernel.answers import AnswerType
from kernel.envelope import Limits
from sandbox import CodeResult, CodeSandbox
from services.arbiter.service.voting.voters import Question, Voters


class BusySandbox(CodeSandbox):
    """A sandbox in which other programs never end."""

    async def run(self, code: str, tests: str, *, timeout_s: float, as_main: bool = False) -> CodeResult:
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_program_that_waits_for_others_is_no_vote_once_the_time_has_ended() -> None:
    question = Question(
        text="Write double.",
        turns=(),
        answer_type=AnswerType.CODE,
        options=(),
        tests="assert double(2) == 4",
        max_tokens=64,
        temperature=0.7,
        seed=None,
    )
    limits = Limits(max_generations=1, max_generated_tokens=64, timeout_ms=50)
    voters = Voters(question=question, agents={}, spend=Spend(limits), sandbox=BusySandbox())

    draft = await voters.read("```python\ndef double(x):\n    return 2 * x\n```", "m", 12)

    assert draft.passes_tests is False
    assert draft.reason.endswith("other programs run")
