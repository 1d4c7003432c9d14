"""Stopping rules over recorded samples of one agent: ask until answers agree, against a fixed number of samples.

The rules are those of `kernel.votes` and `kernel.arbitration`. Samples are drawn in random order, another one for each
question and repeat; intervals are by bootstrap over questions.
"""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from evals.replay.pack import INVALID, Agent, Floats, Ints, RecordedSet
from evals.stats.bootstrap_means import percentile_estimate, resampled_means
from evals.stats.chance import Chance
from kernel.arbitration.consensus import ranked_answers
from kernel.arbitration.stopping import StopRule, change_bound
from kernel.statistics.bootstrap import Estimate
from kernel.values import value
from kernel.votes.votes import Vote, VoteMode, VoteRule, VoteSource, grouped_by_key, vote_stop

# Samples that an agent must have, and random orders in which they are drawn [count].
LEAST_SAMPLES = 10
ORDERS = 40
# Votes at most [count].
MOST = 5
# Probability at which adaptive arbitration stops, as the arbiter's default.
SURE = 0.95
FIRST_BATCH = 6

_SOURCE = VoteSource(model="recorded", mode=VoteMode.REASONED)
# The winning vote (an index) after the votes that were asked for.
Stopped = tuple[int | None, int]
Rule = Callable[[tuple[int, ...]], Stopped]


@value
class StoppingRow:
    """One rule on the samples of one agent.

    Attributes:
        set: Name of the file.
        agent: The agent.
        rule: `agree_2`, `agree_3`, `fixed_K` for a number of samples K, or `arbiter`.
        mean_generations: Samples used per question [count].
        accuracy: Share right [0..1].
        gain_over_fixed: Accuracy minus that of a fixed number of samples with as many in the mean, a random mix of the
            two next numbers where the mean is not whole.
        loss_against_all: Accuracy of all recorded samples minus that of the rule.
    """

    set: str
    agent: str
    rule: str
    mean_generations: float
    accuracy: Estimate
    gain_over_fixed: Estimate
    loss_against_all: Estimate


def stopping_rows(recorded: RecordedSet, chance: Chance, orders: int = ORDERS) -> Sequence[StoppingRow]:
    """Return the rules on each agent that has enough samples and is right on 20 to 80 % of the questions."""
    rows: list[StoppingRow] = []
    for agent in recorded.agents.values():
        if agent.samples >= LEAST_SAMPLES and 0.2 <= agent.right[agent.asked].mean() <= 0.8:
            rows += _agent_rows(recorded.name, agent, chance, orders)
    return rows


def agree_rule(agree: int, most: int = MOST) -> Rule:
    """Return the rule of the vote: ask until `agree` answers agree, at most `most` times."""
    rule = VoteRule(agree=agree, most=most)

    @cache
    def stopped(pattern: tuple[int, ...]) -> Stopped:
        votes: list[Vote] = []
        keys: list[str | None] = []
        for number in pattern:
            keys.append(None if number == INVALID else str(number))
            votes.append(Vote(source=_SOURCE, answer=keys[-1]))
            groups = grouped_by_key(keys, votes)
            if vote_stop(groups, votes, rule) is not None:
                break
        return (groups[0].votes[0] if groups else None), len(votes)

    return lambda pattern: stopped(pattern[:most])


def fixed_rule(samples: int) -> Rule:
    """Return the control: always so many samples, and the most frequent answer."""

    @cache
    def stopped(pattern: tuple[int, ...]) -> Stopped:
        keys = [None if number == INVALID else str(number) for number in pattern]
        groups = grouped_by_key(keys, [Vote(source=_SOURCE, answer=key) for key in keys])
        return (groups[0].votes[0] if groups else None), samples

    return lambda pattern: stopped(pattern[:samples])


def arbiter_rule(samples: int) -> Rule:
    """Return adaptive arbitration: batches until the answer of all samples is known with probability 0.95."""
    rule = StopRule(samples=samples, first_batch=min(FIRST_BATCH, samples), probability=SURE)

    @cache
    def stopped(pattern: tuple[int, ...]) -> Stopped:
        for size in rule.looks:
            counts: dict[str, int] = {}
            for number in pattern[:size]:
                if number != INVALID:
                    counts[str(number)] = counts.get(str(number), 0) + 1
            if size == samples or change_bound(counts, {}, samples - size) <= rule.level:
                break
        leader = next(iter(ranked_answers(counts, {})), None)
        return (None if leader is None else pattern.index(int(leader))), size

    return lambda pattern: stopped(pattern[:samples])


def pattern_of(numbers: Sequence[int]) -> tuple[int, ...]:
    """Return numbers in the order of their first occurrence: a rule depends on nothing else.

    Example:
        >>> pattern_of([7, 3, -1, 7])
        (0, 1, -1, 0)
    """
    seen: dict[int, int] = {}
    return tuple(INVALID if one == INVALID else seen.setdefault(one, len(seen)) for one in numbers)


def random_orders(
    agent: Agent, rows: npt.NDArray[np.bool_], rng: np.random.Generator, orders: int
) -> tuple[Sequence[Ints], Sequence[Ints]]:
    """Return answers and labels of the questions `rows` in random orders, one array (items, samples) for each."""
    answers, right = agent.answers[rows], agent.right[rows].astype(np.int64)
    shuffled = []
    for _ in range(orders):
        order = rng.permuted(np.broadcast_to(np.arange(agent.samples), answers.shape), axis=1)
        shuffled.append((np.take_along_axis(answers, order, 1), np.take_along_axis(right, order, 1)))
    return [one for one, _ in shuffled], [one for _, one in shuffled]


