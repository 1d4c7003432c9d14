"""What adaptive arbitration saves, and how often it gives another answer than all K_a samples would have given.

    python -m bench arbiter_stopping                          # simulated answer distributions
    python -m bench.arbiter_stopping --recordings FILE ...    # replays of `bench.arbiter_recording`

Every row is a setting of adaptive mode. *spent* is the share of the generations of paper mode, *changed* the share of
questions whose answer differs from that of paper mode, with a 95 % interval; beside it the same of a fixed number of
arbitration samples whose mean cost is equal (drawn as a prefix of the same samples).
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chassis.wire import from_plain
from kernel.envelope import LARGEST_LIMIT, Limits
from kernel.statistics.intervals import wilson
from services.arbiter.core.choosing import ranked
from services.arbiter.core.kinds import Mode
from services.arbiter.core.stopping import StopRule, change_bound, is_uncatchable, largest_error
from services.arbiter.service.measure import MeasureLimits
from services.arbiter.service.plan import Defaults
from services.arbiter.service.replay import replay
from services.arbiter.service.tracing import Tracer
from services.arbiter.service.values import AdaptiveOptions, ReplayRequest

SAMPLES = 50
SETTINGS = [(q, first) for first in (4, 6, 8) for q in (0.9, 0.95, 0.99, 1.0)]
# Shares of the answers; the rest of the mass is of invalid samples.
SHARES: Sequence[Sequence[float]] = (
    (1.0,), (0.97, 0.03), (0.9, 0.1), (0.8, 0.2), (0.7, 0.3), (0.6, 0.4), (0.55, 0.45), (0.5, 0.5), (0.48, 0.48),
    (0.6, 0.2, 0.2), (0.5, 0.3, 0.2), (0.4, 0.3, 0.3), (0.34, 0.33, 0.33), (0.25,) * 4, (0.3,) + (0.1,) * 7,
    (0.3, 0.3), (0.2, 0.1),
)  # fmt: skip
REPEATS = 400


@dataclass(frozen=True)
class Outcome:
    """One question under one setting: generations spent, those of paper mode, and whether the answer changed."""

    spent: int
    whole: int
    changed: bool


def run_rule(drawn: Sequence[str | None], rule: StopRule) -> int:
    """Samples that the rule draws of `drawn`."""
    for n in rule.looks:
        counts = counted(drawn[:n])
        left = rule.samples - n
        if is_uncatchable(counts, {}, left) or change_bound(counts, {}, left) <= rule.level:
            return n
    return rule.samples


def counted(drawn: Sequence[str | None]) -> dict[str, int]:
    """Counts of the valid answers."""
    counts: dict[str, int] = {}
    for answer in drawn:
        if answer is not None:
            counts[answer] = counts.get(answer, 0) + 1
    return counts


def leader(drawn: Sequence[str | None]) -> str | None:
    """The answer of these samples."""
    counts = counted(drawn)
    return ranked(counts, {})[0] if counts else None


def simulated(shares: Sequence[float], rng: np.random.Generator, repeats: int) -> list[list[str | None]]:
    """Samples of questions with these shares."""
    chance = [*shares, max(0.0, 1.0 - sum(shares))]
    drawn = rng.choice(len(chance), size=(repeats, SAMPLES), p=np.array(chance) / sum(chance))
    return [[None if place == len(shares) else f"{place:02}" for place in row] for row in drawn]


def row(label: str, outcomes: Sequence[Outcome], fixed: str) -> str:
    """One line of a table."""
    changed = sum(one.changed for one in outcomes)
    interval = wilson(changed, len(outcomes))
    spent = sum(one.spent for one in outcomes) / sum(one.whole for one in outcomes)
    share = changed / len(outcomes)
    return f"| {label} | {spent:.1%} | {share:.2%} [{interval.low:.2%}, {interval.high:.2%}] | {fixed} |"


def simulate() -> None:
    """Print both tables of the simulation."""
    rule = StopRule(samples=SAMPLES, first_batch=6, probability=0.95)
    sys.stdout.write(
        f"K_a {SAMPLES}, first batch 6, probability 0.95: level {rule.level:.4f}, largest error over all splits of two "
        f"answers {largest_error(SAMPLES, 6, rule.level):.4f}\n\n"
        "| shares of the answers | mean samples | answer changed | fixed prefix of equal cost |\n|---|---|---|---|\n"
    )
    rng = np.random.default_rng(2024)
    every: list[list[str | None]] = []
    for shares in SHARES:
        rows = simulated(shares, rng, REPEATS)
        every += rows
        used = [run_rule(drawn, rule) for drawn in rows]
        changed = np.mean([leader(drawn[:n]) != leader(drawn) for drawn, n in zip(rows, used, strict=True)])
        prefix = fixed_change(rows, float(np.mean(used)))
        told = ", ".join(f"{share:g}" for share in shares)
        sys.stdout.write(f"| {told} | {np.mean(used):.1f} | {changed:.2%} | {prefix:.2%} |\n")
    sys.stdout.write("\nAll of them together, arbitration samples only:\n\n")
    sys.stdout.write("| probability, first batch | spent | changed | fixed prefix |\n|---|---|---|---|\n")
    for probability, first in SETTINGS:
        chosen = StopRule(samples=SAMPLES, first_batch=first, probability=probability)
        used = [run_rule(drawn, chosen) for drawn in every]
        outcomes = [
            Outcome(n, SAMPLES, leader(drawn[:n]) != leader(drawn)) for drawn, n in zip(every, used, strict=True)
        ]
        prefix = f"{fixed_change(every, float(np.mean(used))):.2%}"
        sys.stdout.write(row(f"{probability}, {first}", outcomes, prefix) + "\n")


def fixed_change(rows: Sequence[Sequence[str | None]], mean: float) -> float:
    """Share of questions whose answer a fixed number of samples changes; between whole numbers in proportion."""
    low = max(1, int(mean))
    shares = [np.mean([leader(drawn[:n]) != leader(drawn) for drawn in rows]) for n in (low, min(SAMPLES, low + 1))]
    return float(shares[0] + (mean - low) * (shares[1] - shares[0])) if mean > low else float(shares[0])


class NoEncoder:
    """Nobody asks it."""

    def batches(self, texts: Sequence[str], *, timeout_s: float) -> Any:  # noqa: ANN401
        """Refuses."""
        raise NotImplementedError


def replayed(recordings: Sequence[Mapping[str, Any]], **options: Any) -> list[Outcome]:  # noqa: ANN401
    """What each recorded question would have cost, and whether its answer would have changed."""
    unlimited = Limits(max_generations=LARGEST_LIMIT, max_generated_tokens=LARGEST_LIMIT, timeout_ms=LARGEST_LIMIT)
    defaults, tracer = Defaults(limits=unlimited), Tracer(NoEncoder(), batch_timeout_s=1)

    async def one(recording: Mapping[str, Any]) -> Outcome:
        ask = from_plain({**recording, **options}, ReplayRequest)
        reply = await replay(ask, defaults=defaults, tracer=tracer, most=MeasureLimits())
        spent, answer = reply.arbitration.usage.generations, reply.arbitration.answer
        return Outcome(spent, reply.recorded_generations, answer != (reply.recorded_answer or ""))

    async def every() -> list[Outcome]:
        return [await one(recording) for recording in recordings]

    return asyncio.run(every())


def replay_all(files: Sequence[Path]) -> None:
    """Print the trade-off over recorded questions."""
    recordings = [json.loads(line) for file in files for line in file.read_text().splitlines() if line.strip()]
    sys.stdout.write(f"{len(recordings)} recorded questions\n\n")
    sys.stdout.write("| setting | spent | changed | fixed K_a of equal cost |\n|---|---|---|---|\n")
    fixed = {count: replayed(recordings, mode="PAPER", arbitration_samples=count) for count in range(1, SAMPLES + 1)}
    for stepwise in (False, True):
        for probability, first in SETTINGS:
            options = AdaptiveOptions(
                stopping_probability=probability, first_batch_samples=first, stepwise_solving=stepwise
            )
            outcomes = replayed(recordings, mode=Mode.ADAPTIVE.value, adaptive=_plain(options))
            label = f"adaptive {probability}, first batch {first}{', stepwise' if stepwise else ''}"
            sys.stdout.write(row(label, outcomes, _equal_cost(fixed, outcomes)) + "\n")
    for count in (1, 5, 10, 25):
        sys.stdout.write(row(f"paper, K_a {count}", fixed[count], "") + "\n")


def _plain(options: AdaptiveOptions) -> dict[str, Any]:
    names = ("stopping_probability", "first_batch_samples", "stepwise_solving")
    return {name: getattr(options, name) for name in names}


def _equal_cost(fixed: Mapping[int, Sequence[Outcome]], outcomes: Sequence[Outcome]) -> str:
    """The fixed K_a whose mean cost is nearest, and how often it changes the answer."""
    mean = sum(one.spent for one in outcomes)
    count = min(fixed, key=lambda each: abs(sum(one.spent for one in fixed[each]) - mean))
    changed = sum(one.changed for one in fixed[count]) / len(outcomes)
    if sum(one.spent for one in fixed[1]) > mean:
        return f"none is as cheap; K_a 1: {changed:.2%}"
    return f"K_a {count}: {changed:.2%}"


def main() -> None:
    """Simulate, or replay the recordings that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", nargs="+", type=Path, default=[])
    files = parser.parse_args().recordings
    if files:
        replay_all(files)
    else:
        simulate()


if __name__ == "__main__":
    main()
