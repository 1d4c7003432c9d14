"""This module carries the ledger and the deadline of one request to every call."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from chassis.clock import CALLER_WAITS_UNTIL
from kernel.envelope import Limits, UnpricedModel
from kernel.ledger import Ledger
from kernel.prices import Price, highest_price

# Time before the caller's deadline at which the answer is sent [s]; at most a tenth of the time left.
HEAD_START_S = 0.2


class Priced(Protocol):
    """A model that may be called, such as a `ModelClient`, has a price."""

    @property
    def model(self) -> str:
        """Return the name of the model."""

    @property
    def price(self) -> Price | None:
        """Return the price of the model's tokens; None where it is not known."""


class RunModels(Protocol):
    """These are the models of a process, of which a run uses one version."""

    def begin_run(self) -> None:
        """Use the models as they are now for everything that is done in this context, until the next `begin_run`."""

    def of_run(self, *names: str) -> Sequence[Priced]:
        """Return the models that a run may call: the default one, and those with these names.

        Raises:
            ModelNotFound: When there is no such model.
        """


class Spend:
    """A spend holds what one request may still spend; everything done on its behalf shares it.

    Args:
        limits: The hard limits; a caller who waits for less time shortens them.
        models: The models that may be called; read only where the cost is limited.
        clock: Monotonic clock [s].

    Attributes:
        timeout_ms: Time that the request has, by its limits or by its caller's own deadline [ms, >= 1].

    Raises:
        UnpricedModel: When the cost is limited, and one of `models` has no price.
    """

    __slots__ = ("_clock", "deadline", "ledger", "limits", "timeout_ms")

    def __init__(
        self, limits: Limits, *, models: Sequence[Priced] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self.limits = limits
        price = None if limits.max_cost is None else highest_price([_price(model) for model in models])
        self.ledger = Ledger(limits.max_generations, limits.max_generated_tokens, limits.max_cost, price)
        until, now = CALLER_WAITS_UNTIL.get(), clock()
        self.timeout_ms = limits.timeout_ms
        self.deadline = now + limits.timeout_ms / 1000
        if until is not None:
            self.deadline = min(self.deadline, until - min(HEAD_START_S, (until - now) / 10))
            self.timeout_ms = min(self.timeout_ms, max(1, round((until - now) * 1000)))

    def seconds_left(self) -> float:
        """Return the time until the deadline [s, >= 0]."""
        return max(0.0, self.deadline - self._clock())


def _price(priced: Priced) -> Price:
    if priced.price is None:
        raise UnpricedModel(priced.model)
    return priced.price
