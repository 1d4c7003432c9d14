import itertools
import re
from pathlib import Path

import pytest

from embedded import bootstrap

ROOT = Path(__file__).resolve().parents[3]
LOCKS = ("services.txt", "embedded.txt", "suite.txt", "dev.txt")


def pins(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / name).read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+.*?) ?\\$", text, re.MULTILINE))


def test_an_old_python_raises_an_error_with_its_version() -> None:
    with pytest.raises(bootstrap.SetupFailed, match=r"needs Python 3\.11 or newer; this is 3\.9"):
        bootstrap.check_python((3, 9))


def test_a_new_python_is_accepted() -> None:
    bootstrap.check_python((3, 11))
    bootstrap.check_python((3, 14))


def test_only_a_cpu_build_of_torch_is_asked_for() -> None:
    assert bootstrap.torch_requirement("linux").endswith("+cpu")
    assert "+" not in bootstrap.torch_requirement("darwin")  # which has no other builds


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("home = /usr/bin\nversion = 3.11.7\n", True),
        ("home = /usr/bin\nversion_info = 3.11.7\n", True),
        ("home = /usr/bin\nversion = 3.12.1\n", False),
        ("home = /usr/bin\nversion = 3.1.1\n", False),
    ],
)
def test_an_environment_of_another_python_is_not_used(config: str, expected: bool) -> None:
    assert bootstrap.belongs_to(config, (3, 11)) is expected


def test_an_encoder_of_the_users_own_leaves_ours_out() -> None:
    own = {"METACOG_ENCODER_URL": "http://gpu:8001/v1"}

    assert bootstrap.requirement_set(dev=False, environment={}) == "suite.txt"
    assert bootstrap.requirement_set(dev=False, environment=own) == "embedded.txt"
    assert bootstrap.requirement_set(dev=True, environment=own) == "dev.txt"
    assert "sentence-transformers" not in pins("embedded.txt")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  Downloading numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl (16.8 MB)\n", "numpy (16.8 MB)"),
        ("  Downloading https://example.org/a/b/torch-2.13.0-cp311.whl (180 kB)\n", "torch (180 kB)"),
        ("Installing collected packages: numpy, torch\n", "unpacking and compiling"),
        ("Collecting numpy==2.4.6\n", None),
        ("\n", None),
    ],
)
def test_lines_of_pip_are_shortened_to_progress(line: str, expected: str | None) -> None:
    assert bootstrap.progress_in(line) == expected


@pytest.mark.parametrize("name", [*LOCKS, "model.txt"])
def test_a_lock_names_no_index_and_no_cuda_package(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()

    assert "://" not in text
    assert "find-links" not in text
    assert not re.search(r"^(torch|triton|nvidia|cuda)[a-z0-9-]*\s*==", text, re.MULTILINE)


@pytest.mark.parametrize(("smaller", "larger"), list(itertools.pairwise(LOCKS)))
def test_each_lock_is_part_of_the_next(smaller: str, larger: str) -> None:
    assert pins(smaller).items() <= pins(larger).items()


def test_every_pin_has_a_hash() -> None:
    text = (ROOT / "requirements" / "dev.txt").read_text()
    pinned = re.findall(r"^[a-z0-9-]+==.*\n.*", text, re.MULTILINE)

    assert len(pinned) > 100
    assert all("\n    --hash=sha256:" in each for each in pinned)
