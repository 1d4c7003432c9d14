"""The table of faults: what a test measures with `fault` is printed at the end, as docs/operations.md has it."""

from collections.abc import Callable, Iterator

import pytest

from chassis import database as db
from tests.support.stack import Database

ROW = "fault"

Report = Callable[[str, str, str, str], None]


@pytest.fixture
def fault(record_property: Callable[[str, object], None]) -> Report:
    """Put a row into the table: the fault, what clients see, what is kept, how long recovery takes."""

    def report(fault: str, clients_see: str, kept: str, recovery: str) -> None:
        record_property(ROW, [fault, clients_see, kept, recovery])

    return report


@pytest.fixture(scope="module")
def server() -> Iterator[Database]:
    """A database of these tests alone."""
    with Database() as database:
        db.migrate("services.router", database.url)
        db.migrate("services.delegation", database.url)
        yield database


@pytest.fixture
def database(server: Database) -> Iterator[Database]:
    """A database that a test may freeze."""
    try:
        yield server
    finally:
        server.thaw()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table, in the process that has the results of all workers."""
    reports = terminalreporter.getreports("passed")
    rows = [
        cells for report in reports if report.when == "call" for name, cells in report.user_properties if name == ROW
    ]
    if rows:
        terminalreporter.section("faults")
        terminalreporter.write_line("| fault | clients see | kept | recovery |")
        terminalreporter.write_line("|---|---|---|---|")
        for cells in sorted(rows):
            terminalreporter.write_line(f"| {' | '.join(map(str, cells))} |")
