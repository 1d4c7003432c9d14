"""Every text of a chain is judged beside all the others, so that their number does not show its stage. Pure."""

from collections.abc import Mapping, Sequence

from kernel.roles import Stage
from kernel.seeds import derived_seed


def others_in_random_order(stages: Sequence[Stage], seed: int) -> Mapping[Stage, Sequence[Stage]]:
    """Return for each of `stages` all the others, in an order drawn for it.

    In the order of the chain the first of the others would show which text is missing, and so which one is judged.

    Args:
        stages: The stages that have a text, in the order of the chain.
        seed: Seed of the draws [any integer].

    Source: ours (papers.md 1.5).

    Example:
        >>> beside = others_in_random_order([Stage.THESIS, Stage.ANTITHESIS, Stage.RESOLUTION], seed=7)
        >>> [len(others) for others in beside.values()], sorted(beside[Stage.THESIS])
        ([2, 2, 2], [<Stage.ANTITHESIS: 'ANTITHESIS'>, <Stage.RESOLUTION: 'RESOLUTION'>])
    """
    return {
        stage: sorted((other for other in stages if other is not stage), key=lambda o: derived_seed(seed, stage, o))
        for stage in stages
    }
