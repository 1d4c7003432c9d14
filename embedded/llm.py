"""A small language model behind an OpenAI-compatible HTTP face: llama.cpp from a wheel, in one process.

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
from embedded.terminal import say

GGUF_MAGIC = b"GGUF"
PROMPT_CACHE_MB = 256
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def default_threads() -> int:
    """Half the cores: llama.cpp's threads spin, and on busy cores two of them run many times slower than one."""
    return max(1, (os.cpu_count() or 1) // 2)


def check_model(path: Path) -> None:
    """Refuse a file that llama.cpp cannot load.

    Raises:
        SuiteError: It is missing, unreadable, or not GGUF.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(len(GGUF_MAGIC))
    except OSError as error:
        raise SuiteError(f"the model file {path} cannot be read: {error.strerror}", path=str(path)) from error
    if magic != GGUF_MAGIC:
        raise SuiteError(f"{path} is not a GGUF file; llama.cpp serves models in GGUF form only", path=str(path))


def check_address(host: str, port: int) -> None:
    """Refuse a port that another process listens on, and a public address without a key.

    Raises:
        SuiteError: The port is taken, or the address is open to others and METACOG_INFERENCE_API_KEY is not set.
    """
    if host not in LOOPBACK and not os.environ.get("METACOG_INFERENCE_API_KEY"):
        raise SuiteError(f"{host} is open to other machines; set METACOG_INFERENCE_API_KEY, or use 127.0.0.1")
    if not port_is_free(host, port):
        raise SuiteError(f"port {port} on {host} is taken; choose another with --port", port=str(port))


def serve(options: argparse.Namespace) -> None:
    """Serve the model until SIGTERM or SIGINT.

    Raises:
        SuiteError: llama.cpp refuses the model.
    """
    import xllamacpp  # here, so that a bad command line is told apart from a missing OpenMP library

    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    began = time.monotonic()
    wish = xllamacpp.CommonParams()
    wish.model.path, wish.model_alias = str(options.model), {options.alias}
    wish.hostnames, wish.port = [options.host], options.port
    wish.n_ctx, wish.n_parallel, wish.cpuparams.n_threads = options.ctx, options.parallel, options.threads
    wish.endpoint_metrics = True
    # The prompts of others, pages in a browser and a cache of 8 GB are llama.cpp's defaults.
    wish.endpoint_slots, wish.ui, wish.cors_origins, wish.cache_ram_mib = False, False, "", PROMPT_CACHE_MB
    wish.api_keys = [key] if (key := os.environ.get("METACOG_INFERENCE_API_KEY")) else []
    try:
        server = xllamacpp.Server(wish)  # returns once the model is loaded
    except (RuntimeError, ValueError) as error:
        raise SuiteError(f"llama.cpp cannot serve {options.model}: {error}", path=str(options.model)) from error
    say(f"ready: {server.listening_address}/v1 serves {options.alias} after {time.monotonic() - began:.1f} s")
    ending.wait()
    say("ending")
    del server  # aborts what is being generated and closes the port


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m embedded.llm", description="Serve a GGUF model with llama.cpp.")
    parser.add_argument("--model", type=Path, required=True, help="GGUF file")
    parser.add_argument("--alias", default="smollm2", help="name that clients ask for")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--parallel", type=int, default=8, help="requests at once, and the most choices of one request")
    parser.add_argument("--ctx", type=int, default=16384, help="tokens of context, shared by the parallel requests")
    parser.add_argument("--threads", type=int, default=default_threads(), help="default: half the cores")
    return parser.parse_args(arguments)


def main() -> int:
    """Serve; 0, or 1 with a message."""
    options = parse()
    try:
        check_model(options.model)
        check_address(options.host, options.port)
        serve(options)
    except SuiteError as error:
        say(error.message)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
