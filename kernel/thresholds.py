"""Comparisons with thresholds take rounded values, so that float noise does not decide.

Source: ours (papers.md 1.2). In plain floats a third of the grid points that are exactly 0.45 fall below it.
"""

DECIMALS = 9


def reaches(value: float, threshold: float) -> bool:
    """Return whether `value` is at least `threshold`, both rounded to 1e-9.

    Args:
        value: A level, or a difference of levels [any finite number].
        threshold: What it is compared with, in the same unit [any finite number].

    Example:
        >>> 0.7 - 0.25 >= 0.45, reaches(0.7 - 0.25, 0.45)
        (False, True)
    """
    return round(value, DECIMALS) >= round(threshold, DECIMALS)


def exceeds(value: float, threshold: float) -> bool:
    """Return whether `value` is above `threshold`, both rounded to 1e-9.

    Args:
        value: A level, or a difference of levels [any finite number].
        threshold: What it is compared with, in the same unit [any finite number].

    Example:
        >>> abs(0.8 - 0.5) > 0.3, exceeds(abs(0.8 - 0.5), 0.3)
        (True, False)
    """
    return round(value, DECIMALS) > round(threshold, DECIMALS)
