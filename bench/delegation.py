"""This benchmark compares delegation with its baselines, with simulated agents of known competence, over gRPC.

It shows whether profiles come near the truth, delegation precision, accuracy against routing by rule, ECE before
and after calibration, and how these move with the number of agents, with noise, with a loss of competence, and with the
numbers that decide. The model is scripted, so times are of the service, its database and the script, in one process
beside them.

    python -m bench delegation          # BENCH_TASKS: tasks per run; BENCH_SEEDS: repetitions of the main comparison;
                                        # BENCH_PARTS=main,calibration,convergence,agents,noise,drift,routine,parameters
"""

import asyncio
import math
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chassis.ids import new_id
from chassis.schema import migrations
from kernel.confidence.rules import Exploration, HandOverRule, Rules
from kernel.learning.drift import DriftLimits
from kernel.statistics.recalibration import calibrated, recalibration
from kernel.statistics.reliability import brier_score, calibration_error, chance_calibration_error
from tests.support.delegating import Delegation, delegation_at, delegation_settings
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.models.simulated_agents import NAMES, RoutingRun, Simulated, Simulation, run, specialists
from tests.support.stack import Database

TASKS = int(os.environ.get("BENCH_TASKS", "500"))
SEEDS = int(os.environ.get("BENCH_SEEDS", "3"))
ALL_PARTS = "main,calibration,convergence,agents,noise,drift,routine,parameters"
PARTS = os.environ.get("BENCH_PARTS", ALL_PARTS).split(",")
SEED = 7
RULES = Rules(exploration=Exploration.THOMPSON)
BASELINES = ("SINGLE_AGENT", "ROUND_ROBIN", "RANDOM", "SKILL_FIXED", "MAJORITY_VOTE")
ABLATIONS = (
    "WITHOUT_SELF_ASSESSMENT",
    "WITHOUT_DELEGATION",
    "WITHOUT_LEARNING",
    "WITHOUT_CROSS_EVALUATION",
    "WITHOUT_VERBALIZED",
)
# The parameters of the paper's Table V, and ours beside them; the defaults stand in the main comparison.
SWEPT: Mapping[str, Sequence[float]] = {
    "confidence_threshold": (0.3, 0.4, 0.6, 0.7),
    "verbalized_weight": (0.3, 0.5, 0.7, 0.9),
    "learning_rate": (0.01, 0.05, 0.2, 0.3),
}
# Tasks of each agent in each dimension, after which its profile is looked at.
LOOKED_AT = (1, 5, 10, 20, 40, 80)
# A simulated agent is good where its competence is above this.
GOOD = 0.7
Profile = Mapping[str, Any]


@dataclass(frozen=True)
class Environment:
    """All runs use one scripted model and one database."""

    llm: ScriptedLLM
    database: str


