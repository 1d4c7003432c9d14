"""This simulation shows what adaptive arbitration saves, and how often all K_a samples would give another answer.

    python -m bench arbiter_stopping                          # known answer distributions
    python -m bench.arbiter_stopping --more                   # the same of 100 and 200 samples, simulated
    python -m bench.arbiter_stopping --recordings FILE ... [--orders 10]    # replays of `bench.arbiter_recording`

Every row is a setting of adaptive mode. *spent* is the share of the generations of paper mode, *changed* the share of
questions whose answer differs from that of paper mode; beside it the same of a fixed number of arbitration samples
whose mean cost is equal (a prefix of the same samples). Distributions of up to three kinds of samples are computed
exactly, others are simulated. Replays include what skipping arbitration on agreement saves and changes, which no
distribution of the arbiter's answers alone determines. They are in the order drawn, or in several random orders:
samples are exchangeable, so each order is as good a recording of the same question. Their 95 % intervals are over
questions (Wilson's for one order, by bootstrap for more).
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from chassis.serving.wire import from_plain
from kernel.arbitration.consensus import ranked_answers
from kernel.arbitration.modes import Mode, SolvingStop
from kernel.arbitration.polya import Floats, Look, change_probabilities, compositions_at_looks, continuation_shares
from kernel.arbitration.stopping import StopRule, change_bound, error_bound, is_uncatchable, largest_error
from kernel.envelope import LARGEST_LIMIT, Limits
from kernel.statistics.bootstrap import bootstrap_interval
from kernel.statistics.intervals import wilson
from sandbox.mathematics import InProcessCalculator
from services.arbiter.service.claim_tracing import Tracer
from services.arbiter.service.measurement import MeasureLimits
from services.arbiter.service.plan import ArbitrationDefaults
from services.arbiter.service.replay import replay
from services.arbiter.service.values import AdaptiveOptions, ReplayRequest

SAMPLES = 50
SETTINGS = [(q, first) for first in (4, 6, 8) for q in (0.9, 0.95, 0.99, 1.0)]
# Shares of the answers; the rest of the mass is of invalid samples.
SHARES: Sequence[Sequence[float]] = (
    (1.0,), (0.97, 0.03), (0.9, 0.1), (0.8, 0.2), (0.7, 0.3), (0.6, 0.4), (0.55, 0.45), (0.5, 0.5), (0.48, 0.48),
    (0.6, 0.2, 0.2), (0.5, 0.3, 0.2), (0.4, 0.3, 0.3), (0.34, 0.33, 0.33), (0.25,) * 4, (0.3,) + (0.1,) * 7,
    (0.3, 0.3), (0.2, 0.1),
)  # fmt: skip
EXACT_KINDS = 3
REPEATS, REPEATS_OF_EACH_SETTING = 20_000, 2_000
# Samples for which the stop rests on a bound of its error [count], and questions for each distribution there [count].
MORE_SAMPLES, REPEATS_OF_MORE = (100, 200), 400


@dataclass(frozen=True)
class Outcome:
    """One question under one setting: generations spent, those of paper mode, and how often the answer changed."""

    spent: float
    whole: float
    changed: float


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
    return ranked_answers(counts, {})[0] if counts else None


@dataclass(frozen=True)
class Known:
    """This value is the effect of a rule on questions of one distribution: mean samples, and the share that changes."""

    used: float
    changed: float


def known(shares: Sequence[float], rule: StopRule, repeats: int = REPEATS) -> Known:
    """Return the effect of `rule` on questions with these shares of answers; the rest are invalid samples."""
    return exact(shares, rule) if _has_few_kinds(shares) else simulated(shares, rule, repeats)


def exact(shares: Sequence[float], rule: StopRule) -> Known:
    """The same, computed over everything that can be drawn."""
    third, chance = _kinds(shares)
    looks = _looks(rule.looks, third)
    used = float(rule.samples)
    for look, going in zip(looks, continuation_shares(looks, rule.level), strict=True):
        stops = float((multinomial(look.drawn, chance) * going)[look.bounds <= rule.level].sum())
        used -= stops * (rule.samples - look.drawn)
    wrong = change_probabilities(looks, rule.samples, rule.level, third_answers=third)
    return Known(used, float((multinomial(rule.samples, chance) * wrong).sum()))


def simulated(shares: Sequence[float], rule: StopRule, repeats: int) -> Known:
    """The same, by chance."""
    rows = drawn_at_random(shares, repeats, rule.samples)
    used = [run_rule(row, rule) for row in rows]
    share = np.mean([leader(row[:n]) != leader(row) for row, n in zip(rows, used, strict=True)])
    return Known(float(np.mean(used)), float(share))


def prefix(shares: Sequence[float], mean: float, repeats: int = REPEATS) -> float:
    """Share of questions whose answer a fixed number of samples changes; between whole numbers in proportion."""
    low = int(mean + 1e-9)
    part = mean - low
    return sum(
        weight * _of_prefix(tuple(shares), low + more, repeats)
        for more, weight in ((0, 1 - part), (1, part))
        if weight > 1e-6
    )


@lru_cache(maxsize=4096)
def _of_prefix(shares: tuple[float, ...], drawn: int, repeats: int) -> float:
    """Share of questions whose answer after `drawn` samples is not that after all."""
    if drawn >= SAMPLES:
        return 0.0
    if not _has_few_kinds(shares):
        return float(np.mean([leader(row[:drawn]) != leader(row) for row in drawn_at_random(shares, repeats)]))
    third, chance = _kinds(shares)
    looks = compositions_at_looks((drawn, SAMPLES), lambda *_: 0.0, SAMPLES, third_answers=third)
    wrong = change_probabilities(looks, SAMPLES, 0.0, third_answers=third)
    silent = 0.0 if third else chance[2] ** drawn - chance[2] ** SAMPLES
    return float((multinomial(SAMPLES, chance) * wrong).sum()) + silent


def drawn_at_random(shares: Sequence[float], repeats: int, samples: int = SAMPLES) -> list[list[str | None]]:
    """Samples of questions with these shares."""
    chance = np.array([*shares, max(0.0, 1.0 - sum(shares))])
    drawn = np.random.default_rng(2024).choice(len(chance), size=(repeats, samples), p=chance / chance.sum())
    return [[None if place == len(shares) else f"{place:02}" for place in row] for row in drawn]


def _has_few_kinds(shares: Sequence[float]) -> bool:
    return len(shares) + (sum(shares) < 1 - 1e-9) <= EXACT_KINDS


def _kinds(shares: Sequence[float]) -> tuple[bool, tuple[float, float, float]]:
    """Whether the third kind is an answer, and the probability of each kind."""
    first, second = (*shares, 0.0)[:2]
    return len(shares) == EXACT_KINDS, (first, second, max(0.0, 1.0 - first - second))


def multinomial(samples: int, chance: Sequence[float]) -> Floats:
    """Probability of each composition, by the counts of the first two kinds."""
    first, second = np.indices((samples + 1, samples + 1))
    third = samples - first - second
    counts = (first, second, np.maximum(third, 0))
    logs = gammaln(samples + 1) + sum(xlogy(n, p) - gammaln(n + 1) for n, p in zip(counts, chance, strict=True))
    found: Floats = np.where(third >= 0, np.exp(logs), 0.0)
    return found


@lru_cache(maxsize=64)
def _looks(looks: Sequence[int], third: bool) -> tuple[Look, ...]:
    def bound(counts: Mapping[str, int], left: int) -> float:
        return 0.0 if is_uncatchable(counts, {}, left) else change_bound(counts, {}, left)

    return compositions_at_looks(looks, bound, looks[-1], third_answers=third)


def row(label: str, outcomes: Sequence[Outcome], fixed: str, *, orders: int) -> str:
    """One line of a table."""
    changes = [one.changed for one in outcomes]
    share, spent = float(np.mean(changes)), sum(one.spent for one in outcomes) / sum(one.whole for one in outcomes)
    if orders:
        drawn = bootstrap_interval(np.mean, changes, rng=np.random.default_rng(2024))
        low, high = drawn.low or 0.0, drawn.high or 0.0
    else:
        interval = wilson(sum(changes), len(changes))
        low, high = interval.low, interval.high
    return f"| {label} | {spent:.1%} | {share:.2%} [{low:.2%}, {high:.2%}] | {fixed} |"


def simulate() -> None:
    """Print both tables of the known distributions."""
    rule = StopRule(samples=SAMPLES, first_batch=6, probability=0.95)
    sys.stdout.write(
        f"K_a {SAMPLES}, first batch 6, probability 0.95: level {rule.level:.4f}, largest error over all splits between"
        f" two answers and invalid samples, and between three answers {largest_error(SAMPLES, 6, rule.level):.4f}\n\n"
        "| shares of the answers | mean samples | answer changed | fixed prefix of equal cost |\n|---|---|---|---|\n"
    )
    for shares in SHARES:
        found = known(shares, rule)
        stops = ", ".join(f"{share:g}" for share in shares)
        fixed = prefix(shares, found.used)
        sys.stdout.write(f"| {stops} | {found.used:.1f} | {found.changed:.2%} | {fixed:.2%} |\n")
        sys.stdout.flush()
    sys.stdout.write("\nAll of them together, arbitration samples only:\n\n")
    sys.stdout.write("| probability, first batch | spent | changed | fixed prefix |\n|---|---|---|---|\n")
    for probability, first in SETTINGS:
        chosen = StopRule(samples=SAMPLES, first_batch=first, probability=probability)
        every = [known(shares, chosen, REPEATS_OF_EACH_SETTING) for shares in SHARES]
        used, share = (float(np.mean([getattr(one, name) for one in every])) for name in ("used", "changed"))
        fixed = float(np.mean([prefix(shares, used, REPEATS_OF_EACH_SETTING) for shares in SHARES]))
        sys.stdout.write(f"| {probability}, {first} | {used / SAMPLES:.1%} | {share:.2%} | {fixed:.2%} |\n")
        sys.stdout.flush()


def simulate_more() -> None:
    """Print what early stopping saves where its error is bounded, by simulation."""
    rules = [StopRule(samples=samples, first_batch=6, probability=0.95) for samples in MORE_SAMPLES]
    levels = [
        f"K_a {rule.samples}: level {rule.level:.5f}, bound of the error "
        f"{error_bound(rule.samples, rule.first_batch, rule.level):.3f}."
        for rule in rules
    ]
    head = " | ".join(f"K_a {rule.samples}: mean samples | changed" for rule in rules)
    sys.stdout.write(f"{' '.join(levels)}\n\n| shares of the answers | {head} |\n|---|{'---|---|' * len(rules)}\n")
    every = []
    for shares in SHARES:
        found = [simulated(shares, rule, REPEATS_OF_MORE) for rule in rules]
        every.append(found)
        sys.stdout.write(_line(", ".join(f"{share:g}" for share in shares), found))
        sys.stdout.flush()
    means = [
        Known(*(float(np.mean([getattr(one, name) for one in column])) for name in ("used", "changed")))
        for column in zip(*every, strict=True)
    ]
    sys.stdout.write(_line("all of them", means))


def _line(name: str, found: Sequence[Known]) -> str:
    return f"| {name} | {' | '.join(f'{one.used:.1f} | {one.changed:.2%}' for one in found)} |\n"


class NoEncoder:
    """Nobody asks it."""

    def batches(self, texts: Sequence[str], *, timeout_s: float) -> Any:  # noqa: ANN401
        """Refuses."""
        raise NotImplementedError


class Replays:
    """Recorded questions, to be run again under any setting.

    Args:
        recordings: The questions, with their samples.
        orders: Orders by chance in which each is run [count]; 0: as it was drawn.
    """

    def __init__(self, recordings: Sequence[Mapping[str, Any]], orders: int) -> None:
        unlimited = Limits(max_generations=LARGEST_LIMIT, max_generated_tokens=LARGEST_LIMIT, timeout_ms=LARGEST_LIMIT)
        self._defaults, self._tracer = ArbitrationDefaults(limits=unlimited), Tracer(NoEncoder(), batch_timeout_s=1)
        self._recordings = recordings
        self._seeds: list[int | None] = list(range(1, orders + 1)) or [None]
        self._fixed: dict[int, list[Outcome]] = {}

    def under(self, **options: Any) -> list[Outcome]:  # noqa: ANN401
        """Return the cost of each question, and how often its answer would have changed."""

        async def every() -> list[Outcome]:
            return [
                _mean([await self._one(recording, seed, options) for seed in self._seeds])
                for recording in self._recordings
            ]

        return asyncio.run(every())

    def fixed(self, samples: int) -> list[Outcome]:
        """The same with a fixed number of arbitration samples."""
        if samples not in self._fixed:
            self._fixed[samples] = self.under(mode="PAPER", arbitration_samples=samples)
        return self._fixed[samples]

    async def _one(self, recording: Mapping[str, Any], seed: int | None, options: Mapping[str, Any]) -> Outcome:
        request = from_plain({**recording, **options, "embedding_measures": False, "seed": seed}, ReplayRequest)
        reply = await replay(
            request,
            defaults=self._defaults,
            tracer=self._tracer,
            most=MeasureLimits(),
            calculator=InProcessCalculator(),
        )
        neither = reply.recorded_answer is None and not reply.arbitration.answer
        return Outcome(
            spent=reply.arbitration.usage.generations,
            whole=reply.recorded_generations,
            changed=not (reply.same_answer or neither),
        )


def _mean(outcomes: Sequence[Outcome]) -> Outcome:
    spent, whole, changes = (
        float(np.mean([getattr(one, name) for one in outcomes])) for name in ("spent", "whole", "changed")
    )
    return Outcome(spent, whole, changes)


def replay_all(files: Sequence[Path], orders: int) -> None:
    """Print the trade-off over recorded questions."""
    recordings = [json.loads(line) for file in files for line in file.read_text().splitlines() if line.strip()]
    replays = Replays(recordings, orders)
    order = f"each in {orders} orders" if orders else "in the order drawn"
    sys.stdout.write(f"{len(recordings)} recorded questions, {order}\n\n")
    sys.stdout.write("| setting | spent | changed | fixed K_a of equal cost |\n|---|---|---|---|\n")
    for stop in SolvingStop:
        for probability, first in SETTINGS:
            options = AdaptiveOptions(stopping_probability=probability, first_batch_samples=first, stop=stop)
            outcomes = replays.under(mode=Mode.ADAPTIVE.value, adaptive=_plain(options))
            label = f"adaptive {probability}, first batch {first}, stop {stop.value}"
            sys.stdout.write(row(label, outcomes, _equal_cost(replays, outcomes), orders=orders) + "\n")
            sys.stdout.flush()
    for count in (1, 5, 10, 25):
        sys.stdout.write(row(f"paper, K_a {count}", replays.fixed(count), "", orders=orders) + "\n")


def _plain(options: AdaptiveOptions) -> dict[str, Any]:
    names = ("stopping_probability", "first_batch_samples", "stop")
    return {name: getattr(options, name) for name in names}


def _equal_cost(replays: Replays, outcomes: Sequence[Outcome]) -> str:
    """The fixed K_a whose mean cost is nearest, and how often it changes the answer; each sample costs the same."""
    least = sum(one.spent for one in replays.fixed(1)) / len(outcomes)
    count = round(1 + sum(one.spent for one in outcomes) / len(outcomes) - least)
    changed = float(np.mean([one.changed for one in replays.fixed(min(SAMPLES, max(1, count)))]))
    return f"K_a {count}: {changed:.2%}" if count >= 1 else f"none is as cheap; K_a 1: {changed:.2%}"


def main() -> None:
    """Simulate, or replay the recordings that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", nargs="+", type=Path, default=[])
    parser.add_argument("--orders", type=int, default=0)
    parser.add_argument("--more", action="store_true", help="of 100 and 200 samples")
    asked = parser.parse_args()
    if asked.more:
        simulate_more()
    elif asked.recordings:
        replay_all(asked.recordings, asked.orders)
    else:
        simulate()


if __name__ == "__main__":
    main()
