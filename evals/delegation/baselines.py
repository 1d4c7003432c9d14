"""Ways to choose who solves a task without metacognition, over the same recorded answers. Pure.

Where chance chooses, its mean is taken, so that no draw decides what is reported.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from evals.delegation.replay import ReplayedTask, vote
from evals.delegation.tasks import Sampled, Task
from kernel.values import value


@value
class Chosen:
    """The result of one way to choose on one task.

    Attributes:
        right: Probability that the answer is right [0..1].
        calls: Calls that it takes [count].
        tokens: Tokens of these [count].
        delegated: Whether the task left its default agent; None where it has none.
    """

    right: float
    calls: float
    tokens: float
    delegated: bool | None = None


Way = Callable[[Task, int], Chosen | None]
"""From a task and its place to what becomes of it; None where that was not recorded."""

SINGLE, ROUND_ROBIN, RANDOM, SKILL, MAJORITY = (
    "Single-Agent", "Round-Robin", "Random-Routing", "Skill-Fixed", "Majority-Vote",
)  # fmt: skip
BEST, ORACLE, SAME = "best single agent", "oracle (any right)", "self-consistency"


def ways(tasks: Sequence[Task], agents: Sequence[str]) -> Mapping[str, Way]:
    """The baselines of Table II, the agent that is best in hindsight, and what no choice can beat.

    Args:
        tasks: The tasks, for hindsight.
        agents: The agents, in the order of their turns; the first has tasks by default.
    """
    best = max(agents, key=lambda agent: sum(task.solved[agent].right for task in tasks))
    return {
        SINGLE: lambda task, _: _one(task, agents[0]),
        ROUND_ROBIN: lambda task, place: _one(task, agents[place % len(agents)]),
        RANDOM: lambda task, _: _any(task, agents),
        **({SKILL: lambda task, _: _skilled(task, agents[0])} if any(task.skilled for task in tasks) else {}),
        MAJORITY: lambda task, _: _vote(task, agents),
        f"{BEST} ({best})": lambda task, _: _one(task, best),
        ORACLE: lambda task, _: _any_right(task, agents),
    }


def shuffled(done: Sequence[ReplayedTask], agents: Sequence[str]) -> Way:
    """The choices that a procedure has made, shuffled over the tasks: it asks as much, and knows nothing.

    Args:
        done: What the procedure did.
        agents: The agents.
    """
    choices = Counter(one.executor for one in done)
    shares = {executor: count / len(done) for executor, count in choices.items()}
    asked = [(one.calls, one.tokens - _chosen(one.task, one.executor, agents).tokens) for one in done]
    calls, tokens = (sum(each) / len(done) for each in zip(*asked, strict=True))
    return partial(_shuffled, shares, (calls, tokens), agents)


def _shuffled(
    shares: Mapping[str, float], asked: tuple[float, float], agents: Sequence[str], task: Task, _: int
) -> Chosen:
    each = [(share, _chosen(task, executor, agents)) for executor, share in shares.items()]
    right, tokens = sum(share * one.right for share, one in each), sum(share * one.tokens for share, one in each)
    return Chosen(right=right, calls=asked[0], tokens=asked[1] + tokens)


def _chosen(task: Task, executor: str, agents: Sequence[str]) -> Chosen:
    """The answer of `executor`; of all by vote where it is empty."""
    return _one(task, executor) if executor else _vote(task, agents)


def same_calls(done: Sequence[ReplayedTask]) -> Way:
    """Self-consistency that on each task votes over as many samples as a procedure has made calls on it.

    Args:
        done: What the procedure did, every task in several orders; the mean over these is taken.
    """
    calls: dict[tuple[str, int], list[int]] = {}
    for one in done:
        calls.setdefault((one.task.item.id, one.task.seed), []).append(one.calls)
    return lambda task, _: _sampled(task, calls[task.item.id, task.seed])


def _sampled(task: Task, calls: Sequence[int]) -> Chosen | None:
    """The mean over votes of so many of the first samples each; at least one, at most all of them."""
    if not task.samples:
        return None
    parts = [task.samples[: max(1, each)] for each in calls]
    n = len(parts)
    return Chosen(
        right=sum(most_frequent_is_right(part) for part in parts) / n,
        calls=sum(len(part) for part in parts) / n,
        tokens=sum(sample.tokens for part in parts for sample in part) / n,
    )


def most_frequent_is_right(samples: Sequence[Sampled]) -> bool:
    """Whether the most frequent answer is right, the one that came first of several; without any answer it is not."""
    counts = Counter(sample.answer for sample in samples if sample.answer is not None)
    elected = max(counts, key=lambda answer: counts[answer], default=None)
    return any(sample.right for sample in samples if sample.answer == elected)


def _one(task: Task, agent: str) -> Chosen:
    solved = task.solved[agent]
    return Chosen(right=float(solved.right), calls=1, tokens=solved.tokens)


def _skilled(task: Task, default: str) -> Chosen | None:
    if not task.skilled:
        return None
    solved = task.solved[task.skilled]
    return Chosen(right=float(solved.right), calls=1, tokens=solved.tokens, delegated=task.skilled != default)


def _any(task: Task, agents: Sequence[str]) -> Chosen:
    each = [task.solved[agent] for agent in agents]
    n = len(each)
    return Chosen(right=sum(one.right for one in each) / n, calls=1, tokens=sum(one.tokens for one in each) / n)


def _vote(task: Task, agents: Sequence[str]) -> Chosen:
    outcome = vote(task, dict.fromkeys(agents, 1.0))
    right = any(task.solved[agent].right for agent in outcome.winners)
    return Chosen(right=float(right), calls=len(agents), tokens=sum(task.solved[agent].tokens for agent in agents))


def _any_right(task: Task, agents: Sequence[str]) -> Chosen:
    right = any(task.solved[agent].right for agent in agents)
    return Chosen(right=float(right), calls=len(agents), tokens=sum(task.solved[agent].tokens for agent in agents))
