"""The short-list bounds the number of other agents that are assessed, for any number of agents.

Source: ours (papers.md 3.6). Agents with few observations keep a chance: by draws from their Beta reading (Thompson
sampling) or by the upper ends of their intervals.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from kernel.confidence.rules import Exploration
from kernel.learning.profiles import Profile, profile_estimate, sampled_competence, upper_bound
from kernel.thresholds import DECIMALS
from kernel.values import value


@value
class ShortListed:
    """A short-listed agent is assessed for a task.

    Attributes:
        agent: The agent.
        profile: Its competence in the task's dimensions [0..1].
        rank_value: The value it was ranked by, after exploration [0..1].
    """

    agent: str
    profile: float
    rank_value: float


def short_list(
    profiles: Mapping[str, Sequence[Profile]],
    size: int,
    exploration: Exploration,
    rng: np.random.Generator,
    *,
    ranked_by: Mapping[str, Sequence[Profile]] | None = None,
) -> list[ShortListed]:
    """Return the agents to assess, best first.

    Args:
        profiles: Each agent's profiles in the task's dimensions.
        size: Agents at most [count, >= 1].
        exploration: How agents with few observations keep a chance.
        rng: Random generator.
        ranked_by: Profiles that agents are ranked by, such as those drawn towards the agent's overall record; None:
            `profiles`.

    Returns:
        At most `size` agents by falling rank value, ties by identifier.
    """
    ranking = profiles if ranked_by is None else ranked_by
    ranked = [
        ShortListed(
            agent=agent,
            profile=profile_estimate(own).profile,
            rank_value=round(_rank_value(ranking[agent], exploration, rng), DECIMALS),
        )
        for agent, own in sorted(profiles.items())
    ]
    return sorted(ranked, key=lambda each: (-each.rank_value, each.agent))[:size]


def _rank_value(profiles: Sequence[Profile], exploration: Exploration, rng: np.random.Generator) -> float:
    match exploration:
        case Exploration.NONE:
            return profile_estimate(profiles).profile
        case Exploration.THOMPSON:
            return sampled_competence(profiles, rng)
        case Exploration.UPPER_BOUND:
            return upper_bound(profiles)
