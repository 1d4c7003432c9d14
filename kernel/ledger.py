"""The ledger keeps a request, and every call on its behalf, inside its envelope.

Source: ours (papers.md 4.1). Before each call its worst case is reserved, what was not used is given back, and a part
whose outcome is unknown counts as spent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernel.envelope import BudgetExhausted, StageUsage, Usage, total_usage
from kernel.prices import Price, amount_of, units_of

NOTHING_KNOWN: Mapping[str, StageUsage] = {}


class Reservation:
    """A reservation sets generations, tokens and their cost [units] aside for one call; end it exactly once.

    The cost is None where the call has no price.

    Args:
        ledger: The account that it is taken from.
        stage: Whose account it is.
        generations: Samples [count, >= 0].
        tokens: Generated tokens in all [count, >= 0].
        cost: What the call costs at worst [units, >= 0]; None where it has no price.
    """

    __slots__ = ("_ledger", "_open", "cost", "generations", "stage", "tokens")

    def __init__(self, ledger: "Ledger", stage: str, generations: int, tokens: int, cost: int | None) -> None:
        self._ledger = ledger
        self._open = True
        self.stage = stage
        self.generations = generations
        self.tokens = tokens
        self.cost = cost

    def settle(self, spent: Mapping[str, StageUsage] | StageUsage) -> None:
        """Book what the call spent, by stage or on the reservation's own, and give the rest back."""
        self._end()
        for stage, usage in ({self.stage: spent} if isinstance(spent, StageUsage) else spent).items():
            self._ledger.book(stage, usage)

    def release(self) -> None:
        """Give everything back, because the call was never made."""
        self._end()

    def forfeit(self, known: Mapping[str, StageUsage] = NOTHING_KNOWN) -> None:
        """Count everything as spent, because what the call used is unknown but for a part. No-op once ended.

        Args:
            known: What it is known to have used, by stage; the rest is of unknown outcome.
        """
        if not self._open:
            return
        self._end()
        for stage, usage in known.items():
            self._ledger.book(stage, usage)
        used = total_usage(known)
        cost = None if self.cost is None else max(0, self.cost - units_of(used.cost or 0.0))
        generations, tokens = self.generations - used.generations, self.tokens - used.completion_tokens
        self._ledger.count_as_spent(max(0, generations), max(0, tokens), cost)

    def _end(self) -> None:
        if not self._open:
            raise RuntimeError(f"the reservation for {self.stage} was ended twice")
        self._open = False
        self._ledger.unreserve(self)