def write(line: str) -> None:
    """Write a line and flush it."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@asynccontextmanager
async def simulated(
    environment: Environment, agents: Sequence[Simulated], *, noise: float = 0.1, rules: Rules = RULES, seed: int = SEED
) -> AsyncIterator[tuple[Delegation, Simulation]]:
    """Run a service with these agents."""
    simulation = Simulation(agents, seed, noise=noise)
    environment.llm.answer = simulation
    configured = [agent.configured() for agent in agents]
    settings = delegation_settings(rules, recalibration_minimum=100)
    async with delegation_at(
        environment.llm,
        environment.database,
        agents=configured,
        settings=settings,
        recalibrating=True,
        recalibration_interval_s=1.0,
    ) as running:
        yield running, simulation


def mixed(tasks: range) -> list[int]:
    """Return tasks in random order, so that round robin and dimensions are independent."""
    return [int(number) for number in np.random.default_rng(SEED).permutation(tasks)]


def mark() -> str:
    """Return a unique name."""
    return new_id()[-12:]


@dataclass(frozen=True)
class Row:
    """A row holds the figures of one way to route, over one repetition or several.

    Attributes:
        name: Its name.
        runs: Its results in each repetition.
        seconds: Duration of all of them [s].
    """

    name: str
    runs: Sequence[RoutingRun]
    seconds: float

    def __str__(self) -> str:
        tasks = sum(len(ran.tasks) for ran in self.runs)
        return (
            f"{self.name:<28} {_spread([ran.accuracy for ran in self.runs])} "
            f"{_mean([ran.precision() for ran in self.runs])} {_mean([ran.share('DELEGATED') for ran in self.runs])} "
            f"{_mean([ran.share('COLLABORATED') for ran in self.runs])} "
            f"{_mean([calibration_error(*ran.confidences(len(ran.tasks) // 2)) for ran in self.runs])} "
            f"{sum(ran.calls for ran in self.runs) / tasks:6.2f} {1000 * self.seconds / tasks:8.1f}"
        )


def _mean(numbers: Sequence[float | None]) -> str:
    known = [number for number in numbers if number is not None]
    return f"{np.mean(known):9.3f}" if known else f"{'-':>9}"


def _spread(numbers: Sequence[float]) -> str:
    spread = f"± {np.std(numbers, ddof=1):.3f}" if len(numbers) > 1 else ""
    return f"{np.mean(numbers):8.3f} {spread:<7}"


HEAD = (
    f"{'':<28} {'accuracy':>8} {'':<7} {'precision':>9} {'delegated':>9} {'voted':>9} {'ECE':>9} {'calls':>6} "
    f"{'ms/task':>8}"
)


async def timed(
    name: str,
    running: Delegation,
    simulation: Simulation,
    tasks: Sequence[int],
    **fields: Any,  # noqa: ANN401
) -> RoutingRun:
    """Run one way to route, write its figures, and return them."""
    started = time.monotonic()
    ran = await run(running, simulation, tasks, **fields)
    write(str(Row(name, [ran], time.monotonic() - started)))
    return ran


async def repeated(environment: Environment, name: str, rules: Rules = RULES, **fields: Any) -> list[RoutingRun]:  # noqa: ANN401
    """Run one way to route in several repetitions with new profiles, and write one row of figures."""
    started, runs = time.monotonic(), []
    for seed in range(SEED, SEED + SEEDS):
        async with simulated(environment, specialists(3, mark(), seed), rules=rules, seed=seed) as (
            running,
            simulation,
        ):
            runs.append(await run(running, simulation, mixed(range(TASKS)), **fields))
    write(str(Row(name, runs, time.monotonic() - started)))
    return runs


async def main_comparison(environment: Environment) -> None:
    """Compare with the baselines and the ablations, with three agents."""
    write(
        f"three agents, {SEEDS} repetitions of {TASKS} tasks; mean ± standard deviation; ECE on the second half\n{HEAD}"
    )
    ours = await repeated(environment, "delegation")
    await repeated(environment, "the paper's hand-over rule", replace(RULES, hand_over_rule=HandOverRule.PAPER))
    await repeated(environment, "best profile asked first", dispatch="BEST_PROFILE")
    for baseline in BASELINES:
        await repeated(environment, baseline.lower(), baseline=baseline)
    for ablation in ABLATIONS:
        await repeated(environment, ablation.lower(), ablations=[ablation])
    calibration(ours)


def calibration(ours: Sequence[RoutingRun]) -> None:
    """Write the calibration on each second half: of verbalized confidences, and of the returned confidence."""
    half = len(ours[0].tasks) // 2
    ratings = [rating for ran in ours for rating in ran.ratings(half)]
    outcomes = [right for _, _, right in ratings]
    raw, mapped = [each[0] for each in ratings], [each[1] for each in ratings]
    write(
        f"\nverbalized confidences of executors, {len(ratings)} tasks: ECE "
        f"{calibration_error(raw, outcomes):.3f} before recalibration, "
        f"{calibration_error(mapped, outcomes):.3f} as the service recalibrated it "
        f"({chance_calibration_error(mapped):.3f} by chance); "
        f"Brier {brier_score(raw, outcomes):.3f} -> {brier_score(mapped, outcomes):.3f}"
    )
    known, served, right = [], [], []
    for ran in ours:
        beliefs, labels = ran.confidences()
        fitted = recalibration(beliefs[:half], labels[:half])
        known += beliefs[half:]
        right += labels[half:]
        served += [calibrated(fitted.points, one) for one in beliefs[half:]] if fitted.improves else beliefs[half:]
    write(
        f"confidence of the answers, {len(known)} held-out tasks: ECE {calibration_error(known, right):.3f} as served, "
        f"{calibration_error(served, right):.3f} after a map fitted on the first halves "
        f"({chance_calibration_error(served):.3f} by chance); "
        f"Brier {brier_score(known, right):.3f} -> {brier_score(served, right):.3f}\n"
    )


async def long_run(environment: Environment) -> None:
    """Write the calibration with more data: four times as many tasks in one repetition."""
    write(f"calibration, one repetition of {4 * TASKS} tasks\n{HEAD}")
    async with simulated(environment, specialists(3, mark(), SEED)) as (running, simulation):
        calibration([await timed("delegation", running, simulation, mixed(range(4 * TASKS)))])


async def convergence(environment: Environment) -> None:
    """Write the distance of profiles to the true competence, when every agent takes every kind of task."""
    agents = specialists(3, mark(), SEED)
    pairs = len(agents) * len(NAMES)
    tasks = mixed(range(pairs * LOOKED_AT[-1] * 5 // 4))
    ablations = ["WITHOUT_DELEGATION", "WITHOUT_VERBALIZED"]
    async with simulated(environment, agents) as (running, simulation):
        await run(running, simulation, tasks, ablations=ablations)
        api, exported = running.api("rpc"), []
        for agent in agents:
            page = await api.ask("ExportProfiles", agent=agent.name, include_history=True, page_size=1000)
            exported += page["profiles"]
    truths = {(agent.name, name): agent.competence[name] for agent in agents for name in NAMES}
    write(f"profiles of {pairs} pairs of agent and dimension, {len(tasks)} tasks; distance to the true competence")
    for count in LOOKED_AT:
        gaps, expected = [], []
        for one in exported:
            truth = truths[one["profile"]["agent"], one["profile"]["dimension"]]
            steps = [step["competence_after"] for step in one["history"] if step["observations"] == count]
            gaps += [abs(step - truth) for step in steps]
            expected.append(_expected_gap(truth, count))
        rms = math.sqrt(np.mean(np.square(gaps)))
        by_theory = math.sqrt(np.mean(np.square(expected)))
        write(
            f"after {count:3d} outcomes: mean {np.mean(gaps):.3f}, root mean square {rms:.3f} "
            f"({by_theory:.3f} expected of Eq. 4)"
        )
    shown = [(one["profile"], truths[one["profile"]["agent"], one["profile"]["dimension"]]) for one in exported]
    held = sum(profile["competence_low"] <= truth <= profile["competence_high"] for profile, truth in shown)
    correlation = np.corrcoef([profile["competence"] for profile, _ in shown], [truth for _, truth in shown])[0, 1]
    write(f"at the end {held} of {len(shown)} intervals hold the truth; correlation with it {correlation:.3f}\n")


def _expected_gap(truth: float, count: int, rate: float = 0.1) -> float:
    """Return the root of the mean squared distance of an exponential mean from .5 to a steady competence [0..1]."""
    rest = (1 - rate) ** count
    return math.sqrt((rest * (0.5 - truth)) ** 2 + truth * (1 - truth) * rate / (2 - rate) * (1 - rest**2))


async def by_agents(environment: Environment) -> None:
    """Write the figures by the number of agents."""
    write(f"by number of agents\n{HEAD}")
    for count in (3, 10, 30, 100):
        async with simulated(environment, specialists(count, mark(), SEED)) as (running, simulation):
            await timed(f"{count} agents", running, simulation, mixed(range(TASKS)))
            await timed(
                f"{count} agents, round-robin", running, simulation, mixed(range(TASKS)), baseline="ROUND_ROBIN"
            )


async def by_noise(environment: Environment) -> None:
    """Write the figures by the noise of verbalized confidences."""
    write(f"\nby noise of self-assessments (standard deviation)\n{HEAD}")
    for noise in (0.0, 0.1, 0.2, 0.4):
        async with simulated(environment, specialists(3, mark(), SEED), noise=noise) as (running, simulation):
            await timed(f"noise {noise}", running, simulation, mixed(range(TASKS)))


async def with_drift(environment: Environment) -> None:
    """Write the figures of a loss of competence half-way, with the detector and without."""
    write(
        f"\none of three agents loses everything half-way, {SEEDS} repetitions of {TASKS} tasks, second halves\n{HEAD}"
    )
    for name, threshold in (("with the detector", DriftLimits().threshold), ("without", 1e9)):
        started, lost = (
            time.monotonic(),
            [await _lost(environment, seed, threshold) for seed in range(SEED, SEED + SEEDS)],
        )
        write(str(Row(name, [ran for ran, _, _ in lost], (time.monotonic() - started) / 2)))
        for _, profiles, events in lost:
            drifts = ", ".join(f"{one['dimension']} after {one['observations_since']}" for one in events)
            levels = ", ".join(f"{one['competence']:.2f} ({one['observations']})" for one in profiles)
            write(f"    its profiles where it was good, with observations: {levels}; drift events: {drifts or 'none'}")


async def _lost(
    environment: Environment, seed: int, threshold: float
) -> tuple[RoutingRun, list[Profile], list[Profile]]:
    """Return the second half of one repetition, the agent's profiles where it was good, and its drift events."""
    half, agents = TASKS // 2, specialists(3, mark(), seed)
    good = [name for name in NAMES if agents[0].competence[name] > GOOD]
    agents[0] = replace(agents[0], after=dict.fromkeys(NAMES, 0.1), changes_at=half)
    drift = DriftLimits(threshold=threshold)
    settings = delegation_settings(RULES, recalibration_minimum=100, drift=drift)
    simulation = Simulation(agents, seed)
    environment.llm.answer = simulation
    configured = [agent.configured() for agent in agents]
    async with delegation_at(
        environment.llm,
        environment.database,
        agents=configured,
        settings=settings,
        recalibrating=True,
        recalibration_interval_s=1.0,
    ) as running:
        await run(running, simulation, mixed(range(half)))
        ran = await run(running, simulation, mixed(range(half, TASKS)))
        profiles = (await running.api("rpc").ask("ListProfiles", agent=agents[0].name))["profiles"]
        events = (await running.api("rpc").ask("ListDriftEvents", agent=agents[0].name))["events"]
    return ran, [one for one in profiles if one["dimension"] in good], events


