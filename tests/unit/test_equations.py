"""The table of equations is true."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs" / "equations.md").read_text()
ROWS = [line for line in TABLE.splitlines() if line.startswith("| ") and "`" in line]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:30])
def test_every_equation_has_the_function_and_the_test_that_the_table_names(row: str) -> None:
    function, test = re.findall(r"`([\w./]+)`", "|".join(row.split("|")[2:4]))
    module, _, name = function.rpartition(".")

    assert callable(getattr(import_module(module), name))
    assert name in (ROOT / test).read_text()
