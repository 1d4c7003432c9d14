"""Untrusted code in the sandbox can compute, and has no other access."""

import threading

import pytest

from sandbox import NOT_COMPARED, SandboxUnavailable
from sandbox.comparisons import ComparedTest
from services.delegation.sandbox import Sandbox

SECONDS = 5.0


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    runner = Sandbox()
    runner.check()
    return runner


async def test_right_code_passes_and_may_use_the_standard_library(sandbox: Sandbox) -> None:
    code = "import math, random, json, re, itertools, collections\ndef f(x):\n    print('hi')\n    return math.sqrt(x)"

    result = await sandbox.run(code, "assert f(4) == 2", timeout_s=SECONDS)

    assert (result.passed, result.detail) == (True, "all tests passed")


@pytest.mark.parametrize(
    ("code", "tests", "detail"),
    [
        ("x = 1", "assert x == 2, 'it is one'", "tests: AssertionError: it is one"),
        ("x =", "", "SyntaxError: invalid syntax"),
        ("1 / 0", "", "code: ZeroDivisionError"),
        ("def f(): f()", "f()", "RecursionError"),
        ("x = ' ' * 10**10", "", "MemoryError"),
        ("raise SystemExit(0)", "", "SystemExit"),
        ("import os; os._exit(0)", "", "ended the process by itself"),
        ('print(\'{"word": "guess", "failure": ""}\'); import os; os._exit(0)', "", "ended the process by itself"),
    ],
)
async def test_wrong_code_fails_with_a_detail(sandbox: Sandbox, code: str, tests: str, detail: str) -> None:
    result = await sandbox.run(code, tests, timeout_s=SECONDS)

    assert result.passed is False
    assert detail in result.detail


FORGERY = """
import json, os, sys

def twice(x):
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        given = frame.f_locals.get("given")
        if isinstance(given, dict) and "word" in given:
            report = {"word": given["word"], "failure": "", "printed": "", "values": VALUES}
            os.write(1, b"\\n" + json.dumps(report).encode() + b"\\n")
            os._exit(0)
    return 0
"""
SEEN = """
import gc, re, sys

def twice(x):
    frame, texts = sys._getframe(), []
    while frame is not None:
        texts += [str(frame.f_locals), str(frame.f_code.co_consts)]
        frame = frame.f_back
    texts += [str(one) for one in gc.get_objects() if isinstance(one, (str, dict, list, tuple))]
    found = re.findall(r"\\b9[0-9]{11}\\b", str(texts))
    return int(found[0]) if found else 0
"""


@pytest.mark.parametrize(
    "values",
    ["[]", "[0]", "[None]", '[["int", "5"]]', '[["int", "5"]] * 3', "None", '[["other"]]', '[["int", 1e999]]'],
)
async def test_a_result_that_the_program_writes_itself_confirms_nothing(sandbox: Sandbox, values: str) -> None:
    result = await sandbox.run(FORGERY.replace("VALUES", values), "assert twice(2) == 4", timeout_s=SECONDS)

    assert not (result.passed and result.is_compared)


async def test_a_program_does_not_find_the_expected_values_in_its_process(sandbox: Sandbox) -> None:
    result = await sandbox.run(SEEN, "assert twice(2) == 912345678901", timeout_s=SECONDS)

    assert (result.passed, result.is_compared) == (False, True)


@pytest.mark.parametrize(
    ("tests", "passed"),
    [
        ("assert f(2) == 4", True),
        ("assert f(2) == 5", False),
        ("assert 4 == f(2)\nassert f(x=3) == 6", True),
        ("assert f([1]) == [1, 1]", True),
        ("assert f((1, 'a')) == (1, 'a', 1, 'a')", True),
        ("assert f((1,)) == [1, 1]", False),
        ("assert f(0.25) == 0.5\nassert f(True) is 2", True),
        ("assert same({'a': {1, 2}, 'b': None}) == {'a': {1, 2}, 'b': None}", True),
        ("assert counted('aab') == {'a': 2, 'b': 1}", True),
        ("assert len(f([1, 2])) == 4", True),
        ("assert is_even(2)\nassert not is_even(3)", True),
        ("assert is_even(3)", False),
        ("assert is_even(2) is True", True),
        ("assert same(1) == True", True),
        ("assert same(1) is True", False),
        ("assert same(0.0) is False", False),
        ("assert same(None) is None", True),
        ("METADATA = {'author': 'a'}\ndef check(candidate):\n    assert candidate(2) == 4\ncheck(f)", True),
        ("def check(candidate):\n    assert candidate(2) == 5\ncheck(f)", False),
    ],
)
async def test_usual_tests_are_compared_outside_the_programs_process(
    sandbox: Sandbox, tests: str, passed: bool
) -> None:
    code = (
        "from collections import Counter as counted\ndef f(x): return 2 * x\ndef same(x): return x\n"
        "def is_even(x): return x % 2 == 0"
    )

    result = await sandbox.run(code, tests, timeout_s=SECONDS)

    assert (result.passed, result.is_compared) == (passed, True)


