"""The paper's procedure, run again over recorded self-assessments and answers. Pure.

Source: SPEC 3.2 to 3.4, Algorithm 1. It is written anew from there and not shared with the service: where the two
disagree on the same task, one of them is wrong.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from evals.delegation.tasks import Task
from kernel.thresholds import DECIMALS, exceeds, reaches
from kernel.values import value

START = 0.5


class Without(StrEnum):
    """A part that is switched off."""

    SELF_ASSESSMENT = "w/o self-assessment"
    DELEGATION = "w/o delegation"
    LEARNING = "w/o boundary learning"
    CROSS_EVALUATION = "w/o cross-agent evaluation"
    VERBALIZED = "w/o verbalized"


# Without these nobody is asked about itself.
UNASKED = (Without.SELF_ASSESSMENT, Without.VERBALIZED)


@value
class Rules:
    """The numbers that decide; the defaults are the paper's.

    Attributes:
        theta: Confidence from which an agent may do a task [0..1].
        weight: Weight of what an agent says beside its record, lambda [0..1].
        rate: Step of a record toward an outcome, alpha (0..1].
        odd: Disagreement above which the threshold rises, theta_delta [0..1].
        rise: Rise of the threshold per disagreement, gamma [>= 0].
        least: Outcomes that let a record stand for an agent that could not rate itself [count].
        without: A part that is switched off.
    """

    theta: float = 0.5
    weight: float = 0.6
    rate: float = 0.1
    odd: float = 0.3
    rise: float = 0.2
    least: int = 5
    without: Without | None = None


@value
class Standing:
    """How one agent stands before a task."""

    agent: str
    confidence: float
    threshold: float
    eligible: bool


@value
class Done:
    """What became of one task.

    Attributes:
        task: The task.
        mode: `EXECUTED`, `DELEGATED` or `COLLABORATED`.
        first: Agent that it was dispatched to.
        executor: Agent that did it; empty when all did.
        right: Whether the answer is right.
        confidence: Confidence in it [0..1]: the executor's, or the share of the vote that won; None when unknown.
        calls: Calls for self-assessments, those for a second attempt too, and answers [count].
        tokens: Tokens of these [count].
        voters: After a vote, those whose answer won.
    """

    task: Task
    mode: str
    first: str
    executor: str
    right: bool
    confidence: float | None
    calls: int
    tokens: float
    voters: frozenset[str] = frozenset()


class Records:
    """What agents have learned to be good at, as the procedure keeps it."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self.levels: dict[tuple[str, str], float] = {}
        self._seen: Counter[tuple[str, str]] = Counter()

    def level(self, agent: str, kinds: Sequence[str]) -> float:
        """What the record of `agent` says of a task of these kinds: the least of them [0..1]."""
        return min(self.levels.get((agent, kind), START) for kind in kinds)

    def seen(self, agent: str, kinds: Sequence[str]) -> int:
        """Outcomes behind that [count]: of the kind that limits it."""
        limiting = min(kinds, key=lambda kind: self.levels.get((agent, kind), START))
        return self._seen[agent, limiting]

    def learn(self, agent: str, kinds: Sequence[str], outcome: int) -> None:
        """P <- p + alpha (r - p), in every kind."""
        for kind in kinds:
            level = self.levels.get((agent, kind), START)
            self.levels[agent, kind] = level + self._rate * (outcome - level)
            self._seen[agent, kind] += 1


@value
class Replayed:
    """All tasks of one replay, and what was learned.

    Attributes:
        done: What became of each task, in order.
        levels: Competence by agent and kind at the end [0..1].
    """

    done: Sequence[Done]
    levels: Mapping[tuple[str, str], float]


def replay(tasks: Sequence[Task], agents: Sequence[str], rules: Rules, *, turn: int = 0) -> Replayed:
    """Run the procedure over `tasks` in order; each goes first to the agent whose turn it is.

    Args:
        tasks: The tasks.
        agents: The agents, in the order of their turns.
        rules: The numbers in force.
        turn: Whose turn the first task is [place].
    """
    records = Records(rules.rate)
    done = []
    for place, task in enumerate(tasks):
        first = agents[(place + turn) % len(agents)]
        one = _decided(task, first, agents, rules, records)
        if rules.without is not Without.LEARNING:
            _learn(one, records)
        done.append(one)
    return Replayed(done=done, levels=dict(records.levels))


