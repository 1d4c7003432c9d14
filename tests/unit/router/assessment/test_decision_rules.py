"""A rule that comes later is asked only where the ones before it say nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from inference import QuestionKind, Spend
from kernel.activation import Route, activation
from kernel.conversation import Turn
from kernel.envelope import Limits
from kernel.learning.gains import Gain, GainsByKind
from kernel.ledger import Ledger
from kernel.msv import MSV
from kernel.policy import Policy, PolicyRow, Strategy
from services.router.core.decision_rules import DecisionRule, SystemDecision, decided_system
from services.router.service.assessment.assessors import Assessors
from services.router.service.assessment.composite_assessor import Assessment
from services.router.service.assessment.routing import (
    DecisionCache,
    RoutingConfig,
    RoutingContext,
    RoutingQuestion,
    decide,
)
from services.router.service.assessment.subject import Subject
from services.router.service.assessment.values import KindGain, Routed

CALM, TROUBLED = MSV(correctness=0.9, conflict=0.1, importance=0.2), MSV(correctness=0.1, conflict=0.9, importance=0.9)
LITTLE = MSV(importance=0.1)


def gain(shrunk: float, labels: int = 20) -> Gain:
    return Gain(labels=labels, system_one=0.5, system_two=0.5, gain=shrunk, shrunk=shrunk)


@pytest.mark.parametrize(
    ("msv", "found", "by_state", "decided"),
    [
        # (a) A given state decides, whatever is known of the kind.
        (CALM, gain(0.9), True, (Route.SYSTEM_ONE, "activation", DecisionRule.STATE)),
        (LITTLE, gain(-0.9), True, (Route.SYSTEM_TWO, "undetermined", DecisionRule.STATE)),
        # (b) A kind with enough labels decides, whatever the activation is.
        (CALM, gain(0.15), False, (Route.SYSTEM_TWO, "gain", DecisionRule.GAIN)),
        (TROUBLED, gain(0.149), False, (Route.SYSTEM_ONE, "gain", DecisionRule.GAIN)),
        (LITTLE, gain(0.1), False, (Route.SYSTEM_ONE, "gain", DecisionRule.GAIN)),
        # (c) With too few of them, or an unknown kind, the activation decides.
        (CALM, gain(0.9, labels=19), False, (Route.SYSTEM_ONE, "activation", DecisionRule.ACTIVATION)),
        (TROUBLED, None, False, (Route.SYSTEM_TWO, "activation", DecisionRule.ACTIVATION)),
        (LITTLE, None, False, (Route.SYSTEM_TWO, "undetermined", DecisionRule.ACTIVATION)),
    ],
)
def test_the_first_rule_that_says_something_decides(
    msv: MSV, found: Gain | None, *, by_state: bool, decided: tuple[Route, str, DecisionRule]
) -> None:
    system, reason, rule = decided

    assert decided_system(activation(msv), found, by_state=by_state) == SystemDecision(
        system=system, reason=reason, rule=rule
    )


def test_the_least_gain_is_the_operators() -> None:
    assert decided_system(activation(CALM), gain(0.2), by_state=False, minimum_gain=0.21).system is Route.SYSTEM_ONE
    assert decided_system(activation(TROUBLED), gain(0.0), by_state=False, minimum_gain=0).system is Route.SYSTEM_TWO


class Kinds:
    """A classifier that knows the kind by the question's first word, and counts what it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def kind(self, question: str, *, timeout_s: float) -> QuestionKind:
        self.asked += 1
        word = question.partition(" ")[0]
        return QuestionKind(unknown_reason="ENCODER_UNAVAILABLE: away") if word == "?" else QuestionKind(name=word)


class Router:
    """A router whose state, kinds and gains are set by hand."""

    calls_model = True
    generations = 1
    tokens = 0

    def __init__(self, gains: Mapping[str, Gain], msv: MSV = CALM, **more: Any) -> None:  # noqa: ANN401
        self.kinds, self.msv = Kinds(), msv
        self.seen: list[str] = []
        self.context = RoutingContext(
            config=RoutingConfig(),
            assessors=Assessors(by_name={"fake": self}, default="fake", streamed="fake"),
            gains=lambda: GainsByKind(overall=Gain(), kinds=gains),
            kinds=self.kinds,  # type: ignore[arg-type]
            **{"system_two": Strategy.VOTE, **more},
        )

    async def __call__(self, subject: Subject, spend: Spend) -> Assessment:
        self.seen.append(subject.kind)
        return Assessment(msv=self.msv, assessor="fake")

    def fits(self, ledger: Ledger) -> bool:
        return ledger.generations_left > 1

    async def decide_on(self, *contents: str, **more: Any) -> Routed:  # noqa: ANN401
        turns = [Turn(role="assistant" if at % 2 else "user", content=text) for at, text in enumerate(contents)]
        question = RoutingQuestion(subject=Subject(messages=turns), **{"run_id": "run", **more})
        spend = Spend(Limits(max_generations=9, max_generated_tokens=4096, timeout_ms=1000))
        return (await decide(question, spend, self.context)).routed


