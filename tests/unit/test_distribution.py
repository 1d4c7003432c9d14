"""Tests that are divided among processes: what the tests of a file share starts once."""

import re
import subprocess
import sys
from pathlib import Path

from tests.distribution import END_TO_END
from tests.support.stack import environment


def test_the_tests_of_a_file_run_in_one_process_and_those_of_long_folders_begin(tmp_path: Path) -> None:
    files = ["tests/unit/test_a.py", "tests/unit/test_b.py", f"{END_TO_END}/test_c.py", f"{END_TO_END}/test_d.py"]
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("".join(f"def test_{number}(): pass\n" for number in range(4)))
    (tmp_path / "conftest.py").write_text(
        "from tests.distribution import longest_first, pytest_xdist_make_scheduler\n"
        "def pytest_collection_modifyitems(items): longest_first(items)\n"
    )

    command = ["-m", "pytest", "-v", "-n", "2", "--import-mode=importlib", "-p", "no:schemathesis"]
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )

    ran = re.findall(r"\[(gw\d)\].* PASSED (\S+)::", done.stdout)
    assert len(ran) == 4 * len(files), done.stdout + done.stderr
    processes = {file: {process for process, of in ran if of == file} for file in files}
    assert [len(each) for each in processes.values()] == [1, 1, 1, 1]
    assert processes[files[2]] == processes[files[3]] != processes[files[0]]
