"""What the repository and its images contain of others has its licence beside it."""

import tomllib
from hashlib import sha256
from pathlib import Path

import pytest

from docs.generating import notices
from docs.generating.notices import licence_of, locked, page, vendored

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("LICENSE", "NOTICE", "THIRD_PARTY_NOTICES.md")


def test_the_licence_is_the_one_that_the_project_states() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["license"] == "Apache-2.0"
    assert all(list(ROOT.glob(pattern)) for pattern in project["license-files"])
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text()
    assert "END OF TERMS AND CONDITIONS" in (ROOT / "LICENSE").read_text()


def test_every_vendored_file_is_listed_with_its_licence_text_and_is_the_one_that_its_row_names() -> None:
    text = page(ROOT)
    stated = {folder: (ROOT / folder / "README.md").read_text() for folder in notices.VENDORED}

    for file, package, licence, words in vendored(ROOT):
        assert f"| `{file}` | {package} | {licence} |" in text
        assert (ROOT / words).read_text().strip() in text or words == Path("LICENSE")
        if file.parent in stated:
            assert sha256((ROOT / file).read_bytes()).hexdigest() in stated[file.parent]


def test_a_vendored_file_without_a_licence_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / notices.VENDORED[0]
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("| `htmx-1.0.js` | `htmx@1.0` | 0BSD | `0` |\n")
    (folder / "htmx-1.0.js").write_text("1")

    with pytest.raises(ValueError, match=r"htmx-1\.0\.js needs a row .* and a NAME\.LICENSE"):
        vendored(tmp_path)


def test_every_package_of_the_locks_is_listed_once_with_a_licence() -> None:
    lines = page(ROOT).splitlines()

    for name in locked((ROOT / "requirements" / "dev.txt").read_text()):
        [row] = [line for line in lines if line.startswith(f"| {name} | ")]
        assert row.split("|")[2].strip()


def test_a_package_that_states_no_licence_is_an_error(tmp_path: Path) -> None:
    from importlib.metadata import PathDistribution

    folder = tmp_path / "nameless-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.4\nName: nameless\nVersion: 1.0\n")

    with pytest.raises(ValueError, match="nameless states no licence"):
        licence_of(PathDistribution(folder))


def test_the_images_carry_the_licence_and_the_notices() -> None:
    stages = (ROOT / "Dockerfile").read_text().split("\nFROM ")
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    with_our_code = [stage for stage in stages if "/srv/metacog/kernel" in stage]

    assert with_our_code
    assert all(name in stage for stage in with_our_code for name in DOCUMENTS)
    assert all(f"!{name}" in allowed for name in DOCUMENTS)


def test_a_locked_package_that_is_not_installed_keeps_its_row_and_a_new_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "THIRD_PARTY_NOTICES.md").write_text("| no-such-package | MIT |\n")

    assert notices._licence("no-such-package", tmp_path) == "MIT"
    with pytest.raises(ValueError, match="another-one is locked and not installed"):
        notices._licence("another-one", tmp_path)
