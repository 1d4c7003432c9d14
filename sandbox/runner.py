"""The runner restricts its own process, then runs code and tests from standard input; standard library only.

    python -I -S -B runner.py MEMORY_BYTES SECONDS  <  {"code": ..., "tests": ..., "expressions": [...],
                                                        "word": ..., "name": ...}

It writes what failed, and the values of the expressions, to standard output, with the word of its input, so that an
end by the code itself is not taken for its own. The code runs in this process and can find the word. Other modules do
not import this one.
"""

import ctypes
import errno
import json
import os
import platform
import resource
import struct
import sys
import traceback
from types import SimpleNamespace

NOT_LOCKED = 77
MOST_OUTPUT = 1 << 20
# Printed characters that are kept [count].
MOST_PRINTED = 4_000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_SET_DUMPABLE, SECCOMP_MODE_FILTER = 38, 22, 4, 2
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
# Every right over files that Landlock 1 knows: execute, write, read, read folders, remove, make.
EVERY_RIGHT, READ_FILE, READ_FOLDER = (1 << 13) - 1, 1 << 2, 1 << 3
LANDLOCK_PATH_BENEATH = 1

# System calls that computing needs, by name, with their numbers on x86-64 and ARM64; everything else is rejected.
CALLS = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62), "mmap": (9, 222),
    "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "ioctl": (16, 29), "pread64": (17, 67),
    "access": (21, None),
    "sched_yield": (24, 124), "mremap": (25, 216), "madvise": (28, 233), "dup": (32, 23), "nanosleep": (35, 101),
    "getpid": (39, 172), "exit": (60, 93), "uname": (63, 160), "fcntl": (72, 25), "getcwd": (79, 17),
    "readlink": (89, None), "getrusage": (98, 165), "sysinfo": (99, 179), "getuid": (102, 174), "getgid": (104, 176),
    "geteuid": (107, 175), "getegid": (108, 177), "sigaltstack": (131, 132), "gettid": (186, 178), "futex": (202, 98),
    "getdents64": (217, 61), "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "exit_group": (231, 94), "openat": (257, 56), "newfstatat": (262, 79), "readlinkat": (267, 78),
    "faccessat": (269, 48), "getrandom": (318, 278), "statx": (332, 291), "faccessat2": (439, 439),
}  # fmt: skip
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


class NotLocked(Exception):
    """The process cannot be restricted."""


def main() -> None:
    """Restrict the process, run, and report."""
    given = json.loads(sys.stdin.buffer.read())
    memory, seconds = int(sys.argv[1]), int(sys.argv[2])
    try:
        lock_in(memory, seconds)
    except (NotLocked, OSError, ValueError) as error:
        sys.stdout.write(str(error))
        sys.stdout.flush()
        os._exit(NOT_LOCKED)
    report = os.dup(1)
    values: list[object] = []
    parts = (given["code"], given["tests"], given.get("expressions", []))
    failure, printed = run(*parts, given.get("name", "__answer__"), values)
    result = {"word": given["word"], "failure": failure, "printed": printed, "values": values}
    os.write(report, b"\n" + json.dumps(result).encode() + b"\n")
    os._exit(0)


def run(code: str, tests: str, expressions: list[str], name: str, values: list[object]) -> tuple[str, str]:
    """Return what failed, empty when nothing did, and the last characters that the code printed.

    The values of the expressions are added to `values`.
    """
    names = {"__name__": name, "__builtins__": __builtins__}
    printed = Printed()
    sys.stdout, sys.stderr = printed, Printed()
    for part, source in (("code", code), ("tests", tests)):
        try:
            exec(compile(source, f"<{part}>", "exec"), names)
        except BaseException as error:  # noqa: BLE001 - whatever the code raises is its failure
            return f"{part}: {''.join(traceback.format_exception_only(error)).strip()}", ""
    for expression in expressions:
        try:
            values.append(written(eval(compile(expression, "<tests>", "eval"), names)))
        except BaseException as error:  # noqa: BLE001 - whatever the code raises is its failure
            return f"tests: {expression}: {''.join(traceback.format_exception_only(error)).strip()}", ""
    return "", printed.last


