"""Booking what a call costs on the request's ledger, whatever becomes of it."""

from types import TracebackType
from typing import Self

from kernel.envelope import NOTHING_SPENT, Ledger, StageUsage


class Account:
    """The reservation of one call's worst case, and what its HTTP exchanges made of it.

    Closing it books what was spent, gives the rest back, and counts as lost what nobody knows. `tokens_each` is what
    each sample may have; `cut` tells whether that is fewer than wanted, as it is only where the envelope has no more.

    Args:
        ledger: The request's ledger.
        stage: Whose account the usage goes to.
        generations: Samples that may be drawn [count, >= 1].
        wanted_tokens: Tokens that each sample is to have [count, >= 1].
        floor_tokens: Tokens that each sample must have, where fewer are left than wanted [count, >= 1].

    Raises:
        BudgetExhausted: On construction, when even the floor is not left; nothing is then reserved.
    """

    def __init__(
        self, ledger: Ledger, stage: str, *, generations: int, wanted_tokens: int, floor_tokens: int = 1
    ) -> None:
        affordable = ledger.affordable_tokens(wanted_tokens, samples=generations)
        self.tokens_each = max(affordable, floor_tokens)
        self.cut = self.tokens_each < wanted_tokens
        self._ledger = ledger
        self._stage = stage
        self._held = [ledger.reserve(stage, generations, generations * self.tokens_each)]
        self._lost = 0
        self._open = True
        self.spent = NOTHING_SPENT

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def exchange(self, generations: int) -> "Exchange":
        """The part of one HTTP exchange that draws `generations` samples."""
        return Exchange(self, generations)

    def book(self, usage: StageUsage) -> None:
        """Add `usage` to what was spent."""
        self.spent = usage if self.spent is NOTHING_SPENT else self.spent.plus(usage)

    def lose(self, generations: int) -> None:
        """Count `generations` samples as spent, though nobody knows what they used."""
        self._lost += generations

    def renew(self, generations: int) -> None:
        """Count `generations` samples as `lose` does, and reserve as much once more to draw them again.

        Raises:
            BudgetExhausted: When that much is not left; nothing is then counted or reserved.
        """
        self._held.append(self._ledger.reserve(self._stage, generations, generations * self.tokens_each))
        self.lose(generations)

    def close(self) -> None:
        """End the reservation. No-op once ended."""
        if not self._open:
            return
        self._open = False
        first, *renewals = self._held
        for renewal in renewals:
            renewal.release()
        if self.spent == NOTHING_SPENT:
            first.release()
        else:
            first.settle(self.spent)
        if self._lost:
            self._ledger.lose(self._lost, self._lost * self.tokens_each)


class Exchange:
    """One HTTP exchange, its retries included, as a context: it may end at any point, and is booked as it ended.

    What had left and not come back is lost to the account, unless `cost` said what it came to.
    """

    def __init__(self, account: Account, generations: int) -> None:
        self._account = account
        self._generations = generations
        self._calls = 0
        self._in_doubt = False
        self._usage = NOTHING_SPENT

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._account.book(self.usage)
        if self._in_doubt:
            self._account.lose(self._generations)

    @property
    def usage(self) -> StageUsage:
        """What the exchange cost, as far as it is known."""
        return self._usage.plus(StageUsage(http_calls=self._calls)) if self._calls else self._usage

    def leaving(self) -> None:
        """A request goes out; until more is known, the backend may be generating."""
        self._calls += 1
        self._in_doubt = True

    def never_left(self) -> None:
        """It did not go out after all."""
        self._calls -= 1
        self._in_doubt = False

    def generated_nothing(self) -> None:
        """The backend refused it."""
        self._in_doubt = False

    def again(self) -> None:
        """Make ready for a repetition: a request that may have been acted on is lost, and must be paid for once more.

        Raises:
            BudgetExhausted: When the envelope has not as much left; the request may then not be repeated.
        """
        if self._in_doubt:
            self._account.renew(self._generations)
            self._in_doubt = False

    def cost(self, usage: StageUsage) -> None:
        """The backend generated, and this is what it cost (HTTP calls not counted)."""
        self._usage = usage
        self._in_doubt = False
