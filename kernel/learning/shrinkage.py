"""An agent's competence in a dimension is drawn towards its record in its other dimensions.

A dimension with few outcomes says little; how good the agent is elsewhere says more. The number of pseudo-observations
is that of papers.md 5.2 for the competence of a source of votes.
"""

from collections.abc import Sequence
from dataclasses import replace

from kernel.learning.profiles import INITIAL_COMPETENCE, Profile, outcome_mean
from kernel.thresholds import DECIMALS
from kernel.values import value

# Observations that the record in the other dimensions stands for at most [count].
PSEUDO_OBSERVATIONS = 10
# Observations of the uniform prior: one right, one wrong [count].
PRIOR_OBSERVATIONS = 2


@value
class OverallRecord:
    """An overall record is the outcomes of one agent over several dimensions.

    Attributes:
        mean: Mean of the outcomes [0..1].
        memory: Observations that it rests on [count, >= 0].
    """

    mean: float = INITIAL_COMPETENCE
    memory: float = 0.0


def overall_record(profiles: Sequence[Profile]) -> OverallRecord:
    """Return the record of an agent over `profiles`, each weighed by the observations that it rests on.

    Example:
        >>> overall_record([Profile(agent="a", dimension="d", competence=0.8, memory=6.0),
        ...                 Profile(agent="a", dimension="e", competence=0.5, memory=2.0)])
        OverallRecord(mean=0.725, memory=8.0)
    """
    memory = sum(one.memory for one in profiles)
    if memory <= 0:
        return OverallRecord()
    right = sum(one.memory * outcome_mean(one.competence, one.weight) for one in profiles)
    return OverallRecord(mean=round(right / memory, DECIMALS), memory=memory)


def shrunk_profile(profile: Profile, others: OverallRecord) -> Profile:
    """Return a profile drawn towards the agent's record in its other dimensions.

    Args:
        profile: The profile, of n observations with mean m.
        others: The record in the other dimensions, with mean q.

    Returns:
        The profile with the competence (1 + n m + k q) / (2 + n + k), where k is the number of observations in the
        other dimensions, at most 10. Its Beta reading is Beta(1 + n m + k q, 1 + n (1 - m) + k (1 - q)), of which that
        is the mean; intervals, draws and bounds follow from it.

    Source:
        Ours (papers.md 3.6), as the share of a kind in papers.md 5.2. What is not known elsewhere draws nothing: k = 0
        leaves the Beta reading of papers.md 3.4, so that a new agent keeps its chance.

    Example:
        >>> shrunk_profile(Profile(agent="a", dimension="d"), OverallRecord(mean=0.9, memory=30.0)).competence
        0.833333333
    """
    drawn = min(float(PSEUDO_OBSERVATIONS), others.memory)
    known = profile.memory + drawn
    right = profile.memory * outcome_mean(profile.competence, profile.weight) + drawn * others.mean
    return replace(
        profile,
        competence=round((1.0 + right) / (PRIOR_OBSERVATIONS + known), DECIMALS),
        memory=known,
        weight=known / (PRIOR_OBSERVATIONS + known),
    )


def shrunk_profiles(wanted: Sequence[Profile], others: Sequence[Profile]) -> tuple[Profile, ...]:
    """Return an agent's profiles in the dimensions of a task, each drawn towards all its other ones.

    Args:
        wanted: Its profiles in the task's dimensions.
        others: Its profiles in all other dimensions.
    """
    return tuple(
        shrunk_profile(one, overall_record([*others, *(each for each in wanted if each is not one)])) for one in wanted
    )
