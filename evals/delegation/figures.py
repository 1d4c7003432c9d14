"""The figures behind the paper's tables of delegation. Pure.

What the procedure learns depends on the order of the tasks, so it is replayed in several orders; a task's score is its
mean over them, and the deviation over orders is reported. Each seed is replayed by itself, so that no task teaches
twice. What needs every task just once (delegation precision, calibration, rates of section G) is taken from the first
replay: the first seed, in the order of the records.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evals.delegation.baselines import SAME, Way, same_calls, shuffled, ways
from evals.delegation.replay import Replay, ReplayedTask, Rules, replay
from evals.delegation.tasks import Task
from evals.harness.arm_figures import Trust, trust
from evals.harness.rows import Row
from evals.stats.chance import Chance
from evals.stats.gains import Spread, mean_interval, paired_gain, spread
from evals.stats.shares import Share, share
from kernel.confidence.rules import PAPER_RULES, Ablation, TaskMode
from kernel.confidence.rules import Rules as DelegationRules
from kernel.statistics.bootstrap import Estimate
from kernel.values import value

FULL, AUTOGEN, SHUFFLED = "MetaCogAgent", "AutoGen", "shuffled choices"
PRODUCT = "the service's default"
# What asked the service or another system for each task, and is no replay: its name by its arm.
LIVE_METHODS: Mapping[str, str] = {"autogen": AUTOGEN, "product": PRODUCT}
ORDERS = 20
# Parts that are switched off, by the names of Table IV.
ABLATIONS: Mapping[str, Ablation] = {
    "w/o self-assessment": Ablation.WITHOUT_SELF_ASSESSMENT,
    "w/o delegation": Ablation.WITHOUT_DELEGATION,
    "w/o boundary learning": Ablation.WITHOUT_LEARNING,
    "w/o cross-agent evaluation": Ablation.WITHOUT_CROSS_EVALUATION,
    "w/o verbalized": Ablation.WITHOUT_VERBALIZED,
}
# The fields of the rules that Table V varies, and the values that it takes.
PARAMETERS: Mapping[str, str] = {
    "theta": "confidence_threshold",
    "weight": "verbalized_weight",
    "rate": "learning_rate",
}
SWEEPS: Mapping[str, Sequence[float]] = {
    "theta": (0.3, 0.4, 0.5, 0.6, 0.7),
    "weight": (0.3, 0.5, 0.6, 0.7, 0.9),
    "rate": (0.01, 0.05, 0.1, 0.2, 0.3),
}
CROSS = "cross"


@value
class Method:
    """One way to have tasks done.

    Attributes:
        name: Its name.
        accuracy: Share right.
        over_orders: The same over orders of the tasks; of what knows no order one figure.
        precision: Delegated tasks that came out right, in the first replay; None where nothing is delegated.
        calls: Calls for self-assessments and answers, over its tasks of a seed, in the mean over orders and seeds
            [count].
        tokens: Tokens of a task, in the mean [count].
        trust: How far its confidence can be trusted, in the first replay; None where it reports none.
        gain: How much more often the full procedure is right; None of itself.
    """

    name: str
    accuracy: Estimate
    over_orders: Spread
    precision: Share | None
    calls: float
    tokens: float
    trust: Trust | None
    gain: Estimate | None


@value
class Behaviour:
    """The hand-overs of the full procedure.

    Attributes:
        rates: Share of tasks that did not stay with their first agent, by difficulty and cross-domain, and in all; in
            the first replay.
        delegated: Share of tasks that were handed to one other agent, in all; in the first replay.
        flows: Hand-overs from one agent to another [count over all orders].
        to_better: Hand-overs to an agent that is right more often in the task's kind; in the first replay.
        random_peer: How much more often a delegated task comes out right than with a peer picked by chance.
        stayed: How much more often than if it had stayed.
        levels: Competence by agent and kind at the end, in the mean over orders.
    """

    rates: Mapping[str, Share]
    delegated: Share
    flows: Mapping[tuple[str, str], int]
    to_better: Share
    random_peer: Estimate
    stayed: Estimate
    levels: Mapping[tuple[str, str], float]


@value
class Figures:
    """The figures that the report shows.

    Attributes:
        agents: The agents.
        methods: Table II, the full procedure last.
        by_difficulty: Accuracy by method, by difficulty (Table III).
        by_kind: Accuracy by method, by dimension (Fig. 2).
        ablations: Table IV.
        sweeps: Table V: accuracy by value, by parameter.
        trusts: Calibration of the full procedure in all and by difficulty (Fig. 3).
        single: Calibration of the first agent's own rating on all tasks, before it learns anything (Fig. 3).
        behaviour: Section G.
    """

    agents: Sequence[str]
    methods: Sequence[Method]
    by_difficulty: Mapping[str, Mapping[str, Estimate]]
    by_kind: Mapping[str, Mapping[str, Estimate]]
    ablations: Sequence[Method]
    sweeps: Mapping[str, Mapping[float, Estimate]]
    trusts: Mapping[str, Trust]
    single: Trust
    behaviour: Behaviour


@value
class Runs:
    """One set of rules, replayed in several orders of each seed; the first is the first seed's order of the records."""

    replays: Sequence[Replay]

    @property
    def done(self) -> Sequence[ReplayedTask]:
        """Return what became of every task in every order."""
        return [done for each in self.replays for done in each.done]

    @property
    def scores(self) -> Mapping[str, float]:
        """Share of orders in which each item came out right."""
        return scores([(done.task.item.id, float(done.right)) for done in self.done])


