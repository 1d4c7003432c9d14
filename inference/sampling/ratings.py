"""A rating is asked for; one that counts its places is asked for a second time, with its questions in another order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from inference.errors import UnparsableOutput
from inference.spend import Spend
from inference.values import Call, Structured
from kernel.envelope import BudgetExhausted
from kernel.msv.ratings import counts_places, other_order, read_numbers, read_rating

T = TypeVar("T")

# Makes the call that asks for the numbers of a rating in an order, by their names.
CallInOrder = Callable[[Sequence[str]], Call]


class StructuredClient(Protocol):
    """This client draws documents that follow a schema."""

    async def structured(self, call: Call, parse: Callable[[object], T], spend: Spend) -> Structured[T]:
        """Return the documents of `call` that follow its schema, as `parse` reads them, with their cost."""


async def rated(
    client: StructuredClient, build: CallInOrder, order: Sequence[str], spend: Spend, *, repeatable: bool = True
) -> Structured[Mapping[str, float]]:
    """Return one rating by the names of `order`, with the cost of all attempts.

    Args:
        client: The client.
        build: Makes the call for an order of the questions.
        order: Names of the numbers in the order in which they are asked for first.
        spend: What may be spent.
        repeatable: Whether a second attempt may be paid for.

    Raises:
        UnparsableOutput: When there is no rating, or it counts its places in the other order too.
        InferenceError, BudgetExhausted: As `structured` of the client.
    """
    read: Callable[[object], Mapping[str, float]] = partial(read_numbers, order=order)
    first = await client.structured(build(order), read, spend)
    if not counts_places(list(first.values[0].values())):
        return first
    problem = "the rating counts its places instead of rating"
    if not repeatable:
        raise UnparsableOutput(f"the model's output cannot be used: {problem}", problem=problem)
    other = other_order(order)
    read_other: Callable[[object], Mapping[str, float]] = partial(read_rating, order=other)
    try:
        second = await client.structured(build(other), read_other, spend)
    except BudgetExhausted as error:
        raise UnparsableOutput(f"the model's output cannot be used: {problem}", problem=problem) from error
    usage = first.completion.usage.plus(second.completion.usage)
    return replace(second, completion=replace(second.completion, usage=usage))
