"""This module makes the head of each page of docs/evaluation: what was measured, and what holds by it.

`pages.yaml` has what the page itself cannot tell; items come from records where there are some, the power from the
items of each file, the claims from what-holds.yaml.
"""

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from docs.generating import what_holds
from docs.generating.sections import replaced
from evals.stats.detectable import least_gain

FOLDER = Path("docs", "evaluation")
PAGES = FOLDER / "pages.yaml"
BEGIN, END = "<!-- head: made by `make docs` -->", "<!-- end of head -->"


def pages(root: Path, made: Mapping[Path, str]) -> Mapping[Path, str]:
    """Return the pages with their heads.

    Args:
        root: The root of the repository.
        made: Pages of which other parts were made just now.
    """
    found = {}
    for name, about in yaml.safe_load((root / PAGES).read_text()).items():
        path = root / FOLDER / name
        text = made.get(path) or path.read_text()
        found[path] = replaced(name, text, BEGIN, END, head(root, name, about))
    return found


def head(root: Path, name: str, about: Mapping[str, Any]) -> str:
    """Return the head of a page."""
    files = [about["items"]] if "items" in about else recorded(root / FOLDER / about["records"])
    power = about.get("power") or f"a gain of {_least_gains(files)} points, where one in six differs"
    states = what_holds.states(root, name)
    claims = ", ".join(f"{many} {said}" for said, many in sorted(states.items())) or "none rests on this page"
    shown = {
        "Items": f"{sum(files):,}{about.get('of', '')}",
        "Smallest that they can show": power,
        "Model": about["model"],
        "Cost": about["cost"],
        "Claims of the papers": f"{claims} ([what holds](what-holds.md))",
    }
    return "\n".join(f"- **{label}**: {text}" for label, text in shown.items()) + "\n"


def recorded(path: Path) -> Sequence[int]:
    """Return the items of a recording, or of each file of a folder of records [count]."""
    files = sorted(path.glob("*.gz")) if path.is_dir() else [path]
    return [sum(b'"answers":' in line for line in gzip.decompress(file.read_bytes()).splitlines()) for file in files]


def _least_gains(files: Sequence[int]) -> str:
    """Return the smallest gains that so many items show [points]: of the largest file and of the smallest one."""
    ends = [f"{100 * least_gain(items):.1f}" for items in (max(files), min(files))]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