def written(computed: object) -> object:
    """Return a value as JSON has it, with its type, so that another process can compare it; ["other"] for an object."""
    if computed is None or isinstance(computed, bool):
        return computed
    if isinstance(computed, dict):
        return ["dict", [[written(key), written(item)] for key, item in computed.items()]]
    for group in (list, tuple, set, frozenset):
        if isinstance(computed, group):
            return [group.__name__, [written(item) for item in computed]]
    return str(computed) if isinstance(computed, str) else _scalar(computed)


def _scalar(computed: object) -> object:
    for kind in (int, float, complex):
        if isinstance(computed, kind):
            return [kind.__name__, kind.__repr__(computed)]
    return ["bytes", computed.hex()] if isinstance(computed, bytes) else ["other"]


class Printed:
    """This stream keeps the last characters that are printed, and nothing else."""

    def __init__(self) -> None:
        self.last = ""

    def write(self, text: str) -> int:
        """Keep the end of `text`."""
        self.last = (self.last + str(text)[-MOST_PRINTED:])[-MOST_PRINTED:]
        return len(text)

    def flush(self) -> None:
        """Do nothing."""


def lock_in(memory: int, seconds: int) -> None:
    """Give up everything but computing.

    Raises:
        NotLocked: When the system does not let the process do so.
    """
    machine = ARCHITECTURES.get(platform.machine())
    if sys.platform != "linux" or machine is None:
        raise NotLocked(f"{sys.platform} on {platform.machine()} is not supported")
    libc = SimpleNamespace(lib=ctypes.CDLL(None, use_errno=True))
    limits = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_FSIZE: MOST_OUTPUT,
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_CORE: 0,
    }
    for kind, limit in limits.items():
        resource.setrlimit(kind, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    _preload()
    _called(libc.lib.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _called(libc.lib.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "dumpable")
    _landlock(libc.lib)
    _seccomp(libc.lib, *machine)


def _preload() -> None:
    """Load what the first failure and the first import of the code would need."""
    __import__("encodings.idna")
    __import__("collections")
    try:
        raise ValueError("warm")
    except ValueError as warm:
        traceback.format_exception_only(warm)


def _landlock(lib: ctypes.CDLL) -> None:
    """Let files be read under Python's own library only."""
    handled = struct.pack("=Q", EVERY_RIGHT)
    ruleset = lib.syscall(LANDLOCK_CREATE, handled, ctypes.c_size_t(len(handled)), 0)
    _called(ruleset, "Landlock")
    for folder in sorted({os.path.realpath(path) for path in sys.path if os.path.isdir(path)}):
        if os.path.realpath(os.path.dirname(__file__)) == folder:
            continue
        place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", READ_FILE | READ_FOLDER, place)
        _called(lib.syscall(LANDLOCK_ADD, ruleset, LANDLOCK_PATH_BENEATH, rule, 0), "a Landlock rule")
        os.close(place)
    _called(lib.syscall(LANDLOCK_RESTRICT, ruleset, 0), "Landlock's restriction")
    os.close(ruleset)


def _seccomp(lib: ctypes.CDLL, column: int, architecture: int) -> None:
    """Refuse every system call that is not on the list."""
    allowed = sorted(number for numbers in CALLS.values() if (number := numbers[column]) is not None)
    reject, kill, allow = 0x00050000 | errno.EPERM, 0x80000000, 0x7FFF0000
    load, jump_equal, give = 0x20, 0x15, 0x06
    program = [(load, 0, 0, 4), (jump_equal, 1, 0, architecture), (give, 0, 0, kill), (load, 0, 0, 0)]
    program += [(jump_equal, len(allowed) - place, 0, number) for place, number in enumerate(allowed)]
    program += [(give, 0, 0, reject), (give, 0, 0, allow)]
    code = b"".join(struct.pack("=HBBI", *step) for step in program)
    held = ctypes.create_string_buffer(code)
    header = struct.pack("=HxxxxxxQ", len(program), ctypes.addressof(held))
    _called(lib.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0), "seccomp")


def _called(result: int, what: str) -> None:
    if result < 0:
        raise NotLocked(f"{what} is not available ({os.strerror(ctypes.get_errno())})")


if __name__ == "__main__":
    main()
