"""Starts a suite: checks its needs, starts its supervisor, and waits until every part is ready."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from embedded.down import stop_suite
from embedded.errors import SuiteError
from embedded.inference import first_model
from embedded.llm import check_model
from embedded.model import ensure_model
from embedded.plan import plan, required_ports
from embedded.ports import check_ports
from embedded.settings import MODELS_FILE, ROOT, SuiteSettings
from embedded.supervision.parts import ProcessSpec, write_plan
from embedded.supervision.processes import SUITE_VARIABLE, Home, last_lines, recorded_process, rotate
from embedded.supervision.state import PartState, Stage, read_state
from embedded.terminal import print_line
from embedded.vllm import check_vllm
from kernel.errors import MetacogError

TICK_S = 0.1


def up(settings: SuiteSettings) -> None:
    """Start the suite and return when every part is ready, or at once if it already runs.

    Raises:
        SuiteError: A part is not available or does not become ready; the suite is stopped again.
    """
    home = Home(settings.home)
    home.make()
    with _lock(home):
        if is_up(home):
            check_parts_are_up(home)
            print_line(f"already up: {suite_addresses(settings)}")
            return
        if stop_suite(home):
            print_line("the remaining processes of an earlier, incomplete run have been stopped")
        began = time.monotonic()
        check_ports(required_ports(settings))
        launch(home, prepared_parts(settings))
        print_line(f"ready after {time.monotonic() - began:.0f} s: {suite_addresses(settings)}")


def prepared_parts(settings: SuiteSettings) -> list[ProcessSpec]:
    """Return the parts of the suite, after downloading the model or asking the user's server for its model.

    Raises:
        SuiteError: The model, or the server, is not available.
    """
    if MODELS_FILE in settings.files:
        _check_models(Path(settings.files[MODELS_FILE]))
        return plan(settings, "")
    if settings.inference_url is not None:
        model = settings.inference_model or first_model(settings.inference_url, settings.inference_key)
        return plan(replace(settings, inference_model=model), "")
    if settings.vllm is not None:
        check_vllm(settings.vllm)
        return plan(settings, "")
    path = settings.model or ensure_model(settings.home, print_line)
    check_model(path)
    return plan(settings, str(path))


def _check_models(file: Path) -> None:
    """Check the catalogue of models before anything starts.

    Raises:
        SuiteError: It cannot be used; names the line and the reason.
    """
    from configuration.models import read_models  # here: without a catalogue its packages are not needed

    try:
        read_models(file)
    except MetacogError as error:
        raise SuiteError(error.message, path=str(file)) from error


def launch(home: Home, parts: Sequence[ProcessSpec]) -> None:
    """Start a supervisor for `parts`, report the progress, and wait until all are ready.

    Raises:
        SuiteError: A part does not become ready, or the supervisor ends; the suite is stopped again.
    """
    write_plan(home.run / "plan.json", parts)
    (home.run / "state.json").unlink(missing_ok=True)
    log = home.log("supervisor")
    rotate(log)
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "embedded.supervision.supervisor", "--home", str(home.path)],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd=ROOT,
            env={**os.environ, SUITE_VARIABLE: str(home.path), "PYTHONUNBUFFERED": "1"})  # fmt: skip
    try:
        _follow(home, process, [part.name for part in parts])
    except (SuiteError, KeyboardInterrupt):
        stop_suite(home)
        process.wait()
        raise


def _follow(home: Home, process: "subprocess.Popen[bytes]", names: list[str]) -> None:
    """Report each part that becomes ready, until all are.

    Raises:
        SuiteError: A part failed or the supervisor ended.
    """
    reported: set[str] = set()
    while len(reported) < len(names):
        states = read_state(home)
        for state in states:
            if state.stage.is_up and state.name not in reported:
                reported.add(state.name)
                print_line(f"  {state.after_s or 0.0:5.1f} s  {state.name} {state.stage}")
            if state.stage is Stage.FAILED:
                raise failure(home, state)
        if process.poll() is not None:
            raise SuiteError(_with_log("the supervisor has ended", home, "supervisor"), part="supervisor")
        time.sleep(TICK_S)


def failure(home: Home, state: PartState) -> SuiteError:
    """Return the error for a part that did not become ready."""
    return SuiteError(_with_log(f"{state.name} did not come up: it {state.note}", home, state.name), part=state.name)


def _with_log(text: str, home: Home, name: str) -> str:
    lines = "\n    ".join(last_lines(home.log(name)))
    return f"{text}\n\n    {lines}\n\nWhole log: {home.log(name)}"


def is_up(home: Home) -> bool:
    """Return whether a supervisor runs and every part has been ready, even if one restarts now."""
    states = read_state(home)
    complete = bool(states) and all(state.after_s is not None for state in states)
    return complete and recorded_process(home, "supervisor") is not None


def check_parts_are_up(home: Home) -> None:
    """Raise an error if a part of the running suite is not up.

    Raises:
        SuiteError: A part is not up; the supervisor continues to restart it.
    """
    down = [state for state in read_state(home) if not state.stage.is_up]
    if down:
        parts = "; ".join(
            f"{state.name} is {state.stage}, it {state.note} (log: {home.log(state.name)})" for state in down
        )
        raise SuiteError(f"the suite runs, but some parts are not up: {parts}")


def suite_addresses(settings: SuiteSettings) -> str:
    """Return one line with the addresses of the suite and a command to try."""
    api = f"http://127.0.0.1:{settings.ports['METACOG_ROUTER_REST_PORT']}/v1"
    console = f"http://127.0.0.1:{settings.ports['METACOG_CONSOLE_PORT']}"
    question = '{"model": "metacog", "messages": [{"role": "user", "content": "Is 91 a prime number?"}]}'
    return (
        f"API {api}, console {console}; try: "
        f"curl -s {api}/chat/completions -H 'Content-Type: application/json' -d '{question}'"
    )


@contextmanager
def _lock(home: Home) -> Iterator[None]:
    """Hold the lock of `up`: a second `up` waits, and then finds the suite running."""
    with (home.run / "up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
