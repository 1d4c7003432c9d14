"""An arm turns an item and a seed into one request to a public API of the suite. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import product
from typing import Any

from evals.items import Item
from evals.records import Record
from evals.router_client import Body
from kernel.values import value

Replies = Mapping[str, Record]
"""Replies so far to the same item with the same seed, by arm."""


@value
class Call:
    """One request.

    Attributes:
        service: Which service of the suite: router, assigner, arbiter or delegation.
        path: Path in its REST API.
        body: What is asked.
    """

    service: str
    path: str
    body: Body


def whole_as_it_is(_: Record) -> bool:
    """Accept every reply as complete."""
    return True


@value
class Arm:
    """A strategy that is measured: the solver of a task.

    Attributes:
        name: Its name in records and reports.
        call: What to ask; None where there is nothing to ask. It receives the replies to the same item by the arms
            before it, so that a control can get as much compute as another arm has spent.
        settings: What it is made with, for the heading of the records; a run is resumed only where they are equal.
        is_whole: Whether a reply is complete. One of which a part failed is recorded, and asked for again at the next
            start.
    """

    name: str
    call: Callable[[Item, int, Replies], Call | None]
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_whole: Callable[[Record], bool] = whole_as_it_is


def described(arms: Sequence[Arm], **facts: str) -> Sequence[Arm]:
    """`arms` with what no reply reports of the models, such as their precision, among their settings.

    A run is resumed only where it is the same; empty facts are left out.
    """
    known = {name: text for name, text in facts.items() if text}
    return [replace(arm, settings={**arm.settings, **known}) for arm in arms]


@value
class Case:
    """One item with one seed; every arm is asked about it, in order."""

    item: Item
    seed: int


@value
class RequestLimits:
    """Limits of the requests of a plan.

    Attributes:
        concurrency: Requests, or cases, at a time [count, >= 1].
        timeout_ms: Time that each request may take [ms].
    """

    concurrency: int = 1
    timeout_ms: int = 600_000


@value
class Plan(RequestLimits):
    """A plan: items, arms and seeds.

    Attributes:
        items: The items, in order.
        arms: The arms, in the order in which they are asked about each item.
        seeds: Seeds; each makes one repetition of everything.
        concurrency: Cases at a time [count, >= 1]; 1 where what is learned from one item matters to the next.
    """

    items: Sequence[Item]
    arms: Sequence[Arm]
    seeds: Sequence[int] = (7,)

    @property
    def cases(self) -> Sequence[Case]:
        """Every item with the first seed, then with the second, and so on."""
        return [Case(item=item, seed=seed) for seed, item in product(self.seeds, self.items)]
