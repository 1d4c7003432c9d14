"""Creates `.venv` and installs the suite's packages: the first step of `make up`, with only Python and make.

    python3 embedded/bootstrap.py [--dev] [--browser] [--proxy] [--no-model]

It uses the standard library only, and no syntax newer than Python 3.7, so that an old Python prints a message and no
traceback. A second run reads one stamp file and returns at once if the packages are current.

Environment:
    METACOG_TORCH_INDEX_URL  index of torch's CPU build; default: pip's own index.
    METACOG_ENCODER_URL      an OpenAI-compatible embeddings server of your own; no encoder is installed.
    METACOG_INFERENCE_URL    an OpenAI-compatible server of your own; the small model is not downloaded.
    METACOG_TEST_BROWSER     a Chromium or Chrome of your own for the tests of the console.
    METACOG_TEST_NGINX       an nginx of your own for the tests behind a proxy.
    METACOG_HOME             folder of models, data and logs (default `.metacog` in the repository).
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
# Measured download of each set on Linux x86_64, without torch [MB].
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
    """The setup failed; the message describes what to do."""


def print_line(text: str) -> None:
    """Write one line to standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def check_python(version: tuple[int, ...]) -> None:
    """Raise an error if Python is too old, and name a newer one that is installed.

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
    """Raise an error if Python cannot create virtual environments (a separate package on Debian and Ubuntu).

    Raises:
        SetupFailed: `venv` or `ensurepip` is missing.
    """
    if all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        return
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    raise SetupFailed(
        f"This Python cannot create virtual environments: its venv or ensurepip module is missing.\n"
        f"On Debian and Ubuntu (as root):\n    apt-get install -y {package}"
    )


def check_libraries() -> None:
    """Raise an error if the one system library that the wheels do not contain is missing.

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
    """Return the requirements file to install."""
    if dev:
        return "dev.txt"
    return "embedded.txt" if environment.get("METACOG_ENCODER_URL") else "suite.txt"


def digest(path: Path) -> str:
    """Return the SHA-256 of a requirements file, this Python version and the path of the repository."""
    bound = f"{sys.version_info[:3]} {platform.machine()} {ROOT} {TORCH_VERSION}".encode()
    return hashlib.sha256(bound + path.read_bytes()).hexdigest()


def installed_sets() -> dict[str, str]:
    """Return the digests of the installed sets, as the stamp file lists them; empty without a stamp."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return {str(name): str(value) for name, value in stamp.items()} if isinstance(stamp, dict) else {}


def is_current(name: str) -> bool:
    """Return whether the current version of set `name`, or of a larger set, is installed."""
    stamp = installed_sets()
    order = list(DOWNLOAD_MB)
    larger = order[order.index(name) :]
    return any(stamp.get(each) == digest(ROOT / "requirements" / each) for each in larger) and venv_python().exists()


def venv_python() -> Path:
    """Return the interpreter of the environment."""
    return VENV / "bin" / "python"


def belongs_to(config: str, version: tuple[int, ...]) -> bool:
    """Return whether an environment with this `pyvenv.cfg` belongs to Python `version`."""
    pattern = rf"^version(_info)?\s*=\s*{version[0]}\.{version[1]}(\.|$)"
    return re.search(pattern, config, re.MULTILINE) is not None


def make_venv() -> None:
    """Create `.venv`, also where an existing one belongs to another Python."""
    config = VENV / "pyvenv.cfg"
    if venv_python().exists() and config.exists() and belongs_to(config.read_text(), tuple(sys.version_info[:2])):
        return
    print_line(f"environment: {VENV}")
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", str(VENV)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise SetupFailed(f"Cannot create the virtual environment {VENV}:\n{made.stdout}{made.stderr}".rstrip())


def pip(*arguments: str) -> list[str]:
    """Return the command that runs the environment's pip."""
    return [str(venv_python()), "-m", "pip", "--disable-pip-version-check", *arguments]