async def test_the_gain_decides_and_the_activation_is_recorded_all_the_same() -> None:
    router = Router({"sums": gain(0.3)})

    routed = await router.decide_on("sums 6 * 7?")

    assert (routed.system, routed.reason, routed.decided_by) == (Route.SYSTEM_TWO, "gain", DecisionRule.GAIN)
    assert (routed.kind, routed.kind_unknown_reason, router.seen) == ("sums", "", ["sums"])
    assert routed.gain == KindGain(labels=20, system_one=0.5, system_two=0.5, gain=0.3, shrunk=0.3, minimum=0.15)
    assert routed.activation == activation(CALM)


async def test_too_few_labels_leave_it_to_the_activation_and_are_shown() -> None:
    routed = await Router({"sums": gain(0.3, labels=19)}).decide_on("sums 6 * 7?")

    assert (routed.system, routed.decided_by) == (Route.SYSTEM_ONE, DecisionRule.ACTIVATION)
    assert routed.gain is not None
    assert routed.gain.labels == 19


async def test_an_unknown_kind_leaves_it_to_the_activation_with_the_reason() -> None:
    routed = await Router({"": gain(0.3)}).decide_on("? 6 * 7")

    assert (routed.system, routed.decided_by, routed.gain) == (Route.SYSTEM_ONE, DecisionRule.ACTIVATION, None)
    assert (routed.kind, routed.kind_unknown_reason) == ("", "ENCODER_UNAVAILABLE: away")


async def test_without_an_encoder_the_kind_is_unknown() -> None:
    router = Router({})
    router.context = replace(router.context, kinds=None)

    assert (await router.decide_on("sums 6 * 7?")).kind_unknown_reason.startswith("NO_ENCODER: ")


async def test_a_given_state_is_decided_by_its_activation_and_no_kind_is_looked_for() -> None:
    router = Router({"sums": gain(0.3)})

    routed = await router.decide_on("sums 6 * 7?", msv=CALM)

    assert (routed.system, routed.decided_by, router.kinds.asked) == (Route.SYSTEM_ONE, DecisionRule.STATE, 0)


async def test_the_papers_setting_leaves_it_to_the_activation() -> None:
    routed = await Router({"sums": gain(0.3)}, system_two=Strategy.DIALECTIC).decide_on("sums 6 * 7?")

    assert (routed.system, routed.decided_by, routed.kind) == (Route.SYSTEM_ONE, DecisionRule.STATE, "sums")


@pytest.mark.parametrize("named", [Strategy.SYSTEM_ONE, Strategy.VOTE])
async def test_a_named_strategy_is_run_as_named_and_waits_for_no_kind(named: Strategy) -> None:
    router = Router({"sums": gain(0.3)})

    routed = await router.decide_on("sums 6 * 7?", named=named)

    assert (routed.strategy, routed.decided_by, router.kinds.asked) == (named, DecisionRule.NAMED, 0)
    assert (routed.kind, routed.kind_unknown_reason) == ("", "")


async def test_a_row_of_the_policy_table_decides_before_the_gain() -> None:
    table = Policy(version="p", rows=[PolicyRow(name="all", strategy="arbiter", always=True)])

    routed = await Router({"sums": gain(-0.3)}, policy=table).decide_on("sums 6 * 7?")

    assert (routed.strategy, routed.decided_by, routed.policy_row) == (Strategy.ARBITER, DecisionRule.POLICY, "all")


async def test_a_row_for_system_two_leaves_the_others_to_the_gain() -> None:
    table = Policy(version="p", rows=[PolicyRow(name="deliberate", strategy="arbiter")])

    calm = await Router({"sums": gain(0.3)}, CALM, policy=table).decide_on("sums 6 * 7?")
    troubled = await Router({"sums": gain(-0.3)}, TROUBLED, policy=table).decide_on("sums 6 * 7?")

    assert (calm.system, calm.decided_by) == (Route.SYSTEM_TWO, DecisionRule.GAIN)
    assert (troubled.strategy, troubled.decided_by) == (Strategy.ARBITER, DecisionRule.POLICY)


async def test_a_cached_decision_keeps_rule_and_kind_and_looks_for_none() -> None:
    router = Router({"Write": gain(0.3)}, TROUBLED, cache=DecisionCache())
    code = ("Write a Python function that merges two sorted lists.", "def merge(a, b): return sorted(a + b)")
    await router.decide_on(code[0])

    second = await router.decide_on(*code, "now make it handle empty lists and add a docstring")

    assert (second.reason, second.decided_by, second.kind, router.kinds.asked) == (
        "cached", DecisionRule.GAIN, "Write", 1,
    )  # fmt: skip
