"""Which long free texts of a vote say the same, by a model's judgement: one call, whatever their number is.

Source: SPEC 2.3: never by cosine. The kernel asks the judgement only for pairs that differ in no number, name or
negation, and merges two clusters only where it holds for every pair across them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from chassis.inference.errors import UnparsableOutput
from chassis.inference.structured import read
from chassis.inference.values import Call
from chassis.inference.values import Work as Pool
from chassis.prompts import shortened
from kernel.answers import AnswerType, SameMeaning, candidate_pairs
from kernel.errors import MetacogError
from services.delegation import prompts
from services.delegation.service.work import Work, chat

# Tokens of a judgement, for each answer and for what is around them; and of each text that is shown.
TOKENS, TOKENS_EACH = 24, 6
SHOWN_TOKENS = 384


async def same_meanings(work: Work, answers: Sequence[str], kind: AnswerType) -> SameMeaning | None:
    """A judgement of which of `answers` say the same; None where there is nothing to judge, or it cannot be had.

    Args:
        work: The task; that texts were not compared degrades its answer.
        answers: The answers as they are written.
        kind: Their type.
    """
    pairs = candidate_pairs(answers, kind)
    if not pairs:
        return None
    texts = sorted({text for pair in pairs for text in pair})
    try:
        completion = await work.voices.assessor().complete(_call(work, texts), work.spend)
        groups = dict(zip(texts, _groups(completion.samples[0].text, len(texts)), strict=True))
    except MetacogError as refusal:
        work.reasons.append(f"{refusal.reason}: answers were not compared by meaning: {refusal.message}")
        return None
    return lambda a, b: groups.get(a, a) == groups.get(b, b)


def schema(count: int) -> Mapping[str, Any]:
    """JSON schema of a judgement of `count` texts."""
    numbers = {
        "type": "array",
        "items": {"type": "integer", "minimum": 0, "maximum": count - 1},
        "minItems": count - 1,
        "maxItems": count - 1,
    }
    return {"type": "object", "properties": {"same": numbers}, "required": ["same"], "additionalProperties": False}


def _groups(text: str, count: int) -> list[int]:
    """For each text the place of the first one that says the same.

    Raises:
        UnparsableOutput: When the judgement cannot be read.
    """
    document = read(text, schema(count)).content
    said = document.get("same") if isinstance(document, dict) else None
    if not isinstance(said, list) or len(said) != count - 1:
        raise UnparsableOutput("the judgement of meaning lists no numbers", problem="no numbers")
    groups = [0]
    for place, number in enumerate(said, start=1):
        groups.append(groups[int(number) - 1] if 1 <= number <= place else place)
    return groups


def _call(work: Work, texts: Sequence[str]) -> Call:
    prompt = work.note(
        prompts.same_meaning(task=work.question, answers=[shortened(text, SHOWN_TOKENS)[0] for text in texts])
    )
    return Call(
        messages=chat("", prompt.text),
        max_tokens=TOKENS + TOKENS_EACH * len(texts),
        schema=schema(len(texts)),
        temperature=0.0,
        seed=work.seed_of("compare"),
        thinking=False,
        stage="compare",
        work=Pool.ASSESS,
    )