def progress_in(line: str) -> str | None:
    """Return the progress that one line of pip's output reports; None for other lines."""
    words = line.split()
    if len(words) > 1 and words[0] == "Downloading" and words[-1].endswith(("B)", "bytes)")):
        return f"{words[1].rsplit('/', 1)[-1].split('-')[0]} {' '.join(words[-2:])}"
    if line.startswith("Installing collected packages"):
        return "unpacking and compiling"
    return None


def run_pip(what: str, command: list[str]) -> None:
    """Run pip, and report its progress at most every five seconds.

    Raises:
        SetupFailed: pip failed; the message contains its last lines.
    """
    began, reported = time.monotonic(), 0.0
    last: deque[str] = deque(maxlen=12)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout or ():
            last.append(line.rstrip())
            progress = progress_in(line)
            now = time.monotonic()
            if progress and (now - reported > 5.0 or "unpacking" in progress):
                print_line(f"  {now - began:4.0f} s  {progress}")
                reported = now
    if process.returncode:
        raise SetupFailed(
            f"pip could not install {what}. Its last lines:\n\n    " + "\n    ".join(last) + "\n\n"
            "If there is no network, or a proxy is in use, correct the settings (https_proxy, PIP_INDEX_URL, PIP_CERT) "
            "and run the same command again: pip keeps what it has downloaded."
        )
    print_line(f"  {time.monotonic() - began:4.0f} s  done: {what}")


def torch_requirement(system: str) -> str:
    """Return torch's CPU build by name, so that pip considers no other build.

    On Linux and Windows the version alone may be a CUDA build, and the CPU builds have the suffix `+cpu`: pip either
    finds one or stops before any download. For macOS there are no CUDA builds, and no such suffix.
    """
    return f"torch=={TORCH_VERSION}" if system == "darwin" else f"torch=={TORCH_VERSION}+cpu"


def index_arguments(index: str | None) -> list[str]:
    """Return the arguments of pip that restrict it to `index`."""
    return ["--index-url", index] if index else []


def torch_advice() -> str:
    """Return the settings that help when no CPU build of torch is available."""
    return (
        "The sentence encoder runs on torch's CPU build; a CUDA build (several GB) is never downloaded. Either\n"
        "  - set METACOG_TORCH_INDEX_URL to PyTorch's CPU wheel index (the address on PyTorch's install page for\n"
        "    'Pip' and 'CPU'), or\n"
        "  - set METACOG_ENCODER_URL to any OpenAI-compatible embeddings server; then no encoder is installed,\n"
        "and run the same command again."
    )


def install_torch(index: str | None) -> None:
    """Install torch's CPU build.

    Raises:
        SetupFailed: There is no such build.
    """
    wanted = torch_requirement(sys.platform)
    print_line(f"{wanted}: about 200 MB to download")
    try:
        run_pip("torch", pip("install", "--no-deps", *index_arguments(index), wanted))
    except SetupFailed as error:
        raise SetupFailed(f"{error}\n\n{torch_advice()}") from None


def install_set(name: str) -> None:
    """Install one hash-locked set of packages."""
    path = ROOT / "requirements" / name
    count = sum("==" in line for line in path.read_text().splitlines())
    print_line(f"packages: {count}, about {DOWNLOAD_MB[name]} MB to download")
    run_pip("the packages", pip("install", "--require-hashes", "--no-deps", "-r", str(path)))


def link_project() -> None:
    """Make the repository importable in the environment, and install the `metacog` command, without a build."""
    site = next((VENV / "lib").glob("python3.*/site-packages"))
    (site / "metacog.pth").write_text(f"{ROOT}\n{ROOT / 'gen'}\n")
    launcher = VENV / "bin" / "metacog"
    launcher.write_text(LAUNCHER.format(python=venv_python()))
    launcher.chmod(0o755)


