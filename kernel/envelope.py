"""The hard limits of a request, and the ledger that keeps a whole fan-out inside them.

Source: SPEC 4. Before each call its worst case is reserved, what was not used is given back, and a part whose
outcome is unknown counts as spent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import reduce

from kernel.errors import Code, MetacogError
from kernel.values import value

# The largest number of the contract's type for limits.
LARGEST_LIMIT = 2**31 - 1


class InvalidEnvelope(MetacogError):
    """A limit of the envelope is not a positive number, or larger than the contract can carry."""

    code = Code.INVALID_ARGUMENT
    reason = "INVALID_ENVELOPE"


class BudgetExhausted(MetacogError):
    """A call would leave the request's envelope."""

    code = Code.RESOURCE_EXHAUSTED
    reason = "BUDGET_EXHAUSTED"


@value
class Envelope:
    """Hard limits of one request; None takes the default of the strategy.

    Attributes:
        max_generations: Samples that may be drawn from models [count, >= 1].
        max_generated_tokens: Tokens that may be generated, prompts not counted [count, >= 1].
        timeout_ms: Time until the best answer so far is due [ms, >= 1].

    Raises:
        InvalidEnvelope: On construction, for a limit below 1 or above `LARGEST_LIMIT`.
    """

    max_generations: int | None = None
    max_generated_tokens: int | None = None
    timeout_ms: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_generations", "max_generated_tokens", "timeout_ms"):
            limit = getattr(self, name)
            if limit is not None and not 1 <= limit <= LARGEST_LIMIT:
                said = f"{name} is {limit}; it must lie in [1, {LARGEST_LIMIT}]"
                raise InvalidEnvelope(said, field=name, value=str(limit))


@value
class Limits:
    """An envelope with every limit set; units as in `Envelope`."""

    max_generations: int
    max_generated_tokens: int
    timeout_ms: int


def limits(asked: Envelope | None, default: Limits) -> Limits:
    """Limits that hold: what the caller asked for, and `default` for what was left out."""
    asked = asked or Envelope()
    return Limits(
        max_generations=asked.max_generations or default.max_generations,
        max_generated_tokens=asked.max_generated_tokens or default.max_generated_tokens,
        timeout_ms=asked.timeout_ms or default.timeout_ms,
    )


def widest(one: Limits, other: Limits) -> Limits:
    """The larger of each limit.

    Example:
        >>> short = Limits(max_generations=2, max_generated_tokens=50, timeout_ms=5)
        >>> widest(short, Limits(max_generations=1, max_generated_tokens=100, timeout_ms=5)).max_generated_tokens
        100
    """
    return Limits(
        max_generations=max(one.max_generations, other.max_generations),
        max_generated_tokens=max(one.max_generated_tokens, other.max_generated_tokens),
        timeout_ms=max(one.timeout_ms, other.timeout_ms),
    )


@value
class StageUsage:
    """What one stage spent.

    Attributes:
        generations: Samples drawn [count].
        http_calls: Calls sent to backends, retries included [count].
        prompt_tokens: Tokens of the prompts, each prompt once per call [count].
        completion_tokens: Tokens generated over all samples [count].
        estimated: Whether a token figure is an estimate because the backend did not report it.
    """

    generations: int = 0
    http_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False

    def plus(self, other: "StageUsage") -> "StageUsage":
        """Sum of both."""
        return StageUsage(
            generations=self.generations + other.generations,
            http_calls=self.http_calls + other.http_calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            estimated=self.estimated or other.estimated,
        )


NOTHING_SPENT = StageUsage()


@value
class Usage:
    """What a request spent in all, and by stage; units as in `StageUsage`.

    `unknown_generations` and `unknown_tokens` were reserved for calls whose outcome never became known (a lost
    connection, a service that died). They count against the envelope, and are not in the other totals.
    """

    generations: int = 0
    http_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    unknown_generations: int = 0
    unknown_tokens: int = 0
    stages: Mapping[str, StageUsage] = field(default_factory=dict)


