"""The envelope holds the hard limits of a request; the usage is what the request spent.

Source: ours (papers.md 4.1). `kernel.ledger` keeps a whole fan-out inside them.
"""

from collections.abc import Mapping
from dataclasses import field
from functools import reduce

from kernel.errors import Code, MetacogError
from kernel.prices import LARGEST_AMOUNT, amount_of, is_amount, units_of
from kernel.values import value

# The largest number of the contract's type for limits.
LARGEST_LIMIT = 2**31 - 1


class InvalidEnvelope(MetacogError, ValueError):
    """A limit of the envelope is no positive number, is too large for the contract, or cannot be enforced.

    It is a `ValueError`, so that a checker of types says where the envelope stands.
    """

    code = Code.INVALID_ARGUMENT
    reason = "INVALID_ENVELOPE"


class UnpricedModel(InvalidEnvelope):
    """The cost is limited, and a model that would be called has no price."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"max_cost cannot be kept to: the model {model!r} has no price; state it in models.yaml or in "
            "METACOG_PRICES, or leave max_cost out",
            field="envelope.max_cost",
            model=model,
        )


class BudgetExhausted(MetacogError):
    """A call would leave the request's envelope."""

    code = Code.RESOURCE_EXHAUSTED
    reason = "BUDGET_EXHAUSTED"


@value
class Envelope:
    """An envelope holds the hard limits of one request; None takes the default of the strategy.

    Attributes:
        max_generations: Samples that may be drawn from models [count, >= 1].
        max_generated_tokens: Tokens that may be generated, prompts not counted [count, >= 1].
        timeout_ms: Time until the best answer so far is due [ms, >= 1].
        max_cost: What the models may cost, prompts included [currency of the configured prices, > 0 and <= 1e9];
            without one there is no such limit.

    Raises:
        InvalidEnvelope: On construction, for a limit below 1 or above `LARGEST_LIMIT`, or a cost that is no amount.
    """

    max_generations: int | None = None
    max_generated_tokens: int | None = None
    timeout_ms: int | None = None
    max_cost: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_generations", "max_generated_tokens", "timeout_ms"):
            limit = getattr(self, name)
            if limit is not None and not 1 <= limit <= LARGEST_LIMIT:
                message = f"{name} is {limit}; it must lie in [1, {LARGEST_LIMIT}]"
                raise InvalidEnvelope(message, field=name, value=str(limit))
        if self.max_cost is not None and not is_amount(self.max_cost):
            message = f"max_cost is {self.max_cost}; it must be above 0 and at most {LARGEST_AMOUNT:g}"
            raise InvalidEnvelope(message, field="max_cost", value=str(self.max_cost))


# The most of each limit where the operator states nothing: [count, count, ms].
CEILING_GENERATIONS, CEILING_GENERATED_TOKENS, CEILING_TIMEOUT_MS = 4_096, 1 << 20, 3_600_000


@value
class Ceilings:
    """These ceilings are the most that the operator lets one request spend.

    Attributes:
        max_generations: Samples [count, >= 1].
        max_generated_tokens: Tokens that may be generated, prompts not counted [count, >= 1].
        timeout_ms: Time [ms, >= 1].
        max_cost: Cost [currency of the prices, > 0]; None: there is no such ceiling.
    """

    max_generations: int = CEILING_GENERATIONS
    max_generated_tokens: int = CEILING_GENERATED_TOKENS
    timeout_ms: int = CEILING_TIMEOUT_MS
    max_cost: float | None = None

    def check(self, envelope: Envelope) -> None:
        """Return if no limit of a request's envelope is above its ceiling.

        Raises:
            InvalidEnvelope: For the first one that is; names the field, the ceiling and its setting.
        """
        for name in ("max_generations", "max_generated_tokens", "timeout_ms", "max_cost"):
            limit, ceiling = getattr(envelope, name), getattr(self, name)
            if limit is not None and ceiling is not None and limit > ceiling:
                setting = f"METACOG_CEILING_{name.removeprefix('max_').upper()}"
                message = f"{name} is {limit}; a request may have at most {ceiling} here ({setting})"
                stated = {"value": str(limit), "ceiling": str(ceiling), "setting": setting}
                raise InvalidEnvelope(message, field=f"envelope.{name}", **stated)

    def lowered(self, limits: "Limits") -> "Limits":
        """Return `limits`, none of them above its ceiling; a cost without a limit gets the ceiling as its limit."""
        costs = [cost for cost in (limits.max_cost, self.max_cost) if cost is not None]
        return Limits(
            max_generations=min(limits.max_generations, self.max_generations),
            max_generated_tokens=min(limits.max_generated_tokens, self.max_generated_tokens),
            timeout_ms=min(limits.timeout_ms, self.timeout_ms),
            max_cost=min(costs, default=None),
        )


DEFAULT_CEILINGS = Ceilings()
NO_CEILINGS = Ceilings(
    max_generations=LARGEST_LIMIT, max_generated_tokens=LARGEST_LIMIT, timeout_ms=LARGEST_LIMIT, max_cost=None
)


