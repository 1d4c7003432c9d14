"""This module finds migrations that remove what the code of the version before still uses, and do not say so."""

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

# Operations after which earlier code fails, and the statements of `op.execute` that do the same.
REMOVING = frozenset({"drop_column", "drop_table", "rename_table", "alter_column", "drop_constraint"})
REMOVING_SQL = ("DROP COLUMN", "DROP TABLE", "RENAME ", "SET NOT NULL", "ALTER COLUMN")
# Names in `WORKS_FROM` the oldest revision whose code works with the schema after the migration.
MARK = "WORKS_FROM"


def unmarked(root: Path) -> Mapping[str, Sequence[str]]:
    """Return the files of migrations after the first that remove something without the mark, with what they call.

    Args:
        root: Folder of the repository.
    """
    files = sorted((root / "services").glob("*/migrations/versions/[0-9]*.py"))
    later = [file for file in files if not file.name.startswith("0001_")]
    found = {str(file.relative_to(root)): removals(file.read_text()) for file in later}
    return {file: calls for file, calls in found.items() if calls}


def removals(source: str) -> Sequence[str]:
    """Return what the `upgrade` of a migration removes, by line; empty when the migration has the mark.

    Columns that may not be null and have no default count too: earlier code does not write them.
    """
    tree = ast.parse(source)
    names = [target.id for node in tree.body if isinstance(node, ast.Assign) for target in _names(node)]
    if MARK in names:
        return []
    upgrades = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "upgrade"]
    calls = [node for each in upgrades for node in ast.walk(each) if isinstance(node, ast.Call)]
    return [f"line {call.lineno}: {ast.unparse(call.func)}" for call in calls if _removes(call)]


def _names(node: ast.Assign) -> list[ast.Name]:
    return [target for target in node.targets if isinstance(target, ast.Name)]


def _removes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    text = ast.unparse(call)
    if name == "execute":
        return any(statement in text.upper() for statement in REMOVING_SQL)
    if name == "add_column":
        return "nullable=False" in text and "server_default" not in text
    return name in REMOVING
