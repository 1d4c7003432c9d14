"""Tables of capability profiles and of delegations between agents."""

from collections.abc import Mapping, Sequence
from typing import Any

from kernel.values import value

Data = Mapping[str, Any]


@value
class Table:
    """A table holds cells by row and column; a cell without data is None.

    Attributes:
        columns: Names of the columns.
        rows: Names of the rows, each with its cells.
    """

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Data | None]]]


def profile_table(profiles: Sequence[Data]) -> Table:
    """Return the profiles by agent, with one column for each dimension.

    Example:
        >>> one = {"agent": "a", "dimension": "math", "competence": 0.5}
        >>> profile_table([one]).rows
        [('a', [{'agent': 'a', 'dimension': 'math', 'competence': 0.5}])]
    """
    agents, dimensions = (sorted({each[name] for each in profiles}) for name in ("agent", "dimension"))
    return _table(profiles, ("agent", "dimension"), (agents, dimensions))


def flow_table(flows: Sequence[Data]) -> Table:
    """Return the delegations by delegating agent, with one column for each executing agent."""
    names = sorted({flow[end] for flow in flows for end in ("from_agent", "to_agent")})
    return _table(flows, ("from_agent", "to_agent"), (names, names))


def _table(cells: Sequence[Data], by: tuple[str, str], names: tuple[Sequence[str], Sequence[str]]) -> Table:
    row, column = by
    rows, columns = names
    found = {(cell[row], cell[column]): cell for cell in cells}
    return Table(columns=columns, rows=[(name, [found.get((name, each)) for each in columns]) for name in rows])
