"""This module takes the expected values out of unit tests, so that the program under test never sees them.

A program shares its process with what runs it, and could read the tests there or write their result itself. Tests of
the usual form, `assert f(...) == value`, can be decided elsewhere: the program's process computes `f(...)` and returns
the value, and this process compares it with what is expected, which never leaves it. Tests of another form are run
beside the program, and what they report is weak.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy

from kernel.values import value

# Items of one set or dict [count] and bytes of a run's report that are compared. Values that a program chooses can all
# have the same hash, and building a set of n such values takes n * n steps.
MOST_ITEMS = 1_000
MOST_COMPARED = 64 * 1024


@value
class ComparedTest:
    """A compared test is a unit test whose value is computed in one process and compared in another.

    Attributes:
        expression: What the program's process computes; it holds nothing of what is expected.
        expected: The value that is right.
        as_truth: Whether only the truth of the value counts.
        as_same: Whether the value has the type of the expected one too, as for `is`: 1 is equal to True, and not True.
    """

    expression: str
    expected: object
    as_truth: bool = False
    as_same: bool = False

    def is_met_by(self, computed: object) -> bool | None:
        """Return whether a value, as the runner writes it, is the expected one; None where it cannot be compared."""
        found = decoded(computed)
        if found is NO_LITERAL:
            return None
        if self.as_truth:
            return bool(found) is self.expected
        return found == self.expected and not (self.as_same and type(found) is not type(self.expected))


class _NoLiteral:
    """This stands for a text that is no literal."""


NO_LITERAL = _NoLiteral()


def comparisons(tests: str) -> Sequence[ComparedTest]:
    """Return `tests` as comparisons; empty where one of them has another form, or is nested too deeply to be read.

    Each is `assert f(...) == value`, `assert f(...) is value` or `assert [not] f(...)` with values that are literals,
    on its own or inside a function `check` that is called with the program's function, as HumanEval has it.

    Example:
        >>> [(one.expression, one.expected) for one in comparisons("assert twice(2) == 4")]
        [('twice(2)', 4)]
        >>> comparisons("assert twice(2) == twice(1) + 2")
        ()
    """
    try:
        found = [_comparison(statement) for statement in _inlined(ast.parse(tests).body)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    whole = [one for one in found if one is not None]
    return tuple(whole) if len(whole) == len(found) else ()


def decoded(computed: object) -> object:
    """Return the value that the runner wrote as JSON.

    It is `NO_LITERAL` where it is of another kind than Python's literals, or has a set or dict of more than
    `MOST_ITEMS`.

    Example:
        >>> decoded(["list", [["int", "1"], "a", ["dict", [["b", ["float", "0.5"]]]]]])
        [1, 'a', {'b': 0.5}]
        >>> decoded(["other"]) is NO_LITERAL
        True
    """
    try:
        return _decoded(computed)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return NO_LITERAL


def _decoded(computed: object) -> object:
    if computed is None or isinstance(computed, bool | str):
        return computed
    if not isinstance(computed, list) or len(computed) != 2:
        raise ValueError("it is no value")
    kind, content = computed
    if kind in _HASHED and len(content) > MOST_ITEMS:
        raise ValueError(f"a {kind} has more than {MOST_ITEMS} items")
    if kind == "dict":
        return {_decoded(key): _decoded(item) for key, item in content}
    if kind in _GROUPS:
        return _GROUPS[kind](_decoded(item) for item in content)
    return _SCALARS[kind](content)


_GROUPS: Mapping[str, Callable[[Iterable[object]], object]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}
_HASHED = ("dict", "set", "frozenset")
_SCALARS: Mapping[str, Callable[[str], object]] = {
    "int": int,
    "float": float,
    "complex": complex,
    "bytes": bytes.fromhex,
}


def _literal(node: ast.expr) -> object:
    """Return the value of a literal; `NO_LITERAL` for an expression that is none, or has a set or dict too large."""
    groups = [one for one in ast.walk(node) if isinstance(one, ast.Set | ast.Dict)]
    if any(len(one.elts if isinstance(one, ast.Set) else one.keys) > MOST_ITEMS for one in groups):
        return NO_LITERAL
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return NO_LITERAL


def _inlined(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements; in place of a function `check` and its call, those of the function with its argument."""
    checks = {one.name: one for one in statements if isinstance(one, ast.FunctionDef) and one.name == "check"}
    for statement in statements:
        if statement in checks.values() or _says_nothing(statement):
            continue
        body = _body_of_call(statement, checks)
        yield from [statement] if body is None else [inner for inner in body if not _says_nothing(inner)]


def _body_of_call(statement: ast.stmt, checks: Mapping[str, ast.FunctionDef]) -> Sequence[ast.stmt] | None:
    """Return the statements of the check that `statement` calls with one function; None where it does not."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in checks:
        return None
    check, arguments = checks[call.func.id], call.args
    if len(check.args.args) != 1 or len(arguments) != 1 or not isinstance(arguments[0], ast.Name):
        return None
    renaming = _Renaming(check.args.args[0].arg, arguments[0].id)
    return [renaming.visit(deepcopy(inner)) for inner in check.body]


def _says_nothing(statement: ast.stmt) -> bool:
    """Return whether `statement` is a text alone, or HumanEval's `METADATA = {...}`, which no test reads."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)] == ["METADATA"]


class _Renaming(ast.NodeTransformer):
    """This gives a name in place of another."""

    def __init__(self, before: str, after: str) -> None:
        self._before = before
        self._after = after

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """Return the renamed name."""
        return ast.Name(id=self._after, ctx=node.ctx) if node.id == self._before else node


def _comparison(statement: ast.stmt) -> ComparedTest | None:
    if not isinstance(statement, ast.Assert):
        return None
    test, expected = statement.test, True
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, expected = test.operand, False
    if isinstance(test, ast.Call):
        return ComparedTest(expression=ast.unparse(test), expected=expected, as_truth=True) if _is_call(test) else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not expected:
        return None
    if not isinstance(test.ops[0], ast.Eq | ast.Is):
        return None
    for computed, given in ((test.left, test.comparators[0]), (test.comparators[0], test.left)):
        right = _literal(given)
        if right is not NO_LITERAL and _is_call(computed):
            as_same = isinstance(test.ops[0], ast.Is)
            return ComparedTest(expression=ast.unparse(computed), expected=right, as_same=as_same)
    return None


def _is_call(node: ast.expr) -> bool:
    """Return whether `node` calls a named function with literals, or with the results of such calls."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    given = [*node.args, *(one.value for one in node.keywords)]
    return all(_literal(one) is not NO_LITERAL or _is_call(one) for one in given)
