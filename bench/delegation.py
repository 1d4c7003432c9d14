"""Delegation with simulated agents of known competence, through the real service over gRPC, against its baselines.

What it shows: whether profiles come near the truth, delegation precision, accuracy against routing by rule, ECE before
and after calibration, and how these move with the number of agents, with noise and with a loss of competence. The model
is scripted, so times are of the service, its database and the script, in one process beside them.

    python -m bench delegation          # BENCH_TASKS sets tasks per run, BENCH_PARTS=main,agents,noise,drift,routine
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chassis import db
from chassis.ids import new_id
from kernel.statistics.recalibration import calibrated, recalibration
from kernel.statistics.reliability import brier_score, calibration_error, chance_calibration_error
from services.delegation.core.rules import Exploration, Rules
from tests.support.delegating import Delegation, delegation_at, options
from tests.support.scripted_llm import ScriptedLLM
from tests.support.simulated_agents import NAMES, Ran, Simulated, Simulation, run, specialists
from tests.support.stack import Database

TASKS = int(os.environ.get("BENCH_TASKS", "1000"))
PARTS = os.environ.get("BENCH_PARTS", "main,agents,noise,drift,routine").split(",")
SEED = 7
RULES = Rules(exploration=Exploration.THOMPSON)


@dataclass(frozen=True)
class World:
    """What everything runs on."""

    llm: ScriptedLLM
    database: str


def say(line: str) -> None:
    """One line, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@asynccontextmanager
async def simulated(
    world: World, agents: Sequence[Simulated], *, noise: float = 0.1, rules: Rules = RULES
) -> AsyncIterator[tuple[Delegation, Simulation]]:
    """A service with these agents."""
    simulation = Simulation(agents, SEED, noise=noise)
    world.llm.answer = simulation
    configured = [agent.configured() for agent in agents]
    behaviour = options(rules, recalibration_minimum=100)
    async with delegation_at(
        world.llm, world.database, agents=configured, behaviour=behaviour, recalibrating=True
    ) as running:
        yield running, simulation


def mixed(tasks: range) -> list[int]:
    """Tasks in an order of chance, so that no agent's turn goes with a dimension."""
    return [int(number) for number in np.random.default_rng(SEED).permutation(tasks)]


def mark() -> str:
    """A name that nobody has used."""
    return new_id()[-12:]


def told(name: str, ran: Ran, seconds: float) -> str:
    """One row of figures."""
    precision = ran.precision()
    second = len(ran.tasks) // 2
    error = calibration_error(*ran.beliefs(second))
    return (
        f"{name:<28} {ran.accuracy:8.3f} {'-' if precision is None else f'{precision:.3f}':>9} "
        f"{ran.share('DELEGATED'):9.3f} {ran.share('COLLABORATED'):9.3f} "
        f"{'-' if error is None else f'{error:.3f}':>6} {ran.calls / len(ran.tasks):6.2f} "
        f"{1000 * seconds / len(ran.tasks):8.1f}"
    )


HEAD = f"{'':<28} {'accuracy':>8} {'precision':>9} {'delegated':>9} {'voted':>9} {'ECE':>6} {'calls':>6} {'ms/task':>8}"


async def timed(name: str, running: Delegation, simulation: Simulation, tasks: Sequence[int], **ask: object) -> Ran:
    """Run, tell, and return."""
    began = time.monotonic()
    ran = await run(running, simulation, tasks, **ask)
    say(told(name, ran, time.monotonic() - began))
    return ran


async def main_comparison(world: World) -> None:
    """Against the baselines and the ablations, with three agents."""
    say(f"three agents, {TASKS} tasks; ECE on the second half\n{HEAD}")
    tasks = mixed(range(TASKS))
    agents = specialists(3, mark(), SEED)
    async with simulated(world, agents) as (running, simulation):
        ours = await timed("delegation", running, simulation, tasks)
        for baseline in ("SINGLE_AGENT", "ROUND_ROBIN", "RANDOM", "SKILL_FIXED", "MAJORITY_VOTE"):
            await timed(baseline.lower(), running, simulation, tasks, baseline=baseline)
        shown = (await running.face("rpc").ask("ListProfiles", page_size=1000))["profiles"]
    for ablation in (
        "WITHOUT_SELF_ASSESSMENT",
        "WITHOUT_DELEGATION",
        "WITHOUT_LEARNING",
        "WITHOUT_CROSS_EVALUATION",
        "WITHOUT_VERBALIZED",
    ):
        async with simulated(world, specialists(3, mark(), SEED)) as (running, simulation):
            await timed(ablation.lower(), running, simulation, tasks, ablations=[ablation])
    calibration(ours)
    convergence(agents, shown)