def figures(tasks: Sequence[Task], others: Sequence[Row], chance: Chance, orders: int = ORDERS) -> Figures:
    """The figures of recorded tasks.

    Args:
        tasks: The tasks.
        others: Rows of AutoGen and of the service's default on the same items; empty where these were not run.
        chance: For orders and all resampling.
        orders: Orders in which the procedure is replayed over the tasks of each seed [count, >= 1].
    """
    agents = list(tasks[0].solved)
    ordered = _orders(tasks, chance, orders)
    full = runs(ordered, agents, Rules())
    plain = {**ways(tasks, agents), SHUFFLED: shuffled(full.done, agents), **_same_calls(tasks, full)}
    chosen = {name: _scores_of(tasks, way) for name, way in plain.items()}
    named: Mapping[str, Mapping[str, float]] = {**chosen, **_others(others), FULL: full.scores}
    return Figures(
        agents=agents,
        methods=[
            *(
                _baseline(name, way, tasks, _gain(chosen[name], full.scores, chance), chance)
                for name, way in plain.items()
            ),
            *(_live(name, rows, full.scores, chance) for name, rows in _by_name(others).items()),
            _method(FULL, full, None, chance),
        ],
        by_difficulty={name: _grouped(tasks, each, difficulty_of, chance) for name, each in named.items()},
        by_kind={name: _grouped(tasks, each, kind_of, chance) for name, each in named.items()},
        ablations=[
            _method(name, runs(ordered, agents, Rules(without=part)), full.scores, chance)
            for name, part in ABLATIONS.items()
        ],
        sweeps={name: _sweep(name, values, ordered, agents, chance) for name, values in SWEEPS.items()},
        trusts=_trusts(full),
        single=_single(ordered[0], agents[0]),
        behaviour=_behaviour(full, tasks, agents, chance),
    )


def _same_calls(tasks: Sequence[Task], full: Runs) -> Mapping[str, Way]:
    """The control at equal compute, where it was sampled."""
    return {SAME: same_calls(full.done)} if any(task.samples for task in tasks) else {}


def runs(ordered: Sequence[Sequence[Task]], agents: Sequence[str], rules: Rules) -> Runs:
    """The procedure over every order of the tasks, the first agent's turn changing with the order."""
    return Runs(replays=[replay(each, agents, rules, turn=turn) for turn, each in enumerate(ordered)])


def scores(each: Sequence[tuple[str, float]]) -> Mapping[str, float]:
    """Mean score of each item."""
    found: dict[str, list[float]] = {}
    for item, right in each:
        found.setdefault(item, []).append(right)
    return {item: sum(some) / len(some) for item, some in found.items()}


def difficulty_of(task: Task) -> str:
    """Difficulty of a task; `cross` where it takes several things, empty where it is unknown."""
    return CROSS if len(task.item.dimensions) > 1 else task.item.difficulty


