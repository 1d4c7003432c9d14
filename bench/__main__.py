"""All benches, or those that are named: `python -m bench [NAME ...]`; `make bench ARGS=router`.

A bench is a module of this folder with a `main()` that prints its figures; its docstring's first line says what it
measures. Each runs in a process of its own, so that none is influenced by another one.
"""

import ast
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def benches() -> dict[str, str]:
    """Return the benches by name, each with the first line of its docstring."""
    parsed = {path.stem: ast.parse(path.read_text()) for path in sorted(HERE.glob("[a-z]*.py"))}
    return {
        name: (ast.get_docstring(module) or "").partition("\n")[0]
        for name, module in parsed.items()
        if any(isinstance(part, ast.FunctionDef) and part.name == "main" for part in module.body)
    }


def run(names: list[str]) -> int:
    """Run the benches called `names`, or all, and return how many failed."""
    known = benches()
    if unknown := [name for name in names if name not in known]:
        listed = "\n".join(f"  {name:<14} {about}" for name, about in known.items())
        sys.stderr.write(f"there is no bench {', '.join(unknown)}; there are\n{listed}\n")
        return 2
    failed = 0
    for name in names or known:
        sys.stdout.write(f"\n== {name}: {known[name]}\n\n")
        sys.stdout.flush()
        failed += bool(subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode)
    return failed


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
