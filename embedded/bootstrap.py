"""Makes `.venv` and what runs in it: the first step of `make up`, on a machine with only Python and make.

    python3 embedded/bootstrap.py [--dev] [--browser] [--no-model]

Standard library only, and no syntax newer than Python 3.7, so that an old Python gets a message and no traceback.
A second run with nothing to do reads one stamp file and returns at once.

Environment:
    METACOG_TORCH_INDEX_URL  where to take torch's CPU build from; without it, from where pip takes everything.
    METACOG_ENCODER_URL      an OpenAI-compatible embeddings server of your own: torch and the encoder are left out.
    METACOG_INFERENCE_URL    an OpenAI-compatible server of your own: the small model is left out.
    METACOG_TEST_BROWSER     a Chromium or Chrome of your own for the tests of the console.
    METACOG_HOME             where models, data and logs are kept (default `.metacog` in the repository).
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "metacog-stamp.json"
TORCH_VERSION = "2.13.0"
NEWEST_KNOWN_MINOR = 14
OLDEST_MINOR = 11
# Download of each set on Linux x86_64, without torch [MB], as measured.
DOWNLOAD_MB = {"embedded.txt": 135, "suite.txt": 260, "dev.txt": 320}

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
UNATTENDED = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}

LAUNCHER = """#!{python}
import sys

from cli.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
"""


class SetupFailed(Exception):
    """The environment cannot be made; the message says what to do."""


def say(text: str) -> None:
    """Write one line for the person who waits."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def check_python(version: tuple[int, ...]) -> None:
    """Refuse a Python that is too old, naming a newer one that is there.

    Raises:
        SetupFailed: `version` is older than 3.11.
    """
    if version >= (3, OLDEST_MINOR):
        return
    names = [f"python3.{minor}" for minor in range(NEWEST_KNOWN_MINOR, OLDEST_MINOR - 1, -1)]
    newer = next((name for name in names if shutil.which(name)), None)
    hint = f"This machine has {newer}: make up PYTHON={newer}" if newer else "Install Python 3.11 or newer."
    raise SetupFailed(f"metacog needs Python 3.11 or newer; this is {version[0]}.{version[1]}. {hint}")


def check_venv_module() -> None:
    """Refuse a Python that cannot make virtual environments (Debian and Ubuntu ship that part on its own).

    Raises:
        SetupFailed: `venv` or `ensurepip` is missing.
    """
    if all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        return
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    raise SetupFailed(
        f"This Python cannot make virtual environments: its venv or ensurepip module is missing.\n"
        f"On Debian and Ubuntu (as root):\n    apt-get install -y {package}"
    )


def check_libraries() -> None:
    """Refuse to go on without the one system library that the wheels do not carry.

    Raises:
        SetupFailed: libgomp is missing on Linux.
    """
    if sys.platform != "linux":
        return
    try:
        ctypes.CDLL("libgomp.so.1")
    except OSError:
        raise SetupFailed(
            "The system library libgomp.so.1 (GNU OpenMP) is missing; the language model server needs it.\n"
            "On Debian and Ubuntu (as root):\n    apt-get install -y libgomp1\n"
            "On Fedora and RHEL: dnf install -y libgomp. On Alpine: apk add libgomp."
        ) from None


def requirement_set(dev: bool, environment: dict[str, str]) -> str:
    """Requirements file to install."""
    if dev:
        return "dev.txt"
    return "embedded.txt" if environment.get("METACOG_ENCODER_URL") else "suite.txt"


def digest(path: Path) -> str:
    """SHA-256 of a requirements file, bound to this Python and to where the repository lies."""
    bound = f"{sys.version_info[:3]} {platform.machine()} {ROOT} {TORCH_VERSION}".encode()
    return hashlib.sha256(bound + path.read_bytes()).hexdigest()


