"""A rating that counts its places is asked for again, with its questions in another order."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import pytest

from inference.errors import UnparsableOutput
from inference.sampling.ratings import rated
from inference.sampling.structured import structured
from inference.spend import Spend
from inference.values import Call, Completion, CompletionSample, Structured, WorkKind
from kernel.envelope import BudgetExhausted, Limits, StageUsage
from kernel.msv.ratings import rating_schema

T = TypeVar("T")

ORDER = ("expertise", "approach", "knowledge")
OTHER = ("knowledge", "approach", "expertise")
SPEND = Spend(Limits(max_generations=9, max_generated_tokens=999, timeout_ms=9_000))


class Replying:
    """A model replies with these texts, one after another; an error is raised in its place."""

    def __init__(self, *replies: str | Exception) -> None:
        self._replies = list(replies)
        self.orders: list[Sequence[str]] = []

    def build(self, order: Sequence[str]) -> Call:
        self.orders.append(tuple(order))
        messages = [{"role": "user", "content": "Rate it."}]
        return Call(messages=messages, max_tokens=9, schema=rating_schema(order), stage="assess", work=WorkKind.ASSESS)

    async def structured(self, call: Call, parse: Callable[[object], T], _spend: Spend) -> Structured[T]:
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        usage = StageUsage(generations=1, completion_tokens=len(reply))
        completion = Completion(samples=(CompletionSample(text=reply),), usage=usage, model="m")
        assert call.schema is not None
        return structured(completion, call.schema, parse)

    async def rated(self, *, repeatable: bool = True) -> Structured[Mapping[str, float]]:
        return await rated(self, self.build, ORDER, SPEND, repeatable=repeatable)


async def test_a_rating_is_asked_for_once() -> None:
    model = Replying('{"r": [90, 2, 3]}')

    found = await model.rated()

    assert found.values[0] == {"expertise": 90, "approach": 2, "knowledge": 3}
    assert model.orders == [ORDER]


async def test_the_same_numbers_for_the_same_questions_in_the_other_order_are_a_rating() -> None:
    model = Replying('{"r": [1, 2, 3]}', '{"r": [3, 2, 1]}')

    found = await model.rated()

    assert found.values[0] == {"expertise": 1, "approach": 2, "knowledge": 3}
    assert model.orders == [ORDER, OTHER]
    assert found.completion.usage.generations == 2


async def test_other_numbers_in_the_other_order_are_a_rating_too() -> None:
    found = await Replying('{"r": [0, 1, 2]}', '{"r": [70, 80, 90]}').rated()

    assert found.values[0] == {"knowledge": 70, "approach": 80, "expertise": 90}


async def test_a_list_that_counts_in_both_orders_is_no_rating() -> None:
    with pytest.raises(UnparsableOutput, match="counts its places"):
        await Replying('{"r": [1, 2, 3]}', '{"r": [1, 2, 3]}').rated()


@pytest.mark.parametrize(
    ("replies", "repeatable"),
    [(['{"r": [1, 2, 3]}'], False), (['{"r": [1, 2, 3]}', BudgetExhausted("no generation is left")], True)],
)
async def test_without_means_for_a_second_attempt_it_is_unknown(
    replies: list[str | Exception], repeatable: bool
) -> None:
    with pytest.raises(UnparsableOutput, match="counts its places"):
        await Replying(*replies).rated(repeatable=repeatable)


async def test_what_is_no_list_is_not_asked_for_again() -> None:
    model = Replying("I would say 80.")

    with pytest.raises(UnparsableOutput):
        await model.rated()
    assert model.orders == [ORDER]