def total_usage(stages: Mapping[str, StageUsage], unknown_generations: int = 0, unknown_tokens: int = 0) -> Usage:
    """Totals over `stages`."""
    total = reduce(StageUsage.plus, stages.values()) if stages else NOTHING_SPENT
    return Usage(
        generations=total.generations,
        http_calls=total.http_calls,
        prompt_tokens=total.prompt_tokens,
        completion_tokens=total.completion_tokens,
        estimated=total.estimated,
        unknown_generations=unknown_generations,
        unknown_tokens=unknown_tokens,
        stages=dict(stages),
    )


class Reservation:
    """Generations and tokens set aside for one call; end it exactly once."""

    __slots__ = ("_ledger", "_open", "generations", "stage", "tokens")

    def __init__(self, ledger: "Ledger", stage: str, generations: int, tokens: int) -> None:
        self._ledger = ledger
        self._open = True
        self.stage = stage
        self.generations = generations
        self.tokens = tokens

    def settle(self, spent: Mapping[str, StageUsage] | StageUsage) -> None:
        """Book what the call spent, by stage or on the reservation's own, and give the rest back."""
        self._end()
        for stage, usage in ({self.stage: spent} if isinstance(spent, StageUsage) else spent).items():
            self._ledger.book(stage, usage)

    def release(self) -> None:
        """Give everything back: the call was never made."""
        self._end()

    def forfeit(self) -> None:
        """Count everything as spent: nobody knows what the call used. No-op once ended."""
        if self._open:
            self._end()
            self._ledger.lose(self.generations, self.tokens)

    def _end(self) -> None:
        if not self._open:
            raise RuntimeError(f"the reservation for {self.stage} was ended twice")
        self._open = False
        self._ledger.unreserve(self.generations, self.tokens)


class Ledger:
    """Account of one request's generations and tokens, shared by its whole fan-out.

    Every method is synchronous, so that in one event loop checking and reserving are one atomic step.
    """

    def __init__(self, max_generations: int, max_generated_tokens: int) -> None:
        self._max = (max_generations, max_generated_tokens)
        self._reserved = [0, 0]
        self._lost = [0, 0]
        self._stages: dict[str, StageUsage] = {}
        self.exhausted = False

    @property
    def generations_left(self) -> int:
        """Generations that are neither spent nor reserved [count, >= 0]."""
        spent = sum(s.generations for s in self._stages.values())
        return max(0, self._max[0] - spent - self._reserved[0] - self._lost[0])

    @property
    def tokens_left(self) -> int:
        """Generated tokens that are neither spent nor reserved [count, >= 0]."""
        spent = sum(s.completion_tokens for s in self._stages.values())
        return max(0, self._max[1] - spent - self._reserved[1] - self._lost[1])

    def reserve(self, stage: str, generations: int, tokens: int) -> Reservation:
        """Set aside `generations` samples and `tokens` tokens in all.

        Raises:
            BudgetExhausted: When less is left.
        """
        if generations > self.generations_left or tokens > self.tokens_left:
            self.exhausted = True
            raise BudgetExhausted(
                f"{stage} needs {generations} generations and {tokens} tokens; the envelope has "
                f"{self.generations_left} and {self.tokens_left} left",
                stage=stage,
                generations_left=str(self.generations_left),
                tokens_left=str(self.tokens_left),
            )
        self._reserved[0] += generations
        self._reserved[1] += tokens
        return Reservation(self, stage, generations, tokens)

    def affordable_tokens(self, wanted: int, *, samples: int = 1, among: int = 1) -> int:
        """Tokens that each sample may have, at most `wanted`, if `among` calls of `samples` share what is left."""
        return max(0, min(wanted, self.tokens_left // (samples * among)))

    def book(self, stage: str, spent: StageUsage) -> None:
        """Add `spent` to the account of `stage`."""
        before = self._stages.get(stage)
        self._stages[stage] = spent if before is None else before.plus(spent)

    def lose(self, generations: int, tokens: int) -> None:
        """Count as spent what a call of unknown outcome had reserved."""
        self._lost[0] += generations
        self._lost[1] += tokens

    def unreserve(self, generations: int, tokens: int) -> None:
        """Drop a reservation that has ended."""
        self._reserved[0] -= generations
        self._reserved[1] -= tokens

    def usage(self, stages: Sequence[str] | None = None) -> Usage:
        """What was spent so far, in all or on `stages` only."""
        if stages is None:
            return total_usage(self._stages, self._lost[0], self._lost[1])
        return total_usage({name: self._stages[name] for name in stages if name in self._stages})