def installed_sets() -> dict[str, str]:
    """Digests of the sets that the stamp says are installed; empty without a stamp."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return {str(name): str(value) for name, value in stamp.items()} if isinstance(stamp, dict) else {}


def is_current(name: str) -> bool:
    """Whether set `name`, or a larger one that holds it, is installed as it stands now."""
    stamp = installed_sets()
    order = list(DOWNLOAD_MB)
    larger = order[order.index(name) :]
    return any(stamp.get(each) == digest(ROOT / "requirements" / each) for each in larger) and venv_python().exists()


def venv_python() -> Path:
    """Interpreter of the environment."""
    return VENV / "bin" / "python"


def is_ours(config: str, version: tuple[int, ...]) -> bool:
    """Whether an environment with this `pyvenv.cfg` belongs to Python `version`, whoever made it."""
    pattern = rf"^version(_info)?\s*=\s*{version[0]}\.{version[1]}(\.|$)"
    return re.search(pattern, config, re.MULTILINE) is not None


def make_venv() -> None:
    """Create `.venv`, or again where it belongs to another Python."""
    config = VENV / "pyvenv.cfg"
    if venv_python().exists() and config.exists() and is_ours(config.read_text(), tuple(sys.version_info[:2])):
        return
    say(f"environment: {VENV}")
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", str(VENV)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise SetupFailed(f"Cannot make the virtual environment {VENV}:\n{made.stdout}{made.stderr}".rstrip())


def pip(*arguments: str) -> list[str]:
    """Command that runs the environment's pip."""
    return [str(venv_python()), "-m", "pip", "--disable-pip-version-check", *arguments]


def progress_of(line: str) -> str | None:
    """What one line of pip's output means to the person who waits; None for the rest."""
    words = line.split()
    if len(words) > 1 and words[0] == "Downloading" and words[-1].endswith(("B)", "bytes)")):
        return f"{words[1].rsplit('/', 1)[-1].split('-')[0]} {' '.join(words[-2:])}"
    if line.startswith("Installing collected packages"):
        return "unpacking and compiling"
    return None


def run_pip(what: str, command: list[str]) -> None:
    """Run pip, with a line at least every five seconds in which it says something new.

    Raises:
        SetupFailed: pip failed; with its last lines.
    """
    began, said = time.monotonic(), 0.0
    last: deque[str] = deque(maxlen=12)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout or ():
            last.append(line.rstrip())
            news = progress_of(line)
            now = time.monotonic()
            if news and (now - said > 5.0 or "unpacking" in news):
                say(f"  {now - began:4.0f} s  {news}")
                said = now
    if process.returncode:
        raise SetupFailed(
            f"pip could not install {what}. Its last lines:\n\n    " + "\n    ".join(last) + "\n\n"
            "If the network is missing or a proxy stands between, set it right (https_proxy, PIP_INDEX_URL, PIP_CERT) "
            "and run the same command again: what has been fetched is kept."
        )
    say(f"  {time.monotonic() - began:4.0f} s  done: {what}")


def torch_requirement(system: str) -> str:
    """Torch's CPU build by name, so that pip never even looks at another.

    On Linux and Windows the plain version may be a CUDA build, and the CPU builds are called `+cpu`: pip either finds
    one or stops at once, having fetched nothing. For macOS there are no CUDA builds, and no such name.
    """
    return f"torch=={TORCH_VERSION}" if system == "darwin" else f"torch=={TORCH_VERSION}+cpu"


def index_arguments(index: str | None) -> list[str]:
    """Arguments of pip for taking a package from `index` only."""
    return ["--index-url", index] if index else []


def how_to_get_torch() -> str:
    """What to set when no CPU build of torch is on offer."""
    return (
        "The sentence encoder runs on torch's CPU build; a CUDA build (several GB) is never downloaded. Either\n"
        "  - set METACOG_TORCH_INDEX_URL to PyTorch's CPU wheel index (the address on PyTorch's install page for\n"
        "    'Pip' and 'CPU'), or\n"
        "  - set METACOG_ENCODER_URL to any OpenAI-compatible embeddings server, and no encoder is installed,\n"
        "and run the same command again."
    )


