"""The default model name `metacog`, replayed: the router's decision on each item, and the answer that follows. Pure.

Without labels the activation decides, on the state that is known before any vote: CE the shipped prior's share right,
PI as it was rated, CI and EM unknown. With labels of both systems the gain by kind decides. A vote is replayed in the
product's order.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from evals.recording.calls import DRAFT
from evals.recording.columns import PRODUCT, Flags, Played, orders_of, played
from evals.recording.values import ItemRecord
from evals.replay.pack import Floats
from evals.replay.stopping import agree_rule
from evals.stats.chance import Chance
from evals.stats.gains import Contrast, mean_interval, paired_gain
from kernel.activation import Route, activation, choose
from kernel.learning.gain_words import DECIDING_LABELS
from kernel.learning.gains import LabelledPair, gains_by_kind
from kernel.learning.kind_shares import kind_shares
from kernel.msv import MSV
from kernel.statistics.bootstrap import Estimate
from kernel.values import value
from kernel.votes.prior import SHIPPED_PRIOR
from kernel.votes.votes import default_agree

SYSTEM_ONE, VOTE, METACOG = "always System 1", "always System 2 (vote)", "metacog"
# Draws of labels [count], and questions that each draw must leave.
DRAWS, LEAST_LEFT = 200, 20


@value
class DecisionRow:
    """One way to decide between System 1 and a vote.

    Attributes:
        name: Who decides.
        labels: Questions of each kind labelled for both systems [count]; 0: none.
        kinds: Kinds that have labels [count].
        sent: Share of the items on which votes are asked for [0..1].
        right: Share right.
        tokens: Tokens of the answers, in the mean [count]; a rating of importance is not in them.
        over_system_one: How much more often it is right than System 1 on the same items; None over draws of labels.
        over_votes: The same, over votes on every item.
    """

    name: str
    labels: int
    kinds: int
    sent: float
    right: Estimate
    tokens: float
    over_system_one: Contrast | None = None
    over_votes: Contrast | None = None


@value
class Systems:
    """What both systems answer to each item.

    Attributes:
        first: System 1.
        second: The vote.
    """

    first: Played
    second: Played


def prior_state(item: ItemRecord) -> MSV:
    """The state of an item before any vote, where there is no label and nothing is stored."""
    shares = kind_shares((), SHIPPED_PRIOR.share_right)
    return MSV(correctness=shares.share(""), importance=item.state.get("importance"))


def is_sent(item: ItemRecord) -> bool:
    """Whether the activation decides for System 2 where there is no label."""
    return choose(activation(prior_state(item))).system is Route.SYSTEM_TWO


def systems(items: Sequence[ItemRecord]) -> Systems:
    """Replay both systems: more must agree where much depends on the answer."""
    orders = orders_of(items, PRODUCT)
    agreeing = [default_agree(prior_state(item)) for item in items]
    by_agree = {agree: played(agree_rule(agree, len(PRODUCT)), orders) for agree in set(agreeing)}
    drafts = [item.answers[DRAFT][0] for item in items]
    return Systems(
        first=Played(
            right=np.array([float(one.right) for one in drafts]),
            votes=np.ones(len(items)),
            tokens=np.array([float(one.tokens or 0) for one in drafts]),
        ),
        second=Played(
            **{
                name: np.array([getattr(by_agree[agree], name)[at] for at, agree in enumerate(agreeing)])
                for name in ("right", "votes", "tokens")
            }
        ),
    )


def decision_rows(items: Sequence[ItemRecord], chance: Chance) -> Sequence[DecisionRow]:
    """Both systems on every item, the default model name without labels, and with labels by set and by dimension."""
    both = systems(items)
    sent = np.array([is_sent(item) for item in items], dtype=np.bool_)
    ways = {SYSTEM_ONE: np.zeros_like(sent), METACOG: sent, VOTE: np.ones_like(sent)}
    rows = [_row(name, way, both, chance) for name, way in ways.items()]
    for kinds, named in (
        ("sets", [item.dataset for item in items]),
        ("dimensions", [item.dimension for item in items]),
    ):
        rows += _labelled_rows(kinds, named, both, chance)
    return rows


def mixed(first: Floats, second: Floats, sent: Flags) -> Floats:
    """The level of each item by the system that answers it."""
    found: Floats = np.where(sent, second, first)
    return found


def _row(name: str, sent: Flags, both: Systems, chance: Chance) -> DecisionRow:
    right = mixed(both.first.right, both.second.right, sent)
    return DecisionRow(
        name=name,
        labels=0,
        kinds=0,
        sent=float(sent.mean()),
        right=mean_interval(right, chance),
        tokens=float(mixed(both.first.tokens, both.second.tokens, sent).mean()),
        over_system_one=paired_gain(both.first.right, right, chance),
        over_votes=paired_gain(both.second.right, right, chance),
    )


def _labelled_rows(named: str, kinds: Sequence[str], both: Systems, chance: Chance) -> Sequence[DecisionRow]:
    """The rule by kind, on the items that draws of labels leave; no row where they leave too few."""
    labels = DECIDING_LABELS
    by_kind: dict[str, list[int]] = {}
    for at, kind in enumerate(kinds):
        by_kind.setdefault(kind, []).append(at)
    enough = {kind: own for kind, own in by_kind.items() if kind and len(own) > labels}
    left = sum(len(own) - labels for own in enough.values())
    if left < LEAST_LEFT:
        return []
    rights, tokens, shares = [], [], []
    for _ in range(DRAWS):
        sent, rest = _one_draw(enough, both, chance, labels)
        rights.append(float(mixed(both.first.right, both.second.right, sent)[rest].mean()))
        tokens.append(float(mixed(both.first.tokens, both.second.tokens, sent)[rest].mean()))
        shares.append(float(sent[rest].mean()))
    low, high = np.quantile(rights, [0.025, 0.975])
    found = Estimate(
        value=round(float(np.mean(rights)), 12), low=float(low), high=float(high), items=left, resamples=DRAWS
    )
    return [
        DecisionRow(
            name=f"{METACOG}, gain by kind ({named})",
            labels=labels,
            kinds=len(enough),
            sent=float(np.mean(shares)),
            right=found,
            tokens=float(np.mean(tokens)),
        )
    ]


def _one_draw(
    enough: Mapping[str, Sequence[int]], both: Systems, chance: Chance, labels: int
) -> tuple[Flags, Sequence[int]]:
    """Return the decision on every item after one draw of labels, and the items that it left."""
    orders = {kind: chance.rng.permutation(own).tolist() for kind, own in enough.items()}
    pairs = [
        LabelledPair(kind=kind, system_one=float(both.first.right[at]), system_two=float(both.second.right[at]))
        for kind, order in orders.items()
        for at in order[:labels]
    ]
    gains = gains_by_kind(pairs)
    sent = np.zeros(len(both.first.right), dtype=np.bool_)
    for kind, order in orders.items():
        gain = gains.of(kind)
        sent[order] = gain is not None and gain.pays() is True
    return sent, [at for order in orders.values() for at in order[labels:]]
