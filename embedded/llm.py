"""Serves a small language model with llama.cpp, from a wheel, behind an OpenAI-compatible HTTP API.

Run as `python -m embedded.llm --model FILE.gguf [--alias NAME] [--host H] [--port P] [--parallel N] [--ctx TOKENS]
[--threads T]`.
"""

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path

from embedded.errors import SuiteError
from embedded.ports import port_is_free
from embedded.terminal import print_line

GGUF_MAGIC = b"GGUF"
PROMPT_CACHE_MB = 256
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def default_threads() -> int:
    """Return half the cores: llama.cpp's threads spin, and two of them on a busy core are much slower than one."""
    return max(1, (os.cpu_count() or 1) // 2)


def check_model(path: Path) -> None:
    """Raise an error for a file that llama.cpp cannot load.

    Raises:
        SuiteError: The file is missing, unreadable, or not GGUF.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(len(GGUF_MAGIC))
    except OSError as error:
        raise SuiteError(f"the model file {path} cannot be read: {error.strerror}", path=str(path)) from error
    if magic != GGUF_MAGIC:
        raise SuiteError(f"{path} is not a GGUF file; llama.cpp serves models in GGUF form only", path=str(path))


def check_address(host: str, port: int) -> None:
    """Raise an error for a port that is in use, and for a public address without a key.

    Raises:
        SuiteError: The port is in use, or other machines reach the address and METACOG_INFERENCE_API_KEY is not set.
    """
    if host not in LOOPBACK and not os.environ.get("METACOG_INFERENCE_API_KEY"):
        raise SuiteError(f"{host} is open to other machines; set METACOG_INFERENCE_API_KEY, or use 127.0.0.1")
    if not port_is_free(host, port):
        raise SuiteError(f"port {port} on {host} is taken; choose another with --port", port=str(port))


def serve(options: argparse.Namespace) -> None:
    """Serve the model until SIGTERM or SIGINT.

    Raises:
        SuiteError: llama.cpp cannot load the model.
    """
    import xllamacpp  # here, so that the errors of the command line do not depend on the OpenMP library

    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    began = time.monotonic()
    parameters = xllamacpp.CommonParams()
    parameters.model.path, parameters.model_alias = str(options.model), {options.alias}
    parameters.hostnames, parameters.port = [options.host], options.port
    parameters.n_ctx, parameters.n_parallel, parameters.cpuparams.n_threads = (
        options.ctx,
        options.parallel,
        options.threads,
    )
    parameters.endpoint_metrics = True
    # By default llama.cpp shows the prompts of other clients, serves a web page, and caches up to 8 GB.
    parameters.endpoint_slots, parameters.ui, parameters.cors_origins, parameters.cache_ram_mib = (
        False,
        False,
        "",
        PROMPT_CACHE_MB,
    )
    parameters.api_keys = [key] if (key := os.environ.get("METACOG_INFERENCE_API_KEY")) else []
    try:
        server = xllamacpp.Server(parameters)  # returns once the model is loaded
    except (RuntimeError, ValueError) as error:
        raise SuiteError(f"llama.cpp cannot serve {options.model}: {error}", path=str(options.model)) from error
    print_line(f"ready: {server.listening_address}/v1 serves {options.alias} after {time.monotonic() - began:.1f} s")
    stopping.wait()
    print_line("stopping")
    del server  # aborts the running generations and closes the port


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m embedded.llm", description="Serve a GGUF model with llama.cpp.")
    parser.add_argument("--model", type=Path, required=True, help="GGUF file")
    parser.add_argument("--alias", default="smollm2", help="model name in requests")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--parallel", type=int, default=8, help="concurrent requests, and the largest `n`")
    parser.add_argument("--ctx", type=int, default=16384, help="context length [tokens], shared by all requests")
    parser.add_argument("--threads", type=int, default=default_threads(), help="default: half the cores")
    return parser.parse_args(arguments)


def main() -> int:
    """Serve the model; return 0, or 1 with a message on an error."""
    options = parse()
    try:
        check_model(options.model)
        check_address(options.host, options.port)
        serve(options)
    except SuiteError as error:
        print_line(error.message)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
