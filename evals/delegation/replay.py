"""The paper's procedure, run again over recorded self-assessments and answers. Pure.

Source: MetaCogAgent Algorithm 1 (papers.md 3.2, 3.3, 3.4). Confidence, decision, vote and learning are those of
`kernel.confidence` and `kernel.learning`, as in the service; here are the order of the tasks, what is switched off, and
what is counted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from string import ascii_uppercase

from evals.delegation.tasks import Task
from kernel.answers import AnswerType
from kernel.confidence.decision import AssessedAgent, executor_decision, is_confident
from kernel.confidence.decision import assessed_agent as assessed
from kernel.confidence.rules import PAPER_RULES, Ablation, TaskMode
from kernel.confidence.rules import Rules as DelegationRules
from kernel.confidence.voting import Ballot, VoteCount, count_votes
from kernel.learning.profiles import Profile, ProfileEstimate, lessons, profile_estimate, updated_competence
from kernel.values import value
from sandbox.client_mathematics import client_mathematics

# Without these parts no agent rates itself.
WITHOUT_RATINGS = (Ablation.WITHOUT_SELF_ASSESSMENT, Ablation.WITHOUT_VERBALIZED)


@value
class Rules:
    """Numbers and ablation that a replay follows.

    Attributes:
        numbers: The numbers that decide; the defaults are the paper's.
        without: A part that is switched off.
    """

    numbers: DelegationRules = PAPER_RULES
    without: Ablation | None = None


@value
class ReplayedTask:
    """The result of the procedure on one task.

    Attributes:
        task: The task.
        mode: How it is solved.
        first: Agent that it was dispatched to.
        executor: Agent that solved it; empty when all did.
        right: Whether the answer is right.
        confidence: Confidence in it [0..1]: the executor's, or the share of the vote that won; None when unknown.
        calls: Calls for self-assessments, those for a second attempt too, and answers [count].
        tokens: Tokens of these [count].
        voters: After a vote, those whose answer won.
    """

    task: Task
    mode: TaskMode
    first: str
    executor: str
    right: bool
    confidence: float | None
    calls: int
    tokens: float
    voters: frozenset[str] = frozenset()


@value
class Replay:
    """The result of one replay: every task, and the competences that were learned.

    Attributes:
        done: What the procedure made of each task, in order.
        levels: Competence by agent and kind at the end [0..1].
    """

    done: Sequence[ReplayedTask]
    levels: Mapping[tuple[str, str], float]


class ProfileRecords:
    """Profiles of the agents during a replay.

    Args:
        learning_rate: Step of a profile toward an outcome, alpha (0..1].

    Attributes:
        profiles: Profiles that have learned something, by agent and kind.
    """

    def __init__(self, learning_rate: float) -> None:
        self._learning_rate = learning_rate
        self.profiles: dict[tuple[str, str], Profile] = {}

    def profile(self, agent: str, kind: str) -> Profile:
        """The profile of `agent` in one kind of task."""
        return self.profiles.get((agent, kind)) or Profile(agent=agent, dimension=kind)

    def estimate(self, agent: str, kinds: Sequence[str]) -> ProfileEstimate:
        """Return what the profiles of `agent` show about a task of these kinds."""
        return profile_estimate([self.profile(agent, kind) for kind in kinds])

    def learn(self, agent: str, kinds: Sequence[str], outcome: int) -> None:
        """Move the profiles of `agent` toward an outcome, in every kind."""
        for kind in kinds:
            before = self.profile(agent, kind)
            competence = updated_competence(before.competence, outcome, self._learning_rate)
            self.profiles[agent, kind] = replace(before, competence=competence, observations=before.observations + 1)


def replay(tasks: Sequence[Task], agents: Sequence[str], rules: Rules, *, turn: int = 0) -> Replay:
    """Run the procedure over `tasks` in order; each goes first to the agent whose turn it is.

    Args:
        tasks: The tasks.
        agents: The agents, in the order of their turns.
        rules: What the replay follows.
        turn: Place of the agent whose turn the first task is.
    """
    records = ProfileRecords(rules.numbers.learning_rate)
    replayed = []
    for place, task in enumerate(tasks):
        first = agents[(place + turn) % len(agents)]
        one = _processed(task, first, agents, rules, records)
        if rules.without is not Ablation.WITHOUT_LEARNING:
            _learn(one, records)
        replayed.append(one)
    levels = {key: profile.competence for key, profile in records.profiles.items()}
    return Replay(done=replayed, levels=levels)


def assessed_agent(task: Task, agent: str, rules: Rules, records: ProfileRecords) -> AssessedAgent:
    """Confidence and threshold of `agent` before `task`, from its recorded rating and its profiles."""
    profile_alone = rules.without is Ablation.WITHOUT_VERBALIZED
    verbalized = None if profile_alone else task.verbalized.get(agent)
    if rules.without is Ablation.WITHOUT_SELF_ASSESSMENT:
        verbalized = rules.numbers.constant_verbalized
    estimate = records.estimate(agent, task.kinds)
    return assessed(verbalized, estimate, rules.numbers, profile_alone=profile_alone)


def vote(task: Task, weights: Mapping[str, float]) -> VoteCount:
    """The vote over the recorded answers of the agents that have a weight.

    Recorded answers are compared already: each distinct one takes part under a letter, in canonical order.
    """
    given = {agent: solved.answer for agent, solved in task.solved.items() if agent in weights and solved.answer}
    letters = dict(zip(sorted(set(given.values())), ascii_uppercase, strict=False))
    ballots = [Ballot(agent=agent, answer=letters[answer], weight=weights[agent]) for agent, answer in given.items()]
    return count_votes(ballots, AnswerType.CHOICE, mathematics=client_mathematics())


def _processed(task: Task, first: str, agents: Sequence[str], rules: Rules, records: ProfileRecords) -> ReplayedTask:
    own = assessed_agent(task, first, rules, records)
    if rules.without is Ablation.WITHOUT_DELEGATION or is_confident(own):
        return _by_one(task, TaskMode.EXECUTED, first, own, rated=_rated(rules, [first]))
    if rules.without is Ablation.WITHOUT_CROSS_EVALUATION and len(agents) > 1:
        peer = agents[(agents.index(first) + 1) % len(agents)]
        unrated = assessed(None, records.estimate(peer, task.kinds), rules.numbers, profile_alone=True)
        return _by_one(task, TaskMode.DELEGATED, first, unrated, rated=_rated(rules, [first]))
    peers = [assessed_agent(task, agent, rules, records) for agent in agents if agent != first]
    decision = executor_decision(own, peers, rules.numbers)
    if decision.mode is TaskMode.COLLABORATED:
        return _by_all(task, first, [own, *peers], rated=_rated(rules, agents))
    executor = next(agent for agent in (own, *peers) if agent.agent == decision.executor)
    return _by_one(task, decision.mode, first, executor, rated=_rated(rules, agents))


def _rated(rules: Rules, agents: Sequence[str]) -> Sequence[str]:
    """Which of `agents` that are considered rate themselves."""
    return () if rules.without in WITHOUT_RATINGS else agents


def _calls(task: Task, rated: Sequence[str], answers: int) -> int:
    """Calls of the self-assessments of `rated`, and of so many answers [count]."""
    return sum(task.asking[agent].calls for agent in rated) + answers


def _tokens(task: Task, rated: Sequence[str], answering: Iterable[str]) -> float:
    """Tokens of the self-assessments of `rated`, and of the answers of `answering` [count]."""
    return sum(task.asking[agent].tokens for agent in rated) + sum(task.solved[agent].tokens for agent in answering)


def _by_one(task: Task, mode: TaskMode, first: str, executor: AssessedAgent, *, rated: Sequence[str]) -> ReplayedTask:
    return ReplayedTask(
        task=task,
        mode=mode,
        first=first,
        executor=executor.agent,
        right=task.solved[executor.agent].right,
        confidence=min(1.0, executor.confidence),
        calls=_calls(task, rated, 1),
        tokens=_tokens(task, rated, [executor.agent]),
    )


def _by_all(task: Task, first: str, agents: Sequence[AssessedAgent], *, rated: Sequence[str]) -> ReplayedTask:
    outcome = vote(task, {each.agent: each.confidence for each in agents})
    return ReplayedTask(
        task=task,
        mode=TaskMode.COLLABORATED,
        first=first,
        executor="",
        right=any(task.solved[agent].right for agent in outcome.winners),
        confidence=outcome.share,
        calls=_calls(task, rated, len(agents)),
        tokens=_tokens(task, rated, task.solved),
        voters=outcome.winners,
    )


def _learn(replayed: ReplayedTask, records: ProfileRecords) -> None:
    """Teach the agents that the outcome concerns (papers.md 3.4)."""
    taught = lessons(
        executor=replayed.executor,
        voters=tuple(replayed.task.solved),
        winners=replayed.voters,
        correct=replayed.right,
    )
    for lesson in taught:
        records.learn(lesson.agent, replayed.task.kinds, lesson.outcome)