async def routine(environment: Environment) -> None:
    """Write the savings and the losses of the routine filter."""
    write(f"\nthe routine filter, second half of {TASKS} tasks\n{HEAD}")
    for name, on in (("without the filter", False), ("with the filter", True)):
        async with simulated(environment, specialists(3, mark(), SEED), rules=replace(RULES, skip_routine=on)) as (
            running,
            simulation,
        ):
            await run(running, simulation, mixed(range(TASKS // 2)), dispatch="BEST_PROFILE")
            ran = await timed(name, running, simulation, mixed(range(TASKS // 2, TASKS)), dispatch="BEST_PROFILE")
            skipped = np.mean([task["decision"]["reason"] == "routine" for task in ran.tasks])
        write(f"    skipped: {skipped:.3f}")


async def by_parameter(environment: Environment) -> None:
    """Write the figures by the numbers that decide."""
    write(f"\nby the numbers that decide, {SEEDS} repetitions of {TASKS} tasks\n{HEAD}")
    for name, levels in SWEPT.items():
        for level in levels:
            await repeated(environment, f"{name} {level}", parameters={name: level})


async def run_parts(environment: Environment) -> None:
    """Run the chosen parts."""
    parts = {
        "main": main_comparison,
        "calibration": long_run,
        "convergence": convergence,
        "agents": by_agents,
        "noise": by_noise,
        "drift": with_drift,
        "routine": routine,
        "parameters": by_parameter,
    }
    for name in PARTS:
        await parts[name](environment)


def main() -> None:
    """Run the benchmark."""
    with Database() as database, ScriptedLLM() as llm:
        migrations.migrate("services.delegation", database.url)
        asyncio.run(run_parts(Environment(llm, database.url)))


if __name__ == "__main__":
    main()
