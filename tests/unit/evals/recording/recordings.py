"""A scripted suite for the recorder, and small recordings by hand."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evals.items import Item
from evals.recording.recorder import RecordingPlan
from evals.recording.values import CheckRecord, ItemRecord, RecordedAnswer
from evals.router_client import Body
from kernel.answers import AnswerType

SECRET = "Which secret sum is asked for"
WRITTEN = "A long text that the model wrote"
# Prompts of the scripted services by source, as they report them.
DIGESTS = {"reasoned": {"solve": "aa" * 32}, "program": {"program": "bb" * 32}, "draft": {"check": "cc" * 32}}


def a_sum(number: int, dataset: str = "sums") -> Item:
    """The question what `number` and `number` are, in words that no record may hold."""
    return Item(
        id=f"{dataset}-{number}",
        dataset=dataset,
        question=f"{SECRET}, {number} + {number}?",
        context="A secret context.",
        answer=str(2 * number),
        answer_type=AnswerType.NUMBER,
        dimension="math_computation",
    )


def a_choice(number: int) -> Item:
    """A choice between secret options, of which B is right."""
    return Item(
        id=f"choices-{number}",
        dataset="choices",
        question=f"{SECRET}, number {number}?",
        answer="B",
        answer_type=AnswerType.CHOICE,
        choices=("a secret option", "another secret option"),
    )


def plan(items: Sequence[Item], **more: Any) -> RecordingPlan:  # noqa: ANN401
    """A plan with another model."""
    return RecordingPlan(**{"items": items, "other": "small", **more})


class ScriptedServices:
    """Router and arbiter with scripted answers; counts what is asked.

    Args:
        answer: Every answer: of the draft, of each vote and of the program.
        stop_after: Requests after which `error` is raised [count].
        error: What then ends the recording.
        digests: Digests of the prompts that the services report, by source.
    """

    def __init__(
        self,
        answer: str = "4",
        *,
        stop_after: int | None = None,
        error: BaseException | None = None,
        digests: Mapping[str, Mapping[str, str]] = DIGESTS,
    ) -> None:
        self.asked: Counter[str] = Counter()
        self.bodies: list[tuple[str, Body]] = []
        self._answer = answer
        self._stop_after = stop_after
        self._error = error
        self._digests = digests

    async def post(self, service: str, path: str, body: Body) -> Body:
        """Return the scripted reply."""
        if self._error is not None and len(self.bodies) == self._stop_after:
            raise self._error
        self.asked[f"{service} {path}"] += 1
        self.bodies.append((path, body))
        if path == "/v1/assess":
            return self._state()
        return self._vote(body) if path == "/v1/votes" else self._check()

    def _state(self) -> Body:
        return {
            "draft": f"{WRITTEN}.\nFinal Answer: {self._answer}",
            "msv": {
                "correctness": 0.7, "conflict": None, "importance": 0.2, "emotional_response": 0.1,
                "parts": {"check": 0.75, "draft_likelihood": 0.6},
            },
            "prompt_digests": self._digests["draft"],
            "usage": {"stages": {"system1": {"completion_tokens": 12}, "assess": {"completion_tokens": 30}}},
            "samples": [WRITTEN],
        }  # fmt: skip

    def _vote(self, body: Body) -> Body:
        (source,) = body["sources"]
        is_program = source["mode"] == "PROGRAM"
        vote = {
            "text": f"{WRITTEN}.\nFinal Answer: {self._answer}",
            "answer": None if is_program else self._answer,
            "invalid_reason": f"the program failed: {WRITTEN}" if is_program else "",
            "completion_tokens": 40,
            "duration_ms": 1500.0,
        }
        digests = self._digests["program" if is_program else "reasoned"]
        return {"votes": [vote], "model": source.get("model") or "large", "prompt_digests": digests}

    def _check(self) -> Body:
        top = [{"token": "Yes", "logprob": -0.5}, {"token": " no", "logprob": -1.5}]
        return {"choices": [{"message": {"content": "Yes"}, "logprobs": {"content": [{"top_logprobs": top}]}}]}


def answer(text: str | None, right: bool = False, tokens: int = 10) -> RecordedAnswer:
    """One recorded answer."""
    return RecordedAnswer(answer=text, right=right, tokens=tokens, seconds=1.0)


def recorded(
    number: int,
    draft: str | None,
    reasoned: Sequence[str | None],
    program: str | None = None,
    other: str | None = None,
    *,
    known: str = "4",
    dataset: str = "sums",
    importance: float = 0.0,
    inside: float | None = 0.5,
    alone: float | None = 0.5,
) -> ItemRecord:
    """A recorded item whose right answer is `known`."""

    def judged(text: str | None, tokens: int = 10) -> RecordedAnswer:
        return answer(text, text == known, tokens)

    return ItemRecord(
        id=f"{dataset}-{number}",
        dataset=dataset,
        dimension="math_computation",
        answer_type=AnswerType.NUMBER,
        options=0,
        digest=f"{number:064x}",
        prompt_characters=100 + number,
        answers={
            "draft": [judged(draft, 1)],
            "reasoned": [judged(one, 100) for one in reasoned],
            "program": [judged(program, 50)],
            "other": [judged(other, 20)],
        },
        checks=CheckRecord(inside=inside, alone=alone),
        state={"importance": importance},
    )
