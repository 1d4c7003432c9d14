"""When a recalibration map is fitted, and which one is in force.

Source: SPEC 4: only with enough data, versioned, can be rolled back.
"""

from kernel.values import value

# At 100 answers even perfect calibration shows an error of about .10, the size of what a map is there to mend.
DEFAULT_MINIMUM = 100
DEFAULT_GROWTH = 0.2


@value
class FittingRules:
    """When a map is fitted.

    Attributes:
        minimum: Judged answers from which a map is fitted at all [count, >= 1].
        growth: Verdicts that have come in since the last fit, as a share of those it had, from which the next is made
            [> 0].
    """

    minimum: int = DEFAULT_MINIMUM
    growth: float = DEFAULT_GROWTH


@value
class Progress:
    """What has come in for one strategy and one source of confidence.

    Attributes:
        strategy: The strategy.
        confidence_source: The source.
        judged: Judged answers [count].
        fits: Maps fitted so far [count]; the newest one has this number.
        fitted_on: Judged answers that the newest was fitted on [count]; 0 without one.
        since: Verdicts that have come in since then [count]; all of them without one.
    """

    strategy: str
    confidence_source: str
    judged: int
    fits: int = 0
    fitted_on: int = 0
    since: int = 0


def is_due(progress: Progress, rules: FittingRules) -> bool:
    """Whether it is time for a fit.

    Verdicts are counted as they come in, not as they are kept: where runs are kept for some time only, maps go on being
    renewed though the number of judged answers no longer grows.

    Example:
        >>> is_due(Progress(strategy="system1", confidence_source="assessment", judged=99), FittingRules())
        False
    """
    if progress.judged < rules.minimum:
        return False
    return progress.fits == 0 or progress.since >= max(1.0, rules.growth * progress.fitted_on)


def version_in_force(newest: str, *, improves: bool, pinned: str | None) -> str:
    """Version of the map that is in force; empty for none.

    Args:
        newest: Version of the map that was fitted last; empty when there is none.
        improves: Whether that one is better than none.
        pinned: Version that a person chose, empty when they chose none; None when the choice is left to the fits.

    Example:
        >>> version_in_force("b", improves=True, pinned="a"), version_in_force("b", improves=False, pinned=None)
        ('a', '')
    """
    if pinned is not None:
        return pinned
    return newest if improves else ""


def version_of_fit(strategy: str, confidence_source: str, number: int) -> str:
    """Version of the map that was fitted as the `number`-th for a strategy and a source.

    Example:
        >>> version_of_fit("system1", "assessment", 3)
        'system1-assessment-3'
    """
    return f"{strategy}-{confidence_source}-{number}"
