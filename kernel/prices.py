"""Prices turn tokens into costs, and amounts of money into units that add up.

Inside, money is counted in `UNITS`, whole millionths of a millionth of the currency, so that sums do not drift. Outside
it is a number of that currency, whichever one the prices are in.
"""

import math
from collections.abc import Mapping, Sequence

from kernel.values import value

# Units of one currency unit.
UNITS = 10**12
# Tokens that a price is for.
PER_TOKENS = 10**6
# The largest price or limit; far above it, a number could no longer represent single units.
LARGEST_AMOUNT = 1e9
# Stands for every model without a price of its own.
ANY_MODEL = "*"


@value
class Price:
    """A price is what one model's tokens cost [currency per million tokens, 0..1e9; counted to six decimals].

    Attributes:
        prompt: Price of the tokens that it reads [currency per million tokens, 0..1e9].
        completion: Price of those that it generates, reasoning included [currency per million tokens, 0..1e9].

    Raises:
        ValueError: On construction, for a price that is negative, too large or no number.
    """

    prompt: float
    completion: float

    def __post_init__(self) -> None:
        for name in ("prompt", "completion"):
            price = getattr(self, name)
            if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price <= LARGEST_AMOUNT:
                raise ValueError(f"{name} is {price!r}; it must be a number in [0, {LARGEST_AMOUNT:g}]")

    def units(self, prompt_tokens: int, completion_tokens: int) -> int:
        """Return the cost of these tokens [units].

        Args:
            prompt_tokens: Tokens read [count, >= 0].
            completion_tokens: Tokens generated [count, >= 0].

        Example:
            >>> Price(prompt=0.15, completion=0.6).units(1000, 100) / UNITS
            0.00021
        """
        return prompt_tokens * _each(self.prompt) + completion_tokens * _each(self.completion)

    def completion_tokens(self, units: int) -> int | None:
        """Return the tokens that can be generated for `units` [count, >= 0].

        It is None for any number, where they are free.
        """
        each = _each(self.completion)
        return max(0, units) // each if each else None


def _each(price: float) -> int:
    """Return the price of one token [units]."""
    return round(price * (UNITS // PER_TOKENS))


Prices = Mapping[str, Price]


def price_of(model: str, prices: Prices) -> Price | None:
    """Return the price of `model`: its own, else that of any model; None where there is neither."""
    return prices.get(model) or prices.get(ANY_MODEL)


def read_prices(given: object) -> dict[str, Price]:
    """Return the prices by model, from `{"model": {"prompt": 0.15, "completion": 0.6}}`.

    `"*"` stands for any other model.

    Raises:
        ValueError: For anything else; names the model and the problem.

    Example:
        >>> read_prices({"*": {"prompt": 0, "completion": 1.5}})
        {'*': Price(prompt=0, completion=1.5)}
    """
    if not isinstance(given, Mapping):
        raise ValueError('give an object: model name -> {"prompt": price, "completion": price}')
    return {model: _read_price(model, stated) for model, stated in given.items()}


def _read_price(model: str, stated: object) -> Price:
    if isinstance(stated, Price):
        return stated
    if not isinstance(stated, Mapping) or set(stated) != {"prompt", "completion"}:
        raise ValueError(f"the price of {model!r} must have `prompt` and `completion`, and nothing else")
    try:
        return Price(**stated)
    except ValueError as error:
        raise ValueError(f"the price of {model!r}: {error}") from error


def highest_price(prices: Sequence[Price]) -> Price | None:
    """Return the highest price of each kind; None of no prices."""
    if not prices:
        return None
    return Price(prompt=max(p.prompt for p in prices), completion=max(p.completion for p in prices))


def units_of(amount: float) -> int:
    """Convert an amount of the currency to units.

    Args:
        amount: Amount [currency, >= 0].

    Returns:
        The nearest whole number of units [units, >= 0].

    Example:
        >>> units_of(0.1) + units_of(0.2) == units_of(0.3)
        True
    """
    return round(amount * UNITS)


def amount_of(units: int) -> float:
    """Convert units to an amount of the currency.

    Args:
        units: Whole units [units, >= 0].

    Returns:
        Amount [currency, >= 0].
    """
    return units / UNITS


def is_amount(amount: float) -> bool:
    """Return whether `amount` can be a limit [currency]: above 0 and at most `LARGEST_AMOUNT`."""
    return math.isfinite(amount) and 0 < amount <= LARGEST_AMOUNT
