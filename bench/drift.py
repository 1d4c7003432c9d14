"""This benchmark measures drift detection: delay, false alarms, and coverage of the competence interval.

Outcomes are drawn; the detector, the profile and its interval are those of the service. All draws are seeded, so that
the figures repeat. BENCH_RUNS sets the runs of each figure.

    python -m bench drift
"""

import os
import sys
from collections.abc import Sequence
from functools import partial
from multiprocessing.pool import Pool

import numpy as np

from kernel.learning.drift import DriftLimits, detected_change
from kernel.learning.profiles import INITIAL_COMPETENCE, Profile, interval, memory, updated_competence

RUNS = int(os.environ.get("BENCH_RUNS", "200"))
PROCESSES = int(os.environ.get("BENCH_PROCESSES", "2"))
THRESHOLDS = (7.0, 8.0, 9.0, 10.0)
STEADY, STEADY_LENGTH = (0.5, 0.8, 0.95), 1000
CHANGES, BEFORE, AFTER = ((0.9, 0.3), (0.8, 0.4), (0.9, 0.6), (0.4, 0.8)), 100, 300
TRUTHS, OBSERVATIONS, RATE = (0.1, 0.3, 0.5, 0.7, 0.9, 0.95), (5, 20, 100), 0.1


def write(line: str) -> None:
    """Write a line and flush it."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def drawn(seed: Sequence[int], *parts: tuple[float, int]) -> list[int]:
    """Return outcomes: of each part `count`, with the given share of right ones."""
    rng = np.random.default_rng(seed)
    return [int(right) for share, count in parts for right in rng.random(count) < share]


def alarm(outcomes: Sequence[int], limits: DriftLimits) -> int | None:
    """Return the outcomes after which a change is first detected [count]; None for never."""
    ends = range(2 * limits.least, len(outcomes) + 1)
    return next((end for end in ends if detected_change(outcomes[max(0, end - limits.window) : end], limits)), None)


def steady(run: int, threshold: float, share: float) -> int | None:
    """Return when one run without a change first detects one."""
    return alarm(drawn((1, run, int(100 * share)), (share, STEADY_LENGTH)), DriftLimits(threshold=threshold))


def changed(run: int, threshold: float, shares: tuple[float, float]) -> int | None:
    """Return when one run with a change after `BEFORE` outcomes first detects one."""
    seed = (2, run, int(100 * shares[0]), int(100 * shares[1]))
    return alarm(drawn(seed, (shares[0], BEFORE), (shares[1], AFTER)), DriftLimits(threshold=threshold))


def detection(pool: Pool) -> None:
    """Write false alarms and delays of the detector, by threshold."""
    write(
        f"{RUNS} runs a figure. False alarms: share of runs of {STEADY_LENGTH:,} steady outcomes with one. Delay:"
        f" outcomes after a change at {BEFORE}, median and nine in ten; in brackets the share found within {AFTER}.\n"
    )
    alarms = [f"false alarms at {share:g}" for share in STEADY]
    delays = [f"delay of {first:g} → {then:g}" for first, then in CHANGES]
    _row(["threshold", *alarms, *delays])
    write("|---" * (1 + len(alarms) + len(delays)) + "|")
    for threshold in THRESHOLDS:
        raised = [pool.map(partial(steady, threshold=threshold, share=share), range(RUNS)) for share in STEADY]
        found = [pool.map(partial(changed, threshold=threshold, shares=shares), range(RUNS)) for shares in CHANGES]
        shown = [f"{sum(at is not None for at in one) / RUNS:.2f}" for one in raised]
        _row([f"{threshold:g}", *shown, *map(_delay, found)])


def _delay(found: Sequence[int | None]) -> str:
    delays = [at - BEFORE for at in found if at is not None and at > BEFORE]
    return f"{np.median(delays):g}, {np.quantile(delays, 0.9):.0f} ({len(delays) / RUNS:.2f})"


def _row(cells: Sequence[str]) -> None:
    write(f"| {' | '.join(cells)} |")


def coverage() -> None:
    """Write how often the 95 % interval of a profile holds a steady competence."""
    write(f"\nShare of {10 * RUNS:,} profiles whose 95 % interval holds the truth, by outcomes, and its mean width.\n")
    _row(["truth", *(f"after {count}" for count in OBSERVATIONS)])
    write("|---" * (1 + len(OBSERVATIONS)) + "|")
    for truth in TRUTHS:
        figures = []
        for count in OBSERVATIONS:
            limits = [_interval(drawn((3, run, count, int(100 * truth)), (truth, count))) for run in range(10 * RUNS)]
            held = np.mean([low <= truth <= high for low, high in limits])
            width = np.mean([high - low for low, high in limits])
            figures.append(f"{held:.3f} ({width:.2f})")
        _row([f"{truth:g}", *figures])


def _interval(outcomes: Sequence[int]) -> tuple[float, float]:
    competence, weight, squares = INITIAL_COMPETENCE, 0.0, 0.0
    for outcome in outcomes:
        competence = updated_competence(competence, outcome, RATE)
        weight, squares = weight + RATE * (1 - weight), squares * (1 - RATE) ** 2 + RATE**2
    profile = Profile(agent="a", dimension="d", competence=competence, memory=memory(weight, squares), weight=weight)
    limits = interval(profile)
    return limits.low, limits.high


def main() -> None:
    """Run the benchmark."""
    with Pool(PROCESSES) as pool:
        detection(pool)
    coverage()


if __name__ == "__main__":
    main()
