"""Booking what a call costs on the request's ledger, whatever becomes of it."""

from dataclasses import replace
from types import TracebackType
from typing import Self

from kernel.envelope import NOTHING_SPENT, StageUsage
from kernel.ledger import Ledger
from kernel.prices import Price, amount_of
from kernel.values import value


@value
class Tariff:
    """How one call is paid for.

    Attributes:
        price: Price of the model's tokens.
        prompt_tokens: Tokens that the prompt has at most [count, >= 0]; each HTTP request reads it once.
        requests: Requests that are to draw the samples, as far as can be told before [count, >= 1].
    """

    price: Price
    prompt_tokens: int
    requests: int = 1

    def units(self, requests: int, tokens: int) -> int:
        """Return what so many requests that generate so many tokens in all cost at most [units]."""
        return self.price.units(requests * self.prompt_tokens, tokens)

    def tokens_each(self, wanted: int, samples: int, units: int | None) -> int:
        """Return tokens that each of the samples may have for `units`, at most `wanted` [count, >= 0]; None: any amount."""
        if units is None:
            return wanted
        most = self.price.completion_tokens(units - self.units(self.requests, 0))
        return wanted if most is None else min(wanted, most // samples)


class CallAccount:
    """The reservation of one call's worst case, and what its HTTP exchanges made of it.

    Closing it books what was spent, gives the rest back, and counts as lost what nobody knows. `tokens_each` is what
    each sample may have; `cut` tells whether that is fewer than wanted, as it is only where the envelope has no more.

    Args:
        ledger: The request's ledger.
        stage: Whose account the usage goes to.
        generations: Samples that may be drawn [count, >= 1].
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
        affordable = min(wanted_tokens, ledger.unspent_tokens // generations)
        if tariff is not None:
            affordable = tariff.tokens_each(affordable, generations, ledger.cost_left)
        self.tokens_each = max(affordable, floor_tokens)
        self.cut = self.tokens_each < wanted_tokens
        self._ledger = ledger
        self._stage = stage
        self._tariff = tariff
        self._prompts = tariff.requests if tariff else 0
        worst = self._worst(generations, self._prompts)
        self._reservations = [ledger.reserve(stage, generations, generations * self.tokens_each, worst)]
        self._lost = [0, 0]
        self._open = True
        self.spent = NOTHING_SPENT

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def exchange(self, generations: int) -> "ExchangeAccount":
        """Return the part of one HTTP exchange that draws `generations` samples.

        Raises:
            BudgetExhausted: When there are more exchanges than could be told before, and no money for one more prompt.
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
        self.spent = usage if self.spent is NOTHING_SPENT else self.spent.plus(usage)

    def release_prompt(self) -> None:
        """The prompt of an exchange was not read; another one may use what is reserved for it."""
        if self._tariff is not None:
            self._prompts += 1

    def count_lost(self, generations: int) -> None:
        """Count a request for `generations` samples as spent, though nobody knows what it used."""
        self._lost = [self._lost[0] + 1, self._lost[1] + generations]

    def reserve_again(self, generations: int) -> None:
        """Count `generations` samples as `lose` does, and reserve as much once more to draw them again.

        Raises:
            BudgetExhausted: When that much is not left; nothing is then count_tokens or reserved.
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
        if self.spent == NOTHING_SPENT:
            first.release()
        else:
            first.settle(self.spent)
        requests, generations = self._lost
        if requests:
            self._ledger.lose(generations, generations * self.tokens_each, self._worst(generations, requests))

    def _worst(self, generations: int, requests: int) -> int | None:
        """Return what so many samples of so many requests cost at most [units]; None where no price is known."""
        return None if self._tariff is None else self._tariff.units(requests, generations * self.tokens_each)


class ExchangeAccount:
    """One HTTP exchange, its retries included, as a context: it may end at any point, and is booked as it ended.

    What had left and not come back is lost to the account, unless `cost` said what it came to.
    """

    def __init__(self, account: CallAccount, generations: int) -> None:
        self._account = account
        self._generations = generations
        self._calls = 0
        self._is_sent = False
        self._usage = NOTHING_SPENT

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._account.add(self.usage)
        if self._is_sent:
            self._account.count_lost(self._generations)
        elif self._usage is NOTHING_SPENT:
            self._account.release_prompt()

    @property
    def usage(self) -> StageUsage:
        """Return what the exchange cost, as far as it is known."""
        return self._usage.plus(StageUsage(http_calls=self._calls)) if self._calls else self._usage

    def usage_with(self, seen: StageUsage) -> StageUsage:
        """Return the same if the backend had generated what was `seen`."""
        return self.usage.plus(self._account.priced(seen))

    def mark_sent(self) -> None:
        """A request goes out; until more is known, the backend may be generating."""
        self._calls += 1
        self._is_sent = True

    def mark_not_sent(self) -> None:
        """It did not go out after all."""
        self._calls -= 1
        self._is_sent = False

    def mark_rejected(self) -> None:
        """The backend refused it."""
        self._is_sent = False

    def reserve_retry(self) -> None:
        """Make ready for a repetition: a request that may have been acted on is lost, and must be paid for once more.

        Raises:
            BudgetExhausted: When the envelope has not as much left; the request may then not be repeated.
        """
        if self._is_sent:
            self._account.reserve_again(self._generations)
            self._is_sent = False

    def record_usage(self, usage: StageUsage) -> None:
        """The backend generated, and this is what it cost (HTTP calls not count_tokens)."""
        self._usage = self._account.priced(usage)
        self._is_sent = False
