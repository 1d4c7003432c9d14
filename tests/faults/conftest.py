"""The table of faults: what a test measures with `fault` is printed, and stored for docs/evaluation/faults.md."""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from chassis.schema import migrations
from docs.generating import faults
from tests.support.stack import ROOT, Database

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
        migrations.migrate("services.router", database.url)
        migrations.migrate("services.delegation", database.url)
        yield database


@pytest.fixture
def database(server: Database) -> Iterator[Database]:
    """A database that a test may freeze."""
    try:
        yield server
    finally:
        server.thaw()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table, in the process that has the results of all workers, and store it where `make test-hard` says."""
    reports = terminalreporter.getreports("passed")
    cells = {
        report.nodeid: cells
        for report in reports
        if report.when == "call"
        for name, cells in report.user_properties
        if name == ROW
    }
    if not cells:
        return
    about = {"measured_on": datetime.now(UTC).date().isoformat(), "machine": f"{os.cpu_count()} cores"}
    rows = {test: {**dict(zip(faults.COLUMNS, row, strict=True)), **about} for test, row in cells.items()}
    terminalreporter.section("faults")
    terminalreporter.write_line(faults.table(list(rows.values())))
    if file := os.environ.get("METACOG_TEST_FAULTS"):
        faults.record(ROOT / file, rows)
