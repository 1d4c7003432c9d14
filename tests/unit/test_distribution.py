"""Tests that are divided among processes: what the tests of a file share starts once."""

import re
import subprocess
import sys
from pathlib import Path

from tests.distribution import END_TO_END
from tests.support.stack import environment


def test_the_tests_of_a_file_run_in_one_process_and_those_of_long_folders_begin(tmp_path: Path) -> None:
    # As they are collected, short ones come first and last.
    short = ["tests/contract/test_a.py", "tests/unit/test_b.py"]
    shared = [f"{END_TO_END}/test_c.py", f"{END_TO_END}/test_d.py"]
    long = "tests/integration/test_e.py"
    for file in (*short, *shared, long):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("".join(f"def test_{number}(): pass\n" for number in range(4)))
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import pytest_collection_modifyitems, pytest_xdist_make_scheduler\n"
    )

    command = ["-m", "pytest", "-v", "-n", "2", "--import-mode=importlib", "-p", "no:schemathesis"]
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )

    ran = re.findall(r"\[(gw\d)\].* PASSED (\S+)::", done.stdout)
    assert len(ran) == 4 * 5, done.stdout + done.stderr
    processes = {file: {process for process, of in ran if of == file} for file in (*short, *shared, long)}
    assert [len(each) for each in processes.values()] == [1, 1, 1, 1, 1]
    assert processes[shared[0]] == processes[shared[1]] != processes[long]
    begun = {next(file for process, file in ran if process == one) for one in ("gw0", "gw1")}
    assert begun == {shared[0], long}
