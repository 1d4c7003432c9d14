"""The check of names finds a class that two modules declare."""

from pathlib import Path

from checks.names import doubled
from checks.sizes import report


def write(root: Path, name: str, text: str) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_class_name_in_two_modules_is_found_with_both(tmp_path: Path) -> None:
    write(tmp_path, "kernel/one.py", "class Draw: ...\nclass Alone: ...\n")
    write(tmp_path, "services/router/two.py", "def f():\n    class Draw: ...\n")

    assert doubled(tmp_path) == {"Draw": ["kernel/one.py", "services/router/two.py"]}


def test_private_names_and_those_of_the_template_may_stand_twice(tmp_path: Path) -> None:
    for service in ("router", "arbiter"):
        write(tmp_path, f"services/{service}/one.py", "class _Own: ...\nclass Settings: ...\n")

    assert doubled(tmp_path) == {}


def test_a_servicer_has_a_name_of_its_own(tmp_path: Path) -> None:
    for service in ("router", "arbiter"):
        write(tmp_path, f"services/{service}/rpc.py", "class Servicer: ...\n")

    assert doubled(tmp_path) == {"Servicer": ["services/arbiter/rpc.py", "services/router/rpc.py"]}


def test_a_long_file_and_a_full_folder_are_reported(tmp_path: Path) -> None:
    write(tmp_path, "kernel/long.py", "x = 1\n" * 501)
    for number in range(16):
        write(tmp_path, f"cli/module_{number}.py", "")

    assert report(tmp_path) == ["kernel/long.py: 501 lines", "cli: 16 modules"]
