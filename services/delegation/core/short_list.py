"""Which other agents are worth asking, so that the number of calls is bounded however many agents there are.

Source: SPEC 3.6. Agents known little keep a chance to be asked: by draws from their Beta reading (Thompson sampling) or
by the upper ends of their intervals.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from kernel.confidence.rules import Exploration
from kernel.learning.profiles import Profile, drawn, reading, upper_bound
from kernel.thresholds import DECIMALS
from kernel.values import value


@value
class ShortListed:
    """An agent that is worth asking.

    Attributes:
        agent: The agent.
        profile: Its competence in the task's dimensions [0..1].
        rank_value: What it was ranked by, after exploration [0..1].
    """

    agent: str
    profile: float
    rank_value: float


def short_list(
    profiles: Mapping[str, Sequence[Profile]],
    size: int,
    exploration: Exploration,
    rng: np.random.Generator,
) -> list[ShortListed]:
    """The agents that are asked, best first.

    Args:
        profiles: Each agent's profiles in the task's dimensions.
        size: Agents at most [count, >= 1].
        exploration: How agents known little keep a chance.
        rng: Chance.

    Returns:
        At most `size` agents by falling rank value, ties by identifier.
    """
    ranked = [
        ShortListed(
            agent=agent,
            profile=reading(of_agent).profile,
            rank_value=round(_rank_value(of_agent, exploration, rng), DECIMALS),
        )
        for agent, of_agent in sorted(profiles.items())
    ]
    return sorted(ranked, key=lambda one: (-one.rank_value, one.agent))[:size]


def _rank_value(profiles: Sequence[Profile], exploration: Exploration, rng: np.random.Generator) -> float:
    match exploration:
        case Exploration.NONE:
            return reading(profiles).profile
        case Exploration.THOMPSON:
            return drawn(profiles, rng)
        case Exploration.UPPER_BOUND:
            return upper_bound(profiles)
