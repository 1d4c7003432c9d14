"""This module finds code that compares mathematical expressions in its own process, which can take for ever.

A service compares by the calculator that it is given (`sandbox.mathematics`), in a thread of it; the command line and
evaluations by `client_mathematics`. So they pass `mathematics=` to every function of the kernel that has such an
argument, and import nothing that compares in the calling process; a service calls none of them directly in a coroutine.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ARGUMENT = "mathematics"
# Folders of services, and of what calls them and compares their answers.
SERVING, CLIENTS = ("services",), ("cli", "evals")
# What compares in the calling process.
FORBIDDEN = frozenset(
    {
        "IN_THIS_PROCESS",
        "InThisProcess",
        "InProcessCalculator",
        "same_expression",
        "approximate",
        "sympy",
        "math_verify",
    }
)


def unbounded(root: Path) -> Mapping[str, Sequence[str]]:
    """Return the files of services and clients that compare in their own process, or a service on its event loop.

    Args:
        root: Folder of the repository.

    Returns:
        What is wrong, by file.
    """
    comparing = _comparing(root)
    found = {
        str(file.relative_to(root)): list(_mistakes(ast.parse(file.read_text()), comparing, folder in SERVING))
        for folder in (*SERVING, *CLIENTS)
        for file in sorted((root / folder).rglob("*.py"))
    }
    return {file: mistakes for file, mistakes in found.items() if mistakes}


def _comparing(root: Path) -> frozenset[tuple[str, str]]:
    """Return the functions of the kernel that have the argument, each with the module that declares it."""
    found = set[tuple[str, str]]()
    for file in (root / "kernel").rglob("*.py"):
        module = ".".join(file.relative_to(root).with_suffix("").parts)
        functions = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)]
        found |= {(module, node.name) for node in functions if any(one.arg == ARGUMENT for one in _arguments(node))}
    return frozenset(found)


def _arguments(node: ast.FunctionDef) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def _mistakes(tree: ast.Module, comparing: frozenset[tuple[str, str]], serves: bool) -> Iterator[str]:
    nodes = list(ast.walk(tree))
    known = set[str]()
    for node in nodes:
        if isinstance(node, ast.ImportFrom | ast.Import):
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            names = {module.split(".")[0], *(alias.name.split(".")[0] for alias in node.names)}
            yield from (f"line {node.lineno}: imports {name}" for name in sorted(names & FORBIDDEN))
            known |= {alias.asname or alias.name for alias in node.names if _compares(module, alias.name, comparing)}
    yield from _without_argument(nodes, known)
    if serves:
        yield from _on_event_loop(nodes, known)


def _without_argument(nodes: Sequence[ast.AST], known: set[str]) -> Iterator[str]:
    for call in (node for node in nodes if isinstance(node, ast.Call) and not _is_given(node)):
        for how, named in [("called", call.func), *(("passed on", argument) for argument in call.args)]:
            if _is_known(named, known):
                yield f"line {call.lineno}: {ast.unparse(named)} is {how} without {ARGUMENT}="


def _on_event_loop(nodes: Sequence[ast.AST], known: set[str]) -> Iterator[str]:
    for function in (node for node in nodes if isinstance(node, ast.AsyncFunctionDef)):
        for node in _own_nodes(function):
            if isinstance(node, ast.Call) and _is_known(node.func, known):
                yield f"line {node.lineno}: {ast.unparse(node.func)} is called on the event loop, not in a thread"


def _compares(module: str, name: str, comparing: frozenset[tuple[str, str]]) -> bool:
    return any(name == other and f"{where}.".startswith(f"{module}.") for where, other in comparing)


def _is_known(node: ast.expr, known: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in known


def _is_given(call: ast.Call) -> bool:
    return any(keyword.arg in (ARGUMENT, None) for keyword in call.keywords)


def _own_nodes(function: ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a coroutine without those of functions that are defined in it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
