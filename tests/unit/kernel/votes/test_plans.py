"""Who votes in a cascade, and which model answers where they do not agree."""

import pytest

from kernel.prices import Price
from kernel.votes.plans import (
    EscalationReason,
    NoCascade,
    PlannedSource,
    PricedModel,
    VotePlan,
    cascade_plan,
    escalation_reason,
)
from kernel.votes.votes import VoteOutcome


def priced(**prices: float | None) -> list[PricedModel]:
    """Models with the price of a million of their tokens."""
    return [
        PricedModel(name=name, price=None if price is None else Price(prompt=price, completion=price))
        for name, price in prices.items()
    ]


def names(plan: VotePlan) -> list[str]:
    return [source.model for source in plan.sources]


def test_the_most_expensive_model_is_the_stronger_one_and_the_cheapest_three_others_vote_in_order() -> None:
    plan = cascade_plan(priced(big=50, a=3, b=1, c=2, d=4), VotePlan())

    assert (names(plan), plan.agree, plan.most, plan.escalate) == (["b", "c", "a"], 2, 3, "big")


def test_votes_that_together_cost_as_much_as_the_stronger_model_are_not_asked_for() -> None:
    assert cascade_plan(priced(big=5, a=2, b=2, c=2), VotePlan()).most == 2  # 2 + 2 < 5 <= 2 + 2 + 2


def test_a_cascade_that_cannot_pay_is_rejected() -> None:
    with pytest.raises(NoCascade, match="2 votes of the cheaper models cost as much as one answer of big"):
        cascade_plan(priced(big=4, a=2, b=2), VotePlan())

    assert cascade_plan(priced(big=4, a=2, b=2), VotePlan(most=2)).most == 2  # who states it wants it


def test_one_small_model_votes_several_times() -> None:
    assert cascade_plan(priced(small=1, big=50), VotePlan()).most == 3


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (priced(only=1), "needs two models or more"),
        (priced(a=1, b=None), "there is no price of b; state it, or name the stronger model"),
    ],
)
def test_without_a_stronger_model_there_is_no_cascade(models: list[PricedModel], message: str) -> None:
    with pytest.raises(NoCascade, match=message):
        cascade_plan(models, VotePlan())


def test_a_stronger_model_that_is_named_needs_no_prices() -> None:
    plan = cascade_plan(priced(a=None, b=None, c=None), VotePlan(escalate="b", agree=3))

    assert (names(plan), plan.agree, plan.most, plan.escalate) == (["a", "c"], 3, 3, "b")


def test_a_single_model_cannot_be_its_own_cascade() -> None:
    with pytest.raises(NoCascade, match="a cascade to a needs another model"):
        cascade_plan(priced(a=1), VotePlan(escalate="a"))


def test_sources_that_are_stated_stand_in_their_order() -> None:
    stated = VotePlan(sources=[PlannedSource(model="dear"), PlannedSource(agent="ada")])
    plan = cascade_plan(priced(dear=9, big=50, a=1), stated)

    assert (list(plan.sources), plan.most, plan.escalate) == (list(stated.sources), 2, "big")


def test_what_a_plan_leaves_out_comes_from_another() -> None:
    row = VotePlan(sources=[PlannedSource(model="a")], agree=2, most=4, escalate="big")

    assert VotePlan(agree=3).completed(row) == VotePlan(sources=row.sources, agree=3, most=4, escalate="big")
    assert VotePlan(agree=5).completed(row).most == 5  # five cannot agree of four
    own = VotePlan(sources=[PlannedSource(model="b")])
    assert own.completed(row) == VotePlan(sources=own.sources, agree=2, most=None, escalate="big")


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (VotePlan(agree=3, most=2), "agree: 3 votes cannot agree of 2"),
        (VotePlan(most=65), "most: 65 must lie in 1 to 64"),
        (VotePlan(sources=[PlannedSource(agent="a", model="b")]), "sources: an agent has a model already"),
        (VotePlan(agree=2, most=3), ""),
    ],
)
def test_a_plan_names_what_is_wrong_with_it(plan: VotePlan, problem: str) -> None:
    assert plan.problem.startswith(problem)
    assert bool(plan.problem) == bool(problem)


def test_only_votes_that_decide_are_not_escalated() -> None:
    assert [escalation_reason(outcome) for outcome in VoteOutcome] == [
        None,
        EscalationReason.UNDECIDED,
        EscalationReason.ABSTAINED,
    ]
