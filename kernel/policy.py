"""A policy table has rows over a metacognitive state, of which the first that matches names a strategy.

Source: ours (papers.md 4.5): high conflict may go to the arbiter, low experience to delegation. This module holds what
a row may state, and when one row leaves nothing to another; the router decides when the table is consulted.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from kernel.activation import Activation, Route, SystemChoice
from kernel.msv import COMPONENTS, MSV
from kernel.thresholds import exceeds, reaches
from kernel.values import value
from kernel.votes.plans import VotePlan

# What a condition may be on: the components of the state, and the activation that they make.
MEASURES = (*COMPONENTS, "activation")
UNKNOWN = "unknown"


class Strategy(StrEnum):
    """A strategy is a way to answer."""

    SYSTEM_ONE = "system1"
    VOTE = "vote"
    CASCADE = "cascade"
    DIALECTIC = "dialectic"
    ARBITER = "arbiter"
    DELEGATION = "delegation"


# Those that ask for votes, and so may have a plan of their own.
VOTING = (Strategy.VOTE, Strategy.CASCADE)

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": reaches,
    ">": exceeds,
    "<=": lambda level, limit: reaches(limit, level),
    "<": lambda level, limit: exceeds(limit, level),
}
_WRITTEN = re.compile(r"(>=|<=|>|<)\s*(\S+)")


@value
class Condition:
    """A condition is what a row requires of one measure.

    Attributes:
        operator: `>=`, `>`, `<=` or `<`; empty: the measure must be unknown.
        limit: What it is compared with [0..1]; without meaning where there is no operator.
    """

    operator: str = ""
    limit: float = 0.0

    def holds(self, level: float | None) -> bool:
        """Return whether a measure at `level` meets the condition.

        An unknown one meets only the condition that it be unknown.

        Args:
            level: Level of the measure [0..1]; None: unknown.

        Example:
            >>> condition(">= 0.6").holds(0.6), condition(">= 0.6").holds(None), condition("unknown").holds(None)
            (True, False, True)
        """
        if level is None or not self.operator:
            return level is None and not self.operator
        return COMPARISONS[self.operator](level, self.limit)

    def implied_by(self, other: "Condition") -> bool:
        """Return whether every level in [0, 1] that meets `other` meets this one too.

        Example:
            >>> condition(">= 0.5").implied_by(condition("> 0.5")), condition("> 0.5").implied_by(condition(">= 0.5"))
            (True, False)
        """
        if not self.operator or not other.operator:
            return self.operator == other.operator
        return all(self.holds(level) for level in _ends(other, self.limit) if other.holds(level))


def _ends(span: Condition, beside: float) -> Sequence[float]:
    """Return the levels that stand for all that meet `span`, as far as a limit at `beside` can part them."""
    step = 1e-8
    near = [level + shift for level in (span.limit, beside) for shift in (-step, 0.0, step)]
    return [0.0, *(level for level in near if 0 <= level <= 1), 1.0]


def condition(written: str) -> Condition:
    """Parse a condition as a row writes it, such as `>= 0.6` or `unknown`.

    Raises:
        ValueError: When it cannot be read, or when no level in [0, 1] can meet it.
    """
    if written.strip() == UNKNOWN:
        return Condition()
    match = _WRITTEN.fullmatch(written.strip())
    if match is None:
        raise ValueError(f'{written!r} must be an operator ({", ".join(COMPARISONS)}) and a number, or "{UNKNOWN}"')
    operator, limit = match[1], _number(match[2])
    if limit is None:
        raise ValueError(f"{match[2]!r} in {written!r} is no number")
    if not 0 <= limit <= 1:
        raise ValueError(f"{match[2]} in {written!r} must lie in [0, 1]")
    if (operator, limit) in ((">", 1.0), ("<", 0.0)):
        raise ValueError(f"{written!r} can never be met: every measure lies in [0, 1]")
    return Condition(operator=operator, limit=limit)


def _number(written: str) -> float | None:
    try:
        return float(written)
    except ValueError:
        return None


@value
class PolicyRow:
    """A row names a strategy and the conditions of it.

    Attributes:
        name: Name recorded with each decision that it makes.
        strategy: The name of a `Strategy`.
        when: Condition by measure, all of which must hold; empty: it matches every state.
        always: Whether it is tried whatever the activation is; else only for questions that go to System 2.
        model: Model that answers where the strategy is `system1`; empty: the default one.
        plan: Who votes where the strategy asks for votes; None: as the strategy is configured.
    """

    name: str
    strategy: str
    when: Mapping[str, Condition] = field(default_factory=dict)
    always: bool = False
    model: str = ""
    plan: VotePlan | None = None

    @property
    def models(self) -> Sequence[str]:
        """Return the models that it names."""
        return [self.model] if self.model else [] if self.plan is None else self.plan.models

    def matches(self, levels: Mapping[str, float | None]) -> bool:
        """Return whether the state with these levels by measure meets all conditions; a missing level is unknown.

        Args:
            levels: Levels by measure [0..1]; None: unknown.
        """
        return all(needed.holds(levels.get(measure)) for measure, needed in self.when.items())

    def covers(self, other: "PolicyRow") -> bool:
        """Return whether this row matches every state that `other` matches."""
        return all(
            measure in other.when and needed.implied_by(other.when[measure]) for measure, needed in self.when.items()
        )


@value
class Policy:
    """A policy is a table of rows in the order in which they are tried.

    Attributes:
        version: Name of the table.
        rows: The rows, those that are always tried and the others, as written.
    """

    version: str
    rows: Sequence[PolicyRow]

    def first(self, levels: Mapping[str, float | None], *, always: bool) -> PolicyRow | None:
        """Return the first row that matches, among those that are always tried or among the others; None for none.

        Args:
            levels: Levels by measure [0..1]; None: unknown.
            always: Whether rows that are always tried are looked at, else the others.
        """
        tried = (row for row in self.rows if row.always is always)
        return next((row for row in tried if row.matches(levels)), None)


def row_error(rows: Sequence[PolicyRow], place: int) -> str:
    """Return the error of the row at `place` of a table; empty when it has none.

    Args:
        rows: The table.
        place: Place of the row [0..len(rows) - 1].
    """
    row = rows[place]
    if not row.name.strip():
        return "name: it must not be empty"
    if row.name in [earlier.name for earlier in rows[:place]]:
        return f"name: {row.name!r} is used twice"
    if row.strategy not in tuple(Strategy):
        return f"strategy: {row.strategy!r} is none; there are {', '.join(Strategy)}"
    if row.model and row.strategy != Strategy.SYSTEM_ONE:
        return f"model: only system1 answers by one model, not {row.strategy}; name sources or escalate instead"
    if row.plan is not None and row.strategy not in VOTING:
        return (
            f"strategy: {row.strategy} asks for no votes; agree, most, sources and escalate need {' or '.join(VOTING)}"
        )
    if row.plan is not None and (problem := row.plan.problem):
        return problem
    covering = next((earlier for earlier in _rows_before(rows, place) if earlier.covers(row)), None)
    if covering is not None:
        return f"{row.name!r} can never be reached: {covering.name!r} is asked before and takes all that it matches"
    return ""


def _rows_before(rows: Sequence[PolicyRow], place: int) -> Sequence[PolicyRow]:
    """Return the rows that are tried before the row at `place`."""
    of_its_kind = [earlier for earlier in rows[:place] if earlier.always is rows[place].always]
    return of_its_kind if rows[place].always else [*(row for row in rows if row.always), *of_its_kind]


def deciding_row(policy: Policy, msv: MSV, level: Activation, choice: SystemChoice) -> PolicyRow | None:
    """Return the row of `policy` that decides on a question; None where the choice by activation stands.

    Args:
        policy: The table.
        msv: State of the question.
        level: Its activation.
        choice: What the activation alone leads to.
    """
    levels = {name: getattr(msv, name) for name in COMPONENTS} | {"activation": level.value}
    row = policy.first(levels, always=True)
    if row is None and choice.system is Route.SYSTEM_TWO:
        row = policy.first(levels, always=False)
    return row
