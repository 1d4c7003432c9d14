"""The page of papers and rules is true: what its tables name exists, and the code cites the section."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULES = re.compile(r"^### (\d+\.\d+) .*?(?=^##)", re.MULTILINE | re.DOTALL)
COLUMNS = "| rule | source | function | test | where we differ |"


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Section, source, function and test of every row."""
    for section in RULES.finditer((ROOT / "docs" / "papers.md").read_text() + "\n##"):
        for line in section[0].splitlines():
            if line.startswith("| ") and line != COLUMNS:
                _, source, function, test, _ = line[2:-2].split(" | ")
                yield section[1], source, function.strip("`"), test.strip("`")


ROWS = list(rows())


def documentation(implementation: object) -> str:
    """The docstrings of a function or class, and of its module."""
    return f"{inspect.getdoc(implementation)}\n{inspect.getdoc(inspect.getmodule(implementation))}"


def test_every_section_has_rules_or_says_what_has_none() -> None:
    assert len(ROWS) > 100
    assert {section for section, *_ in ROWS} >= {
        "1.1",
        "1.2",
        "1.4",
        "2.1",
        "2.2",
        "3.2",
        "3.3",
        "3.4",
        "4.1",
        "5.1",
        "5.3",
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[2].rpartition('.')[2]}")
def test_every_rule_has_the_source_the_function_and_the_test_that_its_row_names(row: tuple[str, str, str, str]) -> None:
    section, source, function, test = row
    module, _, name = function.rpartition(".")
    implementation = getattr(import_module(module), name)

    assert source
    assert name in (ROOT / test).read_text()
    assert re.search(rf"papers\.md [\d., and]*{re.escape(section)}\b", documentation(implementation))
