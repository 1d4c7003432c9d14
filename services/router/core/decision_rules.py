"""These rules choose the system for a question that names no strategy, in a fixed order.

Source: ours (papers.md 5.4). A given state, and the papers' setting, are decided by the activation; else the gain of
System 2 on the question's kind decides where enough questions are labelled for both systems; else the activation.
"""

from enum import StrEnum

from kernel.activation import Activation, Route, choose
from kernel.learning.gains import MINIMUM_GAIN, Gain
from kernel.values import value


class DecisionRule(StrEnum):
    """A rule decides between the systems; the order is that in which the rules are asked, but for `POLICY`.

    A row of the policy table decides before `GAIN` and `ACTIVATION`, and on a given state too.
    """

    NAMED = "NAMED"
    STATE = "STATE"
    GAIN = "GAIN"
    ACTIVATION = "ACTIVATION"
    POLICY = "POLICY"


@value
class SystemDecision:
    """A system decision names the system, the reason for it, and the rule that decided."""

    system: Route
    reason: str
    rule: DecisionRule


def decided_system(
    level: Activation,
    gain: Gain | None,
    *,
    by_state: bool,
    minimum_gain: float = MINIMUM_GAIN,
    undetermined: Route = Route.SYSTEM_TWO,
) -> SystemDecision:
    """Return the system for a question whose strategy is left open.

    Args:
        level: The activation of its state.
        gain: What labels say of its kind; None where nothing is known of it.
        by_state: Whether the activation decides in any case: the state is given, or the operator chose the papers' way.
        minimum_gain: Least gain that System 2 is worth [-1..1].
        undetermined: System for a state of which too little is known.
    """
    pays = None if by_state or gain is None else gain.pays(minimum_gain)
    if pays is not None:
        system = Route.SYSTEM_TWO if pays else Route.SYSTEM_ONE
        return SystemDecision(system=system, reason="gain", rule=DecisionRule.GAIN)
    choice = choose(level, undetermined=undetermined)
    rule = DecisionRule.STATE if by_state else DecisionRule.ACTIVATION
    return SystemDecision(system=choice.system, reason=choice.reason, rule=rule)
