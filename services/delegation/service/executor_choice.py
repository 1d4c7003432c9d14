"""Algorithm 1 chooses the agent that solves a task, with baselines, ablations, short-list and routine filter."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernel.confidence.decision import AssessedAgent, ExecutorDecision, executor_decision, is_confident
from kernel.confidence.panels import PanelMember, panel_order
from kernel.confidence.rules import Ablation, Baseline, Dispatch, ModeReason, TaskMode
from kernel.learning.profiles import Profile, ProfileEstimate, profile_estimate
from kernel.learning.shrinkage import shrunk_profiles
from kernel.thresholds import DECIMALS
from services.delegation.core.keywords import keyword_dimension, skilled_agent
from services.delegation.core.routine import Routine, is_routine
from services.delegation.core.short_list import ShortListed, short_list
from services.delegation.service.self_assessment import SelfAssessor, affordable_assessments
from services.delegation.service.task_context import TaskContext
from services.delegation.service.values import AgentAssessed, ModeChosen, ProcessRequest, TaskDimension


class ExecutorChoice:
    """This choice decides who solves one task.

    Args:
        task: The task.
        profiles: Profiles of all agents that take part, in the task's dimensions.
        ranking: The same, as agents are ranked by them.
        dimensions: Those dimensions.
        assessor: Obtains self-assessments.
        routine: When a task is routine.

    Attributes:
        assessments: The assessments so far, in order.
        estimates: Competence of each agent in the task's dimensions; empty without dimensions.
        competences: The same, as agents are ranked by it [0..1].
    """

    def __init__(
        self,
        task: TaskContext,
        profiles: Mapping[str, Sequence[Profile]],
        ranking: Mapping[str, Sequence[Profile]],
        dimensions: Sequence[TaskDimension],
        assessor: SelfAssessor,
        routine: Routine,
    ) -> None:
        self._task = task
        self._profiles = profiles
        self._ranking = ranking
        self._assessor = assessor
        self._routine = routine
        certainties = [each.certainty for each in dimensions if each.certainty is not None]
        self._certainty = min(certainties, default=1.0)
        self.assessments: list[AgentAssessed] = []
        self.estimates: Mapping[str, ProfileEstimate] = {
            name: profile_estimate(own) for name, own in profiles.items() if own
        }
        self.competences: Mapping[str, float] = {
            name: profile_estimate(own).profile for name, own in ranking.items() if own
        }

    async def mode(self, first: str) -> ModeChosen:
        """Decide who solves the task that was dispatched to `first`."""
        ablations, rules = self._task.ablations, self._task.rules
        estimate = self.estimates[first]
        if rules.skip_routine and is_routine(
            estimate, self._certainty, threshold=rules.confidence_threshold, limits=self._routine
        ):
            self._add(self._assessor.profile_based(first, estimate, "skipped", profile_alone=True))
            return _executed(first, ModeReason.ROUTINE)
        await self._assess([first])
        assessed = _assessed_agent(self.assessments[0])
        others = [name for name in self._task.agents if name != first]
        if is_confident(assessed) or not others:
            return _mode_chosen(executor_decision(assessed, [], rules), first)
        if Ablation.WITHOUT_DELEGATION in ablations:
            return _executed(first, ModeReason.ABLATION)
        if Ablation.WITHOUT_CROSS_EVALUATION in ablations:
            return self._next_agent(first)
        return await self._cross_evaluated(first, assessed, others)

    async def _assess(self, agents: Sequence[str]) -> None:
        self.assessments += await self._assessor.assess_all(agents, self.estimates)

    def _next_agent(self, first: str) -> ModeChosen:
        """Delegate to the agent after `first` in the configuration, without an assessment."""
        names = list(self._task.agents)
        peer = names[(names.index(first) + 1) % len(names)]
        self._add(self._assessor.profile_based(peer, self.estimates[peer], "ablation", profile_alone=True))
        return ModeChosen(mode=TaskMode.DELEGATED, first_agent=first, executor=peer, reason=ModeReason.ABLATION)

    async def _cross_evaluated(self, first: str, assessed: AssessedAgent, others: Sequence[str]) -> ModeChosen:
        rules = self._task.rules
        listed = short_list(
            {name: self._profiles[name] for name in others},
            len(others) if rules.follows_paper else rules.short_list_size,
            rules.exploration,
            self._task.generator_of("short_list"),
            ranked_by=self._ranking,
        )
        if affordable_assessments(self._task) < 1 and not self._assessments_are_free():
            self._task.spend.ledger.exhausted = True
            return _executed(first, ModeReason.BUDGET)
        await self._assess([each.agent for each in listed])
        peers = [_assessed_agent(each) for each in self.assessments[1:]]
        chosen = _mode_chosen(executor_decision(assessed, peers, rules), first, listed)
        is_panel = chosen.mode is TaskMode.COLLABORATED and not rules.follows_paper
        return replace(chosen, panel=self._panel([assessed, *peers])) if is_panel else chosen

    def _panel(self, assessed: Sequence[AssessedAgent]) -> Sequence[str]:
        return panel_order(
            [
                PanelMember(agent=each.agent, competence=self.competences[each.agent], confidence=each.confidence)
                for each in assessed
            ]
        )

    def _assessments_are_free(self) -> bool:
        """Return whether assessments cost nothing."""
        return bool(self._task.ablations & {Ablation.WITHOUT_SELF_ASSESSMENT, Ablation.WITHOUT_VERBALIZED})

    def _add(self, assessment: AgentAssessed) -> None:
        self.assessments.append(assessment)
        self._task.emit(assessment)


def ranking_profiles(
    profiles: Mapping[str, Sequence[Profile]], dimensions: Sequence[str]
) -> Mapping[str, Sequence[Profile]]:
    """Return the profiles in the task's `dimensions`, each drawn towards the agent's record in its other dimensions.

    Args:
        profiles: All profiles of the agents that take part.
        dimensions: Dimensions of the task.
    """
    return {
        name: shrunk_profiles(
            [one for one in own if one.dimension in dimensions], [one for one in own if one.dimension not in dimensions]
        )
        for name, own in profiles.items()
    }


def dispatched(request: ProcessRequest, ranking: Mapping[str, Sequence[Profile]], index: int) -> str:
    """Return the agent that a task goes to first.

    Args:
        request: The request.
        ranking: Profiles by which all agents that take part are ranked, in the order of the configuration.
        index: Index of the agent that is next by round robin.
    """
    names = list(ranking)
    if request.first_agent:
        return request.first_agent
    if request.dispatch is Dispatch.BEST_PROFILE and request.baseline is Baseline.NONE:
        return min(names, key=lambda name: (-round(profile_estimate(ranking[name]).profile, DECIMALS), name))
    return names[index]


def baseline_choice(
    request: ProcessRequest, task: TaskContext, index: int, keywords: Mapping[str, Sequence[str]]
) -> ModeChosen:
    """Return who solves a task under a baseline.

    Args:
        request: The request.
        task: The task.
        index: Index of the agent that is next by round robin.
        keywords: Keywords of each dimension.
    """
    names = list(task.agents)
    default = request.first_agent or names[0]
    match request.baseline:
        case Baseline.MAJORITY_VOTE:
            return ModeChosen(mode=TaskMode.COLLABORATED, first_agent=default, executor="", reason=ModeReason.BASELINE)
        case Baseline.ROUND_ROBIN:
            return _executed(names[index], ModeReason.BASELINE)
        case Baseline.RANDOM:
            return _executed(names[int(task.generator_of("random").integers(len(names)))], ModeReason.BASELINE)
        case Baseline.SKILL_FIXED:
            named = next(filter(None, [request.dimension, *request.dimensions]), None)
            needed = named or keyword_dimension(task.question, keywords)
            skills = {name: task.agents[name].tags for name in [default, *(n for n in names if n != default)]}
            skilled = skilled_agent(needed, skills)
            mode = TaskMode.EXECUTED if skilled == default else TaskMode.DELEGATED
            return ModeChosen(mode=mode, first_agent=default, executor=skilled, reason=ModeReason.BASELINE)
        case Baseline.NONE | Baseline.SINGLE_AGENT:
            return _executed(default, ModeReason.BASELINE)


def _executed(agent: str, reason: ModeReason) -> ModeChosen:
    return ModeChosen(mode=TaskMode.EXECUTED, first_agent=agent, executor=agent, reason=reason)


def _mode_chosen(decision: ExecutorDecision, first: str, listed: Sequence[ShortListed] = ()) -> ModeChosen:
    return ModeChosen(
        mode=decision.mode,
        first_agent=first,
        executor=decision.executor,
        reason=decision.reason,
        short_list=listed,
    )


def _assessed_agent(assessment: AgentAssessed) -> AssessedAgent:
    return AssessedAgent(
        agent=assessment.agent,
        verbalized=assessment.verbalized,
        profile=assessment.profile,
        confidence=assessment.confidence,
        disagreement=assessment.disagreement,
        threshold=assessment.threshold,
        eligible=assessment.eligible,
        ineligible_reason=assessment.ineligible_reason,
    )
