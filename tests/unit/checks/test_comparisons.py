"""The check of comparisons finds a service that compares expressions where they cannot be interrupted."""

from pathlib import Path

import pytest

from checks.comparisons import unbounded

KERNEL = "def is_right(a: str, b: str, *, mathematics: object = None) -> bool: ...\n"
IMPORT = "from kernel.answers import is_right\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("kernel/answers", "services/router/service"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "kernel/answers/equality.py").write_text(KERNEL)
    return tmp_path


@pytest.mark.parametrize(
    ("source", "mistake"),
    [
        (f"{IMPORT}def f(): return is_right('1', '2')\n", "line 2: is_right is called without mathematics="),
        (f"{IMPORT}def f(): run(is_right, '1', '2')\n", "line 2: is_right is passed on without mathematics="),
        (
            f"{IMPORT}async def f(m): return is_right('1', '2', mathematics=m)\n",
            "line 2: is_right is called on the event loop, not in a thread",
        ),
        ("from kernel.answers import IN_THIS_PROCESS\n", "line 1: imports IN_THIS_PROCESS"),
        ("def f():\n    import sympy.core\n", "line 2: imports sympy"),
        ("from sandbox.mathematics import InProcessCalculator\n", "line 1: imports InProcessCalculator"),
    ],
)
def test_a_comparison_that_cannot_be_interrupted_is_found(root: Path, source: str, mistake: str) -> None:
    (root / "services/router/service/one.py").write_text(source)

    assert unbounded(root) == {"services/router/service/one.py": [mistake]}


@pytest.mark.parametrize("folder", ["cli/calibration", "evals/scorers"])
def test_clients_compare_in_a_process_that_can_be_killed_too_but_may_wait_for_it(root: Path, folder: str) -> None:
    (root / folder).mkdir(parents=True)
    (root / folder / "one.py").write_text(f"{IMPORT}def f(): return is_right('1', '2')\n")
    (root / folder / "two.py").write_text(f"{IMPORT}async def f(m): return is_right('1', '2', mathematics=m)\n")

    assert unbounded(root) == {f"{folder}/one.py": ["line 2: is_right is called without mathematics="]}


@pytest.mark.parametrize(
    "source",
    [
        f"{IMPORT}async def f(c, m): return await c.run(is_right, '1', '2', mathematics=m)\n",
        f"{IMPORT}def f(m): return is_right('1', '2', mathematics=m)\n",
        "from services.router.core.feedback import is_right\ndef f(): return is_right(0.7)\n",
    ],
)
def test_one_by_a_calculator_is_allowed_and_so_is_another_function_of_the_name(root: Path, source: str) -> None:
    (root / "services/router/service/one.py").write_text(source)

    assert unbounded(root) == {}