def calibration(ours: Ran) -> None:
    """ECE on held-out tasks, before and after a map fitted on those before them."""
    half = len(ours.tasks) // 2
    known, outcomes = ours.beliefs()
    fitted = recalibration(known[:half], outcomes[:half])
    held, right = known[half:], outcomes[half:]
    served = [calibrated(fitted.points, one) for one in held] if fitted.improves else held
    say(
        f"\ncalibration on {len(held)} held-out tasks: ECE {calibration_error(held, right):.3f} -> "
        f"{calibration_error(served, right):.3f} after a {fitted.method} map "
        f"({chance_calibration_error(served):.3f} by chance); "
        f"Brier {brier_score(held, right):.3f} -> {brier_score(served, right):.3f}"
    )


def convergence(agents: Sequence[Simulated], shown: Sequence[dict[str, Any]]) -> None:
    """How near the profiles are to the truth."""
    truths = {(agent.name, name): agent.competence[name] for agent in agents for name in NAMES}
    known = [row for row in shown if (row["agent"], row["dimension"]) in truths and row["observations"] >= 20]
    pairs = [(row, truths[row["agent"], row["dimension"]]) for row in known]
    gap = np.mean([abs(row["competence"] - truth) for row, truth in pairs])
    held = sum(row["competence_low"] <= truth <= row["competence_high"] for row, truth in pairs)
    say(
        f"profiles with 20 observations or more: {len(pairs)} of {len(truths)}; mean distance to the competence over "
        f"all tasks {gap:.3f}; {held} intervals hold it (agents learn from tasks that they take, which suit them)\n"
    )


async def by_agents(world: World) -> None:
    """How it moves with the number of agents."""
    say(f"by number of agents\n{HEAD}")
    for count in (3, 10, 30, 100):
        async with simulated(world, specialists(count, mark(), SEED)) as (running, simulation):
            await timed(f"{count} agents", running, simulation, mixed(range(TASKS)))
            await timed(
                f"{count} agents, round-robin", running, simulation, mixed(range(TASKS)), baseline="ROUND_ROBIN"
            )


async def by_noise(world: World) -> None:
    """How it moves with the noise in what agents say of themselves."""
    say(f"\nby noise of self-assessments (standard deviation)\n{HEAD}")
    for noise in (0.0, 0.1, 0.2, 0.4):
        async with simulated(world, specialists(3, mark(), SEED), noise=noise) as (running, simulation):
            await timed(f"noise {noise}", running, simulation, mixed(range(TASKS)))


async def with_drift(world: World) -> None:
    """A loss of competence half-way: with the detector, and with one that never speaks."""
    say(f"\none of three agents loses everything half-way; {TASKS} tasks, figures of the second half\n{HEAD}")
    half = TASKS // 2
    for name, threshold in (("with the detector", 9.0), ("without", 1e9)):
        agents = specialists(3, mark(), SEED)
        agents[0] = replace(agents[0], after=dict.fromkeys(NAMES, 0.1), turns_at=half)
        simulation = Simulation(agents, SEED)
        world.llm.answer = simulation
        behaviour = options(RULES, recalibration_minimum=100)
        behaviour = replace(behaviour, drift=replace(behaviour.drift, threshold=threshold))
        async with delegation_at(
            world.llm,
            world.database,
            agents=[agent.configured() for agent in agents],
            behaviour=behaviour,
            recalibrating=True,
        ) as running:
            await run(running, simulation, mixed(range(half)))
            await timed(name, running, simulation, mixed(range(half, TASKS)))
            events = (await running.face("rpc").ask("ListDriftEvents", agent=agents[0].name))["events"]
        for event in events:
            say(
                f"    raised in {event['dimension']} at observation {event['sequence']}: "
                f"{event['competence_before']:.2f} -> {event['competence_after']:.2f}, "
                f"{event['observations_since']} observations since the change"
            )


async def routine(world: World) -> None:
    """What the routine filter saves, and what it loses."""
    say(f"\nthe routine filter, second half of {TASKS} tasks\n{HEAD}")
    for name, on in (("without the filter", False), ("with the filter", True)):
        async with simulated(world, specialists(3, mark(), SEED), rules=replace(RULES, skip_routine=on)) as (
            running,
            simulation,
        ):
            await run(running, simulation, mixed(range(TASKS // 2)), dispatch="BEST_PROFILE")
            ran = await timed(name, running, simulation, mixed(range(TASKS // 2, TASKS)), dispatch="BEST_PROFILE")
            skipped = np.mean([task["decision"]["because"] == "routine" for task in ran.tasks])
        say(f"    skipped: {skipped:.3f}")


async def everything(world: World) -> None:
    """The parts that are asked for."""
    parts = {"main": main_comparison, "agents": by_agents, "noise": by_noise, "drift": with_drift, "routine": routine}
    for name in PARTS:
        await parts[name](world)


def main() -> None:
    """Run it."""
    with Database() as database, ScriptedLLM() as llm:
        db.migrate("services.delegation", database.url)
        asyncio.run(everything(World(llm, database.url)))


if __name__ == "__main__":
    main()