class Ledger:
    """A ledger is the account of one request's generations, tokens and cost, shared by all its calls.

    Every method is synchronous, so that in one event loop checking and reserving are one atomic step. Costs go in and
    out in the units of `kernel.prices`.

    Args:
        max_generations: Limit on generations [count].
        max_generated_tokens: Limit on generated tokens [count].
        max_cost: Limit on the cost [currency of the prices]; None for none.
        price: The highest price that the request's calls may have, by which plans are made; None where none is known.
    """

    def __init__(
        self,
        max_generations: int,
        max_generated_tokens: int,
        max_cost: float | None = None,
        price: Price | None = None,
    ) -> None:
        self._max = (max_generations, max_generated_tokens)
        self._max_cost = None if max_cost is None else units_of(max_cost)
        self._price = price
        self._reserved = [0, 0, 0]
        self._lost = [0, 0, 0]
        self._lost_unpriced = False
        self._stages: dict[str, StageUsage] = {}
        self.exhausted = False

    def lower_tokens(self, most: int) -> None:
        """Lower the limit on generated tokens; what is spent and reserved counts as before.

        Args:
            most: Generated tokens in all, at most [count, >= 0]; a limit that is lower stays.
        """
        self._max = (self._max[0], min(self._max[1], most))

    @property
    def generations_left(self) -> int:
        """Return the generations that are neither spent nor reserved [count, >= 0]."""
        spent = sum(s.generations for s in self._stages.values())
        return max(0, self._max[0] - spent - self._reserved[0] - self._lost[0])

    @property
    def unspent_tokens(self) -> int:
        """Return the generated tokens that are neither spent nor reserved, whatever they would cost [count, >= 0]."""
        spent = sum(s.completion_tokens for s in self._stages.values())
        return max(0, self._max[1] - spent - self._reserved[1] - self._lost[1])

    @property
    def cost_left(self) -> int | None:
        """Return the money that is neither spent nor reserved [units, >= 0]; None without a limit.

        An unknown cost leaves nothing.
        """
        if self._max_cost is None:
            return None
        if self._lost_unpriced or any(stage.has_unknown_cost for stage in self._stages.values()):
            return 0
        spent = sum(units_of(stage.cost or 0.0) for stage in self._stages.values())
        return max(0, self._max_cost - spent - self._reserved[2] - self._lost[2])

    @property
    def tokens_left(self) -> int:
        """Return `unspent_tokens`, as far as the money goes [count, >= 0]."""
        cost_left = self.cost_left
        paid = None if cost_left is None or self._price is None else self._price.completion_tokens(cost_left)
        return self.unspent_tokens if paid is None else min(self.unspent_tokens, paid)

    def reserve(self, stage: str, generations: int, tokens: int, cost: int | None = None) -> Reservation:
        """Set aside `generations` samples and `tokens` tokens in all, and their cost.

        Args:
            stage: Whose account it is.
            generations: Samples [count].
            tokens: Generated tokens [count].
            cost: What the call costs at worst [units]; None: what the tokens cost at the price that plans are made by.

        Raises:
            BudgetExhausted: When less is left.
        """
        if cost is None:
            cost = self.worst_cost(0, tokens)
        money = self.cost_left
        short = money is not None and (cost or 0) > money
        if short or generations > self.generations_left or tokens > self.unspent_tokens:
            self.exhausted = True
            raise self._error(stage, generations, tokens, cost or 0)
        self._reserved = [self._reserved[0] + generations, self._reserved[1] + tokens, self._reserved[2] + (cost or 0)]
        return Reservation(self, stage, generations, tokens, cost)

    def _error(self, stage: str, generations: int, tokens: int, cost: int) -> BudgetExhausted:
        needs = f"{generations} generations and {tokens} tokens"
        has = f"{self.generations_left} and {self.unspent_tokens} left"
        facts = {"generations_left": str(self.generations_left), "tokens_left": str(self.unspent_tokens)}
        if self.cost_left is not None:
            facts["cost_left"] = f"{amount_of(self.cost_left):.12g}"
            needs = f"{needs}, which may cost {amount_of(cost):.12g}"
            has = f"{has}, and {facts['cost_left']} to pay with"
        return BudgetExhausted(f"{stage} needs {needs}; the envelope has {has}", stage=stage, **facts)

    def worst_cost(self, prompt_tokens: int, tokens: int) -> int | None:
        """Return the cost of these tokens at the price that plans are made by [units]; None where there is none.

        Args:
            prompt_tokens: Tokens read [count, >= 0].
            tokens: Tokens generated [count, >= 0].
        """
        return None if self._price is None else self._price.units(prompt_tokens, tokens)

    def affordable_tokens(self, wanted: int, *, samples: int = 1, among: int = 1) -> int:
        """Return the tokens of each sample, at most `wanted`, if `among` calls of `samples` share what is left.

        Args:
            wanted: Tokens that each sample would take [count, >= 0].
            samples: Samples of each call [count, >= 1].
            among: Calls that share what is left [count, >= 1].

        Returns:
            Tokens of each sample [count, 0..wanted].
        """
        return max(0, min(wanted, self.tokens_left // (samples * among)))

    def book(self, stage: str, spent: StageUsage) -> None:
        """Add `spent` to the account of `stage`."""
        before = self._stages.get(stage)
        self._stages[stage] = spent if before is None else before.plus(spent)

    def count_as_spent(self, generations: int, tokens: int, cost: int | None = None) -> None:
        """Count as spent what a call of unknown outcome had reserved; a cost of None is unknown.

        Args:
            generations: Samples reserved [count, >= 0].
            tokens: Tokens reserved [count, >= 0].
            cost: Cost reserved [units, >= 0]; None: unknown.
        """
        self._lost = [self._lost[0] + generations, self._lost[1] + tokens, self._lost[2] + (cost or 0)]
        self._lost_unpriced = self._lost_unpriced or (cost is None and bool(generations or tokens))

    def unreserve(self, held: Reservation) -> None:
        """Drop a reservation that has ended."""
        generations, tokens, cost = self._reserved
        self._reserved = [generations - held.generations, tokens - held.tokens, cost - (held.cost or 0)]

    def usage(self, stages: Sequence[str] | None = None) -> Usage:
        """Return the usage so far, of all stages or of `stages` only."""
        if stages is not None:
            return total_usage({name: self._stages[name] for name in stages if name in self._stages})
        usage = total_usage(self._stages, self._lost[0], self._lost[1])
        is_known = not self._lost_unpriced and (usage.cost is not None or self._lost[2])
        return replace(usage, unknown_cost=amount_of(self._lost[2])) if is_known else usage
