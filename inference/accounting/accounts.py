"""An account books what a call costs on the ledger of its request, however the call ends."""

from dataclasses import replace
from types import TracebackType
from typing import Self

from kernel.envelope import NO_USAGE, StageUsage
from kernel.ledger import Ledger
from kernel.prices import Price, amount_of
from kernel.values import value


@value
class Tariff:
    """A tariff states how one call is paid for.

    Attributes:
        price: Price of the model's tokens.
        prompt_tokens: Tokens that the prompt has at most [count, >= 0]; each HTTP request reads it once.
        requests: Requests that are to draw the samples, as far as is known before [count, >= 1].
    """

    price: Price
    prompt_tokens: int
    requests: int = 1

    def units(self, requests: int, tokens: int) -> int:
        """Return what so many `requests` with so many generated `tokens` in all cost at most [units]."""
        return self.price.units(requests * self.prompt_tokens, tokens)

    def tokens_each(self, wanted: int, samples: int, units: int | None) -> int:
        """Return the tokens that each sample may have for `units`, at most `wanted` [count, >= 0]; None: any amount."""
        if units is None:
            return wanted
        most = self.price.completion_tokens(units - self.units(self.requests, 0))
        return wanted if most is None else min(wanted, most // samples)


class CallAccount:
    """A call account reserves the worst case of one call and collects what its HTTP exchanges cost.

    Closing it books what was spent, releases the rest, and counts as lost what is unknown. `tokens_each` is what
    each sample may have; `cut` is true where it is fewer than wanted, since the envelope has no more.

    Args:
        ledger: The request's ledger.
        stage: Name under which the usage is booked.
        generations: Samples that may be drawn [count, >= 0]; none of a call that only reads.
        wanted_tokens: Tokens that each sample is to have [count, >= 1].
        floor_tokens: Tokens that each sample must have, where fewer are left than wanted [count, >= 1].
        tariff: How the call is paid for; None where no price is known.

    Raises:
        BudgetExhausted: On construction, when even the floor is not left; nothing is then reserved.
    """

    def __init__(
        self,
        ledger: Ledger,
        stage: str,
        *,
        generations: int,
        wanted_tokens: int,
        floor_tokens: int = 1,
        tariff: Tariff | None = None,
    ) -> None:
        affordable = min(wanted_tokens, ledger.unspent_tokens // max(1, generations))
        if tariff is not None:
            affordable = tariff.tokens_each(affordable, max(1, generations), ledger.cost_left)
        self.tokens_each = max(affordable, floor_tokens)
        self.cut = bool(generations) and self.tokens_each < wanted_tokens
        self._ledger = ledger
        self._stage = stage
        self._tariff = tariff
        self._prompts = tariff.requests if tariff else 0
        worst = self._worst(generations, self._prompts)
        self._reservations = [ledger.reserve(stage, generations, generations * self.tokens_each, worst)]
        self._lost = [0, 0]
        self._open = True
        self.spent = NO_USAGE

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def exchange(self, generations: int) -> "ExchangeAccount":
        """Return the part of one HTTP exchange that draws `generations` samples.

        Raises:
            BudgetExhausted: When there are more exchanges than expected and the cost of one more prompt is not left.
        """
        if self._tariff is not None:
            if not self._prompts:
                self._reservations.append(self._ledger.reserve(self._stage, 0, 0, self._worst(0, 1)))
                self._prompts += 1
            self._prompts -= 1
        return ExchangeAccount(self, generations)

    def priced(self, usage: StageUsage) -> StageUsage:
        """Return `usage` with what its tokens cost, where that is known."""
        if self._tariff is None:
            return usage
        units = self._tariff.price.units(usage.prompt_tokens, usage.completion_tokens)
        return replace(usage, cost=amount_of(units))

    def add(self, usage: StageUsage) -> None:
        """Add `usage` to what was spent."""
        self.spent = usage if self.spent is NO_USAGE else self.spent.plus(usage)

    def release_prompt(self) -> None:
        """Let another exchange use what is reserved for a prompt that was not read."""
        if self._tariff is not None:
            self._prompts += 1

    def count_lost(self, generations: int) -> None:
        """Count a request for `generations` samples as spent, although its usage is unknown."""
        self._lost = [self._lost[0] + 1, self._lost[1] + generations]

    def reserve_again(self, generations: int) -> None:
        """Count `generations` samples as `count_as_spent` does, and reserve as much once more to draw them again.

        Raises:
            BudgetExhausted: When that much is not left; nothing is then counted or reserved.
        """
        tokens = generations * self.tokens_each
        self._reservations.append(self._ledger.reserve(self._stage, generations, tokens, self._worst(generations, 1)))
        self.count_lost(generations)

    def close(self) -> None:
        """End the reservation. No-op once ended."""
        if not self._open:
            return
        self._open = False
        first, *retries = self._reservations
        for retry in retries:
            retry.release()
        if self.spent == NO_USAGE:
            first.release()
        else:
            first.settle(self.spent)
        requests, generations = self._lost
        if requests:
            self._ledger.count_as_spent(generations, generations * self.tokens_each, self._worst(generations, requests))

    def _worst(self, generations: int, requests: int) -> int | None:
        """Return what so many samples of so many requests cost at most [units]; None where no price is known."""
        return None if self._tariff is None else self._tariff.units(requests, generations * self.tokens_each)


class ExchangeAccount:
    """An exchange account is a context around one HTTP exchange with its retries; it books the exchange as it ended.

    A request that was sent counts as lost unless `record_usage` reports what it used.
    """

    def __init__(self, account: CallAccount, generations: int) -> None:
        self._account = account
        self._generations = generations
        self._calls = 0
        self._is_sent = False
        self._usage = NO_USAGE

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._account.add(self.usage)
        if self._is_sent:
            self._account.count_lost(self._generations)
        elif self._usage is NO_USAGE:
            self._account.release_prompt()

    @property
    def usage(self) -> StageUsage:
        """Return the known cost of the exchange."""
        return self._usage.plus(StageUsage(http_calls=self._calls)) if self._calls else self._usage

    def usage_with(self, seen: StageUsage) -> StageUsage:
        """Return the usage if the backend has generated what was `seen`."""
        return self.usage.plus(self._account.priced(seen))

    def mark_sent(self) -> None:
        """Note that a request is sent; until more is known, the backend may be generating."""
        self._calls += 1
        self._is_sent = True

    def mark_not_sent(self) -> None:
        """Note that the request was not sent."""
        self._calls -= 1
        self._is_sent = False

    def mark_rejected(self) -> None:
        """Note that the backend rejected the request and generated nothing."""
        self._is_sent = False

    def reserve_retry(self) -> None:
        """Reserve what a retry may cost: a request that the backend may have answered counts as lost.

        Raises:
            BudgetExhausted: When the envelope has not as much left; the request may then not be sent again.
        """
        if self._is_sent:
            self._account.reserve_again(self._generations)
            self._is_sent = False

    def record_usage(self, usage: StageUsage) -> None:
        """Record what the backend generated, without HTTP calls."""
        self._usage = self._account.priced(usage)
        self._is_sent = False