@pytest.mark.parametrize(
    ("tests", "passed"),
    [
        ("assert f(2) == f(1) + 2", True),
        ("for x in range(3):\n    assert f(x) == 2 * x", True),
        ("expected = 5\nassert f(2) == expected", False),
        ("assert half(1) == 0.5", True),
        ("assert abs(f(0.1) - 0.2) < 1e-9", True),
    ],
)
async def test_other_tests_run_beside_the_program_and_are_weak(sandbox: Sandbox, tests: str, passed: bool) -> None:
    code = "from fractions import Fraction\ndef f(x): return 2 * x\ndef half(x): return Fraction(x, 2)"

    result = await sandbox.run(code, tests, timeout_s=SECONDS)

    assert (result.passed, result.is_compared) == (passed, False)


@pytest.mark.parametrize("returned", ["{k * (2**61 - 1) for k in range(1_001)}", "dict.fromkeys(range(1_001))"])
async def test_sets_and_dicts_too_large_to_be_compared_confirm_nothing(sandbox: Sandbox, returned: str) -> None:
    result = await sandbox.run(f"def f(): return {returned}", "assert f()", timeout_s=SECONDS)

    assert (result.passed, result.is_compared, result.detail) == (True, False, NOT_COMPARED)


async def test_a_report_too_large_to_be_compared_confirms_nothing(sandbox: Sandbox) -> None:
    result = await sandbox.run("def f(): return 'x' * 65_536", "assert f()", timeout_s=SECONDS)

    assert (result.passed, result.is_compared, result.detail) == (True, False, NOT_COMPARED)


async def test_what_is_expected_in_a_set_too_large_is_not_compared(sandbox: Sandbox) -> None:
    expected = {k * (2**61 - 1) for k in range(1_001)}

    result = await sandbox.run(
        f"def f(): return {{k * {2**61 - 1} for k in range(1_001)}}", f"assert f() == {expected}", timeout_s=SECONDS
    )

    assert (result.passed, result.is_compared) == (True, False)


async def test_values_are_compared_off_the_event_loop(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    compared_on: list[threading.Thread] = []

    def recorded(one: ComparedTest, computed: object) -> bool | None:
        compared_on.append(threading.current_thread())
        return compare(one, computed)

    compare = ComparedTest.is_met_by
    monkeypatch.setattr(ComparedTest, "is_met_by", recorded)

    result = await sandbox.run("def f(): return 4", "assert f() == 4", timeout_s=SECONDS)

    assert (result.passed, result.is_compared) == (True, True)
    assert compared_on
    assert threading.current_thread() not in compared_on


@pytest.mark.parametrize("terms", [300, 1_500])
@pytest.mark.parametrize(
    "tests",
    [
        "assert f() == SUM",
        "assert f(SUM) == 1",
        "def check(candidate):\n    assert candidate() == SUM\ncheck(f)",
        "def check(candidate):\n    assert SUM == candidate()\ncheck(f)",
    ],
)
async def test_tests_nested_too_deeply_to_be_compared_are_weak(sandbox: Sandbox, tests: str, terms: int) -> None:
    tests = tests.replace("SUM", "+".join(["1"] * terms))

    result = await sandbox.run("def f(x=1): return 1", tests, timeout_s=SECONDS)

    assert result.is_compared is False


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.socket()",
        "import socket; socket.create_connection(('127.0.0.1', 5432))",
        "import urllib.request as u; u.urlopen('http://127.0.0.1:8000')",
        "open('/etc/passwd').read()",
        "open('/proc/self/environ').read()",
        "open('/tmp/left-behind', 'w').write('x')",
        "import os; os.listdir('/')",
        "import os; os.fork()",
        "import os; os.execv('/bin/true', ['true'])",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.kill(1, 0)",
        "import os; os.kill(os.getppid(), 9)",
        "import ctypes; assert ctypes.CDLL(None).syscall(41, 2, 1, 0) >= 0",
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**40, 2**40))",
    ],
)
async def test_code_has_no_access_outside_the_sandbox(sandbox: Sandbox, code: str) -> None:
    result = await sandbox.run(code, "", timeout_s=SECONDS)

    assert result.passed is False


async def test_code_that_writes_without_end_is_stopped(sandbox: Sandbox) -> None:
    result = await sandbox.run("import os\nwhile True: os.write(1, b'x' * 65536)", "", timeout_s=SECONDS)

    assert (result.passed, result.detail) == (False, "the code wrote more than 1048576 bytes")


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(60)"])
async def test_code_that_does_not_end_is_stopped(sandbox: Sandbox, code: str) -> None:
    result = await sandbox.run(code, "", timeout_s=1.0)

    assert (result.passed, result.detail) == (False, "not done within 1 s")


async def test_the_environment_is_empty(sandbox: Sandbox) -> None:
    code = "import os; assert set(os.environ) <= {'LC_CTYPE'}, dict(os.environ)"

    assert (await sandbox.run(code, "", timeout_s=SECONDS)).passed


def test_a_sandbox_that_is_off_is_unavailable() -> None:
    with pytest.raises(SandboxUnavailable):
        Sandbox(enabled=False).check()
