"""Tables of capability profiles and of delegations between agents."""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from metacog.delegation.v1.monitoring_pb2 import Flow
from metacog.delegation.v1.profiles_pb2 import CapabilityProfile

from kernel.values import value

C = TypeVar("C")


@value
class Table(Generic[C]):
    """A table holds cells by row and column; a cell without data is None.

    Attributes:
        columns: Names of the columns.
        rows: Names of the rows, each with its cells.
    """

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[C | None]]]


def profile_table(profiles: Sequence[CapabilityProfile]) -> Table[CapabilityProfile]:
    """Return the profiles by agent, with one column for each dimension.

    Example:
        >>> table = profile_table([CapabilityProfile(agent="a", dimension="math", competence=0.5)])
        >>> [(agent, [cell.competence for cell in cells]) for agent, cells in table.rows]
        [('a', [0.5])]
    """
    cells = {(each.agent, each.dimension): each for each in profiles}
    return _table(cells, sorted({agent for agent, _ in cells}), sorted({dimension for _, dimension in cells}))


def flow_table(flows: Sequence[Flow]) -> Table[Flow]:
    """Return the delegations by delegating agent, with one column for each executing agent."""
    cells = {(flow.from_agent, flow.to_agent): flow for flow in flows}
    names = sorted({name for ends in cells for name in ends})
    return _table(cells, names, names)


def _table(cells: Mapping[tuple[str, str], C], rows: Sequence[str], columns: Sequence[str]) -> Table[C]:
    return Table(columns=columns, rows=[(row, [cells.get((row, column)) for column in columns]) for row in rows])
