"""The figures of a comparison with its controls. Pure."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from scipy.special import expit

from evals.controls.arms import SYSTEM_ONE, control_names
from evals.harness.arm_figures import ArmFigures, Means, arm_figures, means
from evals.harness.rows import RecordedEvaluation, Row
from evals.harness.scores import by_item, gain_over, paired
from evals.stats.chance import Chance
from evals.stats.gains import Conclusion, Scores, conclusion, mean_interval
from evals.stats.recovery import ShuffledCosts, cost_at_half, cost_at_most, mean_recovered, shuffled_costs
from evals.stats.routing_worth import Pair, highest, mixed, shuffled_mixes, worth_interval
from evals.stats.separation import Band, Flags
from evals.strategies import AGENT, ROUTE
from kernel.statistics.bootstrap import Estimate, bootstrap_interval
from kernel.statistics.discrimination import Discrimination, auroc
from kernel.values import value

ROUTER, RANDOM, LENGTH, ORACLE, LEGACY = "router", "random", "prompt length", "oracle", "legacy gate"
# The gate that activation replaced: the logistic of the level times this, against one half.
LEGACY_SCALE = 1e-5
SENT = "SYSTEM_TWO"


@value
class Gain:
    """One arm against another.

    Attributes:
        arm: The one.
        over: The other.
        found: How much more often it is right, on the items that both answered.
        strict: The same where failed requests count as wrong; None where neither has any.
    """

    arm: str
    over: str
    found: Estimate
    strict: Estimate | None = None

    @property
    def conclusion(self) -> Conclusion:
        """The conclusion that its interval allows."""
        return conclusion(self.found)


@value
class Quality:
    """The quality that a level reaches at any threshold: the gap between both systems that it recovers.

    Attributes:
        recovered: Gap recovered in the mean over all shares sent (APGR).
        at_half: Least share sent that recovers half of the gap.
        at_most: The same of four fifths.
        shuffled: What both cost where the same level is shuffled over the items.
    """

    recovered: Estimate
    at_half: Estimate
    at_most: Estimate
    shuffled: ShuffledCosts


@value
class Routing:
    """Decisions between System 1 and System 2, and what they are worth.

    Attributes:
        name: Who decides.
        sent: Share of the items given to System 2 [0..1].
        accuracy: Share right of the mix.
        items: Items that it decides on [count].
        tokens: Tokens of an answer, in the mean [count]; what deciding costs is not in it.
        deciding: Tokens that deciding takes, in the mean [count]; 0 where no model is asked.
        worth: How much more often the mix is right than with the same decisions shuffled.
        shuffled: Shares right with the same decisions shuffled.
        separation: How well the level that decides separates wrong System 1 answers from right ones; where it is known.
        quality: What the level recovers of the gap between the systems, and at which share; None without a level.
        undetermined: Items on which the level is not known, so that they go to System 2 [count].
    """

    name: str
    sent: float
    accuracy: Estimate
    items: int
    tokens: float
    deciding: float
    worth: Estimate
    shuffled: Band
    separation: Discrimination | None
    quality: Quality | None
    undetermined: int = 0

    @property
    def conclusion(self) -> Conclusion:
        """The conclusion on its worth."""
        return conclusion(self.worth)


@value
class InSet:
    """One data set: share right by arm, and the gain of the strategy over System 1."""

    accuracy: Mapping[str, Estimate]
    gain: Gain


@value
class Figures:
    """The figures that the report shows.

    Attributes:
        system_two: Name of the strategy that is compared.
        arms: Figures of each arm that answers.
        gains: The strategy against each control, and the best agent.
        by_set: Share right by arm, and the gain over System 1, in each data set.
        routings: Decisions between System 1 and the strategy; empty where nothing decided.
        deciding: What the router spends on a decision; None where it made none.
        best_agent: The best single agent; empty without any.
    """

    system_two: str
    arms: Sequence[ArmFigures]
    gains: Sequence[Gain]
    by_set: Mapping[str, InSet]
    routings: Sequence[Routing]
    deciding: Means | None
    best_agent: str


def figures(evaluation: RecordedEvaluation, system_two: str, chance: Chance) -> Figures:
    """The figures of a recorded comparison of `system_two`."""
    answering = [name for name in evaluation.arms if name != ROUTE]
    found = [arm_figures(name, evaluation.of(name), chance, evaluation.failed_of(name)) for name in answering]
    controls = control_names(answering, system_two)
    return Figures(
        system_two=system_two,
        arms=found,
        gains=[_gain(evaluation, name, system_two, chance) for name in controls],
        by_set=_by_set(evaluation, answering, system_two, chance),
        routings=_routings(evaluation, system_two, chance),
        deciding=means(evaluation.of(ROUTE)) if evaluation.of(ROUTE) else None,
        best_agent=_best_agent(found),
    )


def _gain(evaluation: RecordedEvaluation, before: str, after: str, chance: Chance) -> Gain:
    first, second = evaluation.failed_of(before), evaluation.failed_of(after)
    found = gain_over(evaluation.of(before), evaluation.of(after), chance)
    strict = (
        gain_over([*evaluation.of(before), *first], [*evaluation.of(after), *second], chance)
        if first or second
        else None
    )
    return Gain(arm=after, over=before, found=found, strict=strict)


def _by_set(
    evaluation: RecordedEvaluation, answering: Sequence[str], system_two: str, chance: Chance
) -> Mapping[str, InSet]:
    names = dict.fromkeys(row.item.dataset for row in evaluation.rows)
    return {name: _in_set(name, evaluation, answering, system_two, chance) for name in names}


def _in_set(
    name: str, evaluation: RecordedEvaluation, answering: Sequence[str], system_two: str, chance: Chance
) -> InSet:
    rows = {arm: [row for row in evaluation.of(arm) if row.item.dataset == name] for arm in answering}
    gain = gain_over(rows.get(SYSTEM_ONE, []), rows.get(system_two, []), chance)
    return InSet(
        accuracy={arm: mean_interval(list(by_item(each).values()), chance) for arm, each in rows.items()},
        gain=Gain(arm=system_two, over=SYSTEM_ONE, found=gain),
    )


def _best_agent(found: Sequence[ArmFigures]) -> str:
    agents = [each for each in found if each.name.startswith(AGENT)]
    return max(agents, key=lambda each: each.accuracy.value or 0.0).name if agents else ""


def legacy_gate(levels: Scores) -> Flags:
    """Return what the gate decides that activation replaced: System 2 from one half on, which every level reaches.

    Source: MSV, routing, which it replaces (papers.md 1.2); a baseline, never part of the product.
    """
    sent: Flags = expit(levels * LEGACY_SCALE) >= 0.5
    return sent


@value
class _Columns:
    """The items that both systems answered and a decision was made on; what deciding on them took, in the mean.

    Activation is NaN where it was undetermined.
    """

    pair: Pair
    tokens: Pair
    deciding: float
    sent: Flags
    activation: Scores
    length: Scores


def _routings(evaluation: RecordedEvaluation, system_two: str, chance: Chance) -> Sequence[Routing]:
    known = _columns(evaluation, system_two)
    if known is None:
        return []
    count = int(known.sent.sum())
    drawn = chance.rng.random(len(known.sent))
    wrong = known.pair.second > known.pair.first
    decided: Mapping[str, tuple[Flags, Scores | None]] = {
        ROUTER: (known.sent, known.activation),
        RANDOM: (highest(drawn, count), drawn),
        LENGTH: (highest(known.length, count), known.length),
        ORACLE: (wrong, None),
        LEGACY: (legacy_gate(known.activation) | np.isnan(known.activation), None),
        f"always {SYSTEM_ONE}": (np.zeros_like(known.sent), None),
        f"always {system_two}": (np.ones_like(known.sent), None),
    }
    return [_routing(name, *each, known, chance) for name, each in decided.items()]


def _routing(name: str, sent: Flags, levels: Scores | None, known: _Columns, chance: Chance) -> Routing:
    known_level = np.ones_like(sent) if levels is None else ~np.isnan(levels)
    wrong, pair = (
        known.pair.first[known_level] < 0.5,
        Pair(first=known.pair.first[known_level], second=known.pair.second[known_level]),
    )
    return Routing(
        name=name,
        sent=float(sent.mean()),
        accuracy=mean_interval(mixed(known.pair, sent), chance),
        items=len(sent),
        tokens=float(mixed(known.tokens, sent).mean()),
        deciding=known.deciding if name in (ROUTER, LEGACY) else 0.0,
        worth=worth_interval(known.pair, sent, chance),
        shuffled=shuffled_mixes(known.pair, sent, chance),
        separation=None if levels is None else auroc(levels[known_level], wrong),
        quality=None if levels is None else _quality(levels[known_level], pair, chance),
        undetermined=int((~known_level).sum()),
    )


def _quality(levels: Scores, pair: Pair, chance: Chance) -> Quality:
    interval = partial(bootstrap_interval, rng=chance.rng, resamples=chance.draws)
    found = (interval(each, levels, pair.first, pair.second) for each in (mean_recovered, cost_at_half, cost_at_most))
    recovered, at_half, at_most = found
    shuffled = shuffled_costs(levels, pair.first, pair.second, chance)
    return Quality(recovered=recovered, at_half=at_half, at_most=at_most, shuffled=shuffled)


def _columns(evaluation: RecordedEvaluation, system_two: str) -> _Columns | None:
    """The columns of the first seed alone: decisions are made on single answers."""
    seed = evaluation.rows[0].seed
    first, second, decided = (
        [row for row in evaluation.of(name) if row.seed == seed] for name in (SYSTEM_ONE, system_two, ROUTE)
    )
    decisions = {row.item.id: row for row in decided}
    both = paired(by_item(first), by_item([row for row in second if row.item.id in decisions]))
    if not both.items:
        return None
    chosen = [decisions[item] for item in both.items]
    return _Columns(
        pair=Pair(first=both.first, second=both.second),
        tokens=Pair(first=_tokens(first, both.items), second=_tokens(second, both.items)),
        deciding=means(chosen).tokens,
        sent=np.array([row.reply["system"] == SENT for row in chosen], dtype=np.bool_),
        activation=np.array([_activation(row) for row in chosen], dtype=np.float64),
        length=np.array([row.item.prompt_characters for row in chosen], dtype=np.float64),
    )


def _activation(row: Row) -> float:
    """The activation of a decision; NaN where it was undetermined, which goes to System 2 (papers.md 1.2)."""
    level: float | None = (row.reply.get("activation") or {}).get("value")
    return math.nan if level is None else level


def _tokens(rows: Sequence[Row], items: Sequence[str]) -> Scores:
    spent = {row.item.id: row.said.spent.prompt_tokens + row.said.spent.completion_tokens for row in rows}
    return np.array([spent[item] for item in items], dtype=np.float64)