def install(name: str) -> None:
    """Install set `name` into the environment and write the stamp."""
    check_venv_module()
    make_venv()
    STAMP.unlink(missing_ok=True)
    if name != "embedded.txt":
        install_torch(os.environ.get("METACOG_TORCH_INDEX_URL"))
    install_set(name)
    link_project()
    STAMP.write_text(json.dumps({name: digest(ROOT / "requirements" / name)}))


def ensure_browser() -> None:
    """Install Chromium for the tests of the console if it is missing, or print how to install it."""
    if os.environ.get("METACOG_TEST_BROWSER") or any(shutil.which(name) for name in BROWSERS):
        return
    if shutil.which("apt-get") and os.geteuid() == 0:
        print_line("chromium, for the tests of the console: about 110 MB to download")
        packages = ["chromium", "fonts-dejavu-core"]
        for command in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", *packages]):
            ran = subprocess.run(["apt-get", *command], capture_output=True, text=True, check=False, env=UNATTENDED)
        if not ran.returncode:
            return
        print_line("\n".join(ran.stderr.splitlines()[-5:]))
    print_line(
        "The tests of the console need Chromium, which is not installed. On Debian and Ubuntu (as root):\n"
        "    apt-get install -y chromium\n"
        "or set METACOG_TEST_BROWSER to the program of any Chromium or Chrome. All other tests run without it."
    )


def ensure_nginx() -> None:
    """Unpack nginx for the tests behind a proxy if it is missing, or print how to install it; nothing is started."""
    folder = home() / "nginx"
    if os.environ.get("METACOG_TEST_NGINX") or shutil.which("nginx") or (folder / "usr" / "sbin" / "nginx").exists():
        return
    if shutil.which("apt-get") and shutil.which("dpkg"):
        print_line("nginx, for the tests behind a proxy: about 1 MB to download")
        folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            subprocess.run(["apt-get", "update", "-q"], capture_output=True, check=False, env=UNATTENDED)
        fetched = ["apt-get", "download", "-q", "nginx", "nginx-common"]
        ran = subprocess.run(fetched, capture_output=True, text=True, check=False, env=UNATTENDED, cwd=folder)
        for package in sorted(folder.glob("*.deb")):
            ran = subprocess.run(["dpkg", "-x", str(package), str(folder)], capture_output=True, text=True, check=False)
        if (folder / "usr" / "sbin" / "nginx").exists():
            return
        print_line("\n".join(ran.stderr.splitlines()[-5:]))
    print_line(
        "The tests behind a proxy need nginx, which is not installed. On Debian and Ubuntu (as root):\n"
        "    apt-get install -y nginx\n"
        "or set METACOG_TEST_NGINX to the program. All other tests run without it."
    )


def home() -> Path:
    """Return the folder of models, data and logs."""
    return Path(os.environ.get("METACOG_HOME") or ROOT / ".metacog").absolute()


def fetch_model() -> None:
    """Download the small model, unless it is present or METACOG_INFERENCE_URL is set."""
    if os.environ.get("METACOG_INFERENCE_URL"):
        return
    command = [str(venv_python()), "-m", "embedded.model", "--home", str(home())]
    if (home() / "models" / "smollm2-135m-instruct.q4_1.gguf").exists():
        return
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise SetupFailed("The small model could not be downloaded; set METACOG_INFERENCE_URL to use another server.")


def main() -> int:
    """Update the environment; return 0, or 1 with a message on an error."""
    parser = argparse.ArgumentParser(description="Create .venv and install the suite's packages.")
    parser.add_argument("--dev", action="store_true", help="with the tools for testing and checking")
    parser.add_argument("--browser", action="store_true", help="with Chromium, for the tests of the console")
    parser.add_argument("--proxy", action="store_true", help="with nginx, for the tests behind a proxy")
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
        if arguments.proxy:
            ensure_nginx()
    except SetupFailed as error:
        print_line(f"\n{error}")
        return 1
    except KeyboardInterrupt:
        print_line("\ninterrupted; run the same command again to continue")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