def kind_of(task: Task) -> str:
    """Return what a task takes; `cross` where that is several things."""
    return CROSS if len(task.item.dimensions) > 1 else "".join(task.item.dimensions)


def _place(group: str) -> tuple[int, str]:
    """Difficulties as they grow, dimensions by name, and cross-domain ones last."""
    levels = ("easy", "medium", "hard")
    return (levels.index(group) if group in levels else len(levels) + (group == CROSS), group)


def _orders(tasks: Sequence[Task], chance: Chance, count: int) -> Sequence[Sequence[Task]]:
    """The orders of each seed: that of the records, and random ones."""
    each = [[task for task in tasks if task.seed == seed] for seed in _seeds(tasks)]
    return [order for some in each for order in (some, *(_shuffled_order(some, chance) for _ in range(count - 1)))]


def _shuffled_order(tasks: Sequence[Task], chance: Chance) -> Sequence[Task]:
    return [tasks[place] for place in chance.rng.permutation(len(tasks))]


def _seeds(tasks: Sequence[Task]) -> Sequence[int]:
    return list(dict.fromkeys(task.seed for task in tasks))


def _scores_of(tasks: Sequence[Task], way: Way) -> Mapping[str, float]:
    each = ((task.item.id, way(task, place)) for place, task in enumerate(tasks))
    return scores([(item, chosen.right) for item, chosen in each if chosen is not None])


def _baseline(name: str, way: Way, tasks: Sequence[Task], gain: Estimate, chance: Chance) -> Method:
    seeds = _seeds(tasks)
    each = [(task.seed, made) for place, task in enumerate(tasks) if (made := way(task, place)) is not None]
    handed = [made.right > 0.5 for seed, made in each if made.delegated and seed == seeds[0]]
    chosen = [made for _, made in each]
    right = list(_scores_of(tasks, way).values())
    return Method(
        name=name,
        accuracy=mean_interval(right, chance),
        over_orders=spread([float(np.mean(right))]),
        precision=share(handed) if handed else None,
        calls=sum(made.calls for made in chosen) / len(seeds),
        tokens=float(np.mean([made.tokens for made in chosen])),
        trust=None,
        gain=gain,
    )


def _method(name: str, made: Runs, full: Mapping[str, float] | None, chance: Chance) -> Method:
    done, n = made.done, len(made.replays)
    delegated = [one.right for one in made.replays[0].done if one.mode is TaskMode.DELEGATED]
    return Method(
        name=name,
        accuracy=mean_interval(list(made.scores.values()), chance),
        over_orders=spread([float(np.mean([one.right for one in each.done])) for each in made.replays]),
        precision=share(delegated) if delegated else None,
        calls=sum(one.calls for one in done) / n,
        tokens=float(np.mean([one.tokens for one in done])),
        trust=trust([(one.confidence, one.right) for one in made.replays[0].done]),
        gain=None if full is None else _gain(made.scores, full, chance),
    )


