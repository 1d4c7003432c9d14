"""This module finds programs in a text, and brings them into the form in which two of them are compared."""

import ast
import textwrap

from kernel.answers.wrapping import LONGEST_TEXT

# Characters of the longest program that is one.
LONGEST_PROGRAM = 50_000
# Deepest nesting of brackets, and longest chain of operators on one line, that is handed to Python's parser.
DEEPEST = 60
LONGEST_LINE = 2_000

_FENCES = ("```", "~~~")
_WITH_DOCSTRING = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def code_blocks(text: str) -> tuple[str, ...]:
    r"""Return the contents of the closed fenced code blocks of `text`, in order.

    Example:
        >>> code_blocks("First:\n```python\nx = 1\n```\nor\n```\nx = 2\n```")
        ('x = 1', 'x = 2')
    """
    blocks: list[str] = []
    fence, held = "", list[str]()
    for line in text[-LONGEST_TEXT:].splitlines():
        mark = line.strip()[:3]
        if not fence and mark in _FENCES:
            fence, held = mark, []
        elif fence and line.strip() == fence:
            blocks.append("\n".join(held))
            fence = ""
        else:
            held.append(line)
    return tuple(blocks)


def is_program(text: str) -> bool:
    r"""Return whether `text` as a whole is Python that does something: a lone name or number is no program.

    Example:
        >>> is_program("def f(x):\n    return x"), is_program("print(1)"), is_program("Paris"), is_program("1 + 1")
        (True, True, False, False)
    """
    tree = _parsed(text)
    return tree is not None and any(map(_does_something, tree.body))


def normalised_program(text: str) -> str | None:
    r"""Return the program of `text` without comments, docstrings and layout; None when it is empty or too long.

    What does not parse as Python is compared with single spaces and its own case.

    Example:
        >>> normalised_program("def f( x ):\n  'Twice.'\n  return 2*x # twice")
        'def f(x):\n    return 2 * x'
        >>> normalised_program("int  f(){\n return 1; }")
        'int f(){ return 1; }'
    """
    if len(text) > LONGEST_PROGRAM or not text.strip():
        return None
    tree = _parsed(text)
    return (_unparsed(tree) if tree is not None else None) or " ".join(text.split())


def _does_something(statement: ast.stmt) -> bool:
    return not isinstance(statement, ast.Expr) or isinstance(statement.value, ast.Call | ast.Await)


def _parsed(text: str) -> ast.Module | None:
    if len(text) > LONGEST_PROGRAM or not _is_small_enough(text):
        return None
    try:
        return ast.parse(textwrap.dedent(text).strip("\n"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_small_enough(text: str) -> bool:
    """Return whether Python's parser will not go too deep: it recurses with nesting, and with the chain of one line."""
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    return deepest <= DEEPEST and all(len(line) <= LONGEST_LINE for line in text.splitlines())


def _unparsed(tree: ast.Module) -> str | None:
    try:
        for node in ast.walk(tree):
            if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
        return ast.unparse(ast.fix_missing_locations(tree))
    except (RecursionError, ValueError):
        return None
