"""These numbers and choices govern delegation; their names are the contract's.

Source: MetaCogAgent V-A (papers.md 3.2, 3.4), its defaults: theta 0.5, lambda 0.6, alpha 0.1, theta_delta 0.3, gamma
0.2.
"""

from enum import StrEnum

from kernel.values import value


class TaskMode(StrEnum):
    """A task mode is how a task is solved in the end."""

    EXECUTED = "EXECUTED"
    DELEGATED = "DELEGATED"
    COLLABORATED = "COLLABORATED"


class ModeReason(StrEnum):
    """A mode reason is why a task is solved as it is."""

    CONFIDENT = "confident"
    ROUTINE = "routine"
    BETTER_PEER = "better_peer"
    NO_BETTER_PEER = "no_better_peer"
    NO_AGENT_CONFIDENT = "no_agent_confident"
    ONLY_AGENT = "only_agent"
    BASELINE = "baseline"
    ABLATION = "ablation"
    BUDGET = "budget"
    AGENT_FAILED = "agent_failed"


class NotLearnedReason(StrEnum):
    """A reason why profiles learn nothing from a label."""

    FROZEN = "frozen"
    MAY_NOT_TEACH = "may_not_teach"
    ABLATION = "ablation"
    BASELINE = "baseline"
    ALREADY_JUDGED = "already_judged"
    NO_ANSWER = "no_answer"


class Dispatch(StrEnum):
    """This choice decides which agent a task goes to first."""

    ROUND_ROBIN = "ROUND_ROBIN"
    BEST_PROFILE = "BEST_PROFILE"


class HandOverRule(StrEnum):
    """This rule decides when another agent is better enough to take a task over."""

    BETTER = "BETTER"
    PAPER = "PAPER"


class Exploration(StrEnum):
    """This choice decides how the short-list leaves room for agents with few observations."""

    NONE = "NONE"
    THOMPSON = "THOMPSON"
    UPPER_BOUND = "UPPER_BOUND"


class Baseline(StrEnum):
    """A baseline chooses who solves a task without metacognition."""

    NONE = "NONE"
    SINGLE_AGENT = "SINGLE_AGENT"
    ROUND_ROBIN = "ROUND_ROBIN"
    RANDOM = "RANDOM"
    SKILL_FIXED = "SKILL_FIXED"
    MAJORITY_VOTE = "MAJORITY_VOTE"


class Ablation(StrEnum):
    """An ablation switches one part of delegation off."""

    WITHOUT_SELF_ASSESSMENT = "WITHOUT_SELF_ASSESSMENT"
    WITHOUT_DELEGATION = "WITHOUT_DELEGATION"
    WITHOUT_LEARNING = "WITHOUT_LEARNING"
    WITHOUT_CROSS_EVALUATION = "WITHOUT_CROSS_EVALUATION"
    WITHOUT_VERBALIZED = "WITHOUT_VERBALIZED"


class ConfidenceSource(StrEnum):
    """This is the source of a confidence."""

    VERBALIZED = "VERBALIZED"
    PROFILE = "PROFILE"
    COMBINED = "COMBINED"
    VOTE = "VOTE"


class Checker(StrEnum):
    """A checker is what judged an answer."""

    EXPECTED = "EXPECTED"
    UNIT_TESTS = "UNIT_TESTS"
    JUDGE = "JUDGE"
    FEEDBACK = "FEEDBACK"


# The paper's numbers, by the letters of papers.md 3.2 and 3.4.
CONFIDENCE_THRESHOLD = 0.5  # theta
VERBALIZED_WEIGHT = 0.6  # lambda
DISAGREEMENT_THRESHOLD = 0.3  # theta_delta
DISAGREEMENT_GAIN = 0.2  # gamma
LEARNING_RATE = 0.1  # alpha


@value
class Rules:
    """These numbers and choices are in force for a task.

    Attributes:
        confidence_threshold: Confidence from which an agent may do a task, theta [0..1].
        verbalized_weight: Weight of the verbalized confidence beside the profile, lambda [0..1].
        disagreement_threshold: Disagreement above which the threshold rises, theta_delta [0..1].
        disagreement_gain: Rise of the threshold per disagreement, gamma [dimensionless, >= 0].
        learning_rate: Step of a profile toward an outcome, alpha [0 < alpha <= 1].
        minimum_observations: Observations that let a profile stand for an agent that cannot rate itself [count, >= 0].
        hand_over_rule: When another agent is better enough; `PAPER` also makes all agents vote together.
        short_list_size: Other agents that rate themselves at most [count, >= 1]; not read in the `PAPER` rule.
        exploration: How the short-list keeps room for agents known little.
        skip_routine: Whether routine tasks skip self-assessment.
        recalibrate: Whether verbalized confidence is recalibrated by agent where there is data.
        constant_verbalized: Verbalized confidence of every agent when self-assessment is switched off [0..1].
    """

    confidence_threshold: float = CONFIDENCE_THRESHOLD
    verbalized_weight: float = VERBALIZED_WEIGHT
    disagreement_threshold: float = DISAGREEMENT_THRESHOLD
    disagreement_gain: float = DISAGREEMENT_GAIN
    learning_rate: float = LEARNING_RATE
    minimum_observations: int = 5
    hand_over_rule: HandOverRule = HandOverRule.BETTER
    short_list_size: int = 4
    exploration: Exploration = Exploration.THOMPSON
    skip_routine: bool = False
    recalibrate: bool = True
    constant_verbalized: float = 0.5

    @property
    def follows_paper(self) -> bool:
        """Return whether the paper's algorithm is followed to the letter.

        Then all agents are assessed and vote together, by their profiles as they are and with lambda for every agent.
        """
        return self.hand_over_rule is HandOverRule.PAPER


DEFAULT_RULES = Rules()
PAPER_RULES = Rules(hand_over_rule=HandOverRule.PAPER, recalibrate=False)
