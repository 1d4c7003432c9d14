"""This module finds what docstrings of pure code leave out: errors, units or ranges of numbers, shapes of arrays."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

# Code that decides: pure functions and values.
PACKAGES = ("kernel", "services/*/core")
# Annotations of numbers: a unit or a range belongs to them. Arrays are numbers, with a shape in words.
NUMBERS = re.compile(r"\b(int|float|Floats|Ints|Counts|Numbers|Array|Vectors|Weights|RoleWeights|NDArray|ArrayLike)\b")
# Arrays, and words that give their shape.
ARRAYS = re.compile(r"\b(Floats|Ints|Array|Vectors|NDArray)\b")
SHAPED = re.compile(
    r"\bshape\b|\b[\w_]+ x [\w_]+\b|\b(?:for|of|by|to) each\b|\b(?:a|one) (?:row|column)\b"
    r"|\beach (?:answer|question|item|vote)\b"
)
# A unit or a range, as in `[s]`, `[count]`, `[0..1]`, `[> 0]`, `[right 1, wrong 0]`.
STATED = re.compile(r"\[[^\]\n]*(?:\n[^\]\n]*)?\]")
SECTION = re.compile(r"^\s*(Args|Attributes|Returns|Yields|Raises|Source|Example):", re.MULTILINE)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def gaps(root: Path) -> Mapping[str, Sequence[str]]:
    """Return what is missing, by file: `line 12: reaches: level has no unit or range`.

    Args:
        root: Folder of the repository.
    """
    files = [file for package in PACKAGES for file in sorted(root.glob(f"{package}/**/*.py"))]
    found = {file.relative_to(root).as_posix(): list(missing(file.read_text())) for file in files}
    return {name: lines for name, lines in found.items() if lines}


def missing(source: str) -> Iterator[str]:
    """Return what is missing in one module, each with its line.

    A number is described where its name, or its entry in a section, has a unit or a range in brackets; what a function
    returns, where the text before its sections or its `Returns` has. Errors are those that it raises itself. Private
    names are left out.
    """
    for node in ast.parse(source).body:
        if isinstance(node, Function) and _is_public(node.name):
            yield from _function(node, node.name)
        if isinstance(node, ast.ClassDef) and _is_public(node.name):
            yield from _class(node)


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def _class(node: ast.ClassDef) -> Iterator[str]:
    described = ast.get_docstring(node) or ""
    fields = [item for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)]
    for field in fields:
        name = ast.unparse(field.target)
        annotation, summary = ast.unparse(field.annotation), SECTION.split(described)[0]
        entry = _entry(described, name) or summary
        if _is_public(name) and NUMBERS.search(annotation) and not STATED.search(entry):
            yield f"line {field.lineno}: {node.name}.{name} has no unit or range"
        if _is_public(name) and ARRAYS.search(annotation) and not SHAPED.search(f"{entry} {summary}"):
            yield f"line {field.lineno}: {node.name}.{name} has no shape"
    for item in node.body:
        if isinstance(item, Function) and item.name in {"__post_init__", "__init__"}:
            yield from _raises(item, described, node.name)
            if item.name == "__init__":
                yield from _arguments(item, described + (ast.get_docstring(item) or ""), node.name)
        elif isinstance(item, Function) and _is_public(item.name):
            yield from _function(item, f"{node.name}.{item.name}")


def _function(node: Function, name: str) -> Iterator[str]:
    described = ast.get_docstring(node) or ""
    if not described:
        yield f"line {node.lineno}: {name} has no docstring"
        return
    yield from _arguments(node, described, name)
    if node.returns is not None and NUMBERS.search(ast.unparse(node.returns)) and not _states_return(described):
        yield f"line {node.lineno}: {name} returns a number without unit or range"
    yield from _raises(node, described, name)


def _arguments(node: Function, described: str, name: str) -> Iterator[str]:
    arguments = node.args
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        annotation = ast.unparse(each.annotation) if each.annotation is not None else ""
        if NUMBERS.search(annotation) and not _states(described, each.arg):
            yield f"line {node.lineno}: {name}: {each.arg} has no unit or range"
        if ARRAYS.search(annotation) and not SHAPED.search(_entry(described, each.arg)):
            yield f"line {node.lineno}: {name}: {each.arg} has no shape"


def _states(described: str, name: str) -> bool:
    """Return whether a docstring gives the unit or range of `name`."""
    return STATED.search(_entry(described, name)) is not None


def _entry(described: str, name: str) -> str:
    """Return what a docstring says of `name`: its entry in a section, or the sentence that names it in backticks."""
    entry = re.search(rf"^( *){name}: .*(?:\n\1 {{2,}}.*)*", described, re.MULTILINE)
    return entry[0] if entry else next(iter(re.findall(rf"`{name}`(?:[^.]|\.\.)*", described)), "")


def _states_return(described: str) -> bool:
    before = SECTION.split(described, maxsplit=1)[0]
    returned = re.search(r"^(?:Returns|Yields):(.*?)(?=^\w|\Z)", described, re.MULTILINE | re.DOTALL)
    return STATED.search(before + (returned[1] if returned else "")) is not None


def _raises(node: Function, described: str, name: str) -> Iterator[str]:
    stated = re.search(r"^Raises:(.*?)(?=^\w|\Z)", described, re.MULTILINE | re.DOTALL)
    for raised in dict.fromkeys(_raised(node)):
        if not stated or (raised[0].isupper() and not re.search(rf"\b{raised}\b", stated[1])):
            yield f"line {node.lineno}: {name} raises {raised}, which its docstring does not say"


def _raised(node: Function) -> Iterator[str]:
    """Return the names of the errors that a function itself raises."""
    for item in ast.walk(node):
        if isinstance(item, ast.Raise) and isinstance(item.exc, ast.Call):
            name = ast.unparse(item.exc.func).rpartition(".")[2]
            if name != "AssertionError":
                yield name
