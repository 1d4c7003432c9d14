"""Detection of changes; the simulations are seeded; larger ones: docs/evaluation/delegation-simulated.md."""

from statistics import median

import numpy as np
import pytest

from kernel.learning.drift import DriftLimits, Split, detected_change, likeliest_change, shortened_memory

LIMITS = DriftLimits()


def outcomes(rng: np.random.Generator, *parts: tuple[float, int]) -> list[int]:
    return [int(r) for share, count in parts for r in rng.random(count) < share]


def alarm(seen: list[int], limits: DriftLimits = LIMITS) -> int | None:
    """Observations after which a change is first raised; None for never."""
    return next(
        (n for n in range(1, len(seen) + 1) if detected_change(seen[max(0, n - limits.window) : n], limits)), None
    )


def test_the_statistic_of_a_clean_break() -> None:
    # 16 outcomes, half of them right: 16 ln 2 nats for one share, 0 for two.
    split = likeliest_change([1] * 8 + [0] * 8)

    assert split is not None
    assert split.statistic == pytest.approx(16 * np.log(2))
    assert (split.before, split.after, split.since) == (1.0, 0.0, 8)


def test_no_change_is_found_in_too_few_outcomes_or_of_equal_ones() -> None:
    assert likeliest_change([1, 0] * 4) is None
    result = likeliest_change([1] * 50)
    assert result is not None
    assert result.statistic == 0


def test_a_rise_is_a_change_too() -> None:
    split = detected_change([0] * 20 + [1] * 20, LIMITS)

    assert split is not None
    assert split.after > split.before


def test_a_change_leaves_the_memory_with_what_follows_it() -> None:
    split = Split(statistic=10, before=0.9, after=0.2, since=7)

    assert (shortened_memory(19, split), shortened_memory(4, split)) == (7, 4)


@pytest.mark.parametrize(("before", "after", "within"), [(0.9, 0.3, 15), (0.8, 0.3, 25)])
def test_a_large_drop_is_found_within_a_few_dozen_outcomes(before: float, after: float, within: int) -> None:
    rng = np.random.default_rng(3)
    found = [alarm(outcomes(rng, (before, 100), (after, 100))) for _ in range(20)]
    delays = [at - 100 for at in found if at is not None and at > 100]

    assert len(delays) >= 18
    assert median(delays) <= within


def test_steady_competence_raises_few_false_alarms() -> None:
    rng = np.random.default_rng(4)
    raised = sum(alarm(outcomes(rng, (0.7, 200))) is not None for _ in range(12))

    assert raised <= 2