def _by_name(rows: Sequence[Row]) -> Mapping[str, Sequence[Row]]:
    """Rows of what is no replay, by the name of the method."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(LIVE_METHODS[row.arm], []).append(row)
    return found


def _others(rows: Sequence[Row]) -> Mapping[str, Mapping[str, float]]:
    return {name: _labels(each) for name, each in _by_name(rows).items()}


def _labels(rows: Sequence[Row]) -> Mapping[str, float]:
    return scores([(row.item.id, float(row.right)) for row in rows])


def _live(name: str, rows: Sequence[Row], full: Mapping[str, float], chance: Chance) -> Method:
    found = _labels(rows)
    spent = [row.said.spent for row in rows]
    handed = [row.right for row in rows if row.reply.get("mode") == TaskMode.DELEGATED]
    is_sure = any(row.said.confidence is not None for row in rows)
    return Method(
        name=name,
        accuracy=mean_interval(list(found.values()), chance),
        over_orders=spread([float(np.mean(list(found.values())))]),
        precision=share(handed) if handed else None,
        calls=sum(each.generations for each in spent) / len({row.seed for row in rows}),
        tokens=float(np.mean([each.prompt_tokens + each.completion_tokens for each in spent])),
        trust=trust([(row.said.confidence, row.right) for row in rows]) if is_sure else None,
        gain=_gain(found, full, chance),
    )


def _gain(before: Mapping[str, float], after: Mapping[str, float], chance: Chance) -> Estimate:
    both = [item for item in before if item in after]
    return paired_gain([before[item] for item in both], [after[item] for item in both], chance)


def _grouped(
    tasks: Sequence[Task], found: Mapping[str, float], group: Callable[[Task], str], chance: Chance
) -> Mapping[str, Estimate]:
    names = sorted({group(task) for task in tasks} - {""}, key=_place)
    within = {name: dict.fromkeys(task.item.id for task in tasks if group(task) == name) for name in names}
    return {name: mean_interval([found[i] for i in items if i in found], chance) for name, items in within.items()}


def _sweep(
    name: str, values: Sequence[float], ordered: Sequence[Sequence[Task]], agents: Sequence[str], chance: Chance
) -> Mapping[float, Estimate]:
    rules = {each: Rules(numbers=_with(PARAMETERS[name], each)) for each in values}
    return {
        each: mean_interval(list(runs(ordered, agents, some).scores.values()), chance) for each, some in rules.items()
    }


def _with(field: str, level: float) -> DelegationRules:
    """The paper's numbers with another value of one field."""
    changed: Mapping[str, Any] = {field: level}
    return replace(PAPER_RULES, **changed)


def _trusts(made: Runs) -> Mapping[str, Trust]:
    done = made.replays[0].done
    groups = sorted({difficulty_of(one.task) for one in done} - {""}, key=_place)
    grouped = {"all": done, **{name: [one for one in done if difficulty_of(one.task) == name] for name in groups}}
    return {name: trust([(one.confidence, one.right) for one in some]) for name, some in grouped.items()}


def _single(tasks: Sequence[Task], agent: str) -> Trust:
    """Calibration of what an agent says of itself, had it solved every task."""
    return trust([(task.verbalized.get(agent), task.solved[agent].right) for task in tasks])


def _behaviour(made: Runs, tasks: Sequence[Task], agents: Sequence[str], chance: Chance) -> Behaviour:
    done = made.replays[0].done
    every = [one for one in made.done if one.mode is TaskMode.DELEGATED]
    handed = [one for one in done if one.mode is TaskMode.DELEGATED]
    able = _abilities(tasks)
    groups = sorted({difficulty_of(one.task) for one in done} - {""}, key=_place)
    grouped = {name: [one for one in done if difficulty_of(one.task) == name] for name in groups} | {"all": done}
    after = scores([(one.task.item.id, float(one.right)) for one in every])
    return Behaviour(
        rates={name: share(one.mode is not TaskMode.EXECUTED for one in some) for name, some in grouped.items()},
        delegated=share(one.mode is TaskMode.DELEGATED for one in done),
        flows=Counter((one.first, one.executor) for one in every),
        to_better=share(able[one.executor, kind_of(one.task)] > able[one.first, kind_of(one.task)] for one in handed),
        random_peer=_gain(scores([(one.task.item.id, _peers(one, agents)) for one in every]), after, chance),
        stayed=_gain(
            scores([(one.task.item.id, float(one.task.solved[one.first].right)) for one in every]), after, chance
        ),
        levels=_mean_levels(made),
    )


def _peers(done: ReplayedTask, agents: Sequence[str]) -> float:
    """Probability that a peer picked by chance is right."""
    peers = [agent for agent in agents if agent != done.first]
    return sum(done.task.solved[agent].right for agent in peers) / len(peers)


def _abilities(tasks: Sequence[Task]) -> Mapping[tuple[str, str], float]:
    """Share right of each agent in each kind of task."""
    rights: dict[tuple[str, str], list[bool]] = {}
    for task in tasks:
        for agent, solved in task.solved.items():
            rights.setdefault((agent, kind_of(task)), []).append(solved.right)
    return {key: sum(each) / len(each) for key, each in rights.items()}


def _mean_levels(made: Runs) -> Mapping[tuple[str, str], float]:
    keys = sorted({key for each in made.replays for key in each.levels})
    return {key: float(np.mean([each.levels[key] for each in made.replays if key in each.levels])) for key in keys}
