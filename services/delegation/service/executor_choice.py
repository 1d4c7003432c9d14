"""Who solves a task: Algorithm 1 around real agents, with baselines, ablations, short-list and routine filter."""

from collections.abc import Mapping, Sequence

from kernel.confidence.decision import AssessedAgent, ExecutorDecision, decided, is_confident
from kernel.confidence.rules import Ablation, Baseline, Dispatch, TaskMode
from kernel.learning.profiles import Profile, ProfileEstimate, reading
from kernel.thresholds import DECIMALS
from services.delegation.core.keywords import keyword_dimension, skilled_agent
from services.delegation.core.routine import Routine, is_routine
from services.delegation.core.short_list import ShortListed, short_list
from services.delegation.service.self_assessment import SelfAssessor, affordable
from services.delegation.service.task_context import TaskContext
from services.delegation.service.values import AgentAssessed, ModeChosen, ProcessRequest, TaskDimension


class ExecutorChoice:
    """Chooses who solves one task.

    Args:
        work: The task.
        profiles: Profiles of everybody who takes part, in the task's dimensions.
        dimensions: Those dimensions.
        assessing: Takes self-assessments.
        routine: When a task is routine.

    Attributes:
        assessments: Everybody who was assessed, in order.
        records: What each agent's record says about the task; empty without dimensions.
    """

    def __init__(
        self,
        work: TaskContext,
        profiles: Mapping[str, Sequence[Profile]],
        dimensions: Sequence[TaskDimension],
        assessing: SelfAssessor,
        routine: Routine,
    ) -> None:
        self._work = work
        self._profiles = profiles
        self._assessing = assessing
        self._routine = routine
        named = [one.certainty for one in dimensions if one.certainty is not None]
        self._certainty = min(named, default=1.0)
        self.assessments: list[AgentAssessed] = []
        self.records: Mapping[str, ProfileEstimate] = {name: reading(of) for name, of in profiles.items() if of}

    async def mode(self, first: str) -> ModeChosen:
        """Who solves the task that was dispatched to `first`."""
        ablations, rules = self._work.ablations, self._work.rules
        record = self.records[first]
        limits = self._routine
        if rules.skip_routine and is_routine(
            record, self._certainty, threshold=rules.confidence_threshold, limits=limits
        ):
            self._take(self._assessing.unasked(first, record, "skipped", profile_alone=True))
            return _alone(first, "routine")
        await self._assess([first])
        stands = _standing(self.assessments[0])
        others = [name for name in self._work.agents if name != first]
        if is_confident(stands) or not others:
            return _chosen(decided(stands, [], rules), first)
        if Ablation.WITHOUT_DELEGATION in ablations:
            return _alone(first, "ablation")
        if Ablation.WITHOUT_CROSS_EVALUATION in ablations:
            return self._to_the_next(first)
        return await self._cross_evaluated(first, stands, others)

    async def _cross_evaluated(self, first: str, stands: AssessedAgent, others: Sequence[str]) -> ModeChosen:
        rules = self._work.rules
        listed = short_list(
            {name: self._profiles[name] for name in others},
            rules.short_list_size,
            rules.exploration,
            self._work.chance("short_list"),
        )
        if affordable(self._work) < 1 and not self._free():
            self._work.spend.ledger.exhausted = True
            return _alone(first, "budget")
        await self._assess([one.agent for one in listed])
        peers = [_standing(one) for one in self.assessments[1:]]
        return _chosen(decided(stands, peers, rules), first, listed)

    def _to_the_next(self, first: str) -> ModeChosen:
        """The peer whose turn would be next takes the task, unassessed."""
        names = list(self._work.agents)
        peer = names[(names.index(first) + 1) % len(names)]
        self._take(self._assessing.unasked(peer, self.records[peer], "ablation", profile_alone=True))
        return ModeChosen(mode=TaskMode.DELEGATED, first_agent=first, executor=peer, reason="ablation")

    async def _assess(self, agents: Sequence[str]) -> None:
        self.assessments += await self._assessing.all(agents, self.records)

    def _take(self, made: AgentAssessed) -> None:
        self.assessments.append(made)
        self._work.emit(made)

    def _free(self) -> bool:
        """Whether assessments cost nothing."""
        return bool(self._work.ablations & {Ablation.WITHOUT_SELF_ASSESSMENT, Ablation.WITHOUT_VERBALIZED})


def dispatched(ask: ProcessRequest, profiles: Mapping[str, Sequence[Profile]], turn: int) -> str:
    """The agent that a task goes to first.

    Args:
        ask: The request.
        profiles: Profiles of everybody who takes part, in the order of the configuration.
        turn: Place of the agent whose turn it is.
    """
    names = list(profiles)
    if ask.first_agent:
        return ask.first_agent
    if ask.dispatch is Dispatch.BEST_PROFILE and ask.baseline is Baseline.NONE:
        return min(names, key=lambda name: (-round(reading(profiles[name]).profile, DECIMALS), name))
    return names[turn]


def by_baseline(ask: ProcessRequest, work: TaskContext, turn: int, keywords: Mapping[str, Sequence[str]]) -> ModeChosen:
    """Who solves a task under a baseline; `turn` is the place of the agent whose turn it is."""
    names = list(work.agents)
    default = ask.first_agent or names[0]
    match ask.baseline:
        case Baseline.MAJORITY_VOTE:
            return ModeChosen(mode=TaskMode.COLLABORATED, first_agent=default, executor="", reason="baseline")
        case Baseline.ROUND_ROBIN:
            return _alone(names[turn], "baseline")
        case Baseline.RANDOM:
            return _alone(names[int(work.chance("random").integers(len(names)))], "baseline")
        case Baseline.SKILL_FIXED:
            named = next(filter(None, [ask.dimension, *ask.dimensions]), None)
            needed = named or keyword_dimension(work.question, keywords)
            skills = {name: work.agents[name].tags for name in [default, *(n for n in names if n != default)]}
            skilled = skilled_agent(needed, skills)
            mode = TaskMode.EXECUTED if skilled == default else TaskMode.DELEGATED
            return ModeChosen(mode=mode, first_agent=default, executor=skilled, reason="baseline")
        case _:
            return _alone(default, "baseline")


def _alone(agent: str, reason: str) -> ModeChosen:
    return ModeChosen(mode=TaskMode.EXECUTED, first_agent=agent, executor=agent, reason=reason)


def _chosen(decision: ExecutorDecision, first: str, listed: Sequence[ShortListed] = ()) -> ModeChosen:
    return ModeChosen(
        mode=decision.mode,
        first_agent=first,
        executor=decision.executor,
        reason=decision.reason,
        short_list=listed,
    )


def _standing(made: AgentAssessed) -> AssessedAgent:
    return AssessedAgent(
        agent=made.agent,
        verbalized=made.verbalized,
        profile=made.profile,
        confidence=made.confidence,
        disagreement=made.disagreement,
        threshold=made.threshold,
        eligible=made.eligible,
        ineligible_reason=made.ineligible_reason,
    )
