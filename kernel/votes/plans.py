"""A vote plan says who votes, how many must agree, and which stronger model answers where fewer do: a cascade.

Small models answer most questions alike; a stronger one is paid for only where they do not. The order of the models,
and where asking further would cost as much as the stronger model itself, follow from their prices.
"""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from kernel.errors import Code, MetacogError
from kernel.prices import Price
from kernel.values import value
from kernel.votes.cascade import most_worth, sources_by_price
from kernel.votes.votes import DEFAULT_RULE, MOST_VOTES, VoteMode, VoteOutcome, VoteSource

# Models that a cascade asks unless it names them, and votes of a single one: direct, reasoned, a program [count].
CASCADE_SOURCES, VOTES_OF_ONE = 3, 3
# Calls are compared by their cost at this size, a question of some lines and an answer with its reasoning [tokens].
COMPARED_PROMPT, COMPARED_COMPLETION = 500, 250


class NoCascade(MetacogError):
    """A cascade is asked for, and the models leave open what it would be."""

    code = Code.INVALID_ARGUMENT
    reason = "NO_CASCADE"


class EscalationReason(StrEnum):
    """The reason why a stronger model is asked."""

    UNDECIDED = "UNDECIDED"
    ABSTAINED = "ABSTAINED"
    NOT_COMPARABLE = "NOT_COMPARABLE"
    NOT_PROVED = "NOT_PROVED"


@value
class PlannedSource:
    """A planned source is an agent, or a model alone, in one mode; unnamed it is the default model.

    Attributes:
        agent: The agent; empty: `model`.
        model: The model.
        mode: How it comes to its answer; None: with its reasoning.
    """

    agent: str = ""
    model: str = ""
    mode: VoteMode | None = None


@value
class VotePlan:
    """A vote plan is as much of a vote as is stated; what is left out is decided elsewhere.

    Attributes:
        sources: Who votes, in this order; empty: not stated.
        agree: Votes for one answer that decide [count, 1..most]; None: not stated.
        most: Votes that are asked for at most [count, 1..64]; None: not stated.
        escalate: Model that answers where too few agree; empty: none.
    """

    sources: Sequence[PlannedSource] = ()
    agree: int | None = None
    most: int | None = None
    escalate: str = ""

    @property
    def models(self) -> Sequence[str]:
        """Return the models that it names."""
        return [name for name in (*(source.model for source in self.sources), self.escalate) if name]

    @property
    def problem(self) -> str:
        """Return what is wrong with it, after the name of the field; empty when nothing is."""
        for name in ("agree", "most"):
            number = getattr(self, name)
            if number is not None and not 1 <= number <= MOST_VOTES:
                return f"{name}: {number} must lie in 1 to {MOST_VOTES}"
        if self.agree is not None and self.agree > (self.most or MOST_VOTES):
            return f"agree: {self.agree} votes cannot agree of {self.most}"
        if len(self.sources) > MOST_VOTES:
            return f"sources: at most {MOST_VOTES} can vote"
        if any(source.agent and source.model for source in self.sources):
            return "sources: an agent has a model already; give agent or model"
        return ""

    def completed(self, other: "VotePlan") -> "VotePlan":
        """Return this plan with what it leaves out taken from `other`.

        Votes at most belong to the sources: with sources of its own it takes neither from `other`. Of votes at most and
        votes that must agree, the one stated here bounds the one that is taken.

        Example:
            >>> row = VotePlan(agree=2, most=3)
            >>> plans = [stated.completed(row) for stated in (VotePlan(most=1), VotePlan(agree=4))]
            >>> [(plan.agree, plan.most) for plan in plans]
            [(1, 1), (4, 4)]
        """
        most = self.most if self.sources else self.most or other.most
        if most is not None:
            most = max(most, self.agree or 0)
        agree = self.agree or other.agree
        if agree is not None and most is not None:
            agree = min(agree, most)
        return replace(
            self,
            sources=self.sources or other.sources,
            agree=agree,
            most=most,
            escalate=self.escalate or other.escalate,
        )