def outcomes(rule: Rule, answers: Sequence[Ints], right: Sequence[Ints]) -> tuple[Floats, Floats]:
    """Return for each question the mean share right and the mean number of samples over the orders."""
    items = len(answers[0])
    hits, used = np.zeros(items), np.zeros(items)
    for given, judged in zip(answers, right, strict=True):
        for at, numbers in enumerate(given.tolist()):
            winner, samples = rule(pattern_of(numbers))
            used[at] += samples
            if winner is not None:
                hits[at] += judged[at, winner]
    return hits / len(answers), used / len(answers)


def _agent_rows(name: str, agent: Agent, chance: Chance, orders: int) -> Sequence[StoppingRow]:
    answers, right = random_orders(agent, agent.asked, chance.rng, orders)
    fixed = [outcomes(fixed_rule(size), answers, right)[0] for size in range(1, agent.samples + 1)]
    rules = {
        "agree_2": agree_rule(2),
        "agree_3": agree_rule(3),
        "arbiter": arbiter_rule(agent.samples),
        **{f"fixed_{size}": fixed_rule(size) for size in (1, 3, MOST, agent.samples)},
    }
    found = {rule: outcomes(play, answers, right) for rule, play in rules.items()}
    columns = np.stack([*fixed, *(column for pair in found.values() for column in pair)])
    drawn = resampled_means(columns, chance)
    seen = columns.mean(axis=1)
    rows = []
    for place, (rule, (_, used)) in enumerate(found.items()):
        at = agent.samples + 2 * place
        levels = drawn[:, at]
        gains = levels - at_equal_cost(drawn[:, : agent.samples], drawn[:, at + 1])
        losses = drawn[:, agent.samples - 1] - levels
        gain = seen[at] - at_equal_cost(seen[None, : agent.samples], seen[None, at + 1])[0]
        rows.append(
            StoppingRow(
                set=name,
                agent=agent.name,
                rule=rule,
                mean_generations=float(used.mean()),
                accuracy=percentile_estimate(float(seen[at]), levels, columns.shape[1]),
                gain_over_fixed=percentile_estimate(float(gain), gains, columns.shape[1]),
                loss_against_all=percentile_estimate(
                    float(seen[agent.samples - 1] - seen[at]), losses, columns.shape[1]
                ),
            )
        )
    return rows


def at_equal_cost(fixed: Floats, used: Floats) -> Floats:
    """Return the share right of a random mix of two fixed numbers of samples that costs as much in the mean.

    Args:
        fixed: Share right at 1, 2, ... samples, shape (draws, samples).
        used: Samples in the mean, shape (draws,) [1..samples].

    Example:
        >>> at_equal_cost(np.array([[0.5, 0.6, 0.8]]), np.array([2.5])).round(9).tolist()
        [0.7]
    """
    low = np.clip(np.floor(used).astype(np.int64), 1, fixed.shape[1])
    high = np.minimum(low + 1, fixed.shape[1])
    rows = np.arange(len(fixed))
    part = np.clip(used - low, 0.0, 1.0)
    mixed: Floats = fixed[rows, low - 1] * (1 - part) + fixed[rows, high - 1] * part
    return mixed


# Cost of an answer with its reasoning, in direct answers: the assumption, half of it and twice.
COST_RATIOS = (6, 12, 24)
DRAFT, REASONED = "@0.2", "+cot@0.8"


@value
class DraftVoteRow:
    """The direct answer as the first vote, against asking for answers with reasoning only; both until two agree.

    Attributes:
        set: Name of the file.
        model: The model; its direct answer at temperature 0.2 is the draft.
        accuracy_share: Accuracy with the draft over accuracy without [>= 0].
        cost_shares: Cost with the draft over cost without, by what an answer with reasoning costs in direct ones.
    """

    set: str
    model: str
    accuracy_share: Estimate
    cost_shares: dict[int, float]


def draft_vote_rows(recorded: RecordedSet, chance: Chance, orders: int = ORDERS) -> Sequence[DraftVoteRow]:
    """Return the models of which both direct answers and enough answers with reasoning are recorded."""
    rows = []
    for agent in recorded.agents.values():
        drafts = recorded.agents.get(agent.model + DRAFT)
        if agent.name == agent.model + REASONED and drafts is not None and agent.samples >= LEAST_SAMPLES:
            rows.append(_draft_row(recorded.name, drafts, agent, chance, orders))
    return rows


def _draft_row(name: str, drafts: Agent, agent: Agent, chance: Chance, orders: int) -> DraftVoteRow:
    both = drafts.asked & agent.asked
    answers, right = random_orders(agent, both, chance.rng, orders)
    firsts, firsts_right = random_orders(drafts, both, chance.rng, orders)
    rule = agree_rule(2)
    plain, used = outcomes(rule, answers, right)
    joined = [np.concatenate([one[:, :1], rest], axis=1) for one, rest in zip(firsts, answers, strict=True)]
    judged = [np.concatenate([one[:, :1], rest], axis=1) for one, rest in zip(firsts_right, right, strict=True)]
    hits, voted = outcomes(rule, joined, judged)
    drawn = resampled_means(np.stack([plain, hits]), chance)
    return DraftVoteRow(
        set=name,
        model=agent.model,
        accuracy_share=percentile_estimate(hits.mean() / plain.mean(), drawn[:, 1] / drawn[:, 0], len(hits)),
        cost_shares={ratio: float((1 + ratio * (voted.mean() - 1)) / (ratio * used.mean())) for ratio in COST_RATIOS},
    )