@value
class Limits:
    """These limits are an envelope with every limit set; only the cost may have none. Units are those of `Envelope`.

    Attributes:
        max_generations: Samples in all [count, >= 1].
        max_generated_tokens: Generated tokens in all [count, >= 1].
        timeout_ms: Time [ms, >= 1].
        max_cost: Cost [currency, > 0]; None for no limit.
    """

    max_generations: int
    max_generated_tokens: int
    timeout_ms: int
    max_cost: float | None = None

    @property
    def envelope(self) -> Envelope:
        """Return the same limits as a request states them."""
        return Envelope(
            max_generations=self.max_generations,
            max_generated_tokens=self.max_generated_tokens,
            timeout_ms=self.timeout_ms,
            max_cost=self.max_cost,
        )


def limits(requested: Envelope | None, default: Limits, ceilings: Ceilings = NO_CEILINGS) -> Limits:
    """Return the limits that hold: those of the request, and `default` for what it left out, up to the ceilings.

    Raises:
        InvalidEnvelope: For a limit of the request above its ceiling.
    """
    requested = requested or Envelope()
    ceilings.check(requested)
    default = ceilings.lowered(default)
    return Limits(
        max_generations=requested.max_generations or default.max_generations,
        max_generated_tokens=requested.max_generated_tokens or default.max_generated_tokens,
        timeout_ms=requested.timeout_ms or default.timeout_ms,
        max_cost=requested.max_cost or default.max_cost,
    )


def largest_limits(one: Limits, other: Limits) -> Limits:
    """Return the larger of each limit, and none on the cost.

    Example:
        >>> short = Limits(max_generations=2, max_generated_tokens=50, timeout_ms=5)
        >>> long = Limits(max_generations=1, max_generated_tokens=100, timeout_ms=5)
        >>> largest_limits(short, long).max_generated_tokens
        100
    """
    return Limits(
        max_generations=max(one.max_generations, other.max_generations),
        max_generated_tokens=max(one.max_generated_tokens, other.max_generated_tokens),
        timeout_ms=max(one.timeout_ms, other.timeout_ms),
    )


@value
class StageUsage:
    """This value is what one stage spent.

    Attributes:
        generations: Samples drawn [count].
        http_calls: Calls sent to backends, retries included [count].
        prompt_tokens: Tokens of the prompts, each prompt once per call [count].
        completion_tokens: Tokens generated over all samples [count].
        estimated: Whether a token figure is an estimate because the backend did not report it.
        cost: What these tokens cost [currency of the configured prices, >= 0]; None where a model that used some has no
            price.
    """

    generations: int = 0
    http_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    cost: float | None = None

    def plus(self, other: "StageUsage") -> "StageUsage":
        """Return the sum of both; a stage that used no tokens cost nothing."""
        return StageUsage(
            generations=self.generations + other.generations,
            http_calls=self.http_calls + other.http_calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            estimated=self.estimated or other.estimated,
            cost=self._cost_with(other),
        )

    @property
    def has_unknown_cost(self) -> bool:
        """Return whether the stage cost an unknown amount."""
        return self.cost is None and bool(self.prompt_tokens or self.completion_tokens)

    def _cost_with(self, other: "StageUsage") -> float | None:
        if self.cost is None and other.cost is None:
            return None
        if self.has_unknown_cost or other.has_unknown_cost:
            return None
        if self.cost is None or other.cost is None:
            return other.cost if self.cost is None else self.cost
        return amount_of(units_of(self.cost) + units_of(other.cost))


NO_USAGE = StageUsage()


@value
class Usage:
    """This value is what a request spent in all, and by stage.

    `unknown_generations`, `unknown_tokens` and `unknown_cost` were reserved for calls whose outcome never became known
    (a lost connection, a service that died). They count against the envelope, and are not in the other totals.

    Attributes:
        generations: Samples drawn [count].
        http_calls: Calls sent to backends, retries included [count].
        prompt_tokens: Tokens of the prompts, each prompt once per call [count].
        completion_tokens: Tokens generated over all samples [count].
        estimated: Whether a token figure is an estimate.
        unknown_generations: Samples reserved for calls of unknown outcome [count].
        unknown_tokens: Generated tokens reserved for them [count].
        stages: What each stage spent.
        cost: What the tokens cost [currency of the configured prices, >= 0]; None where it is unknown.
        unknown_cost: Cost reserved for calls of unknown outcome [currency of the configured prices, >= 0]; None where
            one of them has no price, or no cost is known at all.
    """

    generations: int = 0
    http_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    unknown_generations: int = 0
    unknown_tokens: int = 0
    stages: Mapping[str, StageUsage] = field(default_factory=dict)
    cost: float | None = None
    unknown_cost: float | None = None


def total_usage(
    stages: Mapping[str, StageUsage],
    unknown_generations: int = 0,
    unknown_tokens: int = 0,
    unknown_cost: float | None = None,
) -> Usage:
    """Return the totals over `stages`.

    Args:
        stages: What each stage spent.
        unknown_generations: Samples of calls of unknown outcome [count, >= 0].
        unknown_tokens: Their generated tokens at most [count, >= 0].
        unknown_cost: Their cost at most [currency, >= 0]; None where one has no price.
    """
    total = reduce(StageUsage.plus, stages.values()) if stages else NO_USAGE
    return Usage(
        generations=total.generations,
        http_calls=total.http_calls,
        prompt_tokens=total.prompt_tokens,
        completion_tokens=total.completion_tokens,
        estimated=total.estimated,
        unknown_generations=unknown_generations,
        unknown_tokens=unknown_tokens,
        stages=dict(stages),
        cost=total.cost,
        unknown_cost=unknown_cost,
    )
