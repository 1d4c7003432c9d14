"""vLLM as the model server of the embedded suite, from an environment of its own: its packages do not mix with ours."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from embedded.errors import SuiteError

SERVER = "vllm.entrypoints.openai.api_server"
LOOKS_WITHIN_S = 60.0
# A first start downloads the model, and compiles kernels for the GPU.
READY_WITHIN_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmWish:
    """vLLM as it is to run.

    Args:
        python: Python of the environment that has vLLM.
        model: Name on the Hugging Face hub, or folder of the model.
        arguments: Further arguments of vLLM's server.
    """

    python: str
    model: str
    arguments: tuple[str, ...] = ()


def read_vllm(environment: Mapping[str, str], model: str | None) -> VllmWish:
    """What is asked of vLLM by `--model`, METACOG_VLLM_PYTHON and METACOG_VLLM_ARGS.

    Raises:
        SuiteError: No model is named, or the arguments cannot be read.
    """
    if not model:
        raise SuiteError(
            "vLLM serves no model by default; name one: --backend vllm --model Qwen/Qwen3-4B-Instruct-2507"
        )
    try:
        arguments = tuple(shlex.split(environment.get("METACOG_VLLM_ARGS", "")))
    except ValueError as wrong:
        raise SuiteError(f"METACOG_VLLM_ARGS cannot be read: {wrong}") from wrong
    local = Path(model).expanduser()
    named = str(local.absolute()) if local.is_dir() else model
    return VllmWish(python=_python(environment), model=named, arguments=arguments)


def _python(environment: Mapping[str, str]) -> str:
    """The Python that has vLLM: as it is set, else that of the `vllm` command, else this one."""
    command = shutil.which("vllm", path=environment.get("PATH"))
    beside = Path(command).parent / "python" if command else None
    found = str(beside) if beside is not None and beside.exists() else sys.executable
    return environment.get("METACOG_VLLM_PYTHON") or found


def check_vllm(wish: VllmWish) -> None:
    """Refuse to start without vLLM.

    Raises:
        SuiteError: The environment does not have it; says how to get it.
    """
    look = "import sys, importlib.util as u; sys.exit(u.find_spec('vllm') is None)"
    try:
        found = subprocess.run([wish.python, "-c", look], capture_output=True, timeout=LOOKS_WITHIN_S, check=False)
        missing = found.returncode != 0
    except (OSError, subprocess.TimeoutExpired):
        missing = True
    if missing:
        raise SuiteError(
            f"{wish.python} does not have vLLM. Install it into an environment of its own\n"
            "    python3 -m venv ~/vllm && ~/vllm/bin/pip install vllm\n"
            "and name that one: METACOG_VLLM_PYTHON=~/vllm/bin/python. One that runs elsewhere: --inference-url URL.",
            python=wish.python,
        )


def command(wish: VllmWish, *, alias: str, host: str, port: int) -> tuple[str, ...]:
    """Program and arguments of the server."""
    address = ("--host", host, "--port", str(port))
    return (wish.python, "-m", SERVER, "--model", wish.model, "--served-model-name", alias, *address, *wish.arguments)
