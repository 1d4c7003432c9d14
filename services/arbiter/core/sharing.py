"""What is short, dealt out evenly."""

from collections.abc import Sequence


def shared_out(wanted: Sequence[int], total: int) -> list[int]:
    """Samples for each, at most what it wants and `total` in all; dealt out one at a time, in order.

    Example:
        >>> shared_out([5, 5], 62), shared_out([5, 5], 7), shared_out([1, 5], 4), shared_out([5, 5], 0)
        ([5, 5], [4, 3], [1, 3], [0, 0])
    """
    shares = [0] * len(wanted)
    left = min(total, sum(wanted))
    while left > 0:
        for place, most in enumerate(wanted):
            if left and shares[place] < most:
                shares[place] += 1
                left -= 1
    return shares