def standing(task: Task, agent: str, rules: Rules, records: Records) -> Standing:
    """How `agent` stands before `task`: c = lambda c^v + (1 - lambda) c^p, theta' = theta + gamma delta."""
    record = records.level(agent, task.kinds)
    verbalized = task.verbalized.get(agent)
    if rules.without is Without.SELF_ASSESSMENT:
        verbalized = START
    if verbalized is None or rules.without is Without.VERBALIZED:
        known = rules.without is Without.VERBALIZED or records.seen(agent, task.kinds) >= rules.least
        return Standing(agent=agent, confidence=record, threshold=rules.theta, eligible=known)
    apart = abs(verbalized - record)
    return Standing(
        agent=agent,
        confidence=rules.weight * verbalized + (1 - rules.weight) * record,
        threshold=rules.theta + (rules.rise * apart if exceeds(apart, rules.odd) else 0.0),
        eligible=True,
    )


def _decided(task: Task, first: str, agents: Sequence[str], rules: Rules, records: Records) -> Done:
    own = standing(task, first, rules, records)
    confident = own.eligible and reaches(own.confidence, own.threshold)
    if confident or rules.without is Without.DELEGATION or len(agents) == 1:
        return _by_one(task, "EXECUTED", first, own, asked=_asked(rules, [first]))
    others = [agent for agent in agents if agent != first]
    if rules.without is Without.CROSS_EVALUATION:
        peer = agents[(agents.index(first) + 1) % len(agents)]
        return _by_one(task, "DELEGATED", first, _by_record(task, peer, rules, records), asked=_asked(rules, [first]))
    peers = [standing(task, agent, rules, records) for agent in others]
    able = [peer for peer in peers if peer.eligible and reaches(peer.confidence, rules.theta)]
    if able:
        best = max(able, key=lambda peer: round(peer.confidence, DECIMALS))
        return _by_one(task, "DELEGATED", first, best, asked=_asked(rules, agents))
    return _by_all(task, first, [own, *peers], asked=_asked(rules, agents))


def _asked(rules: Rules, agents: Sequence[str]) -> Sequence[str]:
    """Which of `agents` that are looked at are asked about themselves."""
    return () if rules.without in UNASKED else agents


def _calls(task: Task, asked: Sequence[str], answers: int) -> int:
    """Calls of asking `asked` about themselves, and of so many answers [count]."""
    return sum(task.asking[agent].calls for agent in asked) + answers


def _tokens(task: Task, asked: Sequence[str], answering: Iterable[str]) -> float:
    """Tokens of asking `asked` about themselves, and of the answers of `answering` [count]."""
    return sum(task.asking[agent].tokens for agent in asked) + sum(task.solved[agent].tokens for agent in answering)


def _by_record(task: Task, agent: str, rules: Rules, records: Records) -> Standing:
    """How an agent stands that is not asked: its record alone."""
    record = records.level(agent, task.kinds)
    return Standing(agent=agent, confidence=record, threshold=rules.theta, eligible=True)


def _by_one(task: Task, mode: str, first: str, who: Standing, *, asked: Sequence[str]) -> Done:
    return Done(
        task=task,
        mode=mode,
        first=first,
        executor=who.agent,
        right=task.solved[who.agent].right,
        confidence=min(1.0, who.confidence),
        calls=_calls(task, asked, 1),
        tokens=_tokens(task, asked, [who.agent]),
    )


def _by_all(task: Task, first: str, everybody: Sequence[Standing], *, asked: Sequence[str]) -> Done:
    elected, share = election(task, {each.agent: each.confidence for each in everybody})
    return Done(
        task=task,
        mode="COLLABORATED",
        first=first,
        executor="",
        right=any(task.solved[agent].right for agent in elected),
        confidence=share,
        calls=_calls(task, asked, len(everybody)),
        tokens=_tokens(task, asked, task.solved),
        voters=elected,
    )


def election(task: Task, weights: Mapping[str, float]) -> tuple[frozenset[str], float | None]:
    """Who gave the answer that wins the vote, and its share of the weight; nobody where nobody gave a valid one.

    Ties go to the answer of more agents, then to the first in order; where nobody's vote weighs anything, all weigh
    the same.
    """
    valid = {agent: solved.answer for agent, solved in task.solved.items() if agent in weights and solved.answer}
    level = sum(weights[agent] for agent in valid) <= 0
    sums: dict[str, float] = {}
    for agent, answer in valid.items():
        sums[answer] = sums.get(answer, 0.0) + (1.0 if level else weights[agent])
    if not sums:
        return frozenset(), None
    voters = Counter(valid.values())
    winner = min(sums, key=lambda answer: (-round(sums[answer], DECIMALS), -voters[answer], answer))
    return frozenset(a for a, answer in valid.items() if answer == winner), sums[winner] / sum(sums.values())


def _learn(done: Done, records: Records) -> None:
    """The executor learns; after a right vote those who gave it and the others, after a wrong one its voters alone."""
    kinds = done.task.kinds
    if done.executor:
        records.learn(done.executor, kinds, int(done.right))
        return
    for agent in done.task.solved if done.right else done.voters:
        records.learn(agent, kinds, int(done.right and agent in done.voters))
