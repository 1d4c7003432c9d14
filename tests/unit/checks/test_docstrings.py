"""A check of docstrings finds numbers without a unit or a range, arrays without a shape, errors that are not named."""

from pathlib import Path

import pytest

from checks.docstrings import gaps, missing

ROOT = Path(__file__).parents[3]


def test_no_docstring_of_deciding_code_leaves_anything_out() -> None:
    assert gaps(ROOT) == {}


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("def f(): ...", "f has no docstring"),
        ('def f(level: float) -> str:\n    """Return `level` in words."""', "f: level has no unit or range"),
        (
            'def f(level: float) -> bool:\n    """Return it.\n\n    Args:\n        level: It.\n    """',
            "f: level has no unit",
        ),
        ('def f() -> int:\n    """Return how many."""', "f returns a number without unit or range"),
        ('def f(of: Floats) -> str:\n    """Return `of` [0..1] in words."""', "f: of has no shape"),
        (
            'def f() -> str:\n    """Return it."""\n    raise LookupError("no")',
            "f raises LookupError, which its docstring",
        ),
        (
            'class V:\n    """A value.\n\n    Attributes:\n        share: It.\n    """\n\n    share: float',
            "V.share has no unit",
        ),
        (
            'class V:\n    """A value."""\n\n    def __post_init__(self):\n        raise ValueError("no")',
            "V raises ValueError",
        ),
        (
            'class V:\n    """A value."""\n\n    def f(self) -> float:\n        """Return it."""',
            "V.f returns a number without",
        ),
    ],
)
def test_what_a_docstring_leaves_out_is_found(source: str, complaint: str) -> None:
    [found] = missing(source)

    assert complaint in found


@pytest.mark.parametrize(
    "source",
    [
        'def f(level: float) -> float:\n    """Return `level` [-1..1] as a share [0..1]."""',
        'def f(n: int) -> int:\n    """It.\n\n    Args:\n        n: It [s].\n\n    Returns:\n        It [s].\n    """',
        'def f(of: Floats) -> str:\n    """Return it.\n\n    Args:\n        of: Levels [0..1, shape (n,)].\n    """',
        'def f() -> str:\n    """It.\n\n    Raises:\n        LookupError: Never.\n    """\n    raise LookupError("no")',
        'class V:\n    """Counts, each [count, >= 0]."""\n\n    right: int\n    wrong: int',
        "def _private(n): ...",
    ],
)
def test_a_complete_docstring_is_not_reported(source: str) -> None:
    assert list(missing(source)) == []
