"""These rules say when a recalibration map is fitted, and which one is in force.

Source: ours (papers.md 4.3): only with enough data, versioned, can be rolled back.
"""

from kernel.statistics.recalibration import GROWTH, MINIMUM_LABELS, is_fit_due
from kernel.values import value


@value
class FittingRules:
    """Fitting rules say when a map is fitted.

    Attributes:
        minimum: Labelled answers from which a map is fitted at all [count, >= 1].
        growth: Labels since the last fit, as a share of those it was fitted on, from which the next is made [> 0].
    """

    minimum: int = MINIMUM_LABELS
    growth: float = GROWTH


@value
class Progress:
    """Progress counts the labels and maps of one strategy and one source of confidence.

    Attributes:
        strategy: The strategy.
        confidence_source: The source.
        judged: Labelled answers [count].
        fits: Maps fitted so far [count]; the newest one has this number.
        fitted_on: Labelled answers that the newest was fitted on [count]; 0 without one.
        since: Labels that have come in since then [count]; all of them without one.
    """

    strategy: str
    confidence_source: str
    judged: int
    fits: int = 0
    fitted_on: int = 0
    since: int = 0


def is_due(progress: Progress, rules: FittingRules) -> bool:
    """Return whether it is time for a fit.

    Labels are counted as they come in, not as they are stored: where runs are deleted after some time, maps are still
    renewed though the number of labelled answers no longer grows.

    Example:
        >>> is_due(Progress(strategy="system1", confidence_source="assessment", judged=99), FittingRules())
        False
    """
    return is_fit_due(
        progress.judged,
        since=progress.since,
        fitted_on=progress.fitted_on if progress.fits else None,
        minimum=rules.minimum,
        growth=rules.growth,
    )


def version_in_force(newest: str, *, improves: bool, pinned: str | None) -> str:
    """Return the version of the map that is in force; empty for none.

    Args:
        newest: Version of the map that was fitted last; empty when there is none.
        improves: Whether that map is better than none.
        pinned: Version that a person chose, empty when they chose no map; None when the choice is left to the fits.

    Example:
        >>> version_in_force("b", improves=True, pinned="a"), version_in_force("b", improves=False, pinned=None)
        ('a', '')
    """
    if pinned is not None:
        return pinned
    return newest if improves else ""


def version_of_fit(strategy: str, confidence_source: str, number: int) -> str:
    """Return the version of the map that was fitted as the `number`-th for a strategy and a source.

    Args:
        strategy: Strategy whose confidence it maps.
        confidence_source: Source of that confidence.
        number: Number of the fit [>= 1].

    Example:
        >>> version_of_fit("system1", "assessment", 3)
        'system1-assessment-3'
    """
    return f"{strategy}-{confidence_source}-{number}"