@value
class PricedModel:
    """A priced model is a model with what its tokens cost; None where that is unknown."""

    name: str
    price: Price | None = None

    @property
    def cost(self) -> int | None:
        """Return the cost of a call of the compared size [units]; None where it is unknown."""
        return None if self.price is None else self.price.units(COMPARED_PROMPT, COMPARED_COMPLETION)


def cascade_plan(models: Sequence[PricedModel], stated: VotePlan) -> VotePlan:
    """Return the cascade over a catalogue of models, as far as it is not stated.

    The stronger model is the most expensive one; those that vote are the cheapest others, cheapest first, as many as
    together cost less than it.

    Args:
        models: The models, the default one first.
        stated: What is stated of it.

    Raises:
        NoCascade: When it has no stronger model: there is one model only, prices are unknown, or votes do not pay.

    Example:
        >>> models = [PricedModel(name=name, price=Price(prompt=price, completion=4 * price))
        ...           for name, price in (("strong", 20), ("b", 2), ("a", 1))]
        >>> plan = cascade_plan(models, VotePlan())
        >>> [source.model for source in plan.sources], plan.agree, plan.most, plan.escalate
        (['a', 'b'], 2, 2, 'strong')
    """
    escalate = stated.escalate or _most_expensive(models)
    agree = stated.agree or min(DEFAULT_RULE.agree, stated.most or DEFAULT_RULE.agree)
    if stated.sources:
        most = stated.most or max(agree, len(stated.sources))
        return VotePlan(sources=stated.sources, agree=agree, most=most, escalate=escalate)
    strong = next((model for model in models if model.name == escalate), PricedModel(name=escalate))
    small = _cheapest_first([model for model in models if model.name != escalate])[:CASCADE_SOURCES]
    if not small:
        raise NoCascade(f"a cascade to {escalate} needs another model that votes; list one in models.yaml")
    votes = [model.cost for model in small] if len(small) > 1 else [small[0].cost] * VOTES_OF_ONE
    worth = most_worth(votes, strong.cost)
    if worth is not None and worth < agree and stated.most is None:
        message = f"{agree} votes of the cheaper models cost as much as one answer of {escalate}"
        raise NoCascade(f"a cascade does not pay: {message}; name {escalate} itself, or state sources and most")
    most = stated.most or (len(votes) if worth is None else worth)
    return VotePlan(
        sources=[PlannedSource(model=model.name) for model in small],
        agree=agree,
        most=max(most, agree),
        escalate=escalate,
    )


def _cheapest_first(models: Sequence[PricedModel]) -> Sequence[PricedModel]:
    by_name = {model.name: model for model in models}
    sources = [VoteSource(model=name, mode=VoteMode.REASONED) for name in by_name]
    ordered = sources_by_price(sources, {name: model.cost for name, model in by_name.items()})
    return [by_name[source.model] for source in ordered]


def _most_expensive(models: Sequence[PricedModel]) -> str:
    if len(models) < 2:
        raise NoCascade("a cascade needs two models or more; list them in models.yaml (METACOG_MODELS_FILE)")
    if any(model.cost is None for model in models):
        unpriced = ", ".join(model.name for model in models if model.cost is None)
        raise NoCascade(
            f"which model is the stronger one is open, since there is no price of {unpriced}; state it, or name the"
            " stronger model in METACOG_ROUTER_CASCADE_ESCALATE or in vote.escalate"
        )
    most_expensive = max(models, key=lambda model: model.cost or 0)
    return most_expensive.name


def escalation_reason(outcome: VoteOutcome) -> EscalationReason | None:
    """Return why a stronger model is asked after votes that ended so; None where they decided."""
    if outcome is VoteOutcome.DECIDED:
        return None
    return EscalationReason.ABSTAINED if outcome is VoteOutcome.ABSTAINED else EscalationReason.UNDECIDED