def install_torch(index: str | None) -> None:
    """Install torch's CPU build.

    Raises:
        SetupFailed: None is on offer.
    """
    wanted = torch_requirement(sys.platform)
    say(f"{wanted}: about 200 MB to download")
    try:
        run_pip("torch", pip("install", "--no-deps", *index_arguments(index), wanted))
    except SetupFailed as error:
        raise SetupFailed(f"{error}\n\n{how_to_get_torch()}") from None


def install_set(name: str) -> None:
    """Install one hash-locked set of packages."""
    path = ROOT / "requirements" / name
    count = sum("==" in line for line in path.read_text().splitlines())
    say(f"packages: {count}, about {DOWNLOAD_MB[name]} MB to download")
    run_pip("the packages", pip("install", "--require-hashes", "--no-deps", "-r", str(path)))


def link_project() -> None:
    """Make the repository importable in the environment, and put the `metacog` command there; no build step."""
    site = next((VENV / "lib").glob("python3.*/site-packages"))
    (site / "metacog.pth").write_text(f"{ROOT}\n{ROOT / 'gen'}\n")
    launcher = VENV / "bin" / "metacog"
    launcher.write_text(LAUNCHER.format(python=venv_python()))
    launcher.chmod(0o755)


def install(name: str) -> None:
    """Bring the environment to set `name` and stamp it."""
    check_venv_module()
    make_venv()
    STAMP.unlink(missing_ok=True)
    if name != "embedded.txt":
        install_torch(os.environ.get("METACOG_TORCH_INDEX_URL"))
    install_set(name)
    link_project()
    STAMP.write_text(json.dumps({name: digest(ROOT / "requirements" / name)}))


def ensure_browser() -> None:
    """Install Chromium for the tests of the console, where it is missing and this system can; else say how."""
    if os.environ.get("METACOG_TEST_BROWSER") or any(shutil.which(name) for name in BROWSERS):
        return
    if shutil.which("apt-get") and os.geteuid() == 0:
        say("chromium, for the tests of the console: about 110 MB to download")
        packages = ["chromium", "fonts-dejavu-core"]
        for command in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", *packages]):
            ran = subprocess.run(["apt-get", *command], capture_output=True, text=True, check=False, env=UNATTENDED)
        if not ran.returncode:
            return
        say("\n".join(ran.stderr.splitlines()[-5:]))
    say(
        "The tests of the console need Chromium, which is not here. On Debian and Ubuntu (as root):\n"
        "    apt-get install -y chromium\n"
        "or set METACOG_TEST_BROWSER to the program of any Chromium or Chrome. All other tests run without it."
    )


def fetch_model() -> None:
    """Download the small model, unless it is there or another server is named."""
    if os.environ.get("METACOG_INFERENCE_URL"):
        return
    home = Path(os.environ.get("METACOG_HOME") or ROOT / ".metacog").absolute()
    command = [str(venv_python()), "-m", "embedded.model", "--home", str(home)]
    if (home / "models" / "smollm2-135m-instruct.q4_1.gguf").exists():
        return
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise SetupFailed("The small model could not be fetched; set METACOG_INFERENCE_URL to use another server.")


def main() -> int:
    """Bring the environment up to date; 0, or 1 with a message."""
    parser = argparse.ArgumentParser(description="Make .venv and what runs in it.")
    parser.add_argument("--dev", action="store_true", help="with the tools for testing and checking")
    parser.add_argument("--browser", action="store_true", help="with Chromium, for the tests of the console")
    parser.add_argument("--no-model", action="store_true", help="without the small language model")
    arguments = parser.parse_args()
    try:
        check_python(tuple(sys.version_info[:2]))
        check_libraries()
        name = requirement_set(arguments.dev, dict(os.environ))
        if not is_current(name):
            install(name)
        if not arguments.no_model:
            fetch_model()
        if arguments.browser:
            ensure_browser()
    except SetupFailed as error:
        say(f"\n{error}")
        return 1
    except KeyboardInterrupt:
        say("\nstopped; run the same command again to go on")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
