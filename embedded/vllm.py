"""vLLM as the model server of the embedded suite, in a Python environment of its own."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from embedded.errors import SuiteError

SERVER = "vllm.entrypoints.openai.api_server"
CHECK_TIMEOUT_S = 60.0
# A first start downloads the model, and compiles kernels for the GPU.
READY_WITHIN_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmSettings:
    """The settings of vLLM's server.

    Args:
        python: Python of the environment that has vLLM.
        model: Name on the Hugging Face hub, or folder of the model.
        arguments: Further arguments of vLLM's server.
    """

    python: str
    model: str
    arguments: tuple[str, ...] = ()


def read_vllm(environment: Mapping[str, str], model: str | None) -> VllmSettings:
    """Return the settings that `--model`, METACOG_VLLM_PYTHON and METACOG_VLLM_ARGS specify.

    Raises:
        SuiteError: There is no model, or the arguments cannot be parsed.
    """
    if not model:
        raise SuiteError("vLLM has no default model; name one: --backend vllm --model Qwen/Qwen3-4B-Instruct-2507")
    try:
        arguments = tuple(shlex.split(environment.get("METACOG_VLLM_ARGS", "")))
    except ValueError as error:
        raise SuiteError(f"METACOG_VLLM_ARGS cannot be read: {error}") from error
    local = Path(model).expanduser()
    named = str(local.absolute()) if local.is_dir() else model
    return VllmSettings(python=_python(environment), model=named, arguments=arguments)


def _python(environment: Mapping[str, str]) -> str:
    """Return the Python that has vLLM: METACOG_VLLM_PYTHON, else that of the `vllm` command, else this one."""
    command = shutil.which("vllm", path=environment.get("PATH"))
    beside = Path(command).parent / "python" if command else None
    found = str(beside) if beside is not None and beside.exists() else sys.executable
    return environment.get("METACOG_VLLM_PYTHON") or found


def check_vllm(vllm: VllmSettings) -> None:
    """Raise an error if vLLM is not installed.

    Raises:
        SuiteError: The environment does not have vLLM; the message describes how to install it.
    """
    script = "import sys, importlib.util as u; sys.exit(u.find_spec('vllm') is None)"
    try:
        found = subprocess.run([vllm.python, "-c", script], capture_output=True, timeout=CHECK_TIMEOUT_S, check=False)
        missing = found.returncode != 0
    except (OSError, subprocess.TimeoutExpired):
        missing = True
    if missing:
        raise SuiteError(
            f"{vllm.python} does not have vLLM. Install it into an environment of its own\n"
            "    python3 -m venv ~/vllm && ~/vllm/bin/pip install vllm\n"
            "and set METACOG_VLLM_PYTHON=~/vllm/bin/python. For a server that runs elsewhere: --inference-url URL.",
            python=vllm.python,
        )


def command(vllm: VllmSettings, *, alias: str, host: str, port: int) -> tuple[str, ...]:
    """Return the program and arguments of the server."""
    address = ("--host", host, "--port", str(port))
    return (vllm.python, "-m", SERVER, "--model", vllm.model, "--served-model-name", alias, *address, *vllm.arguments)
